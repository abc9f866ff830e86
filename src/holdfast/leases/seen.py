"""
The last place of the log that a broker knows to be final, kept in its own directory.

A database that was restored from an older backup, or failed over to a standby that was behind, has
lost what was confirmed; its lease row looks as good as any. Every broker remembers what it saw, and
refuses a log that went back (decision 12 of the facts about stores). One that went back, grew past
that place again and dropped it, all while this broker was away, looks like any that went on.

The file is an aid, written without a sync and at most once a second: an older one is less sharp,
and one that is lost or damaged only forgets.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from google_crc32c import value as crc32c

from holdfast.environment.disk import Disk, read_all
from holdfast.errors import StoreError
from holdfast.leases.contract import Holding, Place

FILE_NAME: Final = "last-seen"
SAVE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen last."""

    identity: str
    epoch: int
    place: Place
    epoch_max: int | None = None
    """No entry through that place is of a later epoch; None where that is not known."""

    accepted: str | None = None
    """
    The mark of the last time that an operator went on without databases, before that was seen;
    empty: never, None: not known.
    """


class SeenFile:
    """Remembers it; used by one thread."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Read what an earlier process left, if it can be read."""
        self._path = directory / FILE_NAME
        self._disk = disk
        self._saved_at = float("-inf")
        self.last = _load(self._path, disk)
        """None if nothing is known."""
        self.accepted: str | None = None
        """The mark of `Seen.accepted` as the log has it now; None where it says none."""
        self._is_saved = True

    def note(
        self,
        identity: str,
        epoch: int,
        place: Place,
        now: float,
        epoch_max: int | None = None,
        *,
        is_earlier: bool = False,
    ) -> None:
        """
        This place is final, as was seen in this epoch; written if it is time to.

        Args:
            epoch_max: No entry through it is of a later one; None: that epoch itself.
            is_earlier: An earlier process saw it: of what was accepted since it knew nothing.
        """
        last = self.last
        epoch_max = epoch if epoch_max is None else epoch_max
        accepted = self.accepted
        if last is not None and last.identity == identity and place.index < last.place.index:
            place, epoch_max = last.place, last.epoch_max
        if last is not None and is_earlier:
            accepted = last.accepted
        seen = Seen(identity, epoch, place, epoch_max, accepted)
        if seen != last:
            self.last, self._is_saved = seen, False
        if now - self._saved_at >= SAVE_SECONDS:
            self._saved_at = now
            self.save()

    def save(self) -> None:
        """Write it now, if it is news; a failure is of no account."""
        if self._is_saved or self.last is None:
            return
        with suppress(OSError):
            _write(self._path, self._disk, self.last)
            self._is_saved = True

    def judge(self, identity: str, holding: Holding, chain_there: bytes | None) -> None:
        """
        Refuse a log that has lost what this broker has seen of it.

        Args:
            chain_there: The chain value of the log at the last place seen; None if that entry was
                cleaned away since.

        Raises:
            StoreError: It is another log, or went back in time.
        """
        last = self.last
        if last is None:
            return
        if last.identity != identity:
            raise StoreError(
                f"{self._path.parent} belongs to a broker of another log ({last.identity}), and"
                f" this one is {identity}: give this broker the store it had, or an empty --data"
            )
        lost = ""
        if holding.epoch < last.epoch:
            lost = f"epoch {last.epoch:,}, and it is at {holding.epoch:,} now"
        elif holding.end.index < last.place.index:
            lost = f"entry {last.place.index:,}, and it ends at {holding.end.index:,} now"
        elif chain_there is not None and chain_there != last.place.chain:
            lost = f"another entry {last.place.index:,} than there is now"
        if lost:
            raise StoreError(
                f"the store went back in time: this broker saw {lost}. Confirmed messages would be"
                f" lost: bring the newer state back, or accept the loss by removing"
                f" {self._path} on every broker"
            )


def _load(path: Path, disk: Disk) -> Seen | None:
    try:
        data = read_all(disk, path)
        if len(data) < 4 or crc32c(data[4:]) != int.from_bytes(data[:4], "little"):
            return None
        fields = json.loads(data[4:])
        place = Place(fields["index"], bytes.fromhex(fields["chain"]))
        return Seen(
            fields["identity"],
            fields["epoch"],
            place,
            fields.get("epoch_max"),
            fields.get("accepted"),
        )
    except (OSError, ValueError, KeyError):
        return None


def _write(path: Path, disk: Disk, seen: Seen) -> None:
    body = json.dumps(
        {
            "identity": seen.identity,
            "epoch": seen.epoch,
            "index": seen.place.index,
            "chain": seen.place.chain.hex(),
            "epoch_max": seen.epoch_max,
            "accepted": seen.accepted,
        }
    ).encode()
    draft = path.with_suffix(".tmp")
    file = disk.open(draft, create=True)
    try:
        file.truncate(0)
        file.write(crc32c(body).to_bytes(4, "little") + body, 0)
    finally:
        file.close()
    disk.rename(draft, path)
