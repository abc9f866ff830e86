"""
What the broker says of single messages and of those who send and take them, where policies let it.

A policy names the kinds (`model.advisory_options`); without one nothing of this is said. As with
all advisories nothing is done for it as long as nobody listens, and what is on its way to who
listens has a bound: what would be too much is counted as missed.

Invariants:
    No more messages wait to be told of than the limit.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from holdfast.broker.advising import (
    OWN_MARK,
    Advising,
    kind_of,
    name_of,
    of_consumer,
    of_message,
    written,
)
from holdfast.broker.serving.bundle import Bundle
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.delivery import Delivery
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.model import advisories
from holdfast.model.advisories import PREFIX, Advisory
from holdfast.model.facts import Cause
from holdfast.model.records import MessageRecord, Record

_UNTOLD_MAX: Final = 100_000
"""So many messages may wait to be told of: eight bytes each."""
_PER_STEP: Final = 64
_FULL_PAUSE_MS: Final = 1_000
"""Of one destination it is said so often at most that it is full, and for whom."""
_FULL_MAX: Final = 1_000


class PolicyAdvising(Advising):
    """Says what policies let be said, beside what is said of all."""

    __slots__ = ("_full_at", "_policies", "_untold_count")

    def __init__(self, policies: PolicyBook, **parts: Any) -> None:
        super().__init__(**parts)
        self._policies = policies
        self._untold_count = 0
        self._full_at: dict[tuple[Queue | Topic, str], int] = {}
        """When it was last said that they are full."""

    def clear(self) -> None:
        super().clear()
        self._untold_count = 0
        self._full_at.clear()

    def is_said(self, place: Queue | Topic, kind: str) -> bool:
        """Whether policies let this kind be said of a queue or topic, and somebody may listen."""
        if not self.listeners or place.name.startswith(OWN_MARK):
            return False
        return kind in self._policies.of(place).advisories

    def _tell_of(self, kind: str, place: Queue | Topic, keys: Sequence[int]) -> None:
        """Say something of each of these messages, in steps."""
        room = _UNTOLD_MAX - self._untold_count
        told = list(keys[: max(0, room)])
        self.missed_total += len(keys) - len(told)
        if told:
            self._untold_count += len(told)
            self.begin(self._tell_each(kind, place, told))

    def _tell_each(self, kind: str, place: Queue | Topic, keys: list[int]) -> Iterator[None]:
        for count, key in enumerate(keys, 1):
            self._untold_count -= 1
            self.say(of_message(kind, place, self.id_of(place, key)))
            if not count % _PER_STEP:
                yield

    def died(self, queue: Queue, keys: Sequence[int], cause: Cause, *, is_buried: bool) -> None:
        super().died(queue, keys, cause, is_buried=is_buried)
        if cause is Cause.MAXLEN and self.is_said(queue, advisories.DISCARDED):
            self._tell_of(advisories.DISCARDED, queue, keys)

    def consumed(self, queue: Queue, keys: Sequence[int]) -> None:
        if self.is_said(queue, advisories.CONSUMED):
            self._tell_of(advisories.CONSUMED, queue, keys)

    def arrived(self, records: Sequence[Record]) -> None:
        if not self._policies.advises_anything:
            return
        leadership = self.leadership
        by_queue: dict[Queue, list[int]] = {}
        for record in records:
            if type(record) is not MessageRecord or record.rewritten or record.is_scheduled:
                continue
            for number, sequence in record.places:
                lasting = self.state.queues.get(number)
                queue = None if lasting is None else leadership.half_of(lasting)
                if queue is not None:
                    by_queue.setdefault(queue, []).append(sequence)
        for queue, keys in by_queue.items():
            if self.is_said(queue, advisories.DELIVERED):
                self._tell_of(advisories.DELIVERED, queue, keys)

    def arrived_in_memory(self, place: Queue | Topic, message: TransientMessage) -> None:
        if self.is_said(place, advisories.DELIVERED):
            self._tell_of(advisories.DELIVERED, place, [message.key])
        if not place.subscriptions and self.is_said(place, advisories.NO_CONSUMER):
            self._pass_on(place, message)

    def _pass_on(self, place: Queue | Topic, message: TransientMessage) -> None:
        """Give a message that nobody consumes to who listens for such, as it is."""
        name = f"{PREFIX}{advisories.NO_CONSUMER}.{kind_of(place)}.{name_of(place)}"
        lines = advisories.lines_around(name, written(place), message.headers or b"")
        self.hand_out(name, self.raw_message(lines, message.body or b""))

    def dispatched(
        self, steps: Generator[list[Delivery], None, None]
    ) -> Generator[list[Delivery], None, None]:
        """Give these steps, and say of each delivery that it is made."""
        try:
            for step in steps:
                for consumer, key, *_ in step:
                    self._say_dispatched(consumer, key)
                yield step
        finally:
            steps.close()

    def _say_dispatched(self, consumer: Consumer, key: int) -> None:
        if not isinstance(consumer, Subscription):
            return
        place = consumer.topic or consumer.queue
        if place is not None and self.is_said(place, advisories.DISPATCHED):
            whose = ("consumerId", _name_of(consumer))
            message_id = self.id_of(place, key)
            self.say(of_message(advisories.DISPATCHED, place, message_id, whose))

    def evicted(self, consumer: Consumer, key: int) -> None:
        place = consumer.topic if isinstance(consumer, Subscription) else None
        if place is not None and self.is_said(place, advisories.DISCARDED):
            assert isinstance(consumer, Subscription), "it has a topic"
            more = (("consumerId", _name_of(consumer)), ("discardedCount", 1))
            self.say(of_message(advisories.DISCARDED, place, self.id_of(place, key), *more))

    def full(self, place: Queue | Topic, why: str, producer: str) -> None:
        if self.is_said(place, advisories.FULL) and self._is_time_for(place, advisories.FULL):
            self.say(_of_place(advisories.FULL, place, (("usageName", why),)))
        is_awaited = producer and self.is_said(place, advisories.FAST_PRODUCER)
        if is_awaited and self._is_time_for(place, producer):
            self.say(_of_place(advisories.FAST_PRODUCER, place, (("producerId", producer),)))

    def _is_time_for(self, place: Queue | Topic, what: str) -> bool:
        """Whether it was not said a moment ago."""
        now_ms = self.leadership.now_ms
        key = (place, what)
        if now_ms - self._full_at.get(key, -_FULL_PAUSE_MS) < _FULL_PAUSE_MS:
            return False
        if len(self._full_at) >= _FULL_MAX:
            self._full_at.clear()
        self._full_at[key] = now_ms
        return True

    def slow(self, subscription: Subscription, place: Queue | Topic) -> None:
        if self.is_said(place, advisories.SLOW_CONSUMER):
            self.say(of_consumer(subscription, place, is_gone=False, kind=advisories.SLOW_CONSUMER))


def _name_of(subscription: Subscription) -> str:
    whole = subscription.bundle
    ordinal = whole.ordinal if isinstance(whole, Bundle) else subscription.ordinal
    return f"{subscription.receiver.id}:{ordinal}"


def _of_place(
    kind: str, place: Queue | Topic, properties: tuple[tuple[str, str | int], ...]
) -> Advisory:
    name = f"{PREFIX}{kind}.{kind_of(place)}.{name_of(place)}"
    structure: advisories.Structure = {"destination": written(place), **dict(properties)}
    return Advisory(name, properties, "DestinationInfo", structure)
