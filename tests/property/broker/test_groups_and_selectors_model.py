"""
Messages in groups, and consumers that want some of them, against a small model; see
`group_selector_machine`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.serving.consumer import NO_CLAIM
from tests.property.broker.claim_machine import CLAIMS
from tests.property.broker.group_selector_machine import GroupSelectorMachine
from tests.property.broker.selector_machine import SELECTORS
from tests.property.broker.test_groups_model import GROUPING, STORIES
from tests.property.broker.walking import walk

TOLD = ("of all kinds", "with transactions", "with returns")
MORE_STORIES = {name: STORIES[name] for name in TOLD} | {
    "with much on the queue": {"send": 8, "send_transient": 3, "dispatch": 3, "move": 1}
}


@pytest.mark.parametrize("story", MORE_STORIES)
@given(seed=st.integers(0, 1 << 32))
def test_a_group_is_in_one_hand_whoever_wants_what_of_it(story: str, seed: int) -> None:
    """
    M3, M4, M6, M7 and M11 where messages in groups meet consumers that select: a group is never in
    two hands, each gets what he wants of it in order, and nothing stays that somebody wants who has
    room, once nobody else has anything of its group.
    """
    random = Random(seed)
    machine = GroupSelectorMachine()
    if random.random() < 0.7:
        machine.raise_the_level()
        machine.turn()
    claims = random.random() < 0.5
    # Of two kinds of consumers many meet; of all of them each group has few.
    some = random.sample(SELECTORS, random.choice((2, 3, len(SELECTORS))))

    def says() -> dict[str, object]:
        claim = random.choice(CLAIMS) if claims else NO_CLAIM
        return {"claim": claim, "selector": random.choice(some)}

    walk(machine, random, GROUPING | MORE_STORIES[story], says)
