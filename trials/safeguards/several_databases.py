"""
What keeps a log whole that is in several databases, switched off one by one, in leased worlds.

The rules of who may start and go on are those of mirrored directories, and have ablations of their
own; here is what the databases' log makes of them.
"""

# ruff: noqa: SLF001 - an ablation replaces what is inside; that is what it is for

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from holdfast.errors import StoreError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Outcome, Place, TakeGoesOnError
from holdfast.leases.refusals import Refusals
from holdfast.mirrors.mirror_set import Holding
from holdfast.raidb import copying, levelling
from holdfast.raidb.copying import Copier
from holdfast.raidb.levelling import Levelling, Steps
from holdfast.raidb.majority import MajorityTenure
from holdfast.raidb.member import ActOf, KnownSet, Row, Token
from holdfast.raidb.returning import Returning
from holdfast.raidb.scrubbing import Scrubber
from holdfast.raidb.sight import Sight
from holdfast.raidb.taking import Taking
from holdfast.raidb.tenure import Tenure, cut_act
from trials.leased import plan as plans
from trials.leased.model_databases import ModelDatabase, ModelMember
from trials.leased.model_medium import ModelMedium
from trials.leased.plan import Plan
from trials.leased.simulator import simulate
from trials.mirrors.ablations import _half_to_start
from trials.safeguards.ablation import Ablation, Patch
from trials.safeguards.cloned_databases import (
    believe_any_taker,
    go_by_what_is_left,
    go_by_whoever_is_newest,
    tell_starts_by_number,
)


def _first_confirms() -> list[Patch]:
    def everywhere(
        self: Tenure,
        acts: Mapping[str, ActOf],
        seconds_max: float,
        *,
        may_leave_out: bool = True,
        count: int = 0,
    ) -> Outcome:
        del may_leave_out, count
        self.begun_count += 1
        found = self._databases.run(acts, seconds_max)
        done = [it for it in found.values() if not isinstance(it, StoreError)]
        if not done:
            raise UnreachableError("none")
        if Outcome.DEPOSED in done:
            return Outcome.DEPOSED
        self.proved_count = self.begun_count
        return Outcome.STORED

    return [(Tenure, "_everywhere", everywhere)]


def _leave_out_without_a_word() -> list[Patch]:
    leave_out = Tenure.leave_out

    def forget(self: Tenure, failed: Mapping[str, StoreError], began: float) -> None:
        leave_out(self, failed, began)
        if self.timeout_seconds:
            self.holding.is_standing = True

    def settle(self: Tenure, deadline: float) -> Outcome:
        del deadline
        self.holding.settled()
        return Outcome.STORED

    return [(Tenure, "leave_out", forget), (Tenure, "_settle", settle)]


def _nothing_is_made_alike() -> list[Patch]:
    def make_alike(self: Taking, tenure: Tenure) -> Steps:
        row = self.rows[min(self.start.holds)]
        tenure.end = row.lease.end
        yield from ()

    return [(Taking, "_make_alike", make_alike)]


def _take_over_any_row() -> list[Patch]:
    def seize(self: ModelDatabase, row: Row, token: Token, claimant: Claimant) -> bool:
        del row
        if self.epoch >= token.epoch:
            return False
        self.epoch, self.claimant, self.is_released = token.epoch, claimant, False
        self.beat += 1
        return True

    return [(ModelDatabase, "seize", seize)]


def _compare_by_length() -> list[Patch]:
    def common_end(self: Copier, row: Row, source: Row) -> Place | None:
        index = min(row.lease.end.index, source.lease.end.index)
        return Place(index, self.chain_at(row, index) or bytes(16))

    return [(Copier, "common_end", common_end)]


def _write_late() -> list[Patch]:
    def write_set(self: ModelDatabase, row: Row, token: Token, written: KnownSet) -> None:
        del row
        if self.is_held_by(token.epoch, token.holder):
            self.written = written
            self.beat += 1

    return [(ModelDatabase, "write_set", write_set)]


