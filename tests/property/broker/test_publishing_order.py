"""
Topics against a model: whoever subscribes gets what is published while it does, once, in its order.

Messages are spread over subscribers some at a time; between any two steps subscribers come and go,
their sockets fill up and drain, and more is published.
"""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.broker import Broker
from holdfast.broker.serving.backlogs import PLACE_BYTES
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings

SETTINGS = BrokerSettings(step_count_max=2, topic_pending_bytes_max=20)


class Subscriber:
    """A connection with one subscription, and what it must get."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.room_bytes = 100
        self.subscriptions: dict[str, Subscription] = {}
        self.topic = broker.topic(name)
        self.subscription = Subscription(self, "s", mode=AcknowledgeMode.AUTO, prefetch=9)
        self.subscriptions["s"] = self.subscription
        broker.subscribe(self.subscription, self.topic)
        self.expected: list[bytes] = []
        self.got: list[bytes] = []

    def leave(self) -> None:
        self.broker.unsubscribe(self.subscription)
        assert self.expected[: len(self.got)] == self.got


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker = Broker(SETTINGS)
        self.broker.lead()
        self.subscribers: list[Subscriber] = []
        self.count = 0

    def subscribe(self) -> None:
        self.subscribers.append(Subscriber(self.broker, self.random.choice("ab")))

    def leave(self) -> None:
        if self.subscribers:
            self.subscribers.pop(self.random.randrange(len(self.subscribers))).leave()

    def publish(self) -> None:
        self.count += 1
        body = b"%d" % self.count
        topic = self.broker.topic(self.random.choice("ab"))
        for each in self.subscribers:
            if each.topic is topic:
                each.expected.append(body)
        self.broker.publish(topic, b"", body)

    def fill_up(self) -> None:
        if self.subscribers:
            self.random.choice(self.subscribers).room_bytes = 0

    def drain(self) -> None:
        if self.subscribers:
            each = self.random.choice(self.subscribers)
            each.room_bytes = 100
            self.broker.resume(each)

    def dispatch(self, count: int = -1) -> None:
        """Take so many steps of deliveries and leave off, or all there are."""
        steps = self.broker.dispatch()
        for step in steps:
            for subscription, _, message, _, _ in step:
                subscriber = subscription.receiver
                assert isinstance(subscriber, Subscriber)
                assert subscriber in self.subscribers, "it has left"
                assert isinstance(message, TransientMessage)
                subscriber.got.append(message.body)
            count -= 1
            if not count:
                break
        steps.close()

    def check(self) -> None:
        backlogs = self.broker.publishing.backlogs
        sizes = {
            each: each.subscription.pending_bytes
            + len(each.subscription.pending) * SETTINGS.message_memory_overhead_bytes
            for each in self.subscribers
            if each.subscription.pending
        }
        assert backlogs.sizes == sizes
        waiting = [
            message for each in self.subscribers for message in each.subscription.pending or ()
        ]
        distinct = {id(message): message for message in waiting}.values()
        once = sum(it.size + SETTINGS.message_memory_overhead_bytes for it in distinct)
        assert backlogs.total_bytes == once + (len(waiting) - len(distinct)) * PLACE_BYTES
        for each in self.subscribers:
            assert each.got == each.expected[: len(each.got)]


@given(seed=st.integers(0, 1 << 32))
def test_everybody_gets_everything_once_in_order(seed: int) -> None:
    """
    Whatever happens between two steps of spreading; a blocked topic is unblocked in the end.
    """
    world = World(seed)
    steps = [world.subscribe, world.leave, world.publish, world.fill_up, world.drain]
    weights = [4, 2, 6, 3, 3]
    for _ in range(120):
        if world.random.random() < 0.4:
            world.dispatch(world.random.randint(1, 6))
        else:
            world.random.choices(steps, weights)[0]()
        world.check()
    for _ in range(100):
        for each in world.subscribers:
            each.room_bytes = 100
            world.broker.resume(each)
        world.dispatch()
    assert all(each.got == each.expected for each in world.subscribers)
    assert not world.broker.publishing
    assert not world.broker.publishing.backlogs.sizes
    for name in "ab":
        topic = world.broker.topic(name)
        assert not topic.blocked_by
        assert not topic.spread_count
