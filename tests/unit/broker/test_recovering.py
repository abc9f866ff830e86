"""
What topics keep for who comes later: how much, for how long, and how it is given.
"""

from __future__ import annotations

from itertools import count

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode, TopicWishes
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.model.policies import as_text
from holdfast.model.records import PolicyRecord
from tests.unit.broker.conftest import Client, Desk

POLICY = "subscriptionRecoveryPolicy"
COUNT = {POLICY: "fixedCountSubscriptionRecoveryPolicy", "recoveryMaximumCount": 3}
NUMBERS = count(1)


def say(desk: Desk, pattern: str = "topic://>", **values: object) -> None:
    desk.broker.receipts.record(PolicyRecord(pattern, as_text(values)))
    desk.turn()


def publish(desk: Desk, *bodies: bytes, topic: str = "t") -> None:
    for body in bodies:
        desk.broker.publish(desk.broker.topic(topic), b"", body)
    desk.turn()


def come(desk: Desk, topic: str = "t", *, retroactive: bool = True) -> Client:
    """Subscribe."""
    client = Client()
    name = f"s{next(NUMBERS)}"
    mode = AcknowledgeMode.INDIVIDUAL
    subscription = Subscription(client, name, mode=mode, prefetch=100_000)
    subscription.wish(TopicWishes(is_retroactive=retroactive))
    client.subscriptions[name] = subscription
    desk.broker.subscribe(subscription, desk.broker.topic(topic))
    return client


def serials(client: Client) -> list[int]:
    return [-key for key in client.keys]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, []),
        ({POLICY: "noSubscriptionRecoveryPolicy"}, []),
        ({POLICY: "lastImageSubscriptionRecoveryPolicy"}, [5]),
        (COUNT, [3, 4, 5]),
        ({POLICY: "fixedSizedSubscriptionRecoveryPolicy", "recoveryMaximumSize": 25}, [4, 5]),
        ({POLICY: "fixedSizedSubscriptionRecoveryPolicy", "recoveryMaximumSize": 9}, []),
        ({POLICY: "timedSubscriptionRecoveryPolicy", "recoverDuration": 2500}, [4, 5]),
    ],
)
def test_so_much_is_kept_as_the_policy_says(desk, values, expected) -> None:
    """
    The newest, without gaps, for who asks for it and for nobody else.
    """
    if values:
        say(desk, **values)
    for _ in range(5):
        publish(desk, b"x" * 10)
        desk.broker.sending.now_microseconds += 1_000_000
    asking, other = come(desk), come(desk, retroactive=False)
    publish(desk, b"new")
    assert (serials(asking), serials(other)) == ([*expected, 6], [6])
    assert desk.broker.publishing.spread_bytes == 0


def test_all_are_taken_to_ask_where_the_policy_says_so(desk) -> None:
    """
    Whatever they say.
    """
    say(desk, **COUNT, alwaysRetroactive="true")
    publish(desk, b"1")
    client = come(desk, retroactive=False)
    desk.turn()
    assert serials(client) == [1]


def test_without_a_policy_nothing_is_kept_and_what_was_is_let_go_of(desk) -> None:
    """
    Also of one topic of several: what it would keep from then on would have a gap.
    """
    publish(desk, b"1")
    recovering = desk.broker.recovering
    assert (recovering.is_on, recovering.size_bytes) == (False, 0)
    say(desk, **COUNT)
    publish(desk, b"2")
    publish(desk, b"2", topic="u")
    say(desk, "topic://t", **{POLICY: "noSubscriptionRecoveryPolicy"})
    publish(desk, b"3")
    say(desk, "topic://t")
    publish(desk, b"4")
    assert (recovering.count_of("t"), recovering.count_of("u")) == (1, 1)
    say(desk)
    publish(desk, b"5")
    assert recovering.size_bytes == recovering.count_of("u") == 0


def test_all_of_it_takes_no_more_than_the_setting(new_desk) -> None:
    """
    The oldest goes of the topic to which nothing came for longest.
    """
    settings = BrokerSettings(recovery_bytes_max=5_000, message_memory_overhead_bytes=400)
    desk = new_desk(settings)
    say(desk, **COUNT)
    for topic in ("a", "b", "c"):
        publish(desk, *[b"x" * 600] * 2, topic=topic)
    counts = [desk.broker.recovering.count_of(it) for it in ("a", "b", "c")]
    assert counts == [0, 2, 2]  # Each name counts as a message without content does.
    assert desk.broker.recovering.size_bytes == 4_800
    publish(desk, b"x" * 6_000, topic="d")
    assert desk.broker.recovering.size_bytes == 0


SIZED = {POLICY: "fixedSizedSubscriptionRecoveryPolicy", "recoveryMaximumSize": 1_000}
TIMED = {POLICY: "timedSubscriptionRecoveryPolicy", "recoverDuration": 1_000}


@pytest.mark.parametrize("values", [SIZED, TIMED])
def test_a_topic_of_which_nothing_is_left_is_no_more_there(new_desk, values) -> None:
    """
    What comes to others goes on being kept, and they have room.
    """
    settings = BrokerSettings(recovery_bytes_max=10_000, message_memory_overhead_bytes=400)
    desk = new_desk(settings)
    desk.broker.sending.now_microseconds = 1_000_000
    say(desk, **values)
    publish(desk, b"x" * 2_000, topic="gone")
    desk.broker.sending.now_microseconds += 5_000_000
    come(desk, "gone")
    assert desk.broker.recovering.size_bytes == 0
    for number in range(50):
        publish(desk, b"x" * 900, topic=f"t{number % 5}")
        assert 0 < desk.broker.recovering.size_bytes <= 10_000
    assert desk.broker.recovering.count_of("t4") > 0


