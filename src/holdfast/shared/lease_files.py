"""
The lease in a shared directory: who has won which epoch, which have begun, and signs of life.

`current` is what fences. Each epoch has one page in it, at a place of its own, so whoever wakes up
late cannot take back what a later one wrote there. A holder reads the file anew after each sync:
where anything stands behind its own page, a later epoch has begun.

Invariants:
    A claim is never changed and never removed: an epoch is won once.
    Of claim, beat and page of an epoch all are written by its holder alone, in this order: where
    the page is, the other two can be opened.
    A beat that is torn leaves the one before it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.environment.disk import is_no_room
from holdfast.environment.shared_disk import SharedDisk, SharedFile
from holdfast.errors import StoreError
from holdfast.leases.contract import Claimant, Place
from holdfast.shared.page import BEAT, CLAIM, CURRENT, PAGE_BYTES, Fields, PageKind, is_blank
from holdfast.shared.places import Places
from holdfast.shared.standing import Standing

_READ_BYTES: Final = 64 * PAGE_BYTES


def claimant_fields(claimant: Claimant) -> Fields:
    """Return how a page says who somebody is."""
    return {
        "holder": claimant.holder,
        "name": claimant.name,
        "admin": claimant.admin,
        "stomp": claimant.stomp,
        "lease_seconds": claimant.lease_seconds,
    }


def claimant_of(fields: Fields) -> Claimant:
    """Return who is meant."""
    return Claimant(
        holder=fields["holder"],
        name=fields["name"],
        admin=fields["admin"],
        stomp=fields["stomp"],
        lease_seconds=float(fields.get("lease_seconds", 0.0)),
    )


def place_fields(place: Place) -> list[int | str]:
    """Return how a page says where a log ends."""
    return [place.index, place.chain.hex()]


def place_of(fields: list[int | str]) -> Place:
    """Return which end is meant."""
    return Place(int(fields[0]), bytes.fromhex(str(fields[1])))


def read_page(disk: SharedDisk, path: Path, kind: PageKind, place: int = 0) -> Fields | None:
    """Return what a page of a file says, read afresh; None if it is not whole."""
    file = disk.open(path, writable=False)
    try:
        return kind.decode(file.read(PAGE_BYTES, place * PAGE_BYTES))
    finally:
        file.close()


@dataclass(frozen=True, slots=True)
class Begun:
    """The newest epoch that has begun; who holds it, unless its page cannot be read."""

    epoch: int
    claimant: Claimant | None


class CurrentFile:
    """The file `current`, as one process reads and writes it."""

    def __init__(self, disk: SharedDisk, places: Places, before: int = 0) -> None:
        """Take where it is; epochs begin behind `before`."""
        self._disk = disk
        self._path = places.current
        self._before = self._known = before

    def newest(self) -> Begun:
        """Return the epoch that has begun last, as it is now; the one before all if none did."""
        pages = self._pages_from(self._known)
        written = [at for at in range(0, len(pages), PAGE_BYTES) if not _is_blank(pages, at)]
        if not written and self._known > self._before:
            # What was seen before its sync went with a server's power: begin anew.
            self._known = self._before
            return self.newest()
        if not written:
            return Begun(self._before, None)
        self._known += written[-1] // PAGE_BYTES
        fields = CURRENT.decode(pages[written[-1] : written[-1] + PAGE_BYTES])
        return Begun(self._known, None if fields is None else claimant_of(fields))

    def is_newest(self, epoch: int, holder: str) -> bool:
        """Whether this epoch has begun, is this holder's, and no later one has: as it is now."""
        pages = self._pages_from(epoch)
        fields = CURRENT.decode(pages[:PAGE_BYTES])
        is_mine = fields is not None and fields["epoch"] == epoch and fields["holder"] == holder
        return is_mine and is_blank(pages[PAGE_BYTES:])

    def has_begun(self, epoch: int) -> bool:
        """Whether this epoch has begun, whole or torn, as it is now."""
        return not _is_blank(self._pages_from(epoch), 0)

    def begin(self, epoch: int, claimant: Claimant) -> None:
        """Let the epoch begin: when this returns, nobody of an earlier one confirms any more."""
        file = self._disk.open_through(self._path)
        try:
            page = CURRENT.encode({"epoch": epoch, **claimant_fields(claimant)})
            file.write(page, self._offset(epoch))
            file.sync()
        finally:
            file.close()
        self._disk.sync_directory(self._path.parent)

    def _offset(self, epoch: int) -> int:
        return (epoch - self._before) * PAGE_BYTES

    def _pages_from(self, epoch: int) -> bytes:
        parts = []
        file = self._disk.open(self._path, writable=False)
        try:
            offset = self._offset(epoch)
            while data := file.read(_READ_BYTES, offset):
                parts.append(data)
                offset += len(data)
        finally:
            file.close()
        return b"".join(parts)


