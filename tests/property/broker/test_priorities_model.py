"""
Messages with priorities, against a small model, walked far by weights; see `priority_machine`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.broker.serving.consumer import NO_CLAIM
from tests.property.broker.claim_machine import CLAIMS
from tests.property.broker.group_selector_machine import RankedGroupSelectorMachine
from tests.property.broker.priority_machine import (
    PriorityMachine,
    RankedGroupMachine,
    RankedSelectorMachine,
)
from tests.property.broker.selector_machine import SELECTORS
from tests.property.broker.suspect_machine import RankedGroupSuspectMachine, RankedSuspectMachine
from tests.property.broker.test_broker_model import STEPS
from tests.property.broker.walking import walk

ORDERING = STEPS | {
    **dict.fromkeys(("subscribe", "turn", "send", "send_transient"), 3.0),
    **dict.fromkeys(("deadlines_pass", "come_to_rest", "consumer_dies", "browse"), 0.7),
    "change_leader": 0.1,
    "raise_the_level": 0,
}
STORIES: dict[str, dict[str, float]] = {
    "of all kinds": {},
    "with much on the queue": {"send": 8, "acknowledge": 3, "dispatch": 3},
    "with transactions": {
        "begin": 2,
        "acknowledge_in_transaction": 6,
        "commit_transaction": 2,
        "abort_transaction": 3,
    },
    "with returns": {"reject_for_now": 5, "time_passes": 2, "change_leader": 0.3},
    "with moves and copies of the cleaner": {"move": 2, "reject": 2, "clean": 2},
    "with late words": {"acknowledge_by_guess": 6, "change_leader": 0.3},
}


@pytest.mark.parametrize("claims", [False, True], ids=["equal", "claiming"])
@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
@example(seed=19375).via("a policy came as one that was given back had gone")
@example(seed=1903).via("a late word on what a leader before had sent came to nothing")
def test_the_highest_priority_goes_first(story: str, claims: bool, seed: int) -> None:
    """M3, M4, M7 and M11 for priorities: whoever comes, goes, rejects, rolls back or takes over."""
    random = Random(seed)
    weights = ORDERING | STORIES[story]
    machine = PriorityMachine()
    walk(machine, random, weights, lambda: {"claim": random.choice(CLAIMS)} if claims else {})


@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
def test_priorities_count_within_each_group(story: str, seed: int) -> None:
    """A group is in one hand all the while; of one priority its messages are in order."""
    walk(RankedGroupMachine(), Random(seed), ORDERING | STORIES[story], dict)


@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
def test_priorities_count_among_what_is_wanted(story: str, seed: int) -> None:
    """Who selects gets what it wants of a priority in order, and nothing of it stays."""
    random = Random(seed)
    weights = ORDERING | STORIES[story]
    machine = RankedSelectorMachine()
    walk(machine, random, weights, lambda: {"selector": random.choice(SELECTORS)})


@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
@example(seed=463).via("with late words, a higher consumer waits for what he is to look at first")
def test_priorities_count_within_each_group_whoever_wants_what_of_it(story: str, seed: int) -> None:
    """A group is in one hand all the while, and each gets what he wants of it by priority."""
    random = Random(seed)
    claims = random.random() < 0.5
    some = random.sample(SELECTORS, random.choice((2, 3, len(SELECTORS))))

    def says() -> dict[str, object]:
        claim = random.choice(CLAIMS) if claims else NO_CLAIM
        return {"claim": claim, "selector": random.choice(some)}

    walk(RankedGroupSelectorMachine(), random, ORDERING | STORIES[story], says)


DEATHS = {"consumer_dies": 3, "subscribe": 5, "acknowledge": 2}


@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
def test_what_was_lost_with_others_is_sent_alone(story: str, seed: int) -> None:
    """Whatever its priority; the others go by theirs meanwhile."""
    random = Random(seed)
    machine = RankedSuspectMachine(random.choice((1, 1, 2)))
    walk(machine, random, ORDERING | STORIES[story] | DEATHS, dict)


@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
@example(seed=1117970).via("with returns, one came back before what was parked for who was full")
def test_a_suspect_has_its_place_among_those_of_its_group(story: str, seed: int) -> None:
    """By its priority: nothing of its bucket goes before it but what is of a higher one."""
    random = Random(seed)
    machine = RankedGroupSuspectMachine(random.choice((1, 1, 2)), random.choice((2, 1024)))
    walk(machine, random, ORDERING | STORIES[story] | DEATHS, dict)
