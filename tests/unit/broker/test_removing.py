"""
Queues go that nobody uses, and no others.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.durables import Wanted
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.removing import LOOK_MS, Removing
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import (
    FormatRecord,
    PolicyRecord,
    QueueRecord,
    SubscriptionAcknowledgeRecord,
)

GONE_MS = 60_000


@pytest.fixture
def desk(desk):
    desk.broker.sending.now_microseconds = 1_000_000
    say(desk, "queue://>", gcInactiveDestinations="true", inactiveTimeoutBeforeGC=GONE_MS)
    return desk


def say(desk, pattern: str, **values) -> None:
    desk.broker.receipts.record(PolicyRecord(pattern, json.dumps(values)))
    desk.turn()


def pass_time(desk, seconds: int = (GONE_MS + 3 * LOOK_MS) // 1000) -> None:
    """Let the loop go on, second by second."""
    broker = desk.broker
    for _ in range(seconds):
        broker.sending.now_microseconds += 1_000_000
        broker.returning.look_at_the_clock()
        if broker.has_to_wake:
            broker.wake()
        desk.turn()


def names(desk) -> set[str]:
    return set(desk.broker.destinations.queue_names())


def test_an_empty_queue_goes_after_its_time_on_every_node(desk) -> None:
    """
    Not before; and the log says so, so that a node that has only that has the same queues.
    """
    desk.queue("a")
    desk.turn()
    pass_time(desk, GONE_MS // 1000 - 1)
    assert names(desk) == {"a"}
    pass_time(desk, 3 * LOOK_MS // 1000)
    assert names(desk) == set()
    assert not desk.replayed().by_name
    assert desk.broker.removing.removed_total == 1


def wild(desk):
    """Let a durable subscription be of a wildcard."""
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    desk.turn()
    desk.broker.durables.open(Wanted("a.*", "ann", "mine"))
    desk.turn()
    return desk.broker.destinations.stored


def send(desk, *topics: str) -> None:
    for name in topics:
        desk.broker.send(desk.broker.destinations.stored.topic(name), b"", b"", desk.client, None)


def test_what_wildcards_have_of_a_topic_goes_when_it_is_nothing(desk) -> None:
    """
    If that is said of it, and only theirs: so a producer that names ever new topics has room again.
    """
    wild(desk)
    send(desk, "a.full", "a.empty", "a.own", "a.unsaid")
    desk.broker.durables.open(Wanted("a.own", "ben", "his"))
    desk.turn()
    for name in ("a.empty", "a.own", "a.unsaid"):
        (part,) = [it for it in desk.state.topics[name].subscriptions.values() if it.whole_number]
        sequences = list(part.index.sequences(1, 9))
        record = SubscriptionAcknowledgeRecord(part.number, sequences, part.topic.number)
        desk.broker.receipts.record(record)
    desk.turn()
    pass_time(desk)
    assert len(desk.state.topics) == 5, "of queues it was said"
    say(desk, "topic://>", gcInactiveDestinations="true", inactiveTimeoutBeforeGC=GONE_MS)
    say(desk, "topic://a.unsaid", gcInactiveDestinations="false")
    pass_time(desk, GONE_MS // 1000 - 1)
    assert len(desk.state.topics) == 5
    pass_time(desk)
    assert set(desk.state.topics) == {"a.*", "a.full", "a.own", "a.unsaid"}
    assert desk.broker.durables.count == 5
    assert digest_of(desk.replayed()) == digest_of(desk.state)


@pytest.mark.parametrize(("is_spent", "at_once"), [(True, 20), (False, 80)])
def test_many_parts_of_topics_are_much_to_delete(desk, is_spent, at_once) -> None:
    """
    After some the clock is asked, and however much time there is, few go with one batch.
    """
    stored = wild(desk)
    for number in range(19):
        desk.broker.durables.open(Wanted("a.*", f"c{number}", "mine"))
    for number in range(70):
        stored.topic(f"a.{number}")
    say(desk, "topic://>", gcInactiveDestinations="true", inactiveTimeoutBeforeGC=GONE_MS)
    pass_time(desk, GONE_MS // 1000 - 1)
    broker, counts = desk.broker, [0]
    before = broker.durables.count
    assert before == 20 * 71
    for _ in range(200):
        broker.sending.now_microseconds += 1_000_000
        broker.returning.look_at_the_clock()
        if broker.has_to_wake:
            broker.wake(lambda: is_spent)
        counts.append(before - broker.durables.count)
        before = broker.durables.count
        desk.turn()
    assert max(counts) == at_once, "those of one topic go together"
    assert sum(counts) == 20 * 70


def test_a_topic_to_which_is_sent_what_is_not_kept_is_used(desk) -> None:
    """
    Whoever listens, or nobody; as a queue is.
    """
    stored = wild(desk)
    say(desk, "topic://>", gcInactiveDestinations="true", inactiveTimeoutBeforeGC=GONE_MS)
    topic = stored.topic("a.used")
    stored.topic("a.unused")
    for _ in range(2 * GONE_MS // LOOK_MS):
        desk.broker.sending.send_transient_on(topic, b"", b"", None, "")
        pass_time(desk, LOOK_MS // 1000)
    assert set(desk.state.topics) == {"a.*", "a.used"}
    pass_time(desk)
    assert set(desk.state.topics) == {"a.*"}


def test_what_is_sent_as_it_goes_is_for_the_wildcard(desk) -> None:
    """
    Also in the same turn, and while it is on its way: it has a part again.
    """
    stored = wild(desk)
    say(desk, "topic://>", gcInactiveDestinations="true", inactiveTimeoutBeforeGC=GONE_MS)
    stored.topic("a.x")
    desk.turn()
    before = desk.state.topics["a.x"]
    broker = desk.broker
    for _ in range((GONE_MS + 3 * LOOK_MS) // 1000):
        broker.sending.now_microseconds += 1_000_000
        broker.returning.look_at_the_clock()
        broker.wake()
        if broker.receipts.batch.records:
            break
    send(desk, "a.x")
    desk.turn()
    after = desk.state.topics["a.x"]
    assert after is not before and after.index.live_count == 1
    pass_time(desk)
    assert desk.state.topics["a.x"] is after


def test_what_is_used_stays(desk) -> None:
    """
    With a message, a consumer, a non-persistent message; and who uses it now and then has it.
    """
    desk.send(b"x", "full")
    desk.subscribe("consumed")
    desk.broker.send_transient(desk.queue("volatile"), b"", b"x")
    used = desk.queue("used")
    visited = desk.queue("visited")
    desk.turn()
    for _ in range(6):
        pass_time(desk, GONE_MS // 2000)
        desk.send(b"x", "used")
        desk.turn()
        subscription = desk.subscribe("used", client=None)
        desk.turn()
        for key in list(subscription.unacknowledged):
            desk.broker.acknowledge(subscription, key, desk.client, None)
        desk.broker.unsubscribe(subscription)
        desk.broker.unsubscribe(desk.subscribe("visited"))
        desk.turn()
    assert names(desk) == {"full", "consumed", "volatile", "used", "visited"}
    assert not (used.is_deleted or visited.is_deleted)
    pass_time(desk)
    assert names(desk) == {"full", "consumed", "volatile"}


def test_a_queue_that_this_leader_never_served_goes_too(desk) -> None:
    """
    After a failover most are such; the time counts anew.
    """
    for number in range(200):
        desk.queue(f"q{number}")
    desk.turn()
    pass_time(desk, GONE_MS // 1000 - 1)
    now = desk.broker.sending.now_microseconds
    desk.fail_over()
    desk.broker.sending.now_microseconds = now
    desk.broker.returning.look_at_the_clock()
    pass_time(desk, LOOK_MS // 1000)
    assert len(names(desk)) == 200
    pass_time(desk)
    assert names(desk) == set()


@pytest.mark.parametrize("name", ["Consumer.billing.VirtualTopic.orders", "$schedule"])
def test_what_stands_for_something_else_stays(desk, name) -> None:
    """
    A queue that consumes a virtual topic is for what comes while nobody is there; the broker's own
    are nobody's to leave.
    """
    desk.broker.receipts.record(QueueRecord(7, name, 1, 0))
    desk.turn()
    pass_time(desk)
    assert names(desk) == {name}


def test_a_queue_of_a_virtual_topic_by_policy_stays(desk) -> None:
    """
    Whatever its form: what is sent to the topic is for it.
    """
    say(
        desk,
        "topic://news.*",
        virtualTopic="true",
        virtualTopicPrefix="reader.*.",
    )
    desk.queue("reader.a.news.x")
    desk.queue("reader.a.olds.x")
    desk.turn()
    pass_time(desk)
    assert names(desk) == {"reader.a.news.x"}


def test_a_queue_with_a_policy_of_its_own_name_stays(desk) -> None:
    """
    Somebody meant just this one.
    """
    say(desk, "queue://meant", queuePrefetch=1)
    desk.queue("meant")
    desk.queue("other")
    desk.turn()
    pass_time(desk)
    assert names(desk) == {"meant"}


def test_without_a_word_of_it_nothing_is_looked_at(desk) -> None:
    """
    Taken back, or said false for some; what is said changes what holds at once.
    """
    say(desk, "queue://kept.>", gcInactiveDestinations="false")
    desk.queue("kept.a")
    desk.turn()
    pass_time(desk)
    assert names(desk) == {"kept.a"}
    desk.broker.receipts.record(PolicyRecord("queue://>", ""))
    desk.broker.receipts.record(PolicyRecord("queue://kept.>", ""))
    desk.queue("b")
    desk.turn()
    assert not desk.broker.removing.has_any
    pass_time(desk)
    assert names(desk) == {"kept.a", "b"}


def test_what_is_sent_in_the_same_turn_is_stored(desk) -> None:
    """
    Q61: before the look the queue stays; behind it, it is a new one of the same name, in the log
    behind the deletion.
    """
    desk.queue("a")
    desk.turn()
    pass_time(desk, GONE_MS // 1000 - 1)
    broker = desk.broker
    for _ in range(3 * LOOK_MS // 1000):
        broker.sending.now_microseconds += 1_000_000
        broker.returning.look_at_the_clock()
        broker.wake()
        if broker.removing.removed_total:
            break
    old = desk.state.by_name["a"]
    desk.send(b"x", "a", receipt=b"r")
    desk.turn()
    assert desk.client.replies == [b"r"]
    assert desk.queue("a").number != old.number
    assert desk.replayed().by_name["a"].index.live_count == 1


def test_a_message_that_the_log_has_not_yet_keeps_its_queue(desk) -> None:
    """
    Its sender was not told, and will be.
    """
    desk.queue("a")
    desk.turn()
    pass_time(desk, GONE_MS // 1000 - 1)
    desk.send(b"x", "a", receipt=b"r")
    desk.seal()
    broker = desk.broker
    for _ in range(3 * LOOK_MS // 1000):
        broker.sending.now_microseconds += 1_000_000
        broker.returning.look_at_the_clock()
        broker.wake()
    desk.turn()
    assert desk.state.by_name["a"].index.live_count == 1


def test_a_hundred_thousand_queues_are_looked_at_in_steps(desk) -> None:
    """
    And no more than a thousand go with one batch.
    """
    for number in range(1_500):
        desk.queue(f"q{number}")
    desk.turn()
    broker = desk.broker
    for _ in range(GONE_MS // 1000 - 1):
        broker.sending.now_microseconds += 1_000_000
        broker.returning.look_at_the_clock()
        if broker.has_to_wake:
            broker.wake()
    counts: list[int] = []
    for _ in range(200):
        broker.sending.now_microseconds += 1_000_000
        broker.returning.look_at_the_clock()
        before = broker.removing.removed_total
        if broker.has_to_wake:
            broker.wake(lambda: True)
        counts.append(broker.removing.removed_total - before)
        desk.turn()
    assert max(counts) <= 64
    assert sum(counts) > 0


def test_nothing_is_kept_of_a_queue_that_an_operator_deletes(desk) -> None:
    """
    Who makes and deletes queues all day would else fill the memory with what they were.
    """
    for number in range(3):
        desk.queue(f"q{number}")
        desk.turn()
        pass_time(desk, 2 * LOOK_MS // 1000)
        assert desk.broker.destinations.idle
        assert desk.broker.destinations.idle_ms
        desk.broker.destinations.delete(desk.queue(f"q{number}"))
        desk.turn()
        assert not desk.broker.destinations.idle
        assert not desk.broker.destinations.idle_ms


def test_between_two_looks_at_the_clock_few_policies_are_looked_up(desk, monkeypatch) -> None:
    """
    To look up what many patterns say takes up to half a millisecond, and 64 of them took thirty;
    what is known already takes little, and much of it is looked at at once.
    """
    for number in range(200):
        desk.queue(f"q{number}")
    desk.turn()
    looked_up = [0]
    whole = Removing._look_up

    def look_up(removing: Removing, name: str) -> int:
        looked_up[-1] += 1
        return whole(removing, name)

    def is_spent() -> bool:
        looked_up.append(0)
        return False

    monkeypatch.setattr(Removing, "_look_up", look_up)
    assert desk.broker.removing.has_any
    assert not desk.broker.removing.step(is_spent)
    assert sum(looked_up) == 200
    assert max(looked_up) == 2
    looked_up[:] = [0]
    assert not desk.broker.removing.step(is_spent)
    assert sum(looked_up) == 0
    assert len(looked_up) == 1 + 200 // 64