def test_very_many_names_take_no_more_than_the_setting(new_desk) -> None:
    """
    However little is kept of each.
    """
    settings = BrokerSettings(
        topic_count_max=10, recovery_bytes_max=100_000, message_memory_overhead_bytes=400
    )
    desk = new_desk(settings)
    say(desk, **COUNT)
    for number in range(1_000):
        publish(desk, b"", topic=f"t{number}")
    kept = [desk.broker.recovering.count_of(f"t{number}") for number in range(1_000)]
    assert sum(kept) == 100_000 // 800
    assert all(kept[-125:])


def test_what_a_topic_keeps_outlives_that_it_is_forgotten(new_desk) -> None:
    """
    Where there are too many topics those that nobody uses go; a topic is its name.
    """
    desk = new_desk(BrokerSettings(topic_count_max=1))
    say(desk, **COUNT)
    publish(desk, b"1")
    publish(desk, b"2", topic="other")
    client = come(desk)
    desk.turn()
    assert serials(client) == [1]


def test_another_leader_has_nothing_of_it(desk) -> None:
    """
    It is in memory only, as what it is of.
    """
    say(desk, **COUNT)
    publish(desk, b"1")
    desk.broker.follow()
    desk.broker.lead()
    assert desk.broker.recovering.size_bytes == 0
    client = come(desk)
    publish(desk, b"2")
    assert len(client.keys) == 1


def test_much_is_given_in_steps_and_what_comes_meanwhile_goes_behind(desk) -> None:
    """
    To all: the topic has one line. Who is gone in the middle holds up nobody.
    """
    step = desk.broker.settings.step_count_max
    say(desk, **{**COUNT, "recoveryMaximumCount": 10 * step})
    publish(desk, *[b"x"] * 10 * step)
    first = come(desk)
    gone, other = come(desk), come(desk, retroactive=False)
    topic = desk.broker.topic("t")
    desk.broker.publish(topic, b"", b"new")
    steps = desk.broker.dispatch()
    sizes = []
    for _ in range(12):
        step_made = next(steps)
        sizes.append(len(step_made))
        for subscription, key, *_ in step_made:
            subscription.receiver.deliveries.append((key, False))
    steps.close()
    assert max(sizes) <= step + 1
    (subscription,) = gone.subscriptions.values()
    desk.broker.unsubscribe(subscription)
    desk.turn()
    assert not desk.broker.publishing
    assert serials(first) == list(range(1, 10 * step + 2))
    assert other.keys == [-(10 * step + 1)]
    assert topic.spread_count == 0


def test_who_has_no_room_gets_the_rest_later_in_order(desk) -> None:
    """
    It waits for him, and counts as what waits.
    """
    say(desk, **COUNT)
    publish(desk, b"1", b"2", b"3")
    client = come(desk)
    (subscription,) = client.subscriptions.values()
    subscription.prefetch = 1
    publish(desk, b"4")
    assert serials(client) == [1]
    assert desk.broker.publishing.backlogs.sizes[client] > 0
    for key in (-1, -2, -3):
        desk.broker.acknowledge(subscription, key, None, None)
        desk.turn()
    assert serials(client) == [1, 2, 3, 4]


def test_what_was_kept_for_somebody_stops_nobody_who_sends(new_desk) -> None:
    """
    However much of it waits; what was sent since does, as with everybody, until he is through.
    """
    desk = new_desk(BrokerSettings(topic_pending_bytes_max=250))
    say(desk, **{**COUNT, "recoveryMaximumCount": 100})
    publish(desk, *[b"x" * 100] * 5)
    client = come(desk)
    (subscription,) = client.subscriptions.values()
    subscription.prefetch = 0
    topic, backlogs = desk.broker.topic("t"), desk.broker.publishing.backlogs
    publish(desk, *[b"y" * 100] * 2)
    assert not topic.blocked_by
    assert backlogs.since_bytes(subscription) == 200
    overhead = desk.broker.settings.message_memory_overhead_bytes
    assert backlogs.recovered_sizes == {client: 5 * (100 + overhead)}
    publish(desk, b"y" * 100)
    assert topic.blocked_by == {subscription}
    subscription.prefetch = 4
    desk.broker.refill(subscription)
    assert backlogs.recovered_sizes == {client: 100 + overhead}
    subscription.prefetch = 6
    desk.broker.refill(subscription)
    assert backlogs.recovered_sizes == {}
    assert backlogs.since_bytes(subscription) == 200
    subscription.prefetch = 100
    desk.broker.refill(subscription)
    desk.turn()
    assert not topic.blocked_by
    assert serials(client) == list(range(1, 9))


def test_what_waits_for_somebody_who_leaves_is_counted_no_more(desk) -> None:
    """
    What was kept for him as what came since.
    """
    say(desk, **COUNT)
    publish(desk, b"1", b"2", b"3")
    client = come(desk)
    (subscription,) = client.subscriptions.values()
    subscription.prefetch = 0
    publish(desk, b"4")
    backlogs = desk.broker.publishing.backlogs
    assert backlogs.total_bytes > 0
    desk.broker.unsubscribe(subscription)
    assert (backlogs.total_bytes, backlogs.sizes, backlogs.recovered_sizes) == (0, {}, {})
