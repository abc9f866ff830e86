"""
The lasting state as bytes and back.
"""

from __future__ import annotations

import json
import random

import pytest

from holdfast.broker.lasting.checkpoint import decode_queue_names, decode_state
from holdfast.broker.lasting.chunk import CHUNK_SIZE
from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.broker.lasting.snapshot import digest_of, encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.numbers_taken import NumbersTaken
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import FormatLevelError, StoreError
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    FormatRecord,
    HoldRecord,
    MessageRecord,
    PolicyRecord,
    ProducerRecord,
    QueueRecord,
    ReturnCause,
    ReturnedRecord,
)


def full_state() -> BrokerState:
    state = BrokerState(BrokerSettings())
    state.apply(1, [QueueRecord(1, "a:b\u00e9"), QueueRecord(2, "empty", 7, 9)], 100)
    for sequence in range(1, 3 * CHUNK_SIZE, 3):
        state.apply(sequence * 10, [MessageRecord(1, sequence, b"", b"x" * 9, 9, "p", sequence)], 5)
    state.apply(90_000, [AcknowledgeRecord(1, [4, 7]), MessageRecord(5, 1, b"", b"", 0)], 6)
    state.apply(90_002, [ProducerRecord("q", 3), CleanedRecord(4), FormatRecord(2)], 7)
    ours, files = PolicyRecord("queue://a", "{}"), PolicyRecord("queue://b.>", '{"x":"\u00e9"}', 3)
    state.apply(90_010, [ours, files, HoldRecord("reader", 3, 4)], 8)
    lost = ReturnedRecord(1, ReturnCause.LOST, [10, 13, 1_000])
    rejected = ReturnedRecord(1, ReturnCause.REJECTED, [13, 1_000], 1 << 41)
    state.apply(90_020, [lost, rejected, ReturnedRecord(5, ReturnCause.LOST_ALONE, [1])], 9)
    NumbersTaken(state.producers).take("taken only", 1)
    return state


def test_a_state_comes_back_whole() -> None:
    """
    Equal digest, equal totals; nothing of the leader's own plans.
    """
    state = full_state()
    back = decode_state(b"".join(encode_state(state)), BrokerSettings())
    assert digest_of(back) == digest_of(state)
    assert back.live_count() == state.live_count()
    assert back.live_bytes() == state.live_bytes()
    queue = back.by_name["a:b\u00e9"]
    assert queue.enqueued_total == state.queues[1].enqueued_total
    assert queue.acknowledged_total == 2
    assert not back.queues[5].is_declared
    assert sorted(back.producers.by_id) == ["p", "q"]
    assert back.cleaned_through == 4
    assert (back.format_level, back.format_home) == (2, 90_004)
    assert back.policies.revision == 3
    assert back.policies.homes == state.policies.homes
    assert back.policies.size_bytes == state.policies.size_bytes > 0
    found = {key: record.values for key, record in back.policies.by_key.items()}
    assert found == {
        (False, "queue://a"): "{}",
        (True, "queue://b.>"): '{"x":"\u00e9"}',
        (True, ""): "",
    }
    assert back.queues[1].index.returned(1_000) == Returned(2, 1, 1 << 41)
    assert back.queues[1].index.returned(10) == Returned(1, 0, 0)
    assert back.queues[1].index.returned(16) == NEVER
    assert back.queues[5].index.returned(1) == Returned(1, 1, 0)
    more = [MessageRecord(1, 5000, b"", b"", 0), AcknowledgeRecord(1, [1])]
    for each in (state, back):
        each.apply(95_000, more, 8)
    assert digest_of(back) == digest_of(state)


@pytest.mark.parametrize("form", [5, 6, 7, 8])
def test_a_checkpoint_of_a_format_before_is_read(form) -> None:
    """
    All but users, topics, columns, policies: a node need not read its log after an upgrade.
    """
    state = BrokerState(BrokerSettings())
    state.apply(1, [QueueRecord(1, "q"), HoldRecord("reader", 3, 4), ProducerRecord("p", 3)], 1)
    payload = bytearray(b"".join(encode_state(state)))
    assert payload[4:8] == (9).to_bytes(4, "little")
    payload[4] = form
    place = payload.index(b"reader") + len("reader")
    assert payload[place : place + 4] == bytes(4), "how many policies there are"
    assert payload[place + 4 : place + 12] == bytes(8), "how many users and grants there are"
    del payload[place + 4 : place + 12]
    if form == 5:
        del payload[place : place + 4]
    back = decode_state(bytes(payload), BrokerSettings())
    assert digest_of(back) == digest_of(state)
    assert decode_queue_names(bytes(payload)) == {1: "q"}


def test_an_empty_state_comes_back() -> None:
    """
    A node that has never stored anything may be checkpointed too.
    """
    state = BrokerState(BrokerSettings())
    back = decode_state(b"".join(encode_state(state)), BrokerSettings())
    assert digest_of(back) == digest_of(state)


