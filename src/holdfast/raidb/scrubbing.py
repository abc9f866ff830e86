"""
Reading over what several databases hold, and writing over what rotted from one that has it whole.

A row that nobody reads rots unseen, and is lost once the others are. So while the lease is held
each active member is read from its first entry to its last, at a bounded rate, again and again.
Where an entry is damaged or gone, another active member is asked for it, and its bytes are written
there anew, under the fence that an append has. One that a read has met is looked at first.
A large entry that cannot be read in the time of a piece is read by itself, in ever more time.

Invariants:
    Only bytes whose checksums are right are written, and only where none such were found.
    What was dropped meanwhile is not written again.
    Nothing is done for a tenure that is over.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from typing import Final

from holdfast.errors import CorruptEntryError, StoreError, UnreachableError
from holdfast.journal.entry import Entry, bytes_of
from holdfast.leases.contract import Outcome
from holdfast.leases.throughput import LARGE_BYTES
from holdfast.raidb.databases import Databases
from holdfast.raidb.member import Member, Row
from holdfast.raidb.settings import RaidbSettings
from holdfast.raidb.tenure import Tenure

logger = logging.getLogger("holdfast.raidb")

_MET_COUNT_MAX: Final = 1000
"""So many that were met are remembered; the others are found by reading over all."""
_ONE_SECONDS_MAX: Final = 20.0
"""For one entry, where the lease is no longer: a holder stores none that takes a third of that, and
what else is read there, beside appends, waits for so long at most."""
_MEND_SHARE: Final = 1 / 3
"""Of a lease: so long an append may take, and what is written anew holds up appends."""
_USUAL_LEASE_SECONDS: Final = 5.0


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
        self.late: dict[str, int] = {}
        """By member, the lowest entry that could not be written anew in time."""
        self._databases = databases
        self._settings = settings
        self._left: deque[str] = deque()
        """Members that are still to be read in this round."""
        self._after = 0
        self._met: deque[tuple[str, int]] = deque(maxlen=_MET_COUNT_MAX)
        self._patience = 0.0
        """How long each read of one large entry may take; 0: it is not known to be large."""
        self._is_slow = False
        """Whether what was read last was not read in time, of a member that answers."""

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

        One large entry may take longer, by itself, as it is read beside what is stored. What cannot
        be read or mended at all is passed over.
        """
        met = self._met[0] if self._met else None
        seconds, self._is_slow = max(self._patience, seconds_max), False
        count = 1
        try:
            if met is None:
                count = self._read_over(seconds)
            else:
                self._mend(*met, seconds)
        except StoreError as error:
            if self._is_slow and 2 * seconds <= self._one_seconds_max:
                self._patience = 2 * seconds
                return self._settings.copy_bytes
            logger.debug("what is held is not read over now: %s", error)
            if met is None:
                self._after += 1
                count = self._settings.copy_bytes
        self._patience = 0.0
        if met is not None:
            with suppress(ValueError):  # More were met than are remembered.
                self._met.remove(met)
        return count

    @property
    def _lease_seconds(self) -> float:
        return self.tenure.claimant.lease_seconds or _USUAL_LEASE_SECONDS

    @property
    def _one_seconds_max(self) -> float:
        return max(_ONE_SECONDS_MAX, self._lease_seconds)

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
            self.lost, self.late = {}, {}

    def _row(self, member: str, seconds_max: float) -> Row:
        row: Row = self._databases.ask_beside(member, lambda it, left: it.read(left), seconds_max)
        return row

    def _read(self, member: str, after: int, through: int, seconds_max: float) -> list[Entry]:
        bytes_max = 1 if self._patience else self._settings.copy_bytes
        try:
            return self._databases.entries(
                member, after, through, bytes_max, seconds_max, beside=True
            )
        except UnreachableError:
            self._is_slow = True
            raise

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

        self._is_slow = False
        if bytes_of([entry]) >= LARGE_BYTES:
            in_lease = _MEND_SHARE * self._lease_seconds
            seconds_max = min(in_lease, self._settings.member_timeout_seconds)
        act = self.tenure.rates.measured(member, mend, bytes_of([entry]))
        try:
            is_done = bool(self._databases.ask(member, act, seconds_max) is Outcome.STORED)
        except UnreachableError:
            self.late.setdefault(member, index)
            raise
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
