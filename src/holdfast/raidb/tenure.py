"""
Holding the lease in several databases: everything is written in all that are enabled, or in none.

One that fails is left out: first the next set is written in all the rest, and only once that stands
is anything more called stored. So what was stored is in every active member, and whoever starts
with more than half of them has it.

Invariants:
    Nothing is called stored while the set does not stand.
    The members that are kept are those that have all that was ever sent: what may be only in those
    that are left out is nobody's.
    A member that was taken by somebody else ends it: nobody else would have, unless to start. One
    that others began a set in, of which those that are held know nothing, is a copy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from holdfast.errors import (
    AppendRefusedError,
    EntryRefusedError,
    MirrorsLostError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import Entry, bytes_of
from holdfast.leases.contract import Claimant, Outcome, Place
from holdfast.leases.throughput import LARGE_BYTES
from holdfast.mirrors.mirror_set import Holding as SetHolding
from holdfast.mirrors.mirror_set import MirrorState
from holdfast.model.limits import MiB
from holdfast.raidb.databases import Databases, named_each
from holdfast.raidb.member import ActOf, AstrayError, KnownSet, Member, Row, Token
from holdfast.raidb.rates import Rates
from holdfast.raidb.settings import RaidbSettings

logger = logging.getLogger("holdfast.raidb")

SLOWEST_BYTES_PER_SECOND: Final = 4 * MiB
"""A member that stores less than that of a large append counts as one that fails."""
_LARGE_SHARE: Final = 0.75
"""Of the time that a large append has, for each member; the rest is for what comes of it."""


class Tenure:
    """One epoch of one holder, in all members that it has."""

    def __init__(
        self,
        databases: Databases,
        settings: RaidbSettings,
        clock: Callable[[], float],
        *,
        claimant: Claimant,
        epoch: int,
        tokens: Mapping[str, Token],
        holding: SetHolding,
        rates: Rates | None = None,
    ) -> None:
        """`tokens` are those under which members were taken, `holding` the set to go on with."""
        self.rates = Rates(clock) if rates is None else rates
        self.claimant = claimant
        self.epoch = epoch
        self.tokens = dict(tokens)
        self.holding = holding
        self.end = Place(0, bytes(16))
        """Where the log ends that is in all active members."""
        self.is_in_flight = False
        """Whether an append was sent of which it is not known in which members it is."""
        self.timeout_seconds = 0.0
        """How long a member may fail before it is left out."""
        self.begun_count = self.proved_count = 0
        """Writes in all members that were begun, and which of them was the last one to succeed."""
        self._databases = databases
        self._settings = settings
        self._clock = clock
        self._failing: dict[str, float] = {}
        self._astray: set[str] = set()
        """Members whose addresses were found to lead to copies that others took."""

    def now(self) -> float:
        """Give the time by which all here is measured."""
        return self._clock()

    @property
    def active(self) -> list[str]:
        """The members that have everything."""
        return sorted(self.holding.current.active)

    def token(self, member: str) -> Token:
        """
        Give under what a member is held; may be asked by any thread.

        Raises:
            UnreachableError: It is not held any more.
        """
        token = self.tokens.get(member)
        if token is None:
            raise UnreachableError(f"{self._databases.name(member)} is not held any more")
        return token

    @property
    def whole(self) -> list[str]:
        """The active members that are known to have everything."""
        return self.active

    def level(self, seconds_max: float) -> bool:
        """Wait until all active members have everything; whether they do."""
        del seconds_max
        return True

    def lacking_bytes(self, member: str) -> int:
        """How much of what was sent an active member is not known to have; asked by any thread."""
        del member
        return 0

    def droppable(self, index: int) -> int:
        """Through before which entry all may be forgotten, if it is asked of this one."""
        return index

    def append(self, entries: list[Entry], seconds_max: float) -> Outcome:
        """
        Store these entries in all active members.

        Raises:
            AppendRefusedError: All refuse them, or so many that the rest cannot go on alone: what
                that has of them counts for nobody.
            UnreachableError: Not all are known to have them: the very same again.
        """
        self.is_in_flight = True
        outcome = self._everywhere(
            {it: self.append_act(it, entries, self.end) for it in self.active},
            seconds_max,
            count=bytes_of(entries),
        )
        self.is_in_flight = False
        if outcome is Outcome.STORED:
            self.end = Place(entries[-1].index, entries[-1].chain)
        return outcome

    def append_act(self, member: str, entries: list[Entry], before: Place) -> ActOf:
        """
        Give what stores these in one member, which ends there, and measures how long it takes if
        they are many.
        """
        token = self.tokens[member]

        def append(it: Member, seconds: float) -> Outcome:
            return it.store(token, entries, before, seconds)

        return self.rates.measured(member, append, bytes_of(entries))

    def renew(self, seconds_max: float) -> Outcome:
        """Give a sign of life in all active members."""
        acts = {it: renew_act(self.tokens[it], self.known_end(it)) for it in self.active}
        # Whoever lacks what is in flight must not be kept instead of one that may have it.
        return self._everywhere(acts, seconds_max, may_leave_out=not self.is_in_flight)

    def known_end(self, member: str) -> Place | None:
        """Where an active member is known to end, at this moment; None while that is not sure."""
        return None if self.is_in_flight else self.end

    def release(self, members: Iterable[str], seconds_max: float) -> int:
        """Give these back; in how many that is known to be done."""
        tokens = {it: self.tokens[it] for it in members if it in self.tokens}
        found = self._databases.run(
            {it: _release(token) for it, token in tokens.items()}, seconds_max
        )
        return sum(not isinstance(it, StoreError) for it in found.values())

    def _everywhere(
        self,
        acts: Mapping[str, ActOf],
        seconds_max: float,
        *,
        may_leave_out: bool = True,
        count: int = 0,
    ) -> Outcome:
        """Do this, which carries so many bytes, in all active; leave out who fails for too long."""
        deadline = self._clock() + seconds_max
        self.begun_count += 1
        number = self.begun_count
        if self.stand(deadline) is Outcome.DEPOSED:
            return Outcome.DEPOSED
        acts = {it: act for it, act in acts.items() if it in self.holding.current.active}
        began = self._clock()
        found = self._databases.run(acts, self._bound(deadline, count))
        if self.is_deposed(found, deadline):
            return Outcome.DEPOSED
        failed = {it: each for it, each in found.items() if isinstance(each, StoreError)}
        done = found.keys() - failed.keys()
        self._have_answered(done)
        if failed:
            self._judge(failed, is_any_done=bool(done))
            if not may_leave_out:
                raise self._unreachable(failed)
            self.leave_out(failed, began)
            if self.stand(deadline) is Outcome.DEPOSED:
                return Outcome.DEPOSED
            if not self.holding.current.active <= done:
                raise self._unreachable(failed)
        self.proved_count = number
        return self._settle(deadline)

    def _judge(self, failed: Mapping[str, StoreError], *, is_any_done: bool) -> None:
        """Raise what is to be told where nobody did it."""
        errors = list(failed.values())
        if not is_any_done and all(isinstance(it, AppendRefusedError) for it in errors):
            self.is_in_flight = False
            raise refusal_of(errors)
        refused = {it: each for it, each in failed.items() if isinstance(each, AppendRefusedError)}
        if refused and not self.holding.may_go_on_without(refused):
            raise refusal_of(refused.values())
        if not is_any_done and not any(map(may_pass, errors)):
            raise StoreError("; ".join(map(str, errors)))
        if not is_any_done:
            raise self._unreachable(failed)

    def leave_out(self, failed: Mapping[str, StoreError], began: float) -> None:
        """
        Go on without these, once they have failed for long enough; the set is yet to be written.

        Raises:
            UnreachableError: It is too early, or too few would be left.
        """
        now = self._clock()
        since = {it: self._failing.setdefault(it, began) for it in failed}
        waited = {
            it
            for it, error in failed.items()
            if may_pass(error) and now - since[it] < self.timeout_seconds
        }
        if waited:
            raise self._unreachable(failed)
        self.change(dict.fromkeys(failed, "failed"))
        for it, error in failed.items():
            self.tokens.pop(it, None)
            self._failing.pop(it, None)
            logger.error("%s is left out from now on: %s", self._databases.name(it), error)

    def change(self, changes: Mapping[str, MirrorState | None]) -> None:
        """
        Make the next set; nothing is stored until `stand` has written it.

        Raises:
            UnreachableError: Too few would be left.
        """
        try:
            self.holding.change(changes)
        except MirrorsLostError as error:
            raise UnreachableError(
                f"without {self._databases.named(error.lost)} too few databases are left to be sure"
                f" that nobody goes on with the others: they are waited for"
            ) from None

    def admit(self, member: str, token: Token, seconds_max: float) -> None:
        """
        Let a member that has everything count from now on, in place of one that was at its address.

        Raises:
            UnreachableError: The set that says so does not stand yet.
        """
        name = self._databases.name
        gone = [
            it
            for it, state in self.holding.current.states
            if it != member and state != "active" and name(it) == name(member)
        ]
        changes: dict[str, MirrorState | None] = dict.fromkeys(gone)
        changes[member] = "active"
        self.change(changes)
        self.tokens[member] = token
        logger.info("%s has everything, and counts from now on", self._databases.name(member))
        self.stand_within(seconds_max)

    def stand_within(self, seconds_max: float) -> None:
        """As `stand`; that somebody else took a member is found by the next write as well."""
        self.stand(self._clock() + seconds_max)

    def stand(self, deadline: float) -> Outcome:
        """
        Write the set in all that need it, until it stands.

        Raises:
            UnreachableError: It does not stand yet.
        """
        holding = self.holding
        while not holding.is_standing:
            if self._clock() >= deadline:
                raise UnreachableError("who has what is not written in all databases yet")
            began = self._clock()
            found = self._write_set(self.tokens, deadline)
            active = holding.current.active
            counting: dict[str, Any] = dict.fromkeys(active, UnreachableError("it was not taken"))
            counting |= {it: each for it, each in found.items() if it in active}
            if self.is_deposed(counting, deadline):
                return Outcome.DEPOSED
            failed = {it: each for it, each in counting.items() if isinstance(each, StoreError)}
            written = {it for it, each in found.items() if each is Outcome.STORED}
            self._have_answered(written)
            holding.written(written)
            if holding.is_standing:
                break
            if not failed:
                raise UnreachableError(
                    "too few of the databases that were left are known to know it"
                )
            self.leave_out(failed, began)
        return Outcome.STORED

    def _settle(self, deadline: float) -> Outcome:
        """Once a set stands, let it say so: then who looks need not ask whom it came from."""
        if not self.holding.current.before or self._clock() >= deadline:
            return Outcome.STORED
        self.holding.settled()
        found = self._write_set({it: self.tokens[it] for it in self.active}, deadline)
        return Outcome.DEPOSED if self.is_deposed(found, deadline) else Outcome.STORED

    def is_deposed(self, found: dict[str, Any], deadline: float) -> bool:
        """
        Tell whether another broker has taken one of these.

        One whose address leads to a copy that others took is not taken, and has failed: its outcome
        is put into `found`.
        """
        taken = {it for it, each in found.items() if each is Outcome.DEPOSED}
        if not taken:
            return False
        if not taken <= self._astray:
            if not self.holding.may_go_on_without(taken | self._astray):
                return True
            if not self._are_astray(taken, deadline):
                return True
            self._astray |= taken
        for it in taken:
            found[it] = AstrayError(
                f"{self._databases.name(it)} leads to a copy that others took and began a set in,"
                f" which the databases that this broker holds never let begin: see where this"
                f" address leads to"
            )
        return False

    def _are_astray(self, members: set[str], deadline: float) -> bool:
        """
        Whether a set was begun in each of these that half of those who count in it know nothing of.

        They are asked last: whoever begins a set has taken them all before.
        """
        rows = self._databases.run(dict.fromkeys(members, read_act), self._bound(deadline))
        begun = [it.written.known for it in rows.values() if self.is_begun_by_others(it)]
        if len(begun) < len(members):
            return False
        rest = [it for it in self.active if it not in members | self._astray]
        acts = {it: renew_act(self.tokens[it]) for it in rest if it in self.tokens}
        found = self._databases.run(acts, self._bound(deadline))
        held = {it for it, each in found.items() if each is Outcome.STORED}
        return all(2 * len(held & known.active) >= len(known.active) for known in begun)

    def is_begun_by_others(self, row: Row | StoreError) -> bool:
        """Whether its set is of a start that is not ours, and not before it."""
        if isinstance(row, StoreError) or row.written is None:
            return False
        start, lease = row.written.known.number.start, row.lease
        if start != self.epoch or lease.epoch != start:
            return start > self.epoch
        return lease.claimant is not None and lease.claimant.holder != self.claimant.holder

    def _write_set(self, tokens: Mapping[str, Token], deadline: float) -> dict[str, Any]:
        written, active = self.written_set(), self.active
        ends = {it: self.known_end(it) for it in active}
        return self._databases.run(
            {it: _write_set(token, written, ends.get(it)) for it, token in tokens.items()},
            self._bound(deadline),
        )

    def written_set(self) -> KnownSet:
        """The present set as it stands in a member."""
        current = self.holding.current
        places = {it: self._databases.name(it) for it, _ in current.states}
        return KnownSet(current, tuple(sorted(places.items())))

    def _have_answered(self, members: Iterable[str]) -> None:
        for it in members:
            self._failing.pop(it, None)
            self._astray.discard(it)

    def _bound(self, deadline: float, count: int = 0) -> float:
        """
        How long a member may take with so many bytes; some time is left for what comes of it.

        What is large takes its time on a slow way, and nobody has failed for that alone.
        """
        left = deadline - self._clock()
        bound = min(left, self._settings.member_timeout_seconds)
        if count < LARGE_BYTES:
            return bound
        slow = self._settings.member_timeout_seconds + count / SLOWEST_BYTES_PER_SECOND
        return max(bound, min(slow, left * _LARGE_SHARE))

    def _unreachable(self, failed: Mapping[str, StoreError]) -> UnreachableError:
        names = self._databases.name
        return UnreachableError(named_each({names(it): why for it, why in failed.items()}))


def may_pass(error: StoreError) -> bool:
    """Tell whether it may be otherwise in a moment."""
    return isinstance(error, UnreachableError | AppendRefusedError)


def refusal_of(errors: Iterable[StoreError]) -> AppendRefusedError:
    """Give one refusal for those of several members: of what all of them say."""
    found = list(errors)
    is_its_own = all(isinstance(it, EntryRefusedError) for it in found)
    made = (EntryRefusedError if is_its_own else AppendRefusedError)("; ".join(map(str, found)))
    made.keeps_lease = any(isinstance(it, AppendRefusedError) and it.keeps_lease for it in found)
    return made


def renew_act(token: Token, end: Place | None = None) -> ActOf:
    """Give what is a sign of life in one member; where it is known to end, it must."""
    return lambda member, seconds: member.beat(token, seconds, end=end)


def read_act(member: Member, seconds: float) -> Row:
    """Read the row of a member."""
    return member.read(seconds)


def store_act(token: Token, entries: list[Entry], before: Place) -> ActOf:
    """Give what stores entries behind this end of a member."""
    return lambda member, seconds: member.store(token, entries, before, seconds)


def seize_act(row: Row, token: Token, claimant: Claimant) -> ActOf:
    """Give what takes a member as it was read."""
    return lambda member, seconds: member.seize(row, token, claimant, seconds)


def cut_act(token: Token, end: Place) -> ActOf:
    """Give what drops all behind this end of a member."""
    return lambda member, seconds: member.cut(token, end, seconds)


def _release(token: Token) -> ActOf:
    return lambda member, seconds: member.give_back(token, seconds)


def _write_set(token: Token, written: KnownSet, end: Place | None) -> ActOf:
    def write(member: Member, seconds: float) -> Outcome:
        return member.write_set(token, written, seconds, end=end)

    return write
