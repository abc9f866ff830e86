"""
A move, as every node applies it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.checkpoint import decode_queue_names, decode_state
from holdfast.broker.lasting.record_steps import record_steps
from holdfast.broker.lasting.snapshot import Snapshot, digest_of, encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Attributes, Cause, MessageFacts
from holdfast.model.records import (
    AcknowledgeRecord,
    MessageRecord,
    MoveRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    Run,
)


def message(sequence: int, *, queue: int = 1) -> MessageRecord:
    return MessageRecord(queue, sequence, b"", b"x", 1)


def moved(*runs: tuple[int, int, int], source: int = 1, target: int = 2) -> MoveRecord:
    return MoveRecord(source, target, Cause.MOVED, [Run(*run) for run in runs])


@pytest.fixture
def state() -> BrokerState:
    """Two queues, and four messages on the first, in records 3 to 6."""
    state = BrokerState(BrokerSettings())
    queues = [QueueRecord(1, "one"), QueueRecord(2, "two")]
    state.apply(1, [*queues, *(message(sequence) for sequence in range(1, 5))], 7)
    return state


def test_the_bytes_stay_where_they_are(state) -> None:
    """
    The other queue's slot says which record has them, and which has moved them.
    """
    state.apply(7, [moved((2, 1, 2))], 8)
    one, two = state.queues[1].index, state.queues[2].index
    assert (list(one.sequences(1, 9)), list(two.sequences(1, 9))) == ([1, 4], [1, 2])
    assert [two.record_number(sequence) for sequence in (1, 2)] == [4, 5]
    assert [two.move_number(sequence) for sequence in (1, 2)] == [7, 7]
    assert (one.move_number(2), state.live_count(), state.live_bytes()) == (0, 4, 4)
    assert (state.queues[1].acknowledged_total, state.queues[2].enqueued_total) == (2, 2)


def test_what_does_not_live_is_passed_over_and_its_number_is_used(state) -> None:
    """
    It was acknowledged by a record before; what comes after finds the same numbers everywhere.
    """
    state.apply(7, [AcknowledgeRecord(1, [2]), moved((1, 1, 3)), PurgeRecord(1, 9)], 8)
    two = state.queues[2]
    assert list(two.index.sequences(1, 9)) == [1, 3]
    assert two.next_sequence == 4


def test_of_what_is_not_known_nothing_comes_but_numbers(state) -> None:
    """
    Its bytes were written again further on, as a message of the other queue.
    """
    state.apply(7, [moved((90, 5, 2)), moved((1, 1, 1), source=9)], 8)
    assert not state.queues[2].index.live_count
    assert state.queues[2].next_sequence == 7
    state.apply(9, [message(5, queue=2)], 9)
    assert list(state.queues[2].index.sequences(1, 9)) == [5]


def test_a_queue_whose_name_comes_later_holds_its_place(state) -> None:
    """
    As with a message; of nothing that lives no queue is made.
    """
    state.apply(7, [moved((80, 1, 1), target=8), moved((1, 3, 1), target=9)], 8)
    assert set(state.queues) == {1, 2, 9}
    state.apply(9, [QueueRecord(9, "nine", 4)], 9)
    assert list(state.by_name["nine"].index.sequences(1, 9)) == [3]


def test_what_was_written_again_was_moved_by_nobody(state) -> None:
    """
    A message of its own from then on; it is not counted once more.
    """
    state.apply(7, [moved((1, 1, 2))], 8)
    again = message(1, queue=2)
    again.rewritten = True
    state.apply(8, [again], 9)
    two = state.queues[2].index
    assert [two.move_number(sequence) for sequence in (1, 2)] == [0, 7]
    assert (two.record_number(1), two.live_count) == (8, 2)


def test_moved_once_more_it_is_read_from_the_same_record(state) -> None:
    """
    Chains do not grow: the slot says where the bytes are, and the last move alone.
    """
    state.apply(7, [moved((1, 1, 1)), moved((1, 9, 1), source=2, target=1)], 8)
    one = state.queues[1].index
    assert (one.record_number(9), one.move_number(9)) == (3, 8)
    assert not state.queues[2].index.live_count


@pytest.mark.parametrize("count_max", [1, 3, 64])
def test_in_pieces_it_comes_to_the_same(count_max: int) -> None:
    """
    A thousand messages are more than one step may have.
    """
    queues: list[Record] = [QueueRecord(1, "one"), QueueRecord(2, "two")]
    sent = [message(sequence) for sequence in range(1, 1_001)]
    move = moved((1, 1, 400), (402, 401, 500), (999, 901, 2))
    whole, pieces = BrokerState(BrokerSettings()), BrokerState(BrokerSettings())
    for each in (whole, pieces):
        each.apply(1, [*queues, *sent], 7)
    whole.apply(1_003, [move], 8)
    steps = list(record_steps(1_003, [move], count_max, pieces.queues))
    for number, some in steps:
        pieces.apply(number, some, 8)
    assert {number for number, _ in steps} == {1_003}
    assert digest_of(pieces) == digest_of(whole)
    assert sum(it.count for _, some in steps for it in some if isinstance(it, MoveRecord)) == 902
    assert whole.queues[2].index.live_count == 902


@pytest.mark.parametrize("kept", [1, 400])
def test_a_checkpoint_has_what_moved_them(kept: int) -> None:
    """
    Of chunks that are full and of such with few left, beside chunks of which nothing was moved.
    """
    state = BrokerState(BrokerSettings())
    sent = [message(sequence) for sequence in range(1, 1_201)]
    state.apply(1, [QueueRecord(1, "one"), QueueRecord(2, "two"), *sent], 7)
    state.apply(2_000, [moved((1, 1, 500))], 8)
    state.apply(2_001, [AcknowledgeRecord(2, list(range(kept + 1, 500)))], 9)
    payload = b"".join(encode_state(state))
    back = decode_state(payload, BrokerSettings())
    assert digest_of(back) == digest_of(state)
    assert [back.queues[2].index.move_number(it) for it in (1, 500)] == [2_000, 2_000]
    assert decode_queue_names(payload) == {1: "one", 2: "two"}
    more = [moved((500, 7, 1), source=2, target=1), message(501, queue=2)]
    for each in (state, back):
        each.apply(3_000, more, 10)
    assert digest_of(back) == digest_of(state)


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_checkpoint_under_way_is_of_before(state, is_copy: bool) -> None:
    """
    Both queues are kept as they were when it was begun.
    """
    state.apply(7, [moved((1, 1, 1))], 8)
    before = b"".join(encode_state(state))
    snapshot = state.snapshot = Snapshot(state)
    move = moved((2, 2, 2))
    move.is_copy = is_copy
    state.apply(8, [move, moved((1, 8, 1), source=2, target=1)], 9)
    while not snapshot.step(1):
        pass
    assert b"".join(snapshot.parts) == before


def test_a_purge_keeps_what_stands_behind_with_its_way(state) -> None:
    """
    Of the chunk that holds both.
    """
    state.apply(7, [moved((1, 1, 4))], 8)
    state.apply(8, [PurgeRecord(2, 2)], 9)
    two = state.queues[2].index
    assert [(it, two.record_number(it), two.move_number(it)) for it in (3, 4)] == [
        (3, 5, 7),
        (4, 6, 7),
    ]


@pytest.mark.parametrize("is_copy", [False, True], ids=["moved", "copied"])
def test_a_message_stays_in_its_group(state, is_copy) -> None:
    """
    Wherever it goes; what was settled before leaves its number without one.
    """
    grouped = [message(sequence) for sequence in (5, 6)]
    for record in grouped:
        record.facts = MessageFacts(attributes=Attributes(group_hash=0xCAFE))
    move = moved((4, 1, 3))
    move.is_copy = is_copy
    state.apply(7, [*grouped, AcknowledgeRecord(1, [6]), move], 8)
    one, two = state.queues[1].index, state.queues[2].index
    assert [two.group_hash(sequence) for sequence in (1, 2, 3)] == [0, 0xCAFE, 0]
    assert one.group_hash(5) == (0xCAFE if is_copy else 0)
    again = decode_state(b"".join(encode_state(state)), BrokerSettings())
    assert digest_of(again) == digest_of(state)
    assert again.queues[2].index.group_hash(2) == 0xCAFE
