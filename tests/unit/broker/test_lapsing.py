"""
Durable subscriptions keep no more than policies say, and end when nobody comes back for them.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.durables import Wanted
from holdfast.broker.lapsing import LOOK_MS
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL, WILD_DURABLES_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord, PurgeRecord
from holdfast.store.record_codec import decode_records

ALONE_MS = 60_000


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.broker.sending.now_microseconds = 1_000_000
    desk.turn()
    return desk


def say(desk, pattern: str = "topic://>", **values) -> None:
    desk.broker.receipts.record(PolicyRecord(pattern, json.dumps(values)))
    desk.turn()


def opened(desk, name, topic="t"):
    queue = desk.broker.durables.open(Wanted(topic, "c", name))
    desk.turn()
    return queue


def consumed(desk, name, client, *, prefetch=100):
    subscription = Subscription(
        client, f"s{name}", mode=AcknowledgeMode.INDIVIDUAL, prefetch=prefetch
    )
    client.subscriptions[subscription.id] = subscription
    desk.broker.subscribe(subscription, desk.broker.durables.find(("c", name)))
    desk.turn()
    return subscription


def store(desk, count, topic="t", body=b""):
    transaction = desk.broker.begin("t")
    stored = desk.broker.destinations.stored.topic(topic)
    for _ in range(count):
        desk.broker.hold(transaction, stored, b"", body, persistent=True)
    desk.broker.commit(transaction, desk.client, None)
    for steps in desk.broker.receipts.batch.unnumbered:
        list(steps)
    desk.turn()


def pass_time(desk, milliseconds: int = 2 * LOOK_MS) -> None:
    """Let the loop go on, second by second."""
    broker = desk.broker
    for _ in range(milliseconds // 1_000):
        broker.sending.now_microseconds += 1_000_000
        broker.returning.look_at_the_clock()
        if broker.has_to_wake:
            broker.wake()
        desk.turn()


def names(desk) -> set[str]:
    return {name for _, name in desk.state.subscriptions}


def test_of_one_that_is_away_the_oldest_go_and_others_lose_nothing(desk) -> None:
    """
    By one record, however many they are; it is the same on a node that has only the log.
    """
    away, other = opened(desk, "away"), opened(desk, "other", "u")
    store(desk, 5_000)
    store(desk, 50, "u")
    say(desk, "topic://t", maxLength=700)
    pass_time(desk)
    assert away.index.live_count == 700
    assert away.index.first() == 4_301
    assert other.index.live_count == 50
    assert desk.broker.lapsing.dropped_total == 4_300
    purges = [it for _, _, body in desk.log for it in decode_records(body)]
    assert sum(type(it) is PurgeRecord for it in purges) == 1
    assert digest_of(desk.replayed()) == digest_of(desk.state)


def test_one_of_very_many_messages_is_cut_in_steps(desk) -> None:
    """
    Each record takes a little to apply; the next second goes on, until it is short enough.
    """
    away, full = opened(desk, "away"), opened(desk, "full")
    store(desk, 40_000)
    say(desk, "topic://t", maxLength=10)
    pass_time(desk, 1_000)
    first = away.index.live_count
    assert 10 < first < 40_000
    pass_time(desk, 5_000)
    assert away.index.live_count == full.index.live_count == 10
    assert desk.state.topics["t"].index.live_count == 10
    assert desk.broker.lapsing.dropped_total == 2 * (40_000 - 10)


def test_time_is_looked_at_after_each_that_is_cut(desk) -> None:
    """
    So that very many with very much to cut hold up nobody; the next step goes on with the others.
    """
    queues = [opened(desk, f"s{number}") for number in range(5)]
    store(desk, 1_000)
    say(desk, "topic://t", maxLength=10)
    lapsing = desk.broker.lapsing
    for count in range(1, 5):
        assert lapsing.step(lambda: True)
        desk.turn()
        assert sum(it.index.live_count == 10 for it in queues) == count


def wild(new_desk):
    desk = new_desk(BrokerSettings(known_format_level=WILD_DURABLES_LEVEL))
    desk.broker.receipts.record(FormatRecord(WILD_DURABLES_LEVEL))
    desk.broker.sending.now_microseconds = 1_000_000
    desk.turn()
    return desk


def test_one_of_a_wildcard_ends_as_a_whole(new_desk) -> None:
    """
    By what is said of the wildcard, as if it were a name; what is said of a topic ends no part.
    """
    desk = wild(new_desk)
    opened(desk, "away", "a.*")
    store(desk, 5, "a.x")
    store(desk, 5, "a.y")
    say(desk, "topic://a.x", offlineDurableSubscriberTimeout=1_000)
    pass_time(desk, 10_000)
    assert len(desk.state.subscriptions) == 3
    say(desk, "topic://a.>", offlineDurableSubscriberTimeout=5_000)
    pass_time(desk, 3_000)
    assert len(desk.state.subscriptions) == 3
    pass_time(desk, 10_000)
    desk.broker.errands.finish()
    desk.turn()
    assert not desk.state.subscriptions and not desk.state.topics and not desk.state.parts
    assert desk.broker.lapsing.ended_total == 1
    assert digest_of(desk.replayed()) == digest_of(desk.state)


def test_of_one_of_a_wildcard_each_part_keeps_what_its_topic_says(new_desk) -> None:
    """
    The oldest of that topic go.
    """
    desk = wild(new_desk)
    whole = opened(desk, "away", "a.*")
    store(desk, 50, "a.x")
    store(desk, 50, "a.y")
    say(desk, "topic://a.x", maxLength=7)
    pass_time(desk)
    parts = desk.state.parts[whole.number].values()
    assert {it.topic.name: it.index.live_count for it in parts} == {"a.x": 7, "a.y": 50}
    assert desk.broker.lapsing.dropped_total == 43


def test_bytes_count_as_well(desk) -> None:
    """
    Those of headers and bodies, as on a queue.
    """
    away = opened(desk, "away")
    store(desk, 20, body=b"x" * 1_000)
    size = away.index.live_bytes // 20
    say(desk, "topic://t", maxLengthBytes=5 * size)
    pass_time(desk)
    assert away.index.live_bytes == 5 * size
    assert away.index.live_count == 5
    assert desk.broker.lapsing.dropped_total == 15


def test_what_a_consumer_has_is_not_dropped(desk, new_client) -> None:
    """
    The oldest of those that it has not been sent go; it goes on behind them.
    """
    opened(desk, "here")
    say(desk, "topic://t", maxLength=10)
    client = new_client()
    subscription = consumed(desk, "here", client, prefetch=4)
    store(desk, 30)
    pass_time(desk)
    held = list(subscription.unacknowledged)
    assert held == [1, 2, 3, 4]
    for key in held:
        desk.broker.acknowledge(subscription, key, client, None)
    desk.turn()
    assert client.keys[4:] == [25, 26, 27, 28]
    assert desk.broker.limiting.dropped_total == 20


def test_one_that_was_left_is_cut_and_its_next_consumer_gets_the_rest(desk, new_client) -> None:
    """
    What was sent to the one before is among what goes; what stays is delivered in order.
    """
    opened(desk, "left")
    client = new_client()
    subscription = consumed(desk, "left", client, prefetch=4)
    store(desk, 10)
    desk.broker.unsubscribe(subscription)
    desk.turn()
    say(desk, "topic://t", maxLength=7)
    pass_time(desk)
    again = new_client()
    consumed(desk, "left", again)
    assert again.keys == [4, 5, 6, 7, 8, 9, 10]
    assert dict(again.deliveries)[4]


def test_one_ends_that_nobody_comes_back_for(desk, new_client) -> None:
    """
    Not before its time; one with a consumer stays, and so does one whose topic no policy means.
    """
    for name, topic in (("alone", "t"), ("here", "t"), ("elsewhere", "u")):
        opened(desk, name, topic)
    consumed(desk, "here", new_client())
    store(desk, 3)
    say(desk, "topic://t", offlineDurableSubscriberTimeout=ALONE_MS)
    pass_time(desk, ALONE_MS)
    assert names(desk) == {"alone", "here", "elsewhere"}
    pass_time(desk, 2 * LOOK_MS)
    assert names(desk) == {"here", "elsewhere"}
    assert desk.broker.lapsing.ended_total == 1
    assert digest_of(desk.replayed()) == digest_of(desk.state)


def test_its_time_runs_on_over_changes_of_leaders(desk, new_client) -> None:
    """
    Q52: from when it was left, as the log says; of a consumer that was lost with its leader the
    next one says so, once.
    """
    opened(desk, "left")
    opened(desk, "lost")
    left = consumed(desk, "left", new_client())
    consumed(desk, "lost", new_client())
    say(desk, "topic://t", offlineDurableSubscriberTimeout=ALONE_MS)
    desk.broker.unsubscribe(left)
    desk.turn()
    for _ in range(3):
        now = desk.broker.sending.now_microseconds
        desk.fail_over()
        desk.broker.sending.now_microseconds = now
        pass_time(desk, ALONE_MS // 4)
    assert names(desk) == {"left", "lost"}
    pass_time(desk, ALONE_MS // 4)
    assert names(desk) == {"lost"}
    pass_time(desk, 4_000)
    assert names(desk) == set()


def test_who_comes_back_in_time_has_it(desk, new_client) -> None:
    """
    The time begins anew when it is left again.
    """
    opened(desk, "mine")
    say(desk, "topic://t", offlineDurableSubscriberTimeout=ALONE_MS)
    for _ in range(3):
        pass_time(desk, ALONE_MS // 2)
        mine = consumed(desk, "mine", new_client())
        pass_time(desk, ALONE_MS // 2)
        desk.broker.unsubscribe(mine)
        desk.turn()
    assert names(desk) == {"mine"}


def test_nothing_is_looked_at_where_no_policy_speaks_of_it(desk) -> None:
    """
    One that speaks of other topics' prefetch, or of queues, is none.
    """
    opened(desk, "mine")
    say(desk, "topic://>", durableTopicPrefetch=7)
    say(desk, "queue://>", maxLength=1)
    assert not desk.broker.lapsing.has_any
    say(desk, "topic://u", maxLength=1)
    assert desk.broker.lapsing.has_any
