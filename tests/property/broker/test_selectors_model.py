"""
Consumers that want some messages, against a small model, walked far by weights.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.broker.serving.consumer import NO_CLAIM
from tests.property.broker.claim_machine import CLAIMS
from tests.property.broker.selector_machine import SELECTORS, SelectorMachine
from tests.property.broker.suspect_machine import (
    RankedSelectorSuspectMachine,
    SelectorSuspectMachine,
)
from tests.property.broker.test_broker_model import STEPS
from tests.property.broker.walking import walk

SELECTING = STEPS | {
    **dict.fromkeys(("subscribe", "turn", "send"), 3.0),
    **dict.fromkeys(("come_to_rest", "consumer_dies"), 0.9),
    **dict.fromkeys(("deadlines_pass", "browse"), 0.3),
    "change_leader": 0.1,
}

STORIES: dict[str, dict[str, float]] = {
    "of all kinds": {},
    "with much on the queue": {"send": 6, "send_transient": 2, "acknowledge": 3, "dispatch": 3},
    "of who comes and goes": {"consumer_dies": 3, "subscribe": 4, "acknowledge": 3},
    "with transactions": {
        "begin": 2,
        "acknowledge_in_transaction": 6,
        "commit_transaction": 2,
        "abort_transaction": 3,
    },
    "with returns": {"raise_the_level": 2, "reject_for_now": 5, "time_passes": 2},
    "with moves and late words": {"raise_the_level": 2, "move": 4, "acknowledge_by_guess": 6},
}


@pytest.mark.parametrize("claims", [False, True], ids=["equal", "claiming"])
@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
def test_each_gets_what_it_wants_in_order(story: str, claims: bool, seed: int) -> None:
    """
    M3, M4, M6, M7 and M10: what a selector rejects never comes, what it wants comes in order and
    does not stay, whoever comes and goes, and whatever else happens.
    """
    random = Random(seed)
    machine = SelectorMachine()
    weights = SELECTING | STORIES[story]

    def says() -> dict[str, object]:
        claim = random.choice(CLAIMS) if claims else NO_CLAIM
        return {"claim": claim, "selector": random.choice(SELECTORS)}

    walk(machine, random, weights, says)


DEATHS = {"consumer_dies": 3, "subscribe": 5, "acknowledge": 2}


@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
@example(seed=95).via("who had not come by it yet is of a higher priority, and wants it")
@example(seed=200_012).via("who is of a higher priority waits for what is parked before it")
@example(seed=1_060).via("somebody began to select while another had one alone")
def test_what_was_lost_too_often_goes_alone_to_who_wants_it(story: str, seed: int) -> None:
    """
    The same where what was lost with others is sent alone: to somebody who wants it and holds
    nothing, and gets nothing beside it; and all others go on.
    """
    random = Random(seed)
    made = random.choice((SelectorSuspectMachine, RankedSelectorSuspectMachine))
    machine = made(random.choice((1, 2)))
    some = random.sample(SELECTORS, random.choice((2, 3, len(SELECTORS))))
    claims = random.random() < 0.5

    def says() -> dict[str, object]:
        claim = random.choice(CLAIMS) if claims else NO_CLAIM
        return {"claim": claim, "selector": random.choice(some)}

    walk(machine, random, SELECTING | STORIES[story] | DEATHS, says)
