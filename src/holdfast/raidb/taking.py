"""
Taking the lease in several databases, one after the other, and making them alike before anything.

A take is a promise first: the epoch in a member's lease row says that no start below it is served
any more. Members are taken in the order of their ids, so that of two that take the same the first
one meets no rival further on. Then the longest log is copied to the others: what was in flight when
the last holder ended is in some of them. Only then the set is written, of that start, and the lease
is held once it stands.

Invariants:
    The rows that were judged are those that are taken: each take is bound to what was read.
    The set that a start writes names only members that have all that any of them has.
    What is not won is given back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from holdfast.errors import (
    MirrorHistoriesError,
    StoreError,
    UnreachableError,
)
from holdfast.leases.contract import Claimant, Outcome, TakeGoesOnError
from holdfast.mirrors.mirror_set import Holding, Number, Start
from holdfast.raidb.databases import Databases
from holdfast.raidb.levelling import Levelling, Steps
from holdfast.raidb.majority import MajorityTenure
from holdfast.raidb.member import ActOf, Member, Row, Token
from holdfast.raidb.rates import Rates
from holdfast.raidb.settings import RaidbSettings
from holdfast.raidb.tenure import Tenure

GIVE_BACK_SECONDS = 0.5
_COPYING_SHARE = 0.4
"""Of a call: where so much of it is over the set is written in the next one."""


@dataclass(slots=True)
class Taking:
    """One attempt; `go_on` makes it, in one call or in several."""

    databases: Databases
    settings: RaidbSettings
    clock: Callable[[], float]
    start: Start
    rows: Mapping[str, Row]
    claimant: Claimant
    epoch: int
    """Above all that were promised or seen."""

    rates: Rates
    deadline: float = 0.0
    """Of the present call."""

    _began_at: float = 0.0
    refused_by: str = ""
    """The member that could be read, and could not be taken."""

    _steps: Steps | None = None
    _levelling: Levelling | None = None

    def go_on(self, deadline: float) -> Tenure | None:
        """
        Take the lease, or go on with what was begun; None if somebody else was first.

        Raises:
            TakeGoesOnError: The members are ours, and more time is needed to make them alike.
            UnreachableError: It is not known whether it was taken everywhere; it is given back
                where it can be.
            MirrorHistoriesError: Two active members have different logs.
        """
        self.deadline, self._began_at = deadline, self.clock()
        if self._levelling is not None:
            self._levelling.begin_call(deadline)
        if self._steps is None:
            self._steps = self._run()
        try:
            next(self._steps)
        except StopIteration as end:
            tenure: Tenure | None = end.value
            return tenure
        raise TakeGoesOnError(self._told_of_all())

    def _told_of_all(self) -> str:
        """What is still to be done before the lease is held."""
        names = self.databases.name
        each = [f"{names(it)} {told}" for it in sorted(self.start.holds) if (told := self.told(it))]
        how = f": {'; '.join(each)}" if each else ""
        return f"the lease is being taken, and the databases are made alike for that{how}"

    def told(self, member: str) -> str:
        """What is to be told of a member while it is made alike; asked by any thread."""
        levelling = self._levelling
        return "" if levelling is None else levelling.told(member)

    def _run(self) -> Steps:
        """All of it; where it yields the time of one call is over."""
        tenure = self._tenure()
        taken: list[str] = []
        try:
            for member in sorted(self.start.witnesses):
                taken.append(member)
                if not self._seize(member, tenure.tokens[member]):
                    taken.pop()
                    tenure.release(taken, GIVE_BACK_SECONDS)
                    return None
            yield from self._make_alike(tenure)
            if tenure.stand(self.deadline) is Outcome.DEPOSED:
                tenure.release(taken, GIVE_BACK_SECONDS)
                return None
        except MirrorHistoriesError:
            tenure.release(taken, GIVE_BACK_SECONDS)
            raise
        except StoreError as error:
            tenure.release(taken, GIVE_BACK_SECONDS)
            raise UnreachableError(f"the lease was not taken everywhere: {error}") from error
        tenure.timeout_seconds = self.settings.member_timeout_seconds
        return tenure

    def _make_alike(self, tenure: Tenure) -> Steps:
        """Let all active members have what any of them has, or leave them out."""
        self._levelling = Levelling(
            self.databases,
            self.clock,
            self.rates,
            tenure=tenure,
            rows={it: self.rows[it] for it in self.start.holds},
            newest=self.start.newest,
        )
        self._levelling.begin_call(self.deadline)
        yield from self._levelling.steps()
        seconds = self.deadline - self._began_at
        if self.clock() - self._began_at > _COPYING_SHARE * seconds:
            yield  # The lease is held from the beginning of the call in which the set is written.

    def _seize(self, member: str, token: Token) -> bool:
        try:
            self.databases.histories.take(token.holder, token.epoch)
            act = _take(self.rows[member], token, self.claimant)
            return bool(self.databases.ask(member, act, self._left()))
        except StoreError:
            self.refused_by = member
            raise

    def _tenure(self) -> Tenure:
        holder = self.claimant.holder
        begun = replace(
            self.start.begin(),
            number=Number(self.epoch, 1),
            promised=self.epoch,
            begun_by=holder,
        )
        tenure_type = MajorityTenure if self.settings.confirm == "majority" else Tenure
        return tenure_type(
            self.databases,
            self.settings,
            self.clock,
            claimant=self.claimant,
            epoch=self.epoch,
            tokens={it: Token(self.epoch, holder, it) for it in self.start.witnesses},
            holding=Holding(begun),
            rates=self.rates,
        )

    def _left(self) -> float:
        """
        How long the next call may take.

        Raises:
            UnreachableError: No time is left.
        """
        left = self.deadline - self.clock()
        if left <= 0:
            raise UnreachableError("there was no time for all of it")
        return left


def _take(row: Row, token: Token, claimant: Claimant) -> ActOf:
    def take(member: Member, seconds: float) -> bool:
        return member.seize(row, token, claimant, seconds)

    return take
