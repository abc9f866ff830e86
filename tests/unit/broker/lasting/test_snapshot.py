"""
The state of one moment, written down in steps while it changes.
"""

from __future__ import annotations

import random

import pytest

from holdfast.broker.lasting import snapshot
from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.chunk import CHUNK_SIZE
from holdfast.broker.lasting.snapshot import Snapshot, digest_of, encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import MessageFacts, Place
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    ForgetProducerRecord,
    HoldRecord,
    MessageRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
)

QUEUES = 5
LENGTH = 3 * CHUNK_SIZE


@pytest.fixture
def state() -> BrokerState:
    """Five queues of three chunks, a nameless one, producers and a hold."""
    made = BrokerState(BrokerSettings())
    made.apply(1, [QueueRecord(number, f"q{number}") for number in range(1, QUEUES + 1)], 1)
    for number in range(1, QUEUES + 1):
        records = [MessageRecord(number, each, b"", b"", 3) for each in range(1, LENGTH, 2)]
        made.apply(number * 10_000, records, 2)
    made.apply(90_000, [MessageRecord(70, 1, b"", b"", 3), HoldRecord("h", 3, 9, 0)], 3)
    made.apply(90_002, [ProducerRecord(f"p{number}", 1) for number in range(40)], 4)
    return made


def on_several(number: int, sequence: int, other: int) -> MessageRecord:
    """Make a message that stands on two queues."""
    record = MessageRecord(number, sequence, b"", b"", 5)
    record.facts = MessageFacts(places=(Place(other, sequence + 1),))
    return record


def changes(chance: random.Random) -> list[Record]:
    """Give some records of every kind, about anything."""
    number = chance.randrange(1, QUEUES + 3)
    sequence = chance.randrange(1, LENGTH + 100)
    producer = f"p{chance.randrange(60)}"
    return chance.choices(
        [
            AcknowledgeRecord(number, [chance.randrange(1, LENGTH) for _ in range(20)]),
            DeadLetterRecord(number, [sequence]),
            MessageRecord(number, sequence, b"", b"", 5, producer, 9),
            MessageRecord(number, LENGTH + 10**6, b"", b"", 5),
            on_several(number, sequence, chance.randrange(1, QUEUES + 3)),
            QueueRecord(number, f"q{number}", LENGTH + 10, 7),
            DispatchMarkRecord(number, sequence),
            PurgeRecord(number, sequence),
            DeleteQueueRecord(number),
            ProducerRecord(producer, 3),
            ForgetProducerRecord(producer),
            CountersRecord(number * 10),
            CleanedRecord(sequence),
            HoldRecord("h", sequence, 9, 0),
            HoldRecord("h", 0, 9, 0),
        ],
        k=chance.randrange(1, 4),
    )


@pytest.mark.parametrize("seed", range(60))
def test_what_comes_meanwhile_is_not_in_it(state, seed) -> None:
    """
    Whatever is applied between two steps, the bytes are those of the beginning.
    """
    chance = random.Random(seed)
    expected = b"".join(encode_state(state))
    snapshot = state.snapshot = Snapshot(state)
    record = 100_000
    while not snapshot.step(chance.randrange(1, 4)):
        if chance.random() < 0.6:
            records = changes(chance)
            state.apply(record, iter(records), record)
            record += len(records)
    state.snapshot = None
    assert b"".join(snapshot.parts) == expected
    after = b"".join(encode_state(state))
    assert record == 100_000 or after != expected


def test_a_step_does_what_it_is_allowed(state) -> None:
    """
    A queue of many chunks takes many steps, as many producers do.
    """
    state.apply(200_000, [ProducerRecord(f"x{number}", 1) for number in range(5_000)], 4)
    snapshot = Snapshot(state)
    steps = 1
    while not snapshot.step(2):
        steps += 1
    assert steps >= (QUEUES * 4 + 2) // 2 + 5_000 // 512
    assert max(map(len, snapshot.parts)) < 2 * 13 * CHUNK_SIZE + 64 * 512


def thin_out(state: BrokerState, every: int) -> None:
    """Leave one of so many slots of each queue alive."""
    for number in range(1, QUEUES + 1):
        dead = [each for each in range(1, LENGTH) if each % every]
        state.apply(150_000, [AcknowledgeRecord(number, dead)], 5)


def test_a_step_lists_no_more_slots_than_take_as_long_as_full_chunks(state) -> None:
    """
    500 chunks with 100 slots each to be listed took 13 ms, of full ones 4 ms.
    """
    thin_out(state, 3)
    began = Snapshot(state)
    steps = 1
    while not began.step(8):
        steps += 1
    listed = sum(queue.index.live_count for queue in state.queues.values())
    assert listed > QUEUES * LENGTH // 7
    assert steps >= listed // 16 // 8


@pytest.mark.parametrize("every", [1, 3])
def test_what_a_record_touches_is_copied_once_and_encoded_in_its_turn(
    state, monkeypatch, every: int
) -> None:
    """
    4,000 acknowledgements that each touch another chunk took 110 ms at once.
    """
    thin_out(state, every)
    expected = b"".join(encode_state(state))
    began = Snapshot(state)
    state.snapshot = began
    monkeypatch.setattr(snapshot, "encode_chunk", None)
    for count in range(1, 4):
        touched = [chunk * CHUNK_SIZE + 10 * count for chunk in range(LENGTH // CHUNK_SIZE)]
        for number in range(1, QUEUES + 1):
            state.apply(160_000 + count, [AcknowledgeRecord(number, touched)], 6)
    monkeypatch.undo()
    while not began.step(3):
        pass
    assert b"".join(began.parts) == expected


def test_equal_states_have_equal_digests(state) -> None:
    """
    Statistics and the order in which producers came do not count; all else does.
    """
    other = BrokerState(BrokerSettings())
    payload = b"".join(encode_state(state))
    other = decode_state(payload, BrokerSettings())
    other.queues[1].enqueued_total += 5
    first = other.producers.by_id.get("p0")
    other.producers.by_id.remove("p0")
    other.producers.by_id.put("p0", first)
    assert digest_of(other) == digest_of(state)
    other.apply(300_000, [ProducerRecord("p0", 2)], 9)
    assert digest_of(other) != digest_of(state)
