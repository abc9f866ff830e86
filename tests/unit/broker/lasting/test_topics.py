"""
Stored topics: each subscription has what it needs, on whoever applies the log, from wherever.
"""

from __future__ import annotations

import random

import pytest

from holdfast.broker.lasting.checkpoint import decode_queue_names, decode_state
from holdfast.broker.lasting.snapshot import Snapshot, digest_of, encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from tests.unit.broker.lasting.topic_log import TopicLog, step


@pytest.mark.parametrize("seed", range(30))
def test_whoever_applies_the_log_comes_to_the_same(seed: int) -> None:
    """
    Who was there from the beginning, who begins with what the cleaner left, who read a checkpoint.
    """
    chance = random.Random(seed)
    log = TopicLog()
    for _ in range(60):
        step(log, chance)
        if chance.random() < 0.2:
            log.check(log.state)
            log.check(log.begin_late())
            payload = b"".join(encode_state(log.state))
            back = decode_state(payload, BrokerSettings())
            log.check(back)
            assert decode_queue_names(payload) == {
                **{queue.number: name for name, queue in log.state.by_name.items()},
                **{topic.number: f"topic://{name}" for name, topic in log.state.topics.items()},
            }
            if chance.random() < 0.3:
                log.state = back


@pytest.mark.parametrize("seed", range(30))
def test_a_checkpoint_made_in_the_middle_of_a_late_beginning_is_as_good(seed: int) -> None:
    """
    While subscriptions are not known yet, and messages of theirs are.
    """
    chance = random.Random(seed)
    log = TopicLog()
    for _ in range(60):
        step(log, chance)
    state = BrokerState(BrokerSettings())
    for first, records in log.entries:
        state.apply(first, iter(records), first)
        if chance.random() < 0.3:
            state = decode_state(b"".join(encode_state(state)), BrokerSettings())
    log.check(state)


@pytest.mark.parametrize("seed", range(30))
def test_a_snapshot_is_of_its_moment(seed: int) -> None:
    """
    Whatever is applied between two steps of it, also by who begins late.
    """
    chance = random.Random(seed)
    log = TopicLog()
    for _ in range(60):
        step(log, chance)
    state = BrokerState(BrokerSettings())
    begins = chance.randrange(len(log.entries) + 1)
    for first, records in log.entries[:begins]:
        state.apply(first, iter(records), first)
    expected = b"".join(encode_state(state))
    snapshot = state.snapshot = Snapshot(state)
    for first, records in log.entries[begins:]:
        state.apply(first, iter(records), first)
        if not snapshot.is_done:
            snapshot.step(chance.randrange(1, 3))
    while not snapshot.is_done:
        snapshot.step(3)
    state.snapshot = None
    is_the_same = b"".join(snapshot.parts) == expected
    assert is_the_same
    assert digest_of(state) == digest_of(log.state)
