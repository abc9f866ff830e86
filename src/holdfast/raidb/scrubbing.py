"""
Reading over what several databases hold, and writing over what rotted from one that has it whole.

A row that nobody reads rots unseen, and is lost once the others are. So while the lease is held
each active member is read from its first entry to its last, at a bounded rate, again and again.
Where an entry is damaged or gone, another active member is asked for it, and its bytes are written
there anew, under the fence that an append has. One that a read has met is looked at first.
A large entry that cannot be read in the time of a piece is read by itself, in ever more time.
Nothing waits for that, so a database that lets a broker have one connection only is not read over;
what a read has met there is mended all the same, as one entry is read in small pieces.

An entry that is whole and does not follow on the one before it is another history's, and is damage
as well: what is written in its place is what its neighbours there name by their chain values.

Invariants:
    Only bytes whose checksums are right are written, where they follow on what is before them and
    what is behind them follows on them, as far as that can be read; one of both must.
    What was dropped meanwhile is not written again.
    Nothing is done for a tenure that is over.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from typing import Final

from holdfast.errors import CorruptEntryError, StoreError, UnreachableError
from holdfast.journal.entry import Entry, bytes_of, verify_chain
from holdfast.leases.contract import Outcome, Place
from holdfast.leases.throughput import LARGE_BYTES
from holdfast.raidb.copying import does_not_follow, read_on
from holdfast.raidb.databases import Databases
from holdfast.raidb.member import NOTHING, AstrayError, Member, Row, UnconnectedError
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
        self.unread: dict[str, str] = {}
        """By member, why it is not read over."""
        self._databases = databases
        self._settings = settings
        self._left: deque[str] = deque()
        """Members that are still to be read in this round."""
        self._after = 0
        self._before: Place | None = None
        """The entry that was read last of this member, if it was whole."""
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
            self._begin_member()
        member = self._left[0]
        try:
            row = self._row(member, seconds_max)
        except (AstrayError, UnconnectedError) as error:
            if isinstance(error, UnconnectedError):
                self.unread[member] = str(error)
            self._next()  # The others are read over as ever.
            return 1 if self._left else 0
        self.unread.pop(member, None)
        self._after = max(self._after, row.lease.first_index - 1)
        if self._after >= row.lease.end.index:
            self._next()
            return 1 if self._left else 0
        try:
            found = self._read(member, self._after, row.lease.end.index, seconds_max)
            last = read_on(found, self._after, self._before, self._databases.name(member))
        except CorruptEntryError as error:
            index = max(error.index, self._after + 1)
            mended_count = self.mended_count
            is_whole = self._mend(member, index, seconds_max)
            is_as_others = is_whole and self.mended_count == mended_count
            if is_as_others and index - 1 == row.lease.first_index:
                # The first one follows on nothing that is kept: only the next one tells.
                self._mend(member, index - 1, seconds_max)
            self._after = index - 1 if is_whole else index
            self._before = None
            return self._settings.copy_bytes
        self._after, self._before = last.index, last
        return bytes_of(found)

    def _begin_member(self) -> None:
        self._after, self._before = 0, None

    def _next(self) -> None:
        self._left.popleft()
        self._begin_member()
        if not self._left:
            self.rounds += 1
            self.lost, self.late = {}, {}

    def _row(self, member: str, seconds_max: float, *, may_go_between: bool = False) -> Row:
        row: Row = self._databases.ask_beside(
            member,
            lambda it, left: it.read(left),
            self.tenure.token(member),
            seconds_max,
            may_go_between=may_go_between,
        )
        return row

    def _read(
        self,
        member: str,
        after: int,
        through: int,
        seconds_max: float,
        *,
        may_go_between: bool = False,
    ) -> list[Entry]:
        bytes_max = 1 if self._patience else self._settings.copy_bytes
        try:
            return self._databases.entries(
                member,
                after,
                through,
                bytes_max,
                seconds_max,
                beside=self.tenure.token(member),
                may_go_between=may_go_between,
            )
        except UnreachableError as error:
            self._is_slow = not isinstance(error, UnconnectedError)
            raise

    def _read_one(self, member: str, index: int, seconds_max: float) -> Entry:
        """What is to be mended, or tells with what."""
        return self._read(member, index - 1, index, seconds_max, may_go_between=True)[0]

    def _mend(self, member: str, index: int, seconds_max: float) -> bool:
        """Write an entry of a member anew, if another one has it whole; whether it is so there."""
        name = self._databases.name
        token = self.tenure.tokens.get(member)
        if token is None or member not in self.tenure.active:
            return False
        row = self._row(member, seconds_max, may_go_between=True)
        if not row.lease.first_index <= index <= row.lease.end.index:
            return True
        own: Entry | None = None
        trouble = does_not_follow(index, name(member))
        try:
            own = self._read_one(member, index, seconds_max)
        except CorruptEntryError as error:
            trouble = error
        else:
            if self._fits(row, own, seconds_max) is not False:
                return True
        source, entry = self._whole(row, index, own, seconds_max)
        if entry is None:
            if self.lost.setdefault(member, index) == index:
                logger.error("%s: %s: no other database has it whole", name(member), trouble)
            return False
        if entry == own:
            return True  # What is beside it is another history's.

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

    def _fits(self, row: Row, entry: Entry, seconds_max: float) -> bool | None:
        """
        Whether an entry goes between those beside it in a member; None: they do not tell.

        Raises:
            StoreError: Neither could be read now.
        """
        index, end = entry.index, row.lease.end
        told: list[bool] = []
        late: StoreError | None = None
        try:
            if index == end.index:
                told.append(entry.chain == end.chain)
            elif behind := self._beside(row, index + 1, seconds_max):
                told.append(verify_chain(behind, entry.chain))
        except UnreachableError as error:
            late = error
        try:
            if index == 1:
                told.append(verify_chain(entry, NOTHING.chain))
            elif before := self._beside(row, index - 1, seconds_max):
                told.append(verify_chain(entry, before.chain))
        except UnreachableError as error:
            late = error
        if not told and late is not None:
            raise late
        return all(told) if told else None

    def _beside(self, row: Row, index: int, seconds_max: float) -> Entry | None:
        """One that is whole in the same member; None if it is damaged, or dropped."""
        try:
            return self._read_one(row.member, index, seconds_max)
        except CorruptEntryError:
            return None

    def _whole(
        self, row: Row, index: int, own: Entry | None, seconds_max: float
    ) -> tuple[str, Entry | None]:
        """
        Which other active member has an entry that is to be there; one that is away is asked later.

        What is the member's own is what is to be there, whatever is beside it.
        """
        away: StoreError | None = None
        for other in self.tenure.active:
            if other == row.member:
                continue
            try:
                entry = self._read_one(other, index, seconds_max)
            except CorruptEntryError:
                continue
            except StoreError as error:
                away = error
                continue
            if entry == own or self._fits(row, entry, seconds_max):
                return self._databases.name(other), entry
        if away is not None:
            raise away
        return "", None
