"""
What keeps a log that several brokers reach whole, switched off one by one, in leased worlds.

Some of it is the medium's, as a database has to judge an append; most is the driver's. Each seed is
bent towards the trouble in which its safeguard matters.
"""

# ruff: noqa: SLF001 - an ablation replaces what is inside; that is what it is for

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.environment.randomness import Randomness
from holdfast.journal.entry import Entry
from holdfast.leases import catching_up, ordering, outages, tenure
from holdfast.leases.contract import Claimant, Holding, Outcome, Place
from holdfast.leases.driver import LeasedDriver
from holdfast.leases.namesakes import Namesakes
from holdfast.leases.orders import Report, Store
from holdfast.leases.projection import Changes
from holdfast.leases.seen import SeenFile
from holdfast.leases.silence import Silence
from holdfast.leases.state import ALWAYS, LeasedState, Phase
from holdfast.leases.view import LeasedView
from trials.leased import plan as plans
from trials.leased.model_log import ModelLog
from trials.leased.model_medium import ModelMedium
from trials.leased.plan import Plan
from trials.leased.simulated_broker import SimulatedBroker
from trials.leased.simulator import simulate
from trials.safeguards.ablation import Ablation, Patch


def _put(medium: ModelMedium, index: int, entry: Entry) -> None:
    medium.rows[index] = entry.raw
    medium.history[index] = entry.chain
    if index > medium.end.index:
        medium.end = Place(index, entry.chain)
    medium.beat += 1


def judge_by_a_read() -> list[Patch]:
    """Let the medium look whether an append may be stored, and then store it in any case."""

    def append(self: ModelLog, entries: list[Entry], seconds_max: float) -> Outcome:
        epoch, holder, medium = self._epoch, self._holder, self.medium

        def write() -> None:
            for entry in entries:
                _put(medium, entry.index, entry)

        if not self._ask("append", seconds_max, lambda: medium.is_held_by(epoch, holder)):
            return Outcome.DEPOSED
        self._ask("append", seconds_max, write)
        return Outcome.STORED

    return [(ModelLog, "append", append)]


def _store_whatever_there_is_room_for() -> list[Patch]:
    """Let a broker without room for its cache store on, as if that was nothing to the log."""
    return [(LeasedState, "may_store", property(lambda it: bool(it.pending)))]


def _append_behind_whatever_is_there() -> list[Patch]:
    def append(
        self: ModelMedium,
        epoch: int,
        holder: str,
        entries: list[Entry],
        before: Place | None = None,
    ) -> Outcome:
        del before
        if not self.is_held_by(epoch, holder):
            return Outcome.DEPOSED
        for entry in entries:
            _put(self, self.end.index + 1, entry)
        return Outcome.STORED

    return [(ModelMedium, "append", append)]


def _take_over_any_beat() -> list[Patch]:
    take = ModelMedium.take

    def take_any(self: ModelMedium, seen: Holding, claimant: Claimant) -> Holding | None:
        return take(self, replace(seen, beat=self.beat), claimant)

    return [(ModelMedium, "take", take_any)]


def _confirm_past_the_lease() -> list[Patch]:
    kept = LeasedDriver._are_stored

    def are_stored(self: Any, report: Report) -> None:
        state = self._state
        until, state.valid_until = state.valid_until, ALWAYS
        kept(self, report)
        if state.is_holder:
            state.valid_until = until

    return [(LeasedDriver, "_are_stored", are_stored)]


def _count_from_the_reply() -> list[Patch]:
    renewed, taken = tenure.renewed, tenure.taken

    def late(report: Report) -> Report:
        return replace(report, began=report.ended, seconds=0.0)

    return [
        (tenure, "renewed", lambda state, report: renewed(state, late(report))),
        (tenure, "taken", lambda state, report: taken(state, late(report))),
    ]


def _believe_any_renewal() -> list[Patch]:
    renewed = tenure.renewed

    def believe(state: LeasedState, report: Report) -> None:
        is_fence, state.is_fence = state.is_fence, True
        renewed(state, report)
        state.is_fence = is_fence

    return [(tenure, "renewed", believe)]


def _count_through_beats() -> list[Patch]:
    def note(self: Silence, holding: Holding, began: float, ended: float) -> float:
        if self._beat is None or self._beat[0] != holding.epoch:
            self._beat, self._since = (holding.epoch, holding.beat), ended
        return max(began - self._since, 0.0)

    return [(Silence, "note", note)]


def _forget_what_is_not_known() -> list[Patch]:
    put_off = outages.put_off

    def forget(state: LeasedState, report: Report, error: Any, randomness: Randomness) -> None:
        put_off(state, report, error, randomness)
        if isinstance(report.order, Store):
            tenure._forget_unstored(state)

    return [(outages, "put_off", forget)]


def _keep_any_cache() -> list[Patch]:
    return [(catching_up, "_begin_anew", lambda *_arguments: None)]


def _dispatch_while_giving_back() -> list[Patch]:
    def is_sure_for(self: Any, seconds: float) -> bool:
        state = self._state
        return state.phase is Phase.HOLDING and self._clock() < state.valid_until - seconds

    return [(LeasedView, "_is_sure_for", is_sure_for)]


def _stand_still_with_the_machine() -> list[Patch]:
    def lease_clock(self: SimulatedBroker) -> float:
        return self.clock.monotonic() - self.slept_seconds * self.rate

    return [(SimulatedBroker, "lease_clock", lease_clock)]


def _forget_what_was_seen() -> list[Patch]:
    return [(SeenFile, "judge", lambda *_arguments: None)]


def _note_what_a_zombie_wrote() -> list[Patch]:
    def store(state: LeasedState, seconds: float) -> Store:
        return Store(state.in_flight, seconds)

    return [(ordering, "_store", store)]


