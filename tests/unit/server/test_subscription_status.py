"""
Durable subscriptions as an admin port tells of them.
"""

from __future__ import annotations

import pytest

from holdfast.admin.counters import TopicCounters
from holdfast.admin.subscription_status import key_text
from holdfast.broker.broker import Broker
from holdfast.broker.durables import Wanted
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError
from holdfast.model.format_level import DURABLE_LEVEL, NEWEST_LEVEL
from holdfast.model.records import FormatRecord
from holdfast.server.subscription_status import (
    end_subscription,
    subscription_depths,
    subscription_keys,
    subscription_statuses,
    topic_counters,
)
from tests.unit.broker.conftest import Desk
from tests.unit.sessions.conftest import Desk as ServedDesk


class Unheard:
    def reply(self, receipt: bytes) -> None:
        """Be told."""


@pytest.fixture
def broker() -> Broker:
    bench = Desk(BrokerSettings())
    bench.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    bench.turn()
    bench.broker.durables.open(Wanted("prices", "ann", "mine", "kind = 'gold'"))
    bench.broker.durables.open(Wanted("news", "ben", "his", has_no_local=True))
    bench.turn()
    return bench.broker


def test_each_is_told_of(broker: Broker) -> None:
    """
    Those that are there, by what they are known by.
    """
    assert set(subscription_keys(broker)) == {key_text("ann", "mine"), key_text("ben", "his")}
    asked = [key_text("ann", "mine"), key_text("nobody", "x")]
    (told,) = subscription_statuses(broker, asked)
    assert (told.client_id, told.name, told.topic) == ("ann", "mine", "prices")
    assert (told.selector, told.messages, told.is_active) == ("kind = 'gold'", 0, False)
    (other,) = subscription_statuses(broker, [key_text("ben", "his")])
    assert (told.no_local, other.no_local) == (False, True)


def test_what_is_summed_is_what_each_is_told_to_have(broker: Broker) -> None:
    """
    A subscription without a consumer counts with its messages, and as none of those who consume.
    """
    lasting = broker.state.subscriptions["ann", "mine"]
    lasting.topic.index.put(lasting.next_sequence, 1, 100)
    sums = {it.name: (it.messages, it.bytes, it.consumers) for it in subscription_depths(broker)}
    assert sums == {"mine": (1, 100, 0), "his": (0, 0, 0)}


def test_one_of_a_wildcard_is_told_of_in_steps_and_ends_as_a_whole() -> None:
    """
    Nobody asks for a part, or ends one.
    """
    bench = Desk(BrokerSettings())
    bench.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    bench.turn()
    broker = bench.broker
    whole = broker.durables.open(Wanted("a.*", "ann", "mine"))
    for number in range(100):
        broker.destinations.stored.topic(f"a.{number}")
    bench.turn()
    for topic in broker.state.topics.values():
        if topic.name != "a.*":
            topic.index.put(topic.next_sequence, topic.number, 10)
    assert list(subscription_keys(broker)) == [key_text("ann", "mine")]
    looks = list(subscription_depths(broker))
    assert looks[:-1] == 3 * [None]
    assert (looks[-1].messages, looks[-1].bytes) == (100, 1_000)
    for key in list(broker.state.subscriptions):
        if key != whole.key:
            with pytest.raises(DestinationError, match="there is no subscription"):
                end_subscription(broker, *key, Unheard(), b"")
    assert end_subscription(broker, "ann", "mine", Unheard(), b"") == 100
    bench.turn()
    broker.errands.finish()
    bench.turn()
    assert not broker.state.subscriptions and broker.durables.count == 0


def test_one_is_ended_once(broker: Broker) -> None:
    """
    It is gone at once for whoever asks next.
    """
    assert end_subscription(broker, "ann", "mine", Unheard(), b"") == 0
    with pytest.raises(DestinationError, match="there is no subscription 'mine'"):
        end_subscription(broker, "ann", "mine", Unheard(), b"")
    assert broker.durables.count == 1


def test_what_is_stored_of_topics_is_counted_once() -> None:
    """
    However many need it. Whether somebody consumes from a subscription only the leader knows.
    """
    desk = ServedDesk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()
    assert topic_counters(desk.broker) == TopicCounters(offline=0)
    for name in "ab":
        client = desk.connect(client_id=name)
        client.subscribe("/topic/prices", id="d", activemq__subscriptionName="mine")
    desk.turn()
    client.say("DISCONNECT")
    for _ in range(3):
        desk.connect().send(b"1234567890", "/topic/prices")
        desk.connect().send(b"1234567890", "/queue/other")
    desk.turn()
    told = topic_counters(desk.broker)
    assert (told.stored, told.messages) == (1, 3)
    assert (told.durable_subscriptions, told.offline) == (2, 1)
    assert told.bytes == desk.broker.state.topics["prices"].index.live_bytes > 30
    desk.broker.follow()
    assert topic_counters(desk.broker).offline is None
