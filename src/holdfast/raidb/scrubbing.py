"""
Reading over what several databases hold, and writing over what rotted from one that has it whole.

A row that nobody reads rots unseen, and is lost once the others are. So while the lease is held
each active member is read from its first entry to its last, at a bounded rate, again and again.
Where an entry is damaged or gone, another active member is asked for it, and its bytes are written
there anew, under the fence that an append has. One that a read has met is looked at first.

Invariants:
    Only bytes whose checksums are right are written, and only where none such were found.
    What was dropped meanwhile is not written again.
    Nothing is done for a tenure that is over.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.entry import Entry, bytes_of
from holdfast.leases.contract import Outcome
from holdfast.raidb.databases import Databases
from holdfast.raidb.member import Member, Row
from holdfast.raidb.settings import RaidbSettings
from holdfast.raidb.tenure import Tenure

logger = logging.getLogger("holdfast.raidb")

_MET_COUNT_MAX: Final = 1000
"""So many that were met are remembered; the others are found by reading over all."""


class Scrubber:
    """What reads over the members of one tenure."""

    def __init__(self, databases: Databases, settings: RaidbSettings, tenure: Tenure) -> None:
        """Nothing is read before the first step."""
        self.tenure = tenure
        self.mended_count = 0
        self.rounds = 0
        """How many times all was read."""
        self.lost: dict[str, int] = {}
        """By member, the lowest entry that no member has whole, if there is any."""
        self._databases = databases
        self._settings = settings
        self._left: deque[str] = deque()
        """Members that are still to be read in this round."""
        self._after = 0
        self._met: deque[tuple[str, int]] = deque(maxlen=_MET_COUNT_MAX)

    def met(self, member: str, index: int) -> None:
        """A read met an entry that is damaged or gone there; may be called by any thread."""
        if (member, index) not in self._met:
            self._met.append((member, index))

    @property
    def is_urgent(self) -> bool:
        """Whether a read has met something."""
        return bool(self._met)

    def step(self, seconds_max: float) -> int:
        """
        Read a piece, and mend what is wrong in it; how many bytes were read, 0 at a round's end.

        What cannot be read or mended in this time is passed over: it must not hold up appends.
        """
        try:
            if self._met:
                self._mend(*self._met.popleft(), seconds_max)
                return 1
            return self._read_over(seconds_max)
        except StoreError as error:
            logger.debug("what is held is not read over now: %s", error)
            self._after += 1
            return self._settings.copy_bytes

    def _read_over(self, seconds_max: float) -> int:
        active = self.tenure.active
        while self._left and self._left[0] not in active:
            self._next()
        if not self._left:
            self._left.extend(active)
            self._after = 0
        member = self._left[0]
        row = self._row(member, seconds_max)
        self._after = max(self._after, row.lease.first_index - 1)
        if self._after >= row.lease.end.index:
            self._next()
            return 1 if self._left else 0
        try:
            found = self._read(member, self._after, row.lease.end.index, seconds_max)
        except CorruptEntryError as error:
            index = max(error.index, self._after + 1)
            is_whole = self._mend(member, index, seconds_max)
            self._after = index - 1 if is_whole else index
            return self._settings.copy_bytes
        self._after = found[-1].index
        return bytes_of(found)

    def _next(self) -> None:
        self._left.popleft()
        self._after = 0
        if not self._left:
            self.rounds += 1
            self.lost = {}

    def _row(self, member: str, seconds_max: float) -> Row:
        row: Row = self._databases.ask_beside(member, lambda it, left: it.read(left), seconds_max)
        return row

    def _read(self, member: str, after: int, through: int, seconds_max: float) -> list[Entry]:
        bytes_max = self._settings.copy_bytes
        return self._databases.entries(member, after, through, bytes_max, seconds_max, beside=True)

    def _mend(self, member: str, index: int, seconds_max: float) -> bool:
        """Write an entry of a member anew, if another one has it whole; whether it is so there."""
        name = self._databases.name
        token = self.tenure.tokens.get(member)
        if token is None or member not in self.tenure.active:
            return False
        row = self._row(member, seconds_max)
        if not row.lease.first_index <= index <= row.lease.end.index:
            return True
        try:
            self._read(member, index - 1, index, seconds_max)
        except CorruptEntryError as error:
            trouble = error
        else:
            return True
        source, entry = self._whole(member, index, seconds_max)
        if entry is None:
            if self.lost.setdefault(member, index) == index:
                logger.error("%s: %s: no other database has it whole", name(member), trouble)
            return False

        def mend(it: Member, left: float) -> Outcome:
            return it.mend(token, entry, left)

        is_done = bool(self._databases.ask(member, mend, seconds_max) is Outcome.STORED)
        if is_done:
            self.mended_count += 1
            logger.warning("%s: %s: written anew from %s", name(member), trouble, source)
        return is_done

    def _whole(self, member: str, index: int, seconds_max: float) -> tuple[str, Entry | None]:
        """Which other active member has an entry whole; one that is away is asked again later."""
        away: StoreError | None = None
        for other in self.tenure.active:
            if other == member:
                continue
            try:
                entry = self._read(other, index - 1, index, seconds_max)[0]
            except CorruptEntryError:
                continue
            except StoreError as error:
                away = error
            else:
                return self._databases.name(other), entry
        if away is not None:
            raise away
        return "", None
