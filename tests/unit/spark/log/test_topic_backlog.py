"""
What is live on stored topics, against the broker's own state.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from holdfast.broker.lasting.state import BrokerState
from holdfast.model.facts import Cause, MessageFacts
from holdfast.model.records import (
    MessageRecord,
    MoveRecord,
    QueueRecord,
    Record,
    Run,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.spark.log import backlog as backlog_module
from holdfast.spark.log.backlog import Backlog
from holdfast.spark.log.topic_backlog import TopicNeeds
from tests.unit.broker.lasting.topic_log import TopicLog, step
from trials.pipeline.written_log import block_of

QUEUE, TOPIC, FIRST, SECOND = 1, 2, 3, 4


def read(entries: list[tuple[int, list[Record]]], together: int = 1) -> Backlog:
    """Take entries, so many in a block."""
    backlog = Backlog()
    for first in range(0, len(entries), together):
        batches = [records for _, records in entries[first : first + together]]
        backlog.take(block_of(*batches, first_index=first + 1))
    return backlog


def lives(backlog: Backlog) -> dict[int, list[int]]:
    """Give what lives by queue or topic, moved or not."""
    count = len(backlog.live()[0]) + len(backlog.moved().places)
    settled = {number: queue.settle()[0].tolist() for number, queue in backlog.queues.items()}
    assert sum(map(len, settled.values())) == count
    return {number: sequences for number, sequences in settled.items() if sequences}


def lives_in(state: BrokerState) -> dict[int, list[int]]:
    """The same, as the broker has it; subscriptions have nothing of their own."""
    own = [it for it in state.queues.values() if it.number not in subscriptions(state)]
    found = {queue.number: list(queue.index.sequences(1, 1 << 60)) for queue in own}
    return {number: sequences for number, sequences in found.items() if sequences}


def subscriptions(state: BrokerState) -> set[int]:
    return {each.number for each in state.subscriptions.values()}


@pytest.mark.parametrize("together", [1, 7])
@pytest.mark.parametrize("settle_min", [5, 10**6])
@pytest.mark.parametrize("seed", range(6))
def test_a_topics_message_is_live_while_anybody_needs_it(
    seed: int, settle_min: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    As in the broker's state; for who reads from the beginning, and from what the cleaner left.

    Wherever blocks end, and whether or not what nobody needs is forgotten on the way.
    """
    monkeypatch.setattr(backlog_module, "_SETTLE_MIN", settle_min)
    chance = random.Random(seed)
    log = TopicLog()
    whole: list[tuple[int, list[Record]]] = list(log.entries)
    for _ in range(60):
        number = log.next_record
        step(log, chance)
        whole += [each for each in log.entries if each[0] >= number]
    wanted = lives_in(log.state)
    assert lives(read(whole, together)) == wanted
    assert lives(read(log.entries, together)) == wanted
    names = read(whole).names
    assert all(names[it.number] == f"topic://{it.name}" for it in log.state.topics.values())


def declared(*, mark: int = 0) -> list[Record]:
    """A topic with two subscriptions, and a queue."""
    first = SubscriptionRecord(FIRST, TOPIC, 0, "c", "first", dispatch_mark=mark)
    second = SubscriptionRecord(SECOND, TOPIC, 9, "c", "second")
    return [QueueRecord(QUEUE, "dead"), TopicRecord(TOPIC, "prices"), first, second]


def sent(sequence: int, *, skips: bytes = b"") -> MessageRecord:
    record = MessageRecord(TOPIC, sequence, b"", b"x", 1)
    record.facts = MessageFacts(skips=skips) if skips else None
    return record


def test_what_one_subscription_lost_to_the_dead_letters_the_other_may_still_need() -> None:
    """
    The message stands on the queue, by the move, and on the topic until the other is done with it.
    """
    move = MoveRecord(FIRST, QUEUE, Cause.REJECTED, [Run(1, 1, 1)], topic_number=TOPIC)
    entries: list[tuple[int, list[Record]]] = [(1, declared()), (5, [sent(1)]), (6, [move])]
    assert lives(read(entries)) == {QUEUE: [1], TOPIC: [1]}
    entries.append((7, [SubscriptionAcknowledgeRecord(SECOND, [1], TOPIC)]))
    assert lives(read(entries)) == {QUEUE: [1]}
    entries.append(
        (8, [MoveRecord(FIRST, QUEUE, Cause.REJECTED, [Run(1, 2, 1)], topic_number=TOPIC)])
    )
    assert lives(read(entries)) == {QUEUE: [1]}


def test_what_all_but_one_skip_is_live_for_that_one() -> None:
    """
    Also where its bit is in the second byte; what all skip is not.
    """
    entries = [(1, declared()), (5, [sent(1, skips=b"\1"), sent(2, skips=b"\1\2"), sent(3)])]
    entries.append((8, [SubscriptionAcknowledgeRecord(SECOND, [3], TOPIC)]))
    assert lives(read(entries)) == {TOPIC: [1, 3]}


def test_what_any_subscriptions_consumer_may_have_seen_is_marked() -> None:
    """
    A row of the backlog is of all subscriptions: it says so if one of them has shown it.
    """
    assert read([(1, declared(mark=5))]).marks()[TOPIC] == 5


def test_a_topic_that_was_told_of_before_its_subscriptions_keeps_all() -> None:
    """
    Nothing may be taken for not needed by whom nobody has told yet.
    """
    topic = TopicNeeds(TOPIC)
    topic.declared(TopicRecord(TOPIC, "prices", subscription_count=1))
    assert topic.needed(np.array([1, 2])).all()
    topic.knows_one_more()
    assert not topic.needed(np.array([1, 2])).any()
