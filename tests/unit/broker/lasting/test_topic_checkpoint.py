"""
Topics and subscriptions as bytes and back; whole logs of them are in `test_topics`.
"""

from __future__ import annotations

import random

import pytest

from holdfast.broker.lasting.checkpoint import decode_queue_names, decode_state
from holdfast.broker.lasting.snapshot import digest_of, encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import StoreError
from holdfast.model.facts import MessageFacts
from holdfast.model.records import (
    MessageRecord,
    ReturnCause,
    ReturnedRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord


def message(sequence: int, skips: bytes = b"") -> MessageRecord:
    record = MessageRecord(2, sequence, b"", b"", 4)
    record.facts = MessageFacts(skips=skips) if skips else None
    return record


def full_state() -> BrokerState:
    """One subscription is done with much, one has not begun, one skips a message."""
    state = BrokerState(BrokerSettings())
    who = [
        SubscriptionRecord(3 + slot, 2, slot, "c\u00e9", f"s{slot}", selector="a = 'b'")
        for slot in range(3)
    ]
    who[2].has_no_local = True
    state.apply(1, [TopicRecord(2, "prices"), *who], 1)
    state.apply(10, [message(each) for each in range(1, 1500)], 2)
    state.apply(2000, [message(1500, b"\x04")], 3)
    done = [*range(1, 1100), 1200, 1499]
    state.apply(2001, [SubscriptionAcknowledgeRecord(3, done, 2)], 4)
    state.apply(2002, [ReturnedRecord(5, ReturnCause.LOST, [7, 900], 77, 2)], 5)
    return state


def test_each_has_what_it_had() -> None:
    """
    What it needs, what came back to it, whose it is, and what it finished is a stretch still.
    """
    state = full_state()
    payload = b"".join(encode_state(state))
    back = decode_state(payload, BrokerSettings())
    assert digest_of(back) == digest_of(state)
    assert (back.live_count(), back.live_bytes()) == (state.live_count(), state.live_bytes())
    for number in (3, 4, 5):
        was, found = state.queues[number], back.queues[number]
        sequences = list(was.index.sequences(1, 2000))
        assert list(found.index.sequences(1, 2000)) == sequences
        assert found.index.live_count == len(sequences)
    first = back.subscriptions["c\u00e9", "s0"]
    assert list(first.index.finished) == [(0, 2)]
    last = back.subscriptions["c\u00e9", "s2"]
    assert (last.selector, last.has_no_local) == ("a = 'b'", True)
    assert last.index.returned(900).due_ms == 77
    assert not last.index.is_live(1500)
    assert back.topics["prices"].index.is_whole
    assert decode_queue_names(payload) == {2: "topic://prices"}


def test_what_a_late_beginner_does_not_know_yet_is_kept_too() -> None:
    """
    It met a message that some do not need before it was told who they are.
    """
    state = BrokerState(BrokerSettings())
    state.apply(50, [message(9, b"\x02"), SubscriptionAcknowledgeRecord(8, [9], 2)], 1)
    back = decode_state(b"".join(encode_state(state)), BrokerSettings())
    others = [SubscriptionRecord(7, 2, 1, "c", "skips"), SubscriptionRecord(8, 2, 0, "c", "done")]
    for each in (state, back):
        each.apply(60, others, 2)
        assert each.live_count() == 1
        each.apply(70, [TopicRecord(2, "t", 10, 2)], 3)
        assert each.live_count() == 0
    assert digest_of(back) == digest_of(state)


def test_damage_is_an_error_of_the_store_or_nothing() -> None:
    """
    Whatever byte is wrong, and wherever it ends.
    """
    payload = b"".join(encode_state(full_state()))
    chance = random.Random(3)
    for _ in range(400):
        damaged = bytearray(payload)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(4, len(damaged))] = chance.randrange(256)
        cut = chance.choice((len(damaged), chance.randrange(len(damaged))))
        for decode in (lambda data: decode_state(data, BrokerSettings()), decode_queue_names):
            try:
                decode(bytes(damaged[:cut]))
            except StoreError:
                pass


def test_a_subscription_of_no_topic_makes_no_sense() -> None:
    """
    Its messages would be nobody's.
    """
    state = full_state()
    state.queues = {number: it for number, it in state.queues.items() if number != 2}
    with pytest.raises(StoreError, match="no topic 2"):
        decode_state(b"".join(encode_state(state)), BrokerSettings())