def _wait_for_ones_own_lease() -> list[Patch]:
    own = property(lambda self: self.lease_seconds)
    return [(LeasedState, "holders_lease_seconds", own)]


def _show_what_a_zombie_tells() -> list[Patch]:
    def project(
        self: ModelMedium, epoch: int, _holder: str, _end: Place, changes: Changes
    ) -> Outcome:
        self.shown.append((epoch, changes))
        return Outcome.STORED

    return [(ModelMedium, "project", project)]


def _let_namesakes_in() -> list[Patch]:
    return [
        (Namesakes, "judge", lambda *_arguments: None),
        (Namesakes, "meet", lambda *_arguments: None),
    ]


def _look_for_namesakes_once() -> list[Patch]:
    return [(Namesakes, "meet", lambda *_arguments: None)]


def _database(made: Plan) -> None:
    made.is_fence, made.ending = True, plans.HEALED


def _directory(made: Plan) -> None:
    made.is_fence, made.ending = False, plans.HEALED
    made.stale = 0.7
    made.kinds = {plans.CALL: 4}


def _zombies(made: Plan) -> None:
    _directory(made)
    made.propose_seconds = made.lease_seconds


def _late_beats(made: Plan) -> None:
    _directory(made)
    made.lost_request = 0.3
    made.propose_seconds = made.lease_seconds


def _paused(made: Plan) -> None:
    _database(made)
    made.kinds = {plans.PAUSE: 4}


def _unlike(made: Plan) -> None:
    _database(made)
    made.lease_ratios = (0.4, 2.0)
    made.propose_seconds = 2 * made.lease_seconds


def _late(made: Plan) -> None:
    _database(made)
    made.late = made.lost_reply = 0.1


def _slow(made: Plan) -> None:
    _database(made)
    made.slow_reply, made.slow_kinds = 0.5, ("append", "renew")
    made.kinds = {plans.CUT_OFF: 4}


def _shown(made: Plan) -> None:
    _late(made)
    made.is_shown = True


def _handed_over(made: Plan) -> None:
    _late(made)
    made.brokers = max(made.brokers, 3)
    made.kinds = {plans.TRANSFER: 5}


def _cleaned(made: Plan) -> None:
    _database(made)
    made.clean = 0.2
    made.kinds = {plans.LONG_AWAY: 2, plans.WIPE: 2}


def _without_room(made: Plan) -> None:
    _database(made)
    made.kinds = {plans.CACHE_FULL: 4, plans.KILL: 1}
    made.propose_seconds = 0.03


def _raise_before_it_is_asked() -> list[Patch]:
    def level(self: LeasedView) -> int:
        others = self._state.waiters.values()
        return min([self._known_level, *(it.known_level for it in others)])

    return [(LeasedView, "format_level_of_all", property(level))]


def _restarted(made: Plan) -> None:
    _database(made)
    made.kinds = {plans.CLEAN_STOP: 4, plans.PAUSE: 4, plans.KILL: 2}


def _named(made: Plan) -> None:
    _database(made)
    made.kinds = {}
    plans.judge_names(made, random.Random(int(100 * made.chaos_seconds)))  # noqa: S311 - to be repeated


def _restored(made: Plan) -> None:
    _database(made)
    made.ending = plans.RESTORED


def _leased(
    name: str,
    patches: Callable[[], list[Patch]],
    bend: Callable[[Plan], None],
    covered_by: str = "",
) -> Ablation:
    def lived(seed: int) -> str:
        made = plans.plan(seed)
        plans.without_elector(made)
        bend(made)
        return simulate(seed, made).violation

    return Ablation(name, patches, lived=lived, covered_by=covered_by)


ABLATIONS = [
    _leased("the fence is a write, not a read", judge_by_a_read, _late),
    _leased("an append is stored only behind its own end", _append_behind_whatever_is_there, _late),
    _leased(
        "a lease is taken only by the beat that was seen",
        _take_over_any_beat,
        _late,
        covered_by=(
            "a holder that gave no beat for a lease has ended it by its own clock, and what it"
            " takes again is another epoch; the beat is for one whose clock is wrong"
        ),
    ),
    _leased("without a fence nothing is confirmed late", _confirm_past_the_lease, _directory),
    _leased(
        "without a fence no renewal counts late",
        _believe_any_renewal,
        _late_beats,
        covered_by=(
            "whoever goes on after it was stopped has stepped down, unless its loop runs later than"
            " its worker, a look shows an old claim, and the beat before was late as well"
        ),
    ),
    _leased("a zombie's entry is not taken for final", _note_what_a_zombie_wrote, _zombies),
    _leased("a lease counts from before it was asked for", _count_from_the_reply, _slow),
    _leased("a beat starts the waiting anew", _count_through_beats, _database),
    _leased("a holder is waited for as long as it says", _wait_for_ones_own_lease, _unlike),
    _leased("what is not known is sent again", _forget_what_is_not_known, _late),
    _leased("a cache of another past begins anew", _keep_any_cache, _cleaned),
    _leased("nothing is dispatched while giving back", _dispatch_while_giving_back, _handed_over),
    _leased("the lease clock goes on in a suspend", _stand_still_with_the_machine, _paused),
    _leased("a log that went back is refused", _forget_what_was_seen, _restored),
    _leased("who waits is heard before the level is raised", _raise_before_it_is_asked, _restarted),
    _leased("what is shown is written under the lease", _show_what_a_zombie_tells, _shown),
    _leased("a broker of a living one's name is refused", _let_namesakes_in, _named),
    _leased(
        "without room nothing is stored in the end",
        _store_whatever_there_is_room_for,
        _without_room,
    ),
    _leased("of two that start at once one ends", _look_for_namesakes_once, _named),
]
