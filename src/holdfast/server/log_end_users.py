"""
The users of a node by its own log up to its end, also where that is not known to be committed.

A node that was started without a quorum knows of nothing behind its checkpoint whether it was
committed. Who may come to its rescue stands there all the same: what is in the log was written by a
leader for somebody who might, and the newest word of it counts. So it is read, for logins to the
admin port only, in slices, and as far as it was read before not again.

Invariants:
    Nothing that is found here becomes state, or is told as what is committed.
    Where something of the log cannot be read, nobody is known by it: it might say that he is gone.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator
from typing import Final

from holdfast.admin.slices import Slices
from holdfast.broker.lasting.access import LastingAccess
from holdfast.errors import StoreError
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
"""Between two looks at the clock: some 0.3 ms."""


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
                for entry in self._journal.entries(self._through + 1, _READ_BYTES):
                    await self._take(_users_of(entry), slices)
                    self._through, self._chain = entry.index, entry.chain
            self.trouble = ""
        except (StoreError, ValueError, struct.error) as error:
            self.trouble = f"its log cannot be read for its users: {error}"

    async def _take(self, records: Iterator[UserRecord | None], slices: Slices) -> None:
        for record in records:
            if record is not None:
                self._found[record.name] = record
            await slices.rest()
        await slices.rest()

    def _begin(self) -> None:
        """Go on where it was read to last, if that is still so."""
        journal, applied = self._journal, self._store.applied_index
        if applied <= self._through <= journal.last_index:
            if self._through < journal.first_index:
                return
            if journal.chain_at(self._through) == self._chain:
                return
        self._found = {}
        self._through = max(applied, journal.first_index - 1)
        self._chain = b""


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