def test_damage_is_an_error_of_the_store_or_nothing() -> None:
    """
    A checkpoint may be wrong in any way: it is then ignored, never an accident.
    """
    payload = b"".join(encode_state(full_state()))
    random_bytes = random.Random(7)
    for _ in range(500):
        damaged = bytearray(payload)
        for _ in range(random_bytes.randrange(1, 4)):
            damaged[random_bytes.randrange(600)] = random_bytes.randrange(256)
        cut = random_bytes.choice((len(damaged), random_bytes.randrange(len(damaged))))
        try:
            decode_state(bytes(damaged[:cut]), BrokerSettings())
        except StoreError:
            pass


@pytest.mark.parametrize("change", [(4, 1), (4, 3), (4, 4), (4, 10), (0, 0)])
def test_another_format_is_refused(change) -> None:
    """
    Older, newer, or no checkpoint at all.
    """
    at, value = change
    payload = bytearray(b"".join(encode_state(full_state())))
    payload[at] = value
    for decode in (lambda data: decode_state(data, BrokerSettings()), decode_queue_names):
        with pytest.raises(StoreError, match="another format"):
            decode(bytes(payload))


def test_columns_that_are_not_known_are_refused() -> None:
    """
    A later version may keep more of a message: its checkpoint is thrown away, never misread.
    """
    state = BrokerState(BrokerSettings())
    state.apply(1, [QueueRecord(1, "q"), MessageRecord(1, 1, b"", b"x", 1)], 1)
    payload = bytearray(b"".join(encode_state(state)))
    mask = len(payload) - (8 + 4 + 1) - 2
    assert payload[mask : mask + 2] == b"\0\0"
    payload[mask] = 128
    for decode in (lambda data: decode_state(data, BrokerSettings()), decode_queue_names):
        with pytest.raises(StoreError, match="has columns 0x0080"):
            decode(bytes(payload))


def test_a_level_that_is_not_known_is_refused() -> None:
    """
    Not thrown away: the log that the checkpoint is of has reached that level too.
    """
    payload = b"".join(encode_state(full_state()))
    with pytest.raises(FormatLevelError, match="level 2 of the log's format"):
        decode_state(payload, BrokerSettings(known_format_level=1))


def test_the_first_format_is_refused() -> None:
    """
    A checkpoint of an earlier version costs a replay, nothing else.
    """
    encoded = json.dumps({"format": 1, "queues": []}).encode().ljust(100)
    with pytest.raises(StoreError, match="another format"):
        decode_state(len(encoded).to_bytes(4, "little") + encoded, BrokerSettings())


def test_the_bytes_follow_what_lives() -> None:
    """
    Not how many queues there are with little in each, nor how wide it is spread.
    """
    state = BrokerState(BrokerSettings())
    record = 1
    for number in range(1, 1_001):
        message = MessageRecord(number, 300, b"", b"x", 1)
        state.apply(record, [QueueRecord(number, f"queue/{number}"), message], 1)
        record += 2
    assert len(b"".join(encode_state(state))) < 1_000 * 110
    spread = BrokerState(BrokerSettings())
    spread.apply(1, [QueueRecord(1, "q")], 1)
    for sequence in range(1, 100 * CHUNK_SIZE, CHUNK_SIZE - 1):
        spread.apply(sequence + 1, [MessageRecord(1, sequence, b"", b"x", 1)], 1)
    assert len(b"".join(encode_state(spread))) < spread.live_count() * 60


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 200])
def test_listed_and_whole_chunks_come_back(step) -> None:
    """
    Also with dead slots at both ends.
    """
    state = BrokerState(BrokerSettings())
    sequences = range(5, 2 * CHUNK_SIZE, step)
    records = [MessageRecord(1, sequence, b"", b"x" * 3, 3) for sequence in sequences]
    state.apply(1, records, 1)
    state.apply(5_000, [AcknowledgeRecord(1, [sequences[0], sequences[-1]])], 1)
    some = list(sequences[1:-1:7])
    state.apply(5_001, [ReturnedRecord(1, ReturnCause.REJECTED, some, 1 << 41)], 1)
    state.apply(5_002, [ReturnedRecord(1, ReturnCause.LOST, some[:1])], 1)
    back = decode_state(b"".join(encode_state(state)), BrokerSettings())
    assert list(back.queues[1].index.sequences(1, 3 * CHUNK_SIZE)) == list(sequences)[1:-1]
    assert back.queues[1].index.returned(some[0]) == Returned(2, 1, 0)
    last = Returned(1, 1, 1 << 41) if len(some) > 1 else Returned(2, 1, 0)
    assert back.queues[1].index.returned(some[-1]) == last
    assert decode_queue_names(b"".join(encode_state(state))) == {}
    assert digest_of(back) == digest_of(state)


def test_bytes_too_many_are_refused() -> None:
    """
    They must add up exactly.
    """
    payload = b"".join(encode_state(full_state()))
    with pytest.raises(StoreError, match="bytes"):
        decode_state(payload + b"x", BrokerSettings())


def test_names_of_queues_are_read_without_the_rest() -> None:
    """
    A reader of the log wants the names, not the positions of ten million messages.
    """
    names = decode_queue_names(b"".join(encode_state(full_state())))
    assert {1: "a:b\u00e9", 2: "empty"} == names
    with pytest.raises(StoreError, match="makes no sense"):
        decode_queue_names(b"abc")
