"""
Durable subscriptions as their leader makes, purges and ends them.
"""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from holdfast.broker import committing
from holdfast.broker.cleaning_topics import homeless_topics
from holdfast.broker.durables import Wanted
from holdfast.broker.lasting import snapshot
from holdfast.broker.lasting.record_steps import record_steps
from holdfast.broker.lasting.snapshot import Snapshot, digest_of, encode_state
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError
from holdfast.model.facts import Attributes, Cause, MessageFacts
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.model.records import (
    DeleteQueueRecord,
    FormatRecord,
    MessageRecord,
    MoveRecord,
    PurgeRecord,
    ReturnCause,
    ReturnedRecord,
    Run,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import CountedRecord, SubscriptionRecord, TopicRecord
from holdfast.store.record_codec import decode_records

EXPIRES_MS = 1_700_000_000_000


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()
    return desk


def opened(desk, name, topic="t"):
    queue = desk.broker.durables.open(Wanted(topic, "c", name))
    desk.turn()
    return queue


def store(desk, count, topic="t"):
    """Send so many messages to a stored topic."""
    transaction = desk.broker.begin("t")
    stored = desk.broker.destinations.stored.topic(topic)
    for _ in range(count):
        desk.broker.hold(transaction, stored, b"", b"", persistent=True)
    desk.broker.commit(transaction, desk.client, None)
    for steps in desk.broker.receipts.batch.unnumbered:
        list(steps)
    desk.turn()


def records(desk, kind):
    return [it for _, _, body in desk.log for it in decode_records(body) if type(it) is kind]


def test_the_lowest_free_slot_is_taken(desk) -> None:
    """
    Also under the next leader, so that what messages say of them stays short.
    """
    queues = [opened(desk, name) for name in "abc"]
    assert [it.slot for it in queues] == [0, 1, 2]
    desk.broker.durables.remove(queues[1])
    assert opened(desk, "d").slot == 1
    assert opened(desk, "e").slot == 3
    desk.broker.durables.remove(desk.broker.durables.find(("c", "a")))
    desk.turn()
    desk.fail_over()
    assert opened(desk, "f").slot == 0
    assert opened(desk, "g").slot == 4


def test_those_that_are_away_cost_nothing_for_each_message(desk) -> None:
    """
    Q48: they keep no flags, and the topic no count, until one is done with something; then it has
    flags for that chunk alone.
    """
    queues = [opened(desk, f"s{number}") for number in range(100)]
    store(desk, 5_000)
    topic = queues[0].topic.index
    assert all(not it.index.chunks for it in queues)
    assert all(chunk.done is None for chunk in topic.chunks.values())
    assert {it.index.live_count for it in queues} == {5_000}
    assert topic.live_count == 5_000
    record = queues[0].acknowledgement([1_000])
    desk.broker.state.apply(desk.next_record, [record], 9)
    assert [len(it.index.chunks) for it in queues[:2]] == [1, 0]
    assert [number for number, it in topic.chunks.items() if it.done is not None] == [1_000 >> 9]


def test_what_only_one_needed_goes_with_its_purge(desk) -> None:
    """
    Chunk by chunk, counted and forgotten as what is acknowledged is; what others need stays.
    """
    first = opened(desk, "a")
    store(desk, 2_000)
    second = opened(desk, "b")
    store(desk, 2_000)
    settled = [5, 600, 2_500]
    desk.broker.state.apply(desk.next_record, [first.acknowledgement(settled)], 9)
    before = desk.state.acknowledged_total
    desk.broker.durables.purge(first)
    desk.turn()
    topic = first.topic.index
    assert (first.index.live_count, second.index.live_count) == (0, 2_000)
    assert (topic.live_count, topic.first()) == (2_000, 2_001)
    assert topic.live_bytes == sum(sum(it.sizes) for it in topic.chunks.values())
    assert desk.state.acknowledged_total - before == 1_998
    assert desk.state.live_count() == 2_000


def test_a_large_one_goes_in_steps(desk) -> None:
    """
    So many chunks a record, each of which is applied in a step of its own.
    """
    first, second = opened(desk, "a"), opened(desk, "b")
    store(desk, 100_000)
    assert first.index.live_count == second.index.live_count == 100_000
    desk.broker.durables.remove(first)
    batch = desk.broker.receipts.batch
    purges = [it for it in batch.records if type(it) is PurgeRecord]
    assert len(purges) == 4
    assert type(batch.records[-1]) is DeleteQueueRecord
    steps = [some for _, some in record_steps(1, batch.records, 64, desk.state.queues)]
    assert all(len(some) == 1 for some in steps)
    desk.turn()
    assert second.index.live_count == 100_000
    assert set(desk.state.subscriptions) == {("c", "b")}
    assert digest_of(desk.state) == digest_of(desk.replayed())


def test_a_purge_takes_what_is_there_and_not_what_comes(desk) -> None:
    """
    Nobody else's; what only waits in the batch goes as well.
    """
    first, second = opened(desk, "a"), opened(desk, "b")
    store(desk, 3)
    assert desk.broker.durables.purge(first) == 3
    store(desk, 2)
    assert (first.index.live_count, second.index.live_count) == (2, 5)
    assert digest_of(desk.state) == digest_of(desk.replayed())


def test_the_last_takes_its_topic_along(desk) -> None:
    """
    By one record, whatever it kept; the name may be a stored topic's again at once.
    """
    queue = opened(desk, "a")
    store(desk, 1000)
    desk.broker.durables.remove(queue)
    assert [type(it) for it in desk.broker.receipts.batch.records] == [DeleteQueueRecord]
    again = opened(desk, "a")
    store(desk, 1)
    assert again.index.live_count == desk.state.live_count() == 1
    assert again.number != queue.number
    assert len(records(desk, SubscriptionRecord)) == 2
    assert digest_of(desk.state) == digest_of(desk.replayed())


def kept_in_memory():
    """How many objects of each type of ours there are, whether anybody needs them or not."""
    found = (type(it) for it in gc.get_objects())
    return Counter(it.__name__ for it in found if str(it.__module__).startswith("holdfast"))


def test_what_was_removed_goes_without_the_collector(desk) -> None:
    """
    It looks through all ages of objects while there are few: 6 KB of each removed one stayed.
    """

    def make_and_remove(count):
        for _ in range(count):
            queues = [opened(desk, name) for name in ("a", "b")]
            store(desk, 3)
            for queue in (*queues, desk.broker.destinations.queue("q")):
                assert queue.choice, "as once there was a consumer"
                if queue not in queues:
                    desk.turn()
                    desk.broker.destinations.delete(queue)
                else:
                    desk.broker.durables.remove(queue)
                desk.turn()

    make_and_remove(2)
    gc.collect()
    gc.disable()
    try:
        before = kept_in_memory()
        make_and_remove(10)
        more = kept_in_memory() - before
    finally:
        gc.enable()
    assert not {name: count for name, count in more.items() if count >= 10}


def test_all_are_named_whoever_asked_for_them(desk) -> None:
    """
    What the log has, and what is on its way there.
    """
    opened(desk, "a")
    desk.fail_over()
    desk.broker.durables.open(Wanted("t", "c", "b"))
    assert sorted(desk.broker.durables.names()) == [("c", "a"), ("c", "b")]
    desk.broker.durables.remove(desk.broker.durables.find(("c", "a")))
    assert list(desk.broker.durables.names()) == [("c", "b")]
    assert desk.broker.durables.count == 1


def leader_after_what_expires(desk):
    """Two subscriptions of a topic with three messages that expire, as a new leader has them."""
    opened(desk, "a")
    opened(desk, "b")
    topic = desk.broker.destinations.stored.topic("t")
    expiring = MessageFacts(attributes=Attributes(expires_ms=EXPIRES_MS))
    for _ in range(3):
        desk.broker.sending.send(topic, b"", b"x", desk.client, None, facts=expiring)
    desk.turn()
    desk.fail_over()


def expire(desk):
    desk.broker.sending.now_microseconds = EXPIRES_MS * 1000
    desk.broker.returning.look_at_the_clock()
    while desk.broker.expiring.step():
        pass


def test_one_that_is_asked_for_first_has_one_half_though_messages_expire(desk) -> None:
    """
    Its topic, made for its sake, has all its subscriptions made, itself among them: what somebody
    has of it does not expire for him.
    """
    leader_after_what_expires(desk)
    found = desk.broker.durables.find(("c", "a"))
    lasting = desk.state.subscriptions["c", "a"]
    leadership = desk.broker.destinations.leadership
    assert lasting.listener is found
    assert leadership.durables["c", "a"] is found
    consumer = Subscription(desk.client, "s", mode=AcknowledgeMode.INDIVIDUAL, prefetch=10)
    desk.broker.subscribe(consumer, found)
    desk.turn()
    assert len(consumer.unacknowledged) == 3
    expire(desk)
    desk.turn()
    assert lasting.index.live_count == 3
    assert desk.state.subscriptions["c", "b"].index.live_count == 0


def test_nothing_is_moved_from_one_whose_end_is_on_its_way(desk) -> None:
    """
    Behind its end it would be said of a subscription that nobody knows any more.
    """
    leader_after_what_expires(desk)
    ended = desk.broker.durables.find(("c", "a"))
    desk.broker.durables.remove(ended)
    expire(desk)
    desk.broker.moving.take(ended, [desk.queue("other")], [1], Cause.MOVED, moved_at=5)
    assert {it.queue_number for it in desk.broker.receipts.batch.records if type(it) is MoveRecord}
    desk.turn()
    moves = records(desk, MoveRecord)
    assert moves
    assert all(it.queue_number != ended.number for it in moves)
    assert digest_of(desk.state) == digest_of(desk.replayed())


@pytest.mark.parametrize(
    "late",
    [
        lambda number, topic: SubscriptionAcknowledgeRecord(number, [1], topic),
        lambda number, topic: PurgeRecord(number, 2, topic),
        lambda number, topic: ReturnedRecord(number, ReturnCause.LOST, [1], 0, topic),
        lambda number, topic: CountedRecord(number, topic, [1], attempts=1, failures=0, due_ms=0),
        lambda number, topic: MoveRecord(
            number, 0, Cause.EXPIRED, [Run(1, 0, 1)], queue_name="t", moved_at=5, topic_number=topic
        ),
    ],
)
def test_what_is_said_of_one_that_has_ended_makes_none(desk, late) -> None:
    """
    A topic that knows all of its subscriptions has none beside them: another one would keep what
    comes for ever, and have no name that the cleaner could write.
    """
    first, second = opened(desk, "a"), opened(desk, "b")
    store(desk, 3)
    desk.broker.durables.remove(first)
    desk.turn()
    before = digest_of(desk.state)
    desk.state.apply(desk.next_record, [late(first.number, second.topic.number)], 9)
    assert first.number not in desk.state.queues
    assert digest_of(desk.state) == before


def test_one_that_was_never_told_of_is_not_written_again(desk) -> None:
    """
    A replica that began late may know one by its number only: it has no name to be written.
    """
    topic, number = 7, 9
    said = SubscriptionAcknowledgeRecord(number, [1], topic)
    desk.state.apply(1, [said, TopicRecord(topic, "t", subscription_count=1)], 9)
    written = [it for piece in homeless_topics(desk.broker, 99) for it in piece]
    assert [(type(it), it.subscription_count) for it in written] == [(TopicRecord, 0)]


def commit_to_topic_stored_since(desk, count):
    """Commit so many messages that were sent to a topic before it was stored."""
    transaction = desk.broker.begin("t")
    for _ in range(count):
        desk.broker.hold(transaction, desk.broker.topic("t"), b"", b"x", persistent=True)
    queue = opened(desk, "a")
    desk.broker.commit(transaction, desk.client, b"done")
    return queue


def test_much_that_was_sent_before_its_topic_was_stored_is_numbered_in_steps(desk) -> None:
    """
    As other large transactions are; COMMIT itself makes no record.
    """
    queue = commit_to_topic_stored_since(desk, 1_000)
    (steps,) = desk.broker.receipts.batch.unnumbered
    assert len(list(steps)) == 1
    desk.turn()
    assert queue.index.live_count == 1_000
    assert digest_of(desk.state) == digest_of(desk.replayed())


def test_a_commit_that_fails_gives_back_the_numbers_of_such_a_topic(desk, monkeypatch) -> None:
    """
    Whole, though what was sent before and after it was stored takes them one after the other.
    """
    transaction = desk.broker.begin("t")
    desk.broker.hold(transaction, desk.broker.topic("t"), b"", b"1", persistent=True)
    queue = opened(desk, "a")
    topic = desk.broker.destinations.stored.topic("t")
    desk.broker.hold(transaction, topic, b"", b"2", persistent=True)
    with monkeypatch.context() as patch:
        patch.setattr(committing, "number_messages", lambda *_args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            desk.broker.commit(transaction, desk.client, b"done")
    assert topic.assigned_sequence == 1
    desk.broker.commit(transaction, desk.client, b"done")
    desk.turn()
    assert [it.body for it in records(desk, MessageRecord)] == [b"1", b"2"]
    assert [it.sequence for it in records(desk, MessageRecord)] == [1, 2]
    assert queue.index.live_count == 2


@pytest.mark.parametrize(("is_late", "kept_count"), [(False, 2), (True, 0)])
def test_a_checkpoint_writes_down_ahead_only_whom_a_message_changes(
    desk, monkeypatch, is_late, kept_count
) -> None:
    """
    Those that skip it, and the topic; of one that lives already, as the cleaner wrote it again, the
    topic alone. A message for 5,000 took 16 ms while a checkpoint was made.
    """
    queues = [opened(desk, f"s{number}") for number in range(20)]
    store(desk, 3)
    expected = b"".join(encode_state(desk.state))
    began = desk.state.snapshot = Snapshot(desk.state)
    kept = []
    write = snapshot.encode_queue_head
    monkeypatch.setattr(
        snapshot,
        "encode_queue_head",
        lambda queue, *them, **more: (kept.append(queue.number), write(queue, *them, **more))[1],
    )
    message = MessageRecord(queues[0].topic.number, 2 if is_late else 4, b"", b"x", 1)
    message.rewritten = is_late
    message.facts = MessageFacts(skips=b"\x05")
    desk.state.apply(desk.next_record, [message], 9)
    skipping = [queues[0].number, queues[2].number]
    assert sorted(kept) == sorted([queues[0].topic.number, *skipping[:kept_count]])
    while not began.step(1):
        pass
    assert b"".join(began.parts) == expected
    counts = [each.lasting.index.live_count for each in queues[:3]]
    assert counts == ([3, 3, 3] if is_late else [3, 4, 3])


def test_only_so_many_of_a_client_may_leave_out_what_it_sends_to_a_topic(desk) -> None:
    """
    Each of them is told of with each such message: one message is not cut. One that is
    there already may be another; those of others, of other topics and without it are not counted.
    """
    durables = desk.broker.durables
    durables.effort_max = 2
    for name in ("a", "b"):
        durables.open(Wanted("t", "c", name, has_no_local=True))
    with pytest.raises(DestinationError, match="there are 2 durable subscriptions of topic 't'"):
        durables.open(Wanted("t", "c", "d", has_no_local=True))
    assert durables.find(("c", "d")) is None
    again = durables.open(Wanted("t", "c", "b", "n = 1", has_no_local=True))
    assert again.lasting.selector == "n = 1"
    for wanted in (
        Wanted("t", "c", "d"),
        Wanted("t", "other", "d", has_no_local=True),
        Wanted("u", "c", "e", has_no_local=True),
    ):
        durables.open(wanted)
    desk.turn()
    assert len(desk.state.subscriptions) == 5
