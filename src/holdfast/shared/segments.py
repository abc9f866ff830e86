"""
A segment of a shared directory: a page that says where it continues the log, then entries.

Entries stand as they do everywhere, byte for byte. The page names the cut: the entry that comes
before, by index, term and chain, and the segment that holds it. So the log is read backwards from
the newest segment, and what stands behind a cut in an older file is no part of it, for anyone.

Invariants:
    A segment is written by the process that made it and by no other, and is full of zeros ahead.
    Of what is written at once the first entry goes last: where it is good the others are.
    A segment whose write or sync has failed is not written again.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from holdfast.environment.disk import DiskLock, NoRoomError, fill_zeros, is_no_room
from holdfast.environment.shared_disk import SharedDisk, SharedFile
from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.entry import HEADER_BYTES, Entry, entry_bytes, parse_entry, parse_header
from holdfast.leases.contract import Place
from holdfast.shared.page import PAGE_BYTES, SEGMENT
from holdfast.shared.places import Places, SegmentName, parse_segment_name
from holdfast.shared.standing import Standing

READ_BYTES: Final = 256 * 1024
_LOOK_BYTES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPage:
    """What a segment says of itself."""

    name: SegmentName
    cut: Place
    """The last entry before it; all that its `previous` holds behind that is dead."""

    cut_term: int
    previous: str | None
    """The file that holds the entry of the cut; None if there is none."""

    capacity: int


def encode_segment_page(page: SegmentPage, identity: str) -> bytes:
    """Return the first page of the file."""
    return SEGMENT.encode(
        {
            "log": identity,
            "name": str(page.name),
            "cut": [page.cut.index, page.cut_term, page.cut.chain.hex()],
            "previous": page.previous,
            "capacity": page.capacity,
        }
    )


def read_segment_page(disk: SharedDisk, places: Places, name: str, identity: str) -> SegmentPage:
    """
    Return what a segment says of itself.

    Raises:
        StoreError: It is damaged, or another log's.
    """
    path = places.journal / name
    file = disk.open(path, writable=False)
    try:
        fields = SEGMENT.decode(file.read(PAGE_BYTES, 0))
    finally:
        file.close()
    parsed = parse_segment_name(name)
    if fields is None or fields["name"] != name or parsed is None:
        raise StoreError(
            f"the first page of {path} is damaged, so what comes before it is not known; get the"
            " file back from a copy of the directory"
        )
    if fields["log"] != identity:
        raise StoreError(
            f"{path} is of log {fields['log']}, and this one is {identity}: somebody put it there;"
            f" get this log's own file back from a copy of the directory"
        )
    index, term, chain = fields["cut"]
    return SegmentPage(
        name=parsed,
        cut=Place(index, bytes.fromhex(chain)),
        cut_term=term,
        previous=fields["previous"],
        capacity=fields["capacity"],
    )


class SegmentWriter:
    """The segment that this process writes."""

    def __init__(self, disk: SharedDisk, places: Places, page: SegmentPage, identity: str) -> None:
        """
        Make the file, full of zeros and durable; FileExistsError if it is there already.

        Raises:
            NoRoomError: There was no room for it, and it is gone.
            OSError: It could not be made; what there is of it nobody reads.
        """
        self.page = page
        self.name = str(page.name)
        path = places.journal / self.name
        self._lock: DiskLock | None = None
        self._offset = PAGE_BYTES
        self._file: SharedFile = disk.create(path)
        self._file_id = self._file.identity()
        first_page = encode_segment_page(page, identity)
        self._marks: tuple[tuple[int, bytes], ...] = ((0, first_page),)
        """The beginning of the last entry, and of the last one before it was written."""
        try:
            fill_zeros(self._file, PAGE_BYTES, page.capacity)
            self._file.write(first_page, 0)
            self._file.sync()
            disk.sync_directory(places.journal)
            # A client of NFS that has lost its lease learns of it at the next write under a lock.
            with suppress(BlockingIOError):
                self._lock = disk.hold(path)
        except OSError as error:
            with suppress(OSError):
                self._file.close()
            with suppress(OSError):
                disk.unlink(path)
            if is_no_room(error):
                # A server may say it with the sync only.
                raise NoRoomError(error.errno, error.strerror) from error
            raise

    @property
    def standing(self) -> Standing:
        """What must be found under its name."""
        return Standing(self._file, self._file_id, self._marks)

    def has_room(self, size: int) -> bool:
        """Whether so many bytes fit behind what is there."""
        return self._offset + size <= self.page.capacity

    def write(self, entries: Sequence[Entry]) -> None:
        """
        Write entries behind one another; durable when this returns, all of them.

        Whatever it raises, nothing more may be written to this file.

        Raises:
            NoRoomError: There was no room, and nothing of it can be read.
            OSError: They are there or not.
        """
        first, *others = [it.raw for it in entries]
        try:
            if others:
                self._file.write_durable(others, self._offset + len(first))
            self._file.write_durable([first], self._offset)
        except NoRoomError:
            self._take_back()
            raise
        self._offset += len(first) + sum(map(len, others))
        last = others[-1] if others else first
        mark = self._offset - len(last), last[:HEADER_BYTES]
        self._marks = (self._marks[-1], mark)

    def _take_back(self) -> None:
        try:
            self._file.write_durable([bytes(HEADER_BYTES)], self._offset)
        except NoRoomError as error:
            raise OSError(errno.EIO, "what was written in part could not be taken back") from error

    def close(self) -> None:
        """Let go of the file."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        self._file.close()


class SegmentReader:
    """Entries of one segment, in order; the file was opened afresh for it."""

    def __init__(self, disk: SharedDisk, places: Places, name: str) -> None:
        self._name = name
        self._file = disk.open(places.journal / name, writable=False)
        self._buffer = b""
        self._start = 0

    def entries_from(self, offset: int, index: int = 0) -> Iterator[tuple[int, Entry]]:
        """
        Give each entry with the place behind it, from a place where one begins.

        Ends where nothing was written yet. Entries before `index` are passed over by their headers.

        Raises:
            CorruptEntryError: What stands there is no whole entry.
        """
        while True:
            head = self._read(offset, HEADER_BYTES)
            if is_unwritten(head):
                return
            with self._placed(offset):
                header = parse_header(head)
                size = entry_bytes(header.body_length)
                if header.entry_index < index:
                    offset += size
                    continue
                entry = parse_entry(self._read(offset, size))
            offset += size
            yield offset, entry

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    @contextmanager
    def _placed(self, offset: int) -> Iterator[None]:
        try:
            yield
        except CorruptEntryError as error:
            raise CorruptEntryError(
                error.reason, segment=self._name, byte=offset, index=error.index
            ) from error

    def _read(self, offset: int, size: int) -> bytes:
        place = offset - self._start
        if place < 0 or place + size > len(self._buffer):
            # Who only looks whether something new is there reads little.
            count = READ_BYTES if self._buffer else _LOOK_BYTES
            self._buffer = self._file.read(max(size, count), offset)
            self._start, place = offset, 0
        return self._buffer[place : place + size]


def is_unwritten(head: bytes) -> bool:
    """Whether no entry begins here: the file ends, or zeros stand there."""
    return not head or not head.strip(b"\0")