def _take_back_at_once() -> list[Patch]:
    take = Returning._take

    def take_at_once(self: Returning, row: Row, seconds_max: float) -> Any:
        self._read, self._read_at = row, -1
        return take(self, row, seconds_max)

    return [(Returning, "_take", take_at_once)]


def _believe_rows_of_two_sets() -> list[Patch]:
    return [(Sight, "is_of_one_set", lambda *_arguments: True)]


def _one_is_most() -> list[Patch]:
    def is_enough(
        self: MajorityTenure, call: Any, entries: list[Entry], stored: Iterable[str] = ()
    ) -> bool:
        del entries
        return bool(call.answered or set(stored)) and any(
            it.is_empty or (name in set(stored) and it.is_storing and not it.is_behind)
            for name, it in self.backlogs.items()
        )

    return [(MajorityTenure, "_is_enough", is_enough)]


def _keep_who_lacks() -> list[Patch]:
    return [(MajorityTenure, "_is_level", lambda *_arguments: True)]


def _drop_what_one_lacks() -> list[Patch]:
    return [(MajorityTenure, "droppable", lambda _self, index: index)]


def _old_signs_of_life() -> list[Patch]:
    heard = MajorityTenure._heard

    def heard_any(self: MajorityTenure, call: Any, member: str, outcome: Any) -> None:
        self.backlogs[member].call = call.number
        heard(self, call, member, outcome)

    return [(MajorityTenure, "_heard", heard_any)]


def _read_nothing_over() -> list[Patch]:
    return [(Scrubber, "step", lambda *_arguments: 0)]


def _never_cut() -> list[Patch]:
    def cut(self: Levelling, failed: Mapping[str, StoreError]) -> Steps:
        del self, failed
        yield from ()
        return False

    return [(Levelling, "_cut_what_was_in_flight", cut)]


def _cut_to_the_shortest() -> list[Patch]:
    def cut(self: Levelling, failed: Mapping[str, StoreError]) -> Steps:
        del failed
        for member in sorted(self._rows):
            yield from self._take_anew(member)
        target = min(self._ends.values(), key=lambda it: it.index)
        for member in sorted(self._rows):
            act = cut_act(self._tenure.tokens[member], target)
            yield from self._ask(member, act, self._left())
        self._tenure.end = target
        return True

    return [(Levelling, "_cut_what_was_in_flight", cut)]


def _cut_under_the_same_token() -> list[Patch]:
    def look(self: Levelling, member: str) -> Steps:
        yield from self._look_again(member)

    return [(Levelling, "_take_anew", look)]


def _take_in_one_call() -> list[Patch]:
    go_on = Taking.go_on

    def once(self: Taking, deadline: float) -> Tenure | None:
        try:
            return go_on(self, deadline)
        except TakeGoesOnError:
            raise UnreachableError("there was no time for all of it") from None

    return [(Taking, "go_on", once)]


def _copy_no_longer_than_usual() -> list[Patch]:
    def give_up(self: Levelling, failed: Mapping[str, StoreError]) -> Steps:
        del self, failed
        yield from ()
        raise UnreachableError("there was no time for all of it")

    return [(Levelling, "_lengthen_the_needed", give_up)]


def _copy_in_silence() -> list[Patch]:
    return [(Levelling, "_beats", lambda _self, _member: {})]


def _give_nothing_up() -> list[Patch]:
    return [(Refusals, "may_give_up", lambda _self, _count: False)]


def _wait_for_who_refuses() -> list[Patch]:
    def may_go_on_without(self: Holding, members: Iterable[str]) -> bool:
        del self, members
        return True

    return [(Holding, "may_go_on_without", may_go_on_without)]


def _ask_whoever_is_there() -> list[Patch]:
    def reaching(
        self: ModelMember, member: str, token: Token | None = None
    ) -> AbstractContextManager[None]:
        del self, member, token
        return nullcontext()

    return [(ModelMember, "reaching", reaching)]


def _copy_and_store_behind_anything() -> list[Patch]:
    stored = ModelMedium.append

    def append(
        self: ModelDatabase,
        epoch: int,
        holder: str,
        entries: list[Entry],
        before: Place | None = None,
    ) -> Outcome:
        del before
        return stored(self, epoch, holder, entries)

    copied = [(it, "require_unbroken", lambda *_arguments: None) for it in (copying, levelling)]
    return [(ModelMedium, "append", append), *copied]


