"""
Consumers that hold others up are found and ended, and no others.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.format_level import RETURNS_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord, ReturnCause
from tests.unit.broker.conftest import Client

SLOW = "abortSlowConsumerStrategy"
SILENT = "abortSlowAckConsumerStrategy"
PERIOD_MS = 1_000


class Ended(Client):
    """A connection that notes which of its consumers are ended, and lets them end."""

    def __init__(self, desk) -> None:
        super().__init__()
        self.desk = desk
        self.ended: list[tuple[Subscription, str, bool]] = []

    def too_slow(self, subscription, why: str, *, ends_connection: bool) -> None:
        self.ended.append((subscription, why, ends_connection))
        self.desk.broker.unsubscribe(subscription, ReturnCause.LOST)


@pytest.fixture
def desk(desk):
    desk.broker.sending.now_microseconds = 1_000_000
    desk.broker.receipts.record(FormatRecord(RETURNS_LEVEL))
    desk.turn()
    return desk


def say(desk, pattern: str = "queue://orders", strategy: str = SLOW, **values) -> None:
    said = {"slowConsumerStrategy": strategy, "checkPeriod": PERIOD_MS, **values}
    desk.broker.receipts.record(PolicyRecord(pattern, json.dumps(said)))
    desk.turn()


def pass_time(desk, seconds: float) -> None:
    """Let the loop go on, as a node sees time."""
    broker = desk.broker
    for _ in range(round(10 * seconds)):
        broker.sending.now_microseconds += 100_000
        broker.returning.look_at_the_clock()
        if broker.has_to_wake:
            broker.wake()
        desk.turn()


def sent(desk, count: int) -> None:
    for number in range(count):
        desk.send(b"%d" % number)
    desk.turn()


def test_who_has_no_room_and_says_nothing_is_ended_and_what_it_had_comes_again(desk) -> None:
    """
    Not before its time, and the sentence says what it did; the log says that it was lost.
    """
    say(desk, maxSlowDuration=5_000)
    client = Ended(desk)
    slow = desk.subscribe(prefetch=2, client=client)
    sent(desk, 5)
    pass_time(desk, 4.9)
    assert not client.ended
    assert desk.broker.slowness.slow_count == 1
    assert desk.broker.slowness.is_slow(slow)
    pass_time(desk, 2.1)
    ((ended, why, ends_connection),) = client.ended
    assert (ended, ends_connection) == (slow, False)
    assert why.startswith("a consumer of queue 'orders' is slow: for 5.0 s it has no room for what")
    assert desk.broker.slowness.aborted_total == 1
    assert desk.queue().index.returned(1).attempts == 1
    other = desk.subscribe(client=Client())
    desk.turn()
    assert list(other.unacknowledged) == [1, 2, 3, 4, 5]
    pass_time(desk, 2)
    assert desk.broker.slowness.slow_count == 0


def test_who_goes_on_working_is_never_slow(desk) -> None:
    """
    However long its line is: at every look its window is full and more waits (ActiveMQ ends it).
    """
    say(desk, maxSlowDuration=2_000, maxSlowCount=2)
    client = Ended(desk)
    busy = desk.subscribe(prefetch=3, client=client)
    sent(desk, 100)
    for _ in range(20):
        key = list(busy.unacknowledged)[1]
        desk.broker.acknowledge(busy, key, client, None)
        pass_time(desk, 0.9)
        assert len(busy.unacknowledged) == 3
    assert not client.ended
    assert desk.broker.slowness.slow_count == 0


def test_who_has_all_there_is_holds_nobody_up(desk) -> None:
    """
    Its window is full, but nothing waits: what it has, others cannot have anyway.
    """
    say(desk, maxSlowDuration=2_000)
    client = Ended(desk)
    full = desk.subscribe(prefetch=3, client=client)
    sent(desk, 3)
    pass_time(desk, 20)
    assert not client.ended
    sent(desk, 1)
    pass_time(desk, 4.1)
    assert [each[0] for each in client.ended] == [full]


def test_who_rejects_and_gets_it_again_is_not_silent(desk) -> None:
    """
    The same message is in its window at every look, but it came back in between.
    """
    say(desk, maxSlowDuration=2_000)
    client = Ended(desk)
    picky = desk.subscribe(prefetch=1, client=client)
    sent(desk, 3)
    for _ in range(10):
        desk.broker.give_back(picky, 1, 0, client, None)
        desk.turn()
        assert list(picky.unacknowledged) == [1]
        pass_time(desk, 0.9)
    assert not client.ended


def test_who_reads_nothing_is_slow_where_nothing_is_acknowledged(desk) -> None:
    """
    In mode `auto` what its socket takes is all that is heard of it.
    """
    say(desk, maxSlowDuration=3_000)
    client = Ended(desk)
    deaf = desk.subscribe(mode=AcknowledgeMode.AUTO, client=client)
    client.room_bytes = 2
    sent(desk, 100)
    assert client.room_bytes <= 0
    for _ in range(8):
        pass_time(desk, 0.9)
        client.room_bytes = 1
        client.taken_bytes += 1
        desk.broker.resume(client)
        desk.turn()
    assert not client.ended
    pass_time(desk, 5.1)
    assert [each[0] for each in client.ended] == [deaf]


@pytest.mark.parametrize("strategy", ["abortSlowConsumerStrategy", "abortSlowAckConsumerStrategy"])
def test_of_what_is_on_its_way_still_nobody_can_say_anything(desk, strategy) -> None:
    """
    One large message goes out slowly: who reads it is not silent before it is there.
    """
    duration = dict.fromkeys(("maxSlowDuration", "maxTimeSinceLastAck"), 3_000)
    say(desk, slowConsumerStrategy=strategy, **duration)
    client = Ended(desk)
    reading = desk.subscribe(prefetch=1, client=client)
    sent(desk, 3)
    for _ in range(8):
        client.room_bytes = 0  # Its socket has not taken all of it.
        client.taken_bytes += 1
        pass_time(desk, 0.9)
    assert not client.ended
    for _ in range(8):
        client.taken_bytes += 1
        client.room_bytes = 1  # What is written is taken: it has the message.
        pass_time(desk, 0.9)
    assert [each[0] for each in client.ended] == [reading]


def test_what_a_transaction_of_who_is_gone_holds_waits_for_nobody(desk) -> None:
    """
    So nobody else is slow for it.
    """
    say(desk, maxSlowDuration=2_000)
    gone = desk.subscribe(client=Ended(desk), prefetch=2)
    sent(desk, 2)
    desk.broker.begin("t").add_settlement(gone, list(gone.unacknowledged))
    desk.broker.unsubscribe(gone)
    client = Ended(desk)
    desk.subscribe(prefetch=1, client=client)
    sent(desk, 1)
    pass_time(desk, 10)
    assert not client.ended


def test_who_is_slow_so_often_is_ended(desk) -> None:
    """
    Each time that it has become so counts, not each look.
    """
    say(desk, maxSlowDuration=-1, maxSlowCount=3)
    client = Ended(desk)
    slow = desk.subscribe(prefetch=1, client=client)
    sent(desk, 20)
    pass_time(desk, 30)
    assert not client.ended
    for _ in range(2):
        desk.broker.acknowledge(slow, next(iter(slow.unacknowledged)), client, None)
        assert not client.ended
        pass_time(desk, 3.5)
    assert [each[0] for each in client.ended] == [slow]
    assert "found to be slow 3 times" in client.ended[0][1]


def test_the_other_strategy_ends_who_acknowledges_nothing(desk) -> None:
    """
    Whether it has room or not, and whether anything waits; who has nothing is left alone.
    """
    say(desk, strategy=SILENT, maxTimeSinceLastAck=4_000, abortConnection="true")
    client, idle = Ended(desk), Ended(desk)
    silent = desk.subscribe(prefetch=100, client=client)
    sent(desk, 1)
    desk.subscribe(prefetch=100, client=idle)
    pass_time(desk, 4)
    assert not client.ended
    pass_time(desk, 2)
    assert [(it[0], it[2]) for it in client.ended] == [(silent, True)]
    assert "has acknowledged none of the 1 messages that it has" in client.ended[0][1]
    pass_time(desk, 3)
    assert not idle.ended


def test_who_acknowledges_something_while_more_comes_is_not_silent(desk) -> None:
    """
    One in the middle is enough, though the first that it got stays, and it has ever more.
    """
    say(desk, strategy=SILENT, maxTimeSinceLastAck=2_000)
    client = Ended(desk)
    busy = desk.subscribe(prefetch=100, client=client)
    sent(desk, 5)
    for _ in range(10):
        desk.broker.acknowledge(busy, list(busy.unacknowledged)[1], client, None)
        sent(desk, 2)
        pass_time(desk, 0.9)
    assert not client.ended


def test_a_subscriber_of_a_topic_for_whom_much_waits_is_slow(desk) -> None:
    """
    By the policy of the topic; nothing waits for the others.
    """
    say(desk, "topic://news", maxSlowDuration=2_000)
    client = Ended(desk)
    topic = desk.broker.topic("news")
    slow = Subscription(client, "s", mode=AcknowledgeMode.INDIVIDUAL, prefetch=2)
    quick = Subscription(client, "q", mode=AcknowledgeMode.INDIVIDUAL, prefetch=3)
    for each in (slow, quick):
        client.subscriptions[each.id] = each
        desk.broker.subscribe(each, topic)
    for _ in range(3):
        desk.broker.publish(topic, b"", b"x")
    desk.turn()
    pass_time(desk, 4.1)
    assert [each[0] for each in client.ended] == [slow]
    assert "a consumer of topic 'news' is slow" in client.ended[0][1]
    assert not topic.blocked_by


def test_no_time_counts_that_no_leader_has_seen(desk) -> None:
    """
    A clock that is set and a node that stood still end nobody; under a new leader it begins anew.
    """
    say(desk, maxSlowDuration=60_000)
    client = Ended(desk)
    desk.subscribe(prefetch=1, client=client)
    sent(desk, 3)
    pass_time(desk, 3)
    desk.broker.sending.now_microseconds += 3_600_000_000
    pass_time(desk, 3)
    assert not client.ended
    desk.fail_over()
    assert (desk.broker.slowness.slow_count, desk.broker.slowness.has_any) == (0, True)


def test_without_such_a_policy_nobody_is_looked_at(desk) -> None:
    """
    And once it is taken back nobody counts as slow any more.
    """
    assert not desk.broker.slowness.has_any
    say(desk, maxSlowDuration=60_000)
    desk.subscribe(prefetch=1, client=Ended(desk))
    sent(desk, 3)
    pass_time(desk, 3)
    assert desk.broker.slowness.slow_count == 1
    say(desk, strategy="none")
    pass_time(desk, 1)
    assert not desk.broker.slowness.has_any
    assert desk.broker.slowness.slow_count == 0


def test_very_many_are_looked_at_in_steps(desk) -> None:
    """
    Also on one queue: each step is short, and the next one goes on.
    """
    say(desk, maxSlowDuration=2_000)
    client = Ended(desk)
    for _ in range(300):
        desk.subscribe(prefetch=1, client=client)
    sent(desk, 400)
    slowness = desk.broker.slowness
    pass_time(desk, 4)
    assert len(client.ended) == 300
    for _ in range(300):
        desk.subscribe(prefetch=1, client=client)
    desk.turn()
    desk.broker.sending.now_microseconds += 1_000_000
    desk.broker.returning.look_at_the_clock()
    steps = 1
    while slowness.step(lambda: True):
        steps += 1
    assert steps > 300 // 64


def test_whose_window_is_put_together_is_not_judged(desk) -> None:
    """
    A transaction that is rolled back gives back what it had before anything else counts.
    """
    say(desk, strategy=SILENT, maxTimeSinceLastAck=2_000)
    client = Ended(desk)
    consumer = desk.subscribe(prefetch=10, client=client)
    sent(desk, 3)
    prefetch, consumer.prefetch = consumer.prefetch, -1
    pass_time(desk, 6)
    assert not client.ended
    consumer.prefetch = prefetch
    pass_time(desk, 4.1)
    assert client.ended
