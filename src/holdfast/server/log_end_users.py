"""
The users of a node by its own log up to its end, also where that is not known to be committed.

A node that was started without a quorum knows of nothing behind its checkpoint whether it was
committed. Who may come to its rescue stands there all the same: what is in the log was written by a
leader for somebody who might, and the newest word of it counts. So it is read, for logins to the
admin port only, by a thread, and as far as it was read before not again.

Invariants:
    Nobody waits for the disk, nor for an entry that is large: what is read and checked, is so by
    the thread. Only what is damaged there the journal reads once more, which may have it elsewhere.
    Nothing that is found here becomes state, or is told as what is committed.
    Where something of the log cannot be read, nobody is known by it: it might say that he is gone.

Owned by the loop, but for what the thread reads.
"""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.admin.slices import Slices
from holdfast.broker.lasting.access import LastingAccess
from holdfast.environment.disk import readable_path
from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.entry import parse_entry
from holdfast.journal.journal import Journal
from holdfast.journal.record import iterate_records
from holdfast.model.access_records import UserRecord
from holdfast.model.limits import KiB
from holdfast.store.access_codec import DECODERS, USER
from holdfast.store.contract import CommittedEntry, LogStore

WAIT_SECONDS_MAX: Final = 5.0
"""So long is the rest of the log waited for: a command gives up after ten."""

_READ_BYTES: Final = 256 * KiB
_RECORDS_PER_LOOK: Final = 1_000
"""Between two looks at the clock, or before the thread lets others go on: some 0.3 ms."""


class _Read(NamedTuple):
    """What was read of the log in one go."""

    users: list[UserRecord]
    through: int
    chain: bytes


class LogEndUsers:
    """Whom the log of one node has, through its last entry."""

    __slots__ = (
        *("_access", "_chain", "_found", "_journal", "_reading", "_store", "_through"),
        "trouble",
    )

    def __init__(
        self, journal: Journal, store: LogStore, access: Callable[[], LastingAccess]
    ) -> None:
        """
        Read a node's log.

        Args:
            journal: The log.
            store: How far it is applied.
            access: The users as far as it is.
        """
        self._journal = journal
        self._store = store
        self._access = access
        self._found: dict[str, UserRecord] = {}
        self._through = 0
        """What was read ends with this entry."""
        self._chain = b""
        """And this is its chain: a log that was cut is read anew."""
        self._reading: asyncio.Task[None] | None = None
        self.trouble = ""
        """Why nobody is known by it now; empty: who there is, is known."""

    @property
    def is_sure(self) -> bool:
        """Whether what is applied is enough, and the rest is not asked."""
        return self._store.is_sure

    def users(self) -> dict[str, UserRecord]:
        """Give all users by what was read last; a removed one's record has no values."""
        known = self._access().users
        return known if self.is_sure else {**known, **self._found}

    def record_of(self, name: str) -> UserRecord | None:
        """Give the record of a user; None: there is none, or it cannot be told."""
        known = self._access().users.get(name)
        if self.is_sure:
            return known
        found = None if self.trouble else self._found.get(name, known)
        return found if found is not None and found.values else None

    async def look(self) -> None:
        """
        Read what of the log was not read yet; nothing where what is applied is enough.

        Returns after `WAIT_SECONDS_MAX` also if more is left, which is read on: `trouble` says so.
        Cancelled, it is read on for the others.
        """
        if self.is_sure:
            return
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        await asyncio.wait({self._reading}, timeout=WAIT_SECONDS_MAX)

    def close(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self) -> None:
        slices = Slices()
        try:
            self._begin()
            while (last := self._journal.last_index) > self._through and not self.is_sure:
                self.trouble = (
                    f"its log is being read for its users, {self._through:,} of {last:,} entries:"
                    f" ask again"
                )
                read = await self._read_some(self._through + 1, last)
                if read is None:
                    await self._take_next(slices)
                elif self._is_there(read.through, read.chain):
                    self._found.update((it.name, it) for it in read.users)
                    self._through, self._chain = read.through, read.chain
                else:
                    self._begin()  # It was cut meanwhile.
                await slices.rest()
            self.trouble = ""
        except (StoreError, ValueError, struct.error) as error:
            self.trouble = f"its log cannot be read for its users: {error}"

    async def _read_some(self, index: int, last: int) -> _Read | None:
        """Read some entries on a thread; None: they are not on the disk yet, or not sound there."""
        journal = self._journal
        through = min(last, journal.stored_index)
        if index > through:
            return None
        place, through = journal.span(index, _READ_BYTES, through)
        path = readable_path(journal.disk, place.path)
        try:
            return await asyncio.to_thread(_read, path, place.byte, place.size, index, through)
        except (OSError, StoreError, ValueError, struct.error):
            return None

    async def _take_next(self, slices: Slices) -> None:
        """Take some entries of the journal's, which knows more of them than the disk has."""
        for entry in self._journal.entries(self._through + 1, _READ_BYTES):
            for record in _users_of(entry):
                if record is not None:
                    self._found[record.name] = record
                await slices.rest()
            self._through, self._chain = entry.index, entry.chain

    def _is_there(self, index: int, chain: bytes) -> bool:
        """Whether this entry is in the log, and is that one."""
        journal = self._journal
        is_within = journal.first_index <= index <= journal.last_index
        return is_within and journal.chain_at(index) == chain

    def _begin(self) -> None:
        """Go on where it was read to last, if that is still so."""
        journal, applied = self._journal, self._store.applied_index
        is_within = applied <= self._through <= journal.last_index
        is_gone = self._through < journal.first_index
        if is_within and (is_gone or self._is_there(self._through, self._chain)):
            return
        self._found = {}
        self._through = max(applied, journal.first_index - 1)
        self._chain = b""


def _read(path: Path, start: int, size: int, index: int, through: int) -> _Read:
    """On the thread: read these entries from a file, and give the users' records of them."""
    raw = _bytes_at(path, start, size)
    users: list[UserRecord] = []
    place, chain = 0, b""
    for expected in range(index, through + 1):
        entry = parse_entry(raw, place)
        if entry.index != expected:
            raise CorruptEntryError("another entry stands here", index=expected)
        for record in _users_of(entry):
            if record is None:
                time.sleep(0)  # Python would let the loop wait for 5 ms.
            else:
                users.append(record)
        place, chain = place + len(entry.raw), entry.chain
    return _Read(users, through, chain)


def _bytes_at(path: Path, start: int, size: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        raw = os.pread(descriptor, size, start)
        while len(raw) < size and (more := os.pread(descriptor, size - len(raw), start + len(raw))):
            raw += more
        return raw
    finally:
        os.close(descriptor)


def _users_of(entry: CommittedEntry) -> Iterator[UserRecord | None]:
    """Give the users' records of an entry; None after many others."""
    if not entry.record_count:
        return
    body, decode = entry.body, DECODERS[USER]
    for count, (kind, _flags, start, end) in enumerate(iterate_records(body), 1):
        if kind == USER:
            record = decode(bytes(body[start:end]))
            assert isinstance(record, UserRecord), "it is decoded as one"
            yield record
        elif not count % _RECORDS_PER_LOOK:
            yield None
