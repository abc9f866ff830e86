"""
Consumers that hold others up: found, and ended after a while, where policies say so.

The leader looks at all consumers now and then, in steps. One is slow that at two looks had no room
for what waits, or (where the policy has it so) had messages, and between them said nothing of any
that it had. One that goes on working is never slow, however long its line is. Who is slow for too
long, or too often, is ended: what it had comes back as if its connection had been lost.

Time is what this leader has seen pass, so that a clock that is set, or a node that stood still,
ends nobody.

Invariants:
    Who has said something of what it had since the last look is not slow.
    What is known of a consumer is at most twice what it holds, and goes with it at the next look.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Generator, Iterator
from typing import Final

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import IsSpent
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.advises import SILENCE, Advises
from holdfast.broker.serving.bundle import Bundle
from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.effective import SlowRule
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.model import advisories
from holdfast.model.facts import TOPIC_MARK
from holdfast.model.policy_options import OPTIONS
from holdfast.model.slow_consumer_options import NO_STRATEGY

_PER_STEP: Final = 64
_KEYS_SHIFT: Final = 6
"""To compare so many keys (a power of two) takes about as long as to look at a consumer."""
_PLACES_PER_MS: Final = 10
"""So many queues and topics a look may have for each millisecond until the next one."""
_STRATEGY: Final = "slowConsumerStrategy"
_PERIOD: Final = "checkPeriod"
_TOLD: Final = "advisoryForSlowConsumers"
_ONLY_TELL: Final = SlowRule()
"""As long as nobody is to be ended: who has no room for what waits."""


class Watched:
    """What a consumer had when it was first seen so."""

    __slots__ = (
        *("attempts", "held", "is_held_up", "is_slow", "taken_bytes"),
        *("since_ms", "slow_count"),
    )

    def __init__(self, whole: Subscription, now_ms: int, slow_count: int) -> None:
        self.since_ms = now_ms
        self.is_held_up = True
        """Whether it was so at its last look."""
        self.held = [(each, array("q", each.unacknowledged)) for each in _parts(whole)]
        self.attempts = self._attempts()
        self.taken_bytes = whole.receiver.taken_bytes
        self.is_slow = False
        """Whether it was so at two looks, and said nothing between them."""
        self.slow_count = slow_count
        """How often it was found to have become slow."""

    def _attempts(self) -> int:
        """Give how often the oldest that it had came back; whoever rejects it may get it again."""
        for consumer, keys in self.held:
            if keys and consumer.queue is not None:
                return consumer.queue.returned_so_far(keys[0]).attempts
        return 0

    def has_said_something(self, whole: Subscription) -> bool:
        """
        Whether it has said something of what it had then, or its socket has taken some of it: of
        what is on its way still nobody can say anything.
        """
        receiver = whole.receiver
        is_under_way = receiver.room_bytes <= 0 or whole.mode is AcknowledgeMode.AUTO
        if is_under_way and receiver.taken_bytes > self.taken_bytes:
            return True
        if self._attempts() != self.attempts:
            return True
        return any(
            consumer.is_closed or not all(map(consumer.unacknowledged.__contains__, keys))
            for consumer, keys in self.held
        )

    def rest(self) -> None:
        """Note that it is not so any more; only how often it was slow is remembered."""
        self.is_held_up = self.is_slow = False
        self.held = []


class Slowness:
    """Finds who is slow, and ends who is so for too long."""

    __slots__ = (
        *("_change_count", "_destinations", "_left", "_look_at_ms", "_looked", "_period_ms"),
        *("_policies", "_state", "_watched", "aborted_total", "advising", "look_ms", "slow_count"),
    )

    def __init__(
        self, state: BrokerState, *, destinations: Destinations, policies: PolicyBook
    ) -> None:
        self._state = state
        self._destinations = destinations
        self._policies = policies
        self.advising: Advises = SILENCE
        self.look_ms = 0
        """So often all consumers are looked at; 0: as policies say."""
        self.aborted_total = 0
        """Consumers that were ended as they were slow, of all leaderships of this process."""
        self._change_count = -1
        self._period_ms = 0
        """The same as policies say; 0: never."""
        self.follow()

    def follow(self) -> None:
        """Forget all: another leader counts anew."""
        self._left: Iterator[None] | None = None
        self._look_at_ms = 0
        self._looked: dict[Subscription, Watched] = {}
        """Who was found at the last look."""
        self._watched: dict[Subscription, Watched] = {}
        """Who is found at this one."""
        self.slow_count = 0
        """Those who were slow at the last look."""

    @property
    def has_any(self) -> bool:
        """Whether consumers are to be looked at now."""
        if self._state.policies.change_count != self._change_count:
            self._read_policies()
        if not self._period_ms:
            return False
        return self._left is not None or self._passed_ms >= self._look_at_ms

    @property
    def _passed_ms(self) -> int:
        return self._destinations.leadership.passed_ms

    def _read_policies(self) -> None:
        policies = self._state.policies
        self._change_count = policies.change_count
        said = [json.loads(record.values or "{}") for record in policies.by_key.values()]
        self._period_ms = 0
        if any(each.get(_STRATEGY, NO_STRATEGY) != NO_STRATEGY or _TOLD in each for each in said):
            default = OPTIONS[_PERIOD].default
            self._period_ms = min(int(each.get(_PERIOD, default)) for each in said)
            self._look_at_ms = min(self._look_at_ms, self._passed_ms + self._period_ms)
        else:
            self.follow()

    def is_slow(self, consumer: Subscription) -> bool:
        """Whether somebody was slow at the last look."""
        watched = self._looked.get(consumer.bundle or consumer)
        return watched is not None and watched.is_slow

    def step(self, is_spent: IsSpent = lambda: False) -> bool:
        """Look at some consumers; whether to go on now."""
        if self._left is None:
            self._left = self._look()
        for _ in self._left:
            if is_spent():
                return True
        self._left = None
        self._looked, self._watched = self._watched, {}
        self.slow_count = sum(each.is_slow for each in self._looked.values())
        return False

    def _look(self) -> Iterator[None]:
        """Look at all consumers, in steps."""
        destinations = self._destinations
        places: list[Queue | Topic]
        leadership = destinations.leadership
        places = [*leadership.by_name.values(), *leadership.durables.values()]
        places += destinations.topics.values()
        pause_ms = max(self.look_ms or self._period_ms, len(places) // _PLACES_PER_MS)
        self._look_at_ms = self._passed_ms + pause_ms
        self._watched = {}
        for count, place in enumerate(places, 1):
            if place.subscriptions and not place.is_deleted:
                rule = self._rule_of(place)
                if rule is not None:
                    yield from self._look_at(place, rule)
            if not count % _PER_STEP:
                yield

    def _rule_of(self, place: Queue | Topic) -> SlowRule | None:
        """Give when consumers of a destination are slow; None: nobody wants to know."""
        policy = self._policies.of(place)
        if policy.slow_rule is None and advisories.SLOW_CONSUMER in policy.advisories:
            return _ONLY_TELL
        return policy.slow_rule

    def _look_at(self, place: Queue | Topic, rule: SlowRule) -> Iterator[None]:
        """Look at all consumers of a queue or topic, in steps."""
        consumers = list(place.subscriptions)
        is_anything_waiting = isinstance(place, Topic) or rule.waits_for_words
        if not is_anything_waiting and isinstance(place, Queue):
            held_count = yield from _held_count(consumers)
            is_anything_waiting = _is_more_than(place, held_count)
        effort = 0
        for consumer in consumers if is_anything_waiting else ():
            assert isinstance(consumer, Subscription), "every consumer is one"
            whole = consumer.bundle or consumer
            if not whole.is_closed and whole.prefetch >= 0:  # Else its window is being made.
                effort += 1 + (len(consumer.unacknowledged) >> _KEYS_SHIFT)
                self._judge(consumer, whole, place, rule)
            if effort >= _PER_STEP:
                effort = 0
                yield

    def _judge(
        self, consumer: Subscription, whole: Subscription, place: Queue | Topic, rule: SlowRule
    ) -> None:
        """Note whether one is slow, and end it if it is so for too long."""
        known = self._watched.get(whole)
        if known is not None and known.is_held_up:
            return  # By what is on another queue.
        now_ms, before = self._passed_ms, self._looked.get(whole)
        slow_count = 0 if before is None else before.slow_count
        if not _is_held_up(consumer, whole, rule):
            if before is not None and slow_count and rule.count_max:
                before.rest()
                self._watched[whole] = before
            return
        if before is None or not before.is_held_up or before.has_said_something(whole):
            self._watched[whole] = Watched(whole, now_ms, slow_count)
            return
        self._watched[whole] = before
        if not before.is_slow:
            before.is_slow = True
            before.slow_count += 1
            if self.advising.listeners:
                self.advising.slow(whole, place)
        waited_ms = now_ms - before.since_ms
        is_too_long = 0 < rule.duration_ms <= waited_ms
        if is_too_long or 0 < rule.count_max <= before.slow_count:
            del self._watched[whole]
            self._end(whole, place, rule, before, waited_ms)

    def _end(
        self,
        whole: Subscription,
        place: Queue | Topic,
        rule: SlowRule,
        watched: Watched,
        waited_ms: int,
    ) -> None:
        is_of_queue = isinstance(place, Queue) and not place.topic_number
        kind, name = "queue" if is_of_queue else "topic", place.name.removeprefix(TOPIC_MARK)
        count = sum(len(keys) for _, keys in watched.held)
        what = (
            f"has acknowledged none of the {count:,} messages that it has"
            if rule.waits_for_words
            else f"has no room for what waits, and has said nothing of the {count:,} messages that"
            f" it has"
        )
        why = (
            f"a consumer of {kind} {name!r} is slow: for {waited_ms / 1000:,.1f} s it {what}"
            f" (found to be slow {watched.slow_count:,} times); it is ended"
        )
        self.aborted_total += 1
        whole.receiver.too_slow(whole, why, ends_connection=rule.ends_connection)


def _parts(whole: Subscription) -> list[Subscription]:
    """Give what of it has anything in delivery; itself, if it is to one destination only."""
    return [*whole.holding] if isinstance(whole, Bundle) else [whole]


def _is_held_up(consumer: Subscription, whole: Subscription, rule: SlowRule) -> bool:
    """Whether a consumer may be slow, as it looks now; something waits on its queue."""
    acknowledges = whole.mode is not AcknowledgeMode.AUTO
    if rule.waits_for_words:
        return acknowledges and whole.held_count > 0
    if consumer.topic is not None and not consumer.pending:
        return False
    is_full = acknowledges and whole.held_count >= whole.width
    return is_full or whole.receiver.room_bytes <= 0


def _held_count(consumers: list[Consumer]) -> Generator[None, None, int]:
    """Count what consumers have; of very many in steps."""
    count = 0
    for start in range(0, len(consumers), _PER_STEP):
        some = consumers[start : start + _PER_STEP]
        count += sum(len(each.unacknowledged) for each in some)
        if start:
            yield
    return count


def _is_more_than(queue: Queue, held_count: int) -> bool:
    """
    Whether there is more on a queue than so much, beside what is kept from everybody and what open
    transactions have, be it of who is gone. (What a transaction took of nobody counts twice: nobody
    is ended for that.)
    """
    custody = queue.custody
    there_are = queue.index.live_count + queue.transient_count
    return there_are > held_count + len(custody.withheld) + len(custody.reserved)
