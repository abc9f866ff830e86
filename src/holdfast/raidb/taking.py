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
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from holdfast.errors import (
    CorruptEntryError,
    MirrorHistoriesError,
    StoreError,
    UnreachableError,
)
from holdfast.leases.contract import Claimant, Outcome
from holdfast.mirrors.mirror_set import Holding, Number, Start
from holdfast.raidb.copying import Copier
from holdfast.raidb.databases import ActOf, Databases
from holdfast.raidb.majority import MajorityTenure
from holdfast.raidb.member import Member, Row, Token
from holdfast.raidb.rates import Rates
from holdfast.raidb.settings import RaidbSettings
from holdfast.raidb.tenure import Tenure

GIVE_BACK_SECONDS = 0.5
COPYING_SHARE = 0.5
"""Of the time there is, for what one member lacks: one that lacks more is filled while the others
serve, and where too few would be left the next take goes on from there."""


@dataclass(slots=True)
class Taking:
    """One attempt; `run` makes it."""

    databases: Databases
    settings: RaidbSettings
    clock: Callable[[], float]
    start: Start
    rows: Mapping[str, Row]
    claimant: Claimant
    epoch: int
    """Above all that were promised or seen."""

    deadline: float
    rates: Rates
    refused_by: str = ""
    """The member that could be read, and could not be taken."""

    def run(self) -> Tenure | None:
        """
        Take the lease; None if somebody else was first.

        Raises:
            UnreachableError: It is not known whether it was taken everywhere; it is given back
                where it can be.
            MirrorHistoriesError: Two active members have different logs.
        """
        tenure = self._tenure()
        taken: list[str] = []
        try:
            for member in sorted(self.start.witnesses):
                taken.append(member)
                if not self._seize(member, tenure.tokens[member]):
                    taken.pop()
                    tenure.release(taken, GIVE_BACK_SECONDS)
                    return None
            self._make_alike(tenure)
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

    def _seize(self, member: str, token: Token) -> bool:
        try:
            act = _take(self.rows[member], token, self.claimant)
            return bool(self.databases.ask(member, act, self._left()))
        except StoreError:
            self.refused_by = member
            raise

    def _tenure(self) -> Tenure:
        holder = self.claimant.holder
        begun = replace(self.start.begin(), number=Number(self.epoch, 1), promised=self.epoch)
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

    def _make_alike(self, tenure: Tenure) -> None:
        """Copy the longest log to the others; those that fail are left out."""
        rows = {it: self.rows[it] for it in sorted(self.start.holds)}
        longest = max(rows.values(), key=lambda it: it.lease.end.index)
        tenure.end = longest.lease.end
        failed: dict[str, StoreError] = {}
        for member, row in rows.items():
            try:
                self._lengthen(row, longest, tenure.tokens[member])
            except CorruptEntryError as error:
                if not self._is_lengthened_by_others(row, rows, tenure):
                    failed[member] = error
            except MirrorHistoriesError:
                raise
            except StoreError as error:
                failed[member] = error
        if failed:
            tenure.leave_out(failed, self.clock())

    def _lengthen(self, row: Row, longest: Row, token: Token) -> None:
        end, chain = row.lease.end.index, row.lease.end.chain
        copier = Copier(self.databases, self._left())
        there = copier.chain_at(longest, end)
        if there is None:
            raise UnreachableError(f"entry {end:,} was cleaned away elsewhere")
        if there != chain:
            name = self.databases.name
            raise MirrorHistoriesError(
                name(longest.member), name(row.member), f"entry {end:,} is another one"
            )
        until = self.clock() + self._left() * COPYING_SHARE
        through = longest.lease.end.index
        left = partial(self._left_until, until)
        copier.require(copier.copy(longest.member, row.member, token, end, through, left))

    def _is_lengthened_by_others(self, row: Row, rows: Mapping[str, Row], tenure: Tenure) -> bool:
        """Where a row of the longest is rotten: whether one as long has it whole."""
        token = tenure.tokens[row.member]
        for other in rows.values():
            if other.lease.end != tenure.end:
                continue
            now: Row = self.databases.ask(row.member, lambda it, left: it.read(left), self._left())
            with suppress(CorruptEntryError):
                self._lengthen(now, other, token)
                return True
        return False

    def _left(self) -> float:
        """
        How long the next call may take.

        Raises:
            UnreachableError: No time is left.
        """
        return self._left_until(self.deadline)

    def _left_until(self, deadline: float) -> float:
        left = deadline - self.clock()
        if left <= 0:
            raise UnreachableError("there was no time for all of it")
        return left


def _take(row: Row, token: Token, claimant: Claimant) -> ActOf:
    def take(member: Member, seconds: float) -> bool:
        return member.seize(row, token, claimant, seconds)

    return take