def _several(made: Plan) -> None:
    made.databases = max(made.databases, 3)
    made.lost_request = made.lost_reply = made.late = 0.03
    made.kinds = {plans.DATABASE_AWAY: 4, plans.DATABASE_CUT: 4, plans.KILL: 3, plans.CUT_OFF: 2}


def _short(made: Plan) -> None:
    _several(made)
    made.lost_request = made.lost_reply = made.late = 0.0
    made.kinds = {plans.DATABASE_AWAY: 8, plans.KILL: 3}


def _two(made: Plan) -> None:
    _several(made)
    made.databases = 2


def _paused(made: Plan) -> None:
    _several(made)
    made.kinds |= {plans.PAUSE: 3, plans.CALL: 5}


def _rotting(made: Plan) -> None:
    _several(made)
    made.lost_request = made.lost_reply = made.late = made.slow_reply = made.clean = 0.0
    made.kinds = {plans.DATABASE_ROT: 6, plans.KILL: 2, plans.CLEAN_STOP: 1}


def _astray(made: Plan) -> None:
    _rotting(made)
    made.kinds = {plans.DATABASE_ASTRAY: 6, plans.DATABASE_ROT: 4}
    made.pause_seconds, made.lengths, made.chaos_seconds = (0.2, 1.0), (1.0,), 20.0
    made.propose_seconds = 0.4  # All that is kept is read over before the end.


def _copied(made: Plan) -> None:
    """Second ways lead to copies while one database lags, or comes back."""
    _several(made)
    made.lost_request = made.lost_reply = made.late = 0.0
    made.kinds = {plans.DATABASE_COPIED: 8, plans.DATABASE_AWAY: 5, plans.KILL: 4}


def _cloned(made: Plan) -> None:
    _several(made)
    made.lost_request = made.lost_reply = made.late = 0.0
    made.kinds = {plans.DATABASE_CLONED: 6, plans.KILL: 3, plans.DATABASE_AWAY: 1}


def _majority(made: Plan) -> None:
    _several(made)
    made.is_by_majority = True


def _large(made: Plan) -> None:
    _several(made)
    made.lost_request = made.lost_reply = made.late = 0.0
    made.kinds = {plans.DATABASE_AWAY: 1, plans.KILL: 1}
    plans.with_large(made)


def _left(made: Plan) -> None:
    """What matters is how the world ends: with a large entry under way, and slow ways."""
    _large(made)
    made.databases, made.chaos_seconds, made.slow_bytes_per_second = 3, 3.0, 12_000
    made.lost_request = made.lost_reply = made.late = made.slow_reply = 0.0


def _late(made: Plan) -> None:
    _several(made)
    made.lost_request = made.lost_reply = 0.0
    made.late, made.late_seconds = 0.2, 6 * made.lease_seconds
    made.kinds = {plans.KILL: 6, plans.DATABASE_CUT: 1}


def _large_by_majority(made: Plan) -> None:
    _large(made)
    made.is_by_majority = True
    made.kinds = {plans.DATABASE_AWAY: 6, plans.KILL: 4, plans.DATABASE_FULL: 4}


def _ablation(
    name: str,
    patches: Callable[[], list[Patch]],
    bend: Callable[[Plan], None] = _several,
    covered_by: str = "",
) -> Ablation:
    def lived(seed: int) -> str:
        made = plans.plan_of_several(seed)
        bend(made)
        return simulate(seed, made).violation

    return Ablation(name, patches, lived=lived, covered_by=covered_by)


