"""
What each broker tells of itself in a shared directory, for the others and for people.

Nothing depends on it: a line that is torn, or not seen yet, is not there for now. Each broker
writes a file of its own; of two that have the same name the last one told is seen.
"""

from __future__ import annotations

from holdfast.environment.shared_disk import SharedDisk
from holdfast.leases.contract import Waiter
from holdfast.shared.lease_files import claimant_fields, claimant_of, read_page
from holdfast.shared.page import BROKER
from holdfast.shared.places import Places


class BrokerLines:
    """The folder `brokers`."""

    def __init__(self, disk: SharedDisk, places: Places) -> None:
        self._disk = disk
        self._places = places

    def tell(self, waiter: Waiter) -> None:
        """
        Write what this broker tells.

        Raises:
            OSError: It could not be written.
        """
        fields = {
            "claimant": claimant_fields(waiter.claimant),
            "known_level": waiter.known_level,
            "beat": waiter.beat,
            "applied_index": waiter.applied_index,
        }
        path = self._places.broker(waiter.claimant.name)
        is_new = not self._disk.exists(path)
        file = self._disk.open_through(path, create=True)
        try:
            file.write(BROKER.encode(fields), 0)
        finally:
            file.close()
        if is_new:
            self._disk.sync_directory(self._places.brokers)

    def told(self) -> list[Waiter]:
        """
        Return what all brokers have told, by name.

        Raises:
            OSError: It could not be read.
        """
        found = []
        for name in self._disk.list_directory(self._places.brokers):
            try:
                fields = read_page(self._disk, self._places.brokers / name, BROKER)
            except FileNotFoundError:
                continue
            if fields is not None:
                found.append(
                    Waiter(
                        claimant=claimant_of(fields["claimant"]),
                        known_level=fields["known_level"],
                        beat=fields["beat"],
                        applied_index=fields["applied_index"],
                    )
                )
        return sorted(found, key=lambda it: it.claimant.name)

    def forget(self, name: str) -> None:
        """
        Remove what the broker of this name told; fine if it told nothing.

        Raises:
            OSError: It could not be removed.
        """
        self._disk.unlink(self._places.broker(name))
