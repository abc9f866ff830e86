"""
A copy that is promoted by force loses power before that is on its disk.
"""

from __future__ import annotations

import pytest

from holdfast.replication import formation
from holdfast.replication.driver import Driver
from holdfast.replication.formation import Refusal
from holdfast.replication.messages import Hello
from tests.simulation.worlds import first_broken, first_with
from trials.safeguards.ablation import without
from trials.safeguards.generations import ABLATIONS
from trials.simulation.faults import Plan, focused
from trials.simulation.generations import Generations
from trials.troubles.lost_promotions import LOST_PROMOTION

SHUT_OUT_FOR_GOOD = "nobody leads for the sake of a promotion"
(ABLATION,) = (it for it in ABLATIONS if it.kinds == (LOST_PROMOTION,))


def plan(seed: int, topology: str) -> Plan:
    made = focused(seed, (LOST_PROMOTION,), topology=topology)
    made.operations = 60
    return made


@pytest.mark.parametrize("topology", ["three", "two", "learner"])
def test_all_go_on_as_if_it_had_never_been_asked_for(topology: str) -> None:
    """Each of them met the copy that was to rule, and nobody was shut out for its sake."""
    assert first_with(LOST_PROMOTION, lambda seed: plan(seed, topology))


def test_who_is_shut_out_for_its_sake_is_noticed() -> None:
    """That nobody's platter knows of it is seen although the one told has written it down."""
    with without(ABLATION):
        violation = first_broken(lambda seed: plan(seed, "three"))

    assert "was shut out" in violation


@pytest.mark.parametrize("topology", ["three", "two"])
def test_then_nobody_leads_ever_again(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is why: told or not, those who were shut out wait for what nobody knows."""
    monkeypatch.setattr(Generations, "is_fenced", lambda *_: True)
    with without(ABLATION):
        violation = first_broken(lambda seed: plan(seed, topology), naming=SHUT_OUT_FOR_GOOD)

    assert violation


def test_who_is_let_in_only_to_be_refused_has_heard_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    What a hello says counts for the one that was dialed, although the dialer wants no link with it.

    With the door closed and the generation told, whoever is dialed by the copy shuts itself out.
    """

    def judge_by_the_disk(driver: Driver, hello: Hello) -> Refusal | None:
        state = driver._state
        if driver._ballot.kept.generation < state.generation:
            return Refusal("not yet")
        return formation.judge(state, driver._bootstrap, driver.hello, hello)

    monkeypatch.setattr(Driver, "judge", judge_by_the_disk)
    with without(ABLATION):
        violation = first_broken(lambda seed: plan(seed, "three"))

    assert "this node of 0: an operator promoted the other side" in violation