ABLATIONS = [
    _ablation("what is asked of a database is asked of its id", _ask_whoever_is_there, _astray),
    _ablation(
        "what is copied follows on what is there by chain",
        _copy_and_store_behind_anything,
        _copied,
        covered_by=(
            "no seed was seen to notice: a way that leads to a copy is mostly found"
            " out by its epoch and end before it is read; unit tests of such addresses notice"
        ),
    ),
    _ablation("a copy that others went on with is not gone by", go_by_whoever_is_newest, _cloned),
    _ablation("two starts of one number are told apart", tell_starts_by_number, _cloned),
    _ablation(
        "a holder is not deposed by who took a copy",
        believe_any_taker,
        _cloned,
        covered_by=(
            "a holder that is deposed takes the lease anew with the others, which costs a moment"
            " and no message; a unit test has it go on"
        ),
    ),
    _ablation(
        "what lacks what is final is waited out",
        go_by_what_is_left,
        _cloned,
        covered_by=(
            "all that is reached has to have been left out, and one of it to lead to a copy that"
            " says otherwise: one world of several hundred has that; a unit test makes it"
        ),
    ),
    _ablation("what is stored is in all databases that count", _first_confirms),
    _ablation(
        "who is left out is written before anything is stored", _leave_out_without_a_word, _short
    ),
    _ablation("more than half of the databases are needed to start", _half_to_start, _two),
    _ablation("what was in flight is copied to all before anybody serves", _nothing_is_made_alike),
    _ablation(
        "a database is taken only as it was read",
        _take_over_any_row,
        _paused,
        covered_by=(
            "whoever takes it has waited for a whole lease without a beat, and of two that did the"
            " epoch lets one through; it is for a holder whose clock is wrong"
        ),
    ),
    _ablation("what two databases share is told by chain values", _compare_by_length),
    _ablation(
        "a set that arrives late is not written",
        _write_late,
        covered_by=(
            "one that is left out is taken back under another token, so that only a set of the same"
            " holder can be written over, and that by one a moment older"
        ),
    ),
    _ablation(
        "a database is taken back only under a lease that is good",
        _take_back_at_once,
        _paused,
        covered_by=(
            "a database that another one has taken and counts on has been written since it was"
            " read, unless that one has done nothing at all yet"
        ),
    ),
    _ablation(
        "what is read is of one set",
        _believe_rows_of_two_sets,
        _paused,
        covered_by=(
            "the end is that of the longest log that is read: it needs one that was left out and"
            " came back between two rows of one look, and the others not to have what it has"
        ),
    ),
    _ablation("what nobody can have confirmed is cut where it has no room", _never_cut, _large),
    _ablation(
        "what more than half may have is never cut", _cut_to_the_shortest, _large_by_majority
    ),
    _ablation(
        "what is cut off does not come late",
        _cut_under_the_same_token,
        _late,
        covered_by=(
            "a copy that was given up has to arrive after the cut and before the next entry is"
            " stored there, which is milliseconds later here; a unit test lets it"
        ),
    ),
    _ablation("what so many refuse is refused to its sender", _wait_for_who_refuses, _large),
    _ablation("what cannot be stored is given up", _give_nothing_up, _left),
    _ablation(
        "who is needed is copied to for as long as it takes", _copy_no_longer_than_usual, _left
    ),
    _ablation("signs of life are given while it is copied", _copy_in_silence, _left),
    _ablation("a take goes on over several calls", _take_in_one_call, _left),
    _ablation("what rots in one is mended from another", _read_nothing_over, _rotting),
    _ablation("by majority, what is stored is in most databases", _one_is_most, _majority),
    _ablation(
        "who is kept has all that was ever sent",
        _keep_who_lacks,
        _majority,
        covered_by=(
            "one that lacks something has failed for longer than one that fails after it, so it is"
            " left out first, or nobody is: it takes an operator who disables the others in that"
            " moment, and the end of the holder"
        ),
    ),
    _ablation(
        "nothing is dropped that a database lacks",
        _drop_what_one_lacks,
        _majority,
        covered_by=(
            "whoever takes over leaves such a database out, and fills it anew; that nobody could"
            " take over with it and one more is over here once all is healed"
        ),
    ),
    _ablation(
        "a sign of life was begun after it was asked for",
        _old_signs_of_life,
        _majority,
        covered_by=(
            "it takes one of three that answers late, another that falls silent in the next call,"
            " the first one in the call after, and a taker that reaches just those two: a unit test"
            " lets it"
        ),
    ),
]
