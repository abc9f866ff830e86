"""
Scheduled messages in the lasting state: the log says when they are due, every node the same.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.snapshot import Snapshot, digest_of, encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Attributes, Cause, MessageFacts
from holdfast.model.records import (
    AcknowledgeRecord,
    FiredRecord,
    MessageRecord,
    MoveRecord,
    QueueRecord,
    Run,
)
from holdfast.model.schedules import FOREVER


def scheduled(sequence: int, due_ms: int, repeats: int = 0, group: int = 0) -> MessageRecord:
    record = MessageRecord(1, sequence, b"", b"x", 1)
    attributes = Attributes(repeats=repeats, group_hash=group)
    known = None if attributes == Attributes() else attributes
    record.facts = MessageFacts(attributes=known, due_ms=due_ms)
    return record


def fired(sequence: int, target: int, *, is_copy: bool) -> MoveRecord:
    return MoveRecord(
        *(1, 2, Cause.FIRED, [Run(sequence, target, 1)]),
        queue_name="$schedule",
        is_copy=is_copy,
        clears_expiry=True,
        expires_ms=77,
    )


@pytest.fixture
def state() -> BrokerState:
    state = BrokerState(BrokerSettings())
    records = [QueueRecord(1, "$schedule"), QueueRecord(2, "orders"), scheduled(1, 10)]
    records += [scheduled(2, 20, 5, 9), scheduled(3, 30, FOREVER), scheduled(4, 40)]
    state.apply(1, records, 1)
    return state


def dues(state: BrokerState) -> dict[int, tuple[int, int]]:
    index = state.queues[1].index
    live = index.sequences(1, index.last() + 1)
    return {it: (index.expires_ms(it), index.repeats(it)) for it in live}


def test_what_is_scheduled_is_due_and_repeated_as_it_says(state) -> None:
    """
    A checkpoint keeps both; what is settled leaves nothing behind.
    """
    assert dues(state) == {1: (10, 0), 2: (20, 5), 3: (30, FOREVER), 4: (40, 0)}
    decoded = decode_state(b"".join(encode_state(state)), BrokerSettings())
    assert (dues(decoded), digest_of(decoded)) == (dues(state), digest_of(state))
    state.apply(7, [AcknowledgeRecord(1, [2, 3])], 2)
    assert dues(state) == {1: (10, 0), 4: (40, 0)}
    only = BrokerState(BrokerSettings())
    only.apply(1, [QueueRecord(1, "$schedule"), QueueRecord(2, "orders"), scheduled(1, 10)], 1)
    only.apply(6, [scheduled(4, 40)], 1)
    assert digest_of(only) == digest_of(state)


def test_what_fires_is_copied_and_due_again(state) -> None:
    """
    Its copy is of the group, and expires at its own time; the schedule goes on.
    """
    state.apply(7, [fired(2, 1, is_copy=True), FiredRecord(1, 2, 50, 4)], 2)
    orders = state.queues[2].index
    assert (orders.record_number(1), orders.move_number(1)) == (4, 7)
    assert (orders.group_hash(1), orders.expires_ms(1), orders.repeats(1)) == (9, 77, 0)
    assert dues(state)[2] == (50, 4)
    state.apply(9, [fired(2, 2, is_copy=True), FiredRecord(1, 2, 60, 0)], 3)
    assert dues(state)[2] == (60, 0)
    state.apply(11, [fired(2, 3, is_copy=False)], 4)
    assert (2 in dues(state), orders.live_count) == (False, 3)


def test_what_has_left_the_schedule_does_not_come_back(state) -> None:
    """
    Whatever comes late.
    """
    state.apply(
        7, [AcknowledgeRecord(1, [2]), FiredRecord(1, 2, 50, 4), FiredRecord(9, 1, 1, 1)], 2
    )
    assert 2 not in dues(state)


def test_a_snapshot_is_of_its_moment_though_messages_fire(state) -> None:
    """
    Half written down, a time that changes is still the old one.
    """
    before = digest_of(state)
    snapshot = Snapshot(state, canonical=True)
    state.snapshot = snapshot
    state.apply(7, [fired(3, 1, is_copy=True), FiredRecord(1, 3, 99, FOREVER)], 2)
    while not snapshot.step(1):
        pass
    state.snapshot = None
    decoded = decode_state(b"".join(snapshot.parts), BrokerSettings())
    assert digest_of(decoded) == before != digest_of(state)


def test_a_copy_by_the_cleaner_says_when_it_is_due(state) -> None:
    """
    To who has applied all it changes nothing; to who begins with it, it is all there is.
    """
    state.apply(7, [fired(2, 1, is_copy=True), FiredRecord(1, 2, 50, 4)], 2)
    copy = scheduled(2, 50, 4, 9)
    copy.rewritten = True
    known = dues(state)
    state.apply(9, [copy], 3)
    assert dues(state) == known
    late = BrokerState(BrokerSettings())
    late.apply(9, [copy, QueueRecord(1, "$schedule", 5)], 3)
    assert dues(late) == {2: (50, 4)}
