"""
What keeps a lease whole that an elector has a say in, switched off one by one, in leased worlds.

The elector of these worlds is honest unless its being wrong is the point. Each seed is bent towards
the trouble in which its safeguard matters.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.leases.driver import LeasedDriver
from holdfast.leases.elections import Elections
from holdfast.leases.elector import Reading
from holdfast.leases.state import LeasedState
from trials.leased import model_elector as electors
from trials.leased import plan as plans
from trials.leased.plan import Plan
from trials.leased.simulator import simulate
from trials.safeguards.ablation import Ablation, Patch
from trials.safeguards.leased_stores import judge_by_a_read


def _trust_the_whole_lease() -> list[Patch]:
    def validity(self: LeasedState) -> float:
        return self.renewed_at + self.lease_seconds - self.margin_seconds

    return [(LeasedState, "validity", validity)]


def _believe_an_old_line() -> list[Patch]:
    def has_lost_session(self: Any, holder: str, silent_since: float, short: float) -> bool:
        return holder not in self.line and holder in self._known

    return [(Elections, "has_lost_session", has_lost_session)]


def _count_a_session_from_the_answer() -> list[Patch]:
    note = Elections.note

    def late(self: Elections, reading: Reading, margin_fraction: float) -> None:
        note(self, replace(reading, began=reading.ended), margin_fraction)

    return [(Elections, "note", late)]


def _revive_what_had_ended() -> list[Patch]:
    turn = LeasedDriver.turn

    def revive(self: Any, now: float) -> None:
        state, elections = self._state, self._state.elections
        for reading in self._readings:
            elections.note(reading, state.settings.margin_fraction)
            if state.is_holder:
                state.valid_until = state.validity()
        turn(self, now)

    return [(LeasedDriver, "turn", revive)]


def _wait_for_the_elector() -> list[Patch]:
    return [(Elections, "patience_seconds", lambda *_: float("inf"))]


def _elected(made: Plan, manner: str = electors.HONEST) -> None:
    made.is_fence, made.ending = True, plans.HEALED
    made.brokers = max(made.brokers, 3)
    made.kinds = {plans.PAUSE: 2, plans.CUT_OFF: 2}
    plans.let_elect(made, manner, random.Random(1))  # noqa: S311 - to be repeated
    made.session_seconds = 0.4 * made.lease_seconds


def _stopped(made: Plan) -> None:
    _elected(made)
    made.kinds = {plans.PAUSE: 4}
    made.lengths = (0.65, 0.75, 0.85)


def _slow(made: Plan) -> None:
    _elected(made)
    made.kinds = {plans.PAUSE: 2, plans.ELECTOR_CUT: 2, plans.CUT_OFF: 2}
    made.slow_elector = 0.9


def _cut_off(made: Plan) -> None:
    _elected(made)
    made.kinds = {plans.ELECTOR_CUT: 3, plans.AWAY: 2, plans.CUT_OFF: 2}


def _silent(made: Plan) -> None:
    _elected(made, electors.NOBODY)


def _lying(made: Plan) -> None:
    _elected(made, electors.FICKLE)
    made.late = made.lost_reply = 0.1


def _leased(
    name: str,
    patches: Callable[[], list[Patch]],
    bend: Callable[[Plan], None],
    covered_by: str = "",
) -> Ablation:
    def lived(seed: int) -> str:
        made = plans.plan(seed)
        bend(made)
        return simulate(seed, made).violation

    return Ablation(name, patches, lived=lived, covered_by=covered_by)


ABLATIONS = [
    _leased("unsure of its session a holder ends sooner", _trust_the_whole_lease, _cut_off),
    _leased("a session's end is read after the shorter time", _believe_an_old_line, _cut_off),
    _leased(
        "a session counts from before it was asked for",
        _count_a_session_from_the_answer,
        _slow,
        covered_by=(
            "an answer is given up after a third of a session, and who waits reads the line and"
            " then the lease once more before it takes it: that takes longer than the difference"
        ),
    ),
    _leased(
        "an elector revives no lease that had ended",
        _revive_what_had_ended,
        _stopped,
        covered_by=(
            "whoever was stopped for so long owes a beat at once, and the store tells it that it is"
            " deposed in the time that another one needs to read the log to its end"
        ),
    ),
    _leased("an elector that elects nobody is not waited for", _wait_for_the_elector, _silent),
    _leased("whoever is elected, the fence is a write", judge_by_a_read, _lying),
]
