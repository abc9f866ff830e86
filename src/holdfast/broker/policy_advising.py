"""
What the broker says of single messages and of those who send and take them, where policies let it.

A policy names the kinds (`model.advisory_options`); without one nothing of this is said. As with
all advisories nothing is done for it as long as nobody listens, and what is on its way to who
listens has a bound: what would be too much is counted as missed.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from holdfast.broker.advising import (
    Advising,
    kind_of,
    name_of,
    of_consumer,
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
from holdfast.broker.untold import Untold
from holdfast.model import advisories
from holdfast.model.advisories import PREFIX, Advisory
from holdfast.model.facts import Cause
from holdfast.model.records import MessageRecord, Record
from holdfast.model.reserved_names import OWN_MARK

_FULL_PAUSE_MS: Final = 1_000
"""Of one destination it is said so often at most that it is full, and for whom."""
_FULL_MAX: Final = 1_000

_CONSUMED: Final = (advisories.CONSUMED,)
_DELIVERED: Final = (advisories.DELIVERED,)
_DISCARDED: Final = (advisories.DISCARDED,)
_DISPATCHED: Final = (advisories.DISPATCHED,)


class PolicyAdvising(Advising):
    """Says what policies let be said, beside what is said of all."""

    __slots__ = ("_full_at", "_policies")

    def __init__(self, policies: PolicyBook, **parts: Any) -> None:
        super().__init__(**parts)
        self._policies = policies
        self._full_at: dict[tuple[Queue | Topic, str], int] = {}
        """When it was last said that they are full."""

    def clear(self) -> None:
        super().clear()
        self._full_at.clear()

    def is_said(self, place: Queue | Topic, kind: str) -> bool:
        """Whether policies let this kind be said of a queue or topic, and somebody may listen."""
        if not self.listeners or place.name.startswith(OWN_MARK):
            return False
        return kind in self._policies.of(place).advisories

    def died(self, queue: Queue, keys: Sequence[int], cause: Cause, *, is_buried: bool) -> None:
        super().died(queue, keys, cause, is_buried=is_buried)
        if cause is Cause.MAXLEN and self.is_said(queue, advisories.DISCARDED):
            self._tell_of(_DISCARDED, queue, keys)

    def consumed(self, queue: Queue, keys: Sequence[int]) -> None:
        if self.is_said(queue, advisories.CONSUMED):
            self._tell_of(_CONSUMED, queue, keys)

    def arrived(self, records: Sequence[Record], size_bytes: int) -> None:
        if not self._policies.advises_anything:
            return
        count = sum(type(record) is MessageRecord for record in records)
        if count:
            found = self._delivered(records)
            self._begin_to_tell(self._untold.add_batch(found, count, size_bytes))

    def _delivered(self, records: Sequence[Record]) -> Iterator[Untold | None]:
        """Look for messages on queues of which it is said that they have come."""
        for record in records:
            if type(record) is not MessageRecord or record.rewritten or record.is_scheduled:
                yield None
                continue
            for number, sequence in record.places:
                lasting = self.state.queues.get(number)
                queue = None if lasting is None else self.leadership.half_of(lasting)
                is_said = queue is not None and self.is_said(queue, advisories.DELIVERED)
                yield Untold(_DELIVERED, queue, sequence, ()) if queue and is_said else None

    def arrived_in_memory(self, place: Queue | Topic, message: TransientMessage) -> None:
        if self.is_said(place, advisories.DELIVERED):
            self._tell_of(_DELIVERED, place, [message.key])
        if not self._is_consumed(place) and self.is_said(place, advisories.NO_CONSUMER):
            self._pass_on(place, message)

    def _is_consumed(self, place: Queue | Topic) -> bool:
        """Whether anybody consumes from there now; of a topic also by a durable subscription."""
        if place.subscriptions or isinstance(place, Queue) or not place.is_stored:
            return bool(place.subscriptions)
        stored = self.leadership.stored_topics.get(place.name)
        return stored is not None and bool(stored.active)

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
            self._tell_of(_DISPATCHED, place, [key], (("consumerId", _name_of(consumer)),))

    def evicted(self, consumer: Consumer, key: int) -> None:
        place = consumer.topic if isinstance(consumer, Subscription) else None
        if place is not None and self.is_said(place, advisories.DISCARDED):
            assert isinstance(consumer, Subscription), "it has a topic"
            more = (("consumerId", _name_of(consumer)), ("discardedCount", 1))
            self._tell_of(_DISCARDED, place, [key], more)

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