def _is_blank(pages: bytes, at: int) -> bool:
    return is_blank(pages[at : at + PAGE_BYTES])


def read_claim(disk: SharedDisk, places: Places, epoch: int) -> Claimant | None:
    """Return who has won an epoch, None where the claim is damaged."""
    fields = read_page(disk, places.claim(epoch), CLAIM)
    return None if fields is None else claimant_of(fields)


def claim(disk: SharedDisk, places: Places, epoch: int, claimant: Claimant) -> bool:
    """
    Try to win an epoch; return whether it is won.

    Raises:
        OSError: It is not known whether it is.
    """
    path = places.claim(epoch)
    mine = places.lease / f".claim-{claimant.holder}"
    file = disk.open(mine, create=True)
    try:
        file.write(CLAIM.encode({"epoch": epoch, **claimant_fields(claimant)}), 0)
        file.sync()
    finally:
        file.close()
    try:
        disk.link(mine, path)
        is_won = True
    except FileExistsError:
        # Somebody was first: or the answer to our own try had been lost.
        is_won = read_claim(disk, places, epoch) == claimant
    disk.unlink(mine)
    if is_won:
        disk.sync_directory(places.lease)
    return is_won


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a holder says of itself."""

    counter: int
    segment: str | None
    """The segment it writes; None before it has begun one: then nothing else here counts."""

    sure: Place
    first_index: int
    is_released: bool = False


def read_beat(disk: SharedDisk, places: Places, epoch: int) -> Beat:
    """
    Return the last whole beat of an epoch.

    Raises:
        StoreError: Neither page is whole.
    """
    path = places.beat(epoch)
    file = disk.open(path, writable=False)
    try:
        data = file.read(2 * PAGE_BYTES, 0)
    finally:
        file.close()
    pages = [BEAT.decode(data[:PAGE_BYTES]), BEAT.decode(data[PAGE_BYTES:])]
    whole = [it for it in pages if it is not None]
    if not whole:
        raise StoreError(
            f"both pages of {path} are damaged: what epoch {epoch:,} has stored is not known; get"
            " the file back from a copy of the directory"
        )
    fields = max(whole, key=lambda it: int(it["counter"]))
    return Beat(
        counter=fields["counter"],
        segment=fields["segment"],
        sure=place_of(fields["sure"]),
        first_index=fields["first_index"],
        is_released=fields["is_released"],
    )


class BeatWriter:
    """The file `beat-<E>` of the epoch that this process holds."""

    def __init__(self, disk: SharedDisk, places: Places, epoch: int, beat: Beat) -> None:
        """Make the file, durably: it did not exist, and does not where there is no room for it."""
        self.last = beat
        path = places.beat(epoch)
        self._file: SharedFile = disk.create(path)
        self._file_id = self._file.identity()
        try:
            self._file.write(_page(beat) * 2, 0)
            self._file.sync()
            disk.sync_directory(places.lease)
        except OSError as error:
            with suppress(OSError):
                self._file.close()
            if is_no_room(error):
                # Nobody looks for it before its epoch has begun: it may be made once more.
                disk.unlink(path)
            raise
        self.durable_counter = beat.counter

    @property
    def standing(self) -> Standing:
        """What must be found under its name."""
        return Standing(self._file, self._file_id)

    def write(self, beat: Beat, *, both: bool = False) -> None:
        """
        Give a sign of life; durable when this returns.

        `both`: rot in one page must not bring back what was said before. One after the other is
        written, so one of them is whole at any time.
        """
        for _ in range(2 if both else 1):
            self.last = _counted(beat, self.last.counter + 1)
            place = self.last.counter % 2
            self._file.write_durable([_page(self.last)], place * PAGE_BYTES)
            self.durable_counter = self.last.counter

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _counted(beat: Beat, counter: int) -> Beat:
    return Beat(
        counter=counter,
        segment=beat.segment,
        sure=beat.sure,
        first_index=beat.first_index,
        is_released=beat.is_released,
    )


def _page(beat: Beat) -> bytes:
    return BEAT.encode(
        {
            "counter": beat.counter,
            "segment": beat.segment,
            "sure": place_fields(beat.sure),
            "first_index": beat.first_index,
            "is_released": beat.is_released,
        }
    )
