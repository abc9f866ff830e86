"""
Messages in groups, against a small model, walked far by weights; see `group_machine`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.broker.serving.consumer import AcknowledgeMode
from tests.property.broker.claim_machine import CLAIMS
from tests.property.broker.group_machine import GROUPS, GroupMachine
from tests.property.broker.suspect_machine import GroupSuspectMachine
from tests.property.broker.test_broker_model import STEPS
from tests.property.broker.walking import walk

GROUPING = STEPS | {
    **dict.fromkeys(("subscribe", "turn", "send"), 3.0),
    **dict.fromkeys(("deadlines_pass", "come_to_rest", "consumer_dies", "browse"), 0.7),
    "change_leader": 0.1,
}
STORIES = {
    "of all kinds": {},
    "with many who come and go": {"subscribe": 4, "consumer_dies": 3, "acknowledge": 3},
    "with transactions": {
        "begin": 2,
        "acknowledge_in_transaction": 6,
        "commit_transaction": 2,
        "abort_transaction": 3,
        "deadlines_pass": 1.5,
    },
    "with late words": {
        "begin": 5,
        "acknowledge_by_guess": 60,
        "acknowledge_in_transaction": 0,
        "commit_transaction": 0.5,
        "abort_transaction": 1,
        "consumer_dies": 3,
        "subscribe": 5,
        "turn": 8,
        "send": 8,
        "purge_or_delete": 0,
    },
    "with returns": {"reject_for_now": 5, "time_passes": 2, "change_leader": 0.3},
    "with moves and copies of the cleaner": {
        "move": 2,
        "reject": 2,
        "clean": 2,
        "purge_or_delete": 0,
    },
}


@pytest.mark.parametrize("claims", [False, True], ids=["equal", "unequal"])
@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
def test_a_group_is_in_one_hand_and_in_order(
    story: str,
    claims: bool,
    seed: int,
) -> None:
    """
    M3, M4, M7 and M11 for groups: whoever comes, goes, rejects, rolls back or takes over.
    """
    random = Random(seed)
    machine = GroupMachine()
    machine.raise_the_level()
    machine.turn()
    weights = GROUPING | STORIES[story]
    walk(machine, random, weights, lambda: {"claim": random.choice(CLAIMS)} if claims else {})


@pytest.mark.parametrize("is_purged", [False, True], ids=["kept", "purged"])
def test_a_late_word_holds_its_group_until_it_is_purged(*, is_purged: bool) -> None:
    """
    What an operator takes away holds nothing up, though a transaction still has a word on it: a
    message that was never stored is gone at once, and no batch is to come that says so.
    """
    machine = GroupMachine()
    machine.raise_the_level()
    machine.turn()
    machine.send_transient("a")
    machine.subscribe("a", AcknowledgeMode.INDIVIDUAL, prefetch=6)
    machine.turn()
    machine.consumer_dies(0)
    machine.turn()
    machine.begin()
    machine.acknowledge_by_guess("a", -1, number=1, is_open=True)
    if is_purged:
        machine.purge_or_delete("a", is_whole=False)
    machine.count += GROUPS - machine.count % GROUPS  # The next one is in the same group.
    machine.send("a", 1)
    machine.subscribe("a", AcknowledgeMode.INDIVIDUAL, prefetch=6)
    machine.come_to_rest()
    assert {*machine.model.groups.values()} == {1}
    assert len(machine.consumers[0].held) == is_purged
    machine.teardown()


DEATHS = {"consumer_dies": 3, "subscribe": 5, "acknowledge": 2}


@pytest.mark.parametrize("claims", [False, True], ids=["equal", "unequal"])
@pytest.mark.parametrize("suspect_after", [1, 2])
@pytest.mark.parametrize("story", STORIES)
@example(seed=3_119_224_352).via("what a late word held was non-persistent, and purged")
@example(seed=4442).via("who had run empty and had its room again was waited for as before")
@example(seed=83_031).via("one came to be the first of a group of which the owner was full")
@given(seed=st.integers(0, 1 << 32))
def test_what_is_sent_alone_keeps_its_place_in_its_group(
    story: str, suspect_after: int, claims: bool, seed: int
) -> None:
    """
    The same where what was lost too often is sent alone: to somebody who holds nothing, while the
    others of its group wait and all other groups go on.
    """
    random = Random(seed)
    machine = GroupSuspectMachine(suspect_after, random.choice((2, 1024)))
    weights = GROUPING | STORIES[story] | DEATHS
    walk(machine, random, weights, lambda: {"claim": random.choice(CLAIMS)} if claims else {})
