"""
Forced promotions of a copy that lags, in every topology, with the old generation against them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from trials.ablations import ABLATIONS
from trials.safeguards.ablation import made_for, without
from trials.simulation.faults import TOPOLOGIES, focused
from trials.simulation.generations import BEGUN, GIVEN_UP, LAGGED, UNDONE
from trials.simulation.history import History
from trials.simulation.late_consumer import LATE
from trials.simulation.simulator import simulate
from trials.troubles.forced_promotions import (
    AWAKE,
    CUT_SHORT,
    DEPOSED,
    HALF_FILLED,
    RETURNED,
)

SEEDS = range(216, 246)
SEEDS_MIN = 1
"""So many are lived through, and more where something did not happen in them."""
BY_NAME = {ablation.name: ablation for ablation in ABLATIONS}


@pytest.mark.slow
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_copy_that_lags_goes_on_alone(topology: str) -> None:
    """
    What it lacks is lost and told so; all else holds, whoever and whatever comes back.

    A replica that is left, one of a pair, or a learner far away: confirmed messages are given up,
    acknowledgements undone, members of the old generation return or wake, and late words come.
    """
    wanted = [{it} for it in (BEGUN, LAGGED, GIVEN_UP, UNDONE, LATE, RETURNED)]
    if topology not in {"one", "two"}:
        wanted.append({AWAKE, CUT_SHORT})
    found: Counter[str] = Counter()
    for count, seed in enumerate(SEEDS):
        if count >= SEEDS_MIN and all(kinds & found.keys() for kinds in wanted):
            break
        result = simulate(seed, focused(seed, [LAGGED], topology=topology))
        assert "" == result.violation, f"seed {seed}"
        found += result.faults

    assert [kinds for kinds in wanted if not kinds & found.keys()] == []


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["three", "learner"])
def test_a_half_filled_copy_is_not_promoted_and_its_old_log_is(topology: str) -> None:
    """
    Too far behind, it began its log anew, and all others died before that was full.

    The promotion is refused, the old log is taken back, and all that it had is there.
    """
    found: Counter[str] = Counter()
    for seed in range(1, 5):
        if found[HALF_FILLED] and found[LAGGED]:
            break
        result = simulate(seed, focused(seed, [HALF_FILLED], topology=topology))
        assert "" == result.violation, f"seed {seed}"
        found += result.faults

    assert found[HALF_FILLED]
    assert found[LAGGED]


@pytest.mark.slow
def test_what_a_deposed_leader_gave_in_vain_has_ids_of_its_own() -> None:
    """
    Forced to go on, it brings messages to life whose numbers others gave to confirmed ones.
    """
    ablation = BY_NAME["a leader has numbers of its own"]
    found = []
    for seed in (45, 92, 104):
        with without(ablation):
            found.append(simulate(seed, made_for(ablation, seed)).violation)
        result = simulate(seed, made_for(ablation, seed))
        assert "" == result.violation, f"seed {seed}"
        assert result.faults[DEPOSED]

    assert any("came under one message id" in violation for violation in found)


@pytest.mark.slow
def test_a_late_acknowledgement_settles_nothing_of_a_later_generation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    With numbers that are used again a confirmed message would be gone that nobody was given.

    The order and the ids are not looked at here: they would tell earlier.
    """
    deliver = History.deliver

    def deliver_whatever_the_id(self: History, message_id: bytes, *rest: object, **kind: object):
        self.is_order_known = False
        known = self.delivered.get(message_id)
        token = rest[0].split(b" ", 1)[0].decode()
        if known is not None and known[2] != token:
            del self.delivered[message_id]
            self.settled_at.pop(message_id, None)
        return deliver(self, message_id, *rest, **kind)

    monkeypatch.setattr(History, "deliver", deliver_whatever_the_id)
    ablation = BY_NAME["a generation has numbers of its own"]
    with without(ablation):
        found = (simulate(seed, made_for(ablation, seed)).violation for seed in range(13, 21))

        assert any("was settled by nobody who had it" in violation for violation in found)
