"""
Durable subscriptions: made, taken up again, left and ended; and the topics stored for their sake.

A topic is stored from its first durable subscription on, and to its last. All that is said of one
goes into the gathering batch before anybody is told: what somebody asks next is judged by it.

Invariants:
    One client-id and name mean one subscription: the leader's, where it has planned one, or its
    end, else the log's.
    Behind the record that ends a subscription nothing is said of it.
    A topic that the leader takes for stored has a subscription.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import Errands
from holdfast.broker.flow_control import require_room
from holdfast.broker.lasting.chunk import CHUNK_SHIFT
from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topic_index import TAKERS_MAX
from holdfast.broker.lasting.topics import LastingSubscription, SubscriptionKey
from holdfast.broker.owning import says_owners, take_up
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.consumer import MessageSelector
from holdfast.broker.serving.durable import DurableQueue, StoredTopic
from holdfast.broker.serving.patterns import WildDurable
from holdfast.broker.serving.queue import Queue
from holdfast.errors import DestinationError, LevelNotReachedError
from holdfast.model.destination import Kind, has_wildcards
from holdfast.model.format_level import DURABLE_LEVEL, WILD_DURABLES_LEVEL
from holdfast.model.owners import NOBODY, Owner
from holdfast.model.records import DeleteQueueRecord, PurgeRecord
from holdfast.model.topic_records import DetachedRecord, SubscriptionRecord
from holdfast.model.wildcards import Pattern, parse_pattern

_COUNT_MAX: Final = 10_000
_SELECTOR_BYTES_MAX: Final = 64 * 1024 * 1024
"""All of them are read, in steps, before a leader begins: some seconds for so much."""
_EFFORT_MAX: Final = 1_000
"""Of asking all selectors of one topic about one message, in steps of about five microseconds."""
_WILD_MAX: Final = 64
"""A topic that all of them mean is given as many parts, and consumers, as it is first sent to: that
takes some 5 ms."""
_WILD_EFFORT_MAX: Final = 250
WILD_SELECTOR_BYTES_MAX: Final = 1024
"""Each part's record has it anew."""
_MARKED_PER_STEP: Final = 512
_PURGED_CHUNKS: Final = 64
"""Of so many chunks one record takes a subscription's messages: about a millisecond."""


class Wanted(NamedTuple):
    """What a durable subscription is to be."""

    topic: str
    client_id: str
    name: str
    selector_text: str = ""
    selector: MessageSelector | None = None
    """The same, read."""
    has_no_local: bool = False
    """It does not want what its own client sends."""
    owner: Owner = NOBODY
    """Whose it is to be."""

    @property
    def key(self) -> SubscriptionKey:
        """By which its client names it."""
        return self.client_id, self.name


class Durables:
    """All durable subscriptions, as their leader sees them."""

    __slots__ = (
        *("_destinations", "_errands", "_receipts", "_removed_total", "_state", "came"),
        *("count_max", "effort_max"),
        *("given_total", "selector_bytes_max", "wild_effort_max", "wild_max"),
    )

    def __init__(
        self,
        state: BrokerState,
        receipts: Receipts,
        destinations: Destinations,
        errands: Errands,
    ) -> None:
        self._state = state
        self._receipts = receipts
        self._destinations = destinations
        self._errands = errands
        destinations.stored.give_parts = self._give_parts
        self.came: Callable[[DurableQueue, DurableQueue], None] = _nothing
        """Is told of each part that one of a wildcard gets while somebody consumes from it."""
        self.wild_max, self.wild_effort_max = _WILD_MAX, _WILD_EFFORT_MAX
        """One more wildcard is refused; what the selectors of all of them may take of the loop for
        one message, as they may mean the same topic."""
        self._removed_total = 0
        """Parts that went before their wholes, likewise."""
        self.given_total = 0
        """Parts that were given, of all leaderships of this process."""
        self.count_max = _COUNT_MAX
        """One more is refused."""
        self.selector_bytes_max = _SELECTOR_BYTES_MAX
        """What the selectors of all of them may take of the memory."""
        self.effort_max = _EFFORT_MAX
        """What those of one topic may take of the loop for one message."""

    @property
    def count(self) -> int:
        """How many there are, with what is on its way to the log."""
        return len(self._state.subscriptions) + self._destinations.leadership.durables_to_come

    @property
    def need_changes(self) -> int:
        """Changes as topics may come to lack parts: a wildcard has begun, or parts have gone."""
        return self._destinations.leadership.patterns.change_count + self._removed_total

    def find(self, key: SubscriptionKey) -> DurableQueue | None:
        """Give the subscription of this client-id and name, None if there is none."""
        leadership = self._destinations.leadership
        known = leadership.durables.get(key)
        if known is not None:
            return known
        lasting = self._state.subscriptions.get(key)
        if lasting is None or lasting.number in leadership.leaving:
            return None
        served = leadership.serve(lasting)
        assert isinstance(served, DurableQueue), "it is served as one"
        return served

    def names(self) -> Iterator[SubscriptionKey]:
        """Give client-id and name of each that is no part of another, in no order."""
        leadership = self._destinations.leadership
        for key, lasting in list(self._state.subscriptions.items()):
            is_known = key in leadership.durables or lasting.number in leadership.leaving
            if not (is_known or lasting.whole_number):
                yield key
        yield from [key for key, queue in leadership.durables.items() if not queue.whole_number]

    def open(self, wanted: Wanted) -> DurableQueue:
        """
        Give a durable subscription, made if it is not there, or is another now.

        One that wanted something else ends and begins anew, in one entry of the log, with the next
        message. Nobody may consume from it now.

        Raises:
            DestinationError: There are too many, or their selectors are too much.
            LevelNotReachedError: Not every member of the cluster knows them yet.
        """
        self._require_level(wanted)
        pattern = None
        if has_wildcards(wanted.topic):
            pattern = parse_pattern(f"topic://{wanted.topic}")
        known = self.find(wanted.key)
        if known is not None:
            if _is_as_wanted(known, wanted):
                now_ms = self._destinations.leadership.now_ms
                take_up(self._state, self._receipts, known, wanted.owner, now_ms)
                return known
            assert not known.subscriptions, "whoever asks has looked"
        else:
            require_room(self.count, self.count_max, "durable subscriptions")
        stored = self._destinations.stored
        topic = stored.known(wanted.topic)
        if topic is not None:
            require_room(topic.subscription_count, TAKERS_MAX, f"of topic {wanted.topic!r}")
        self._require_room_to_select(topic, wanted, known)
        if pattern is not None:
            self._require_room_to_match(pattern, wanted, known)
        if known is not None:
            self.remove(known)
            topic = stored.known(wanted.topic)  # It may have been the last.
        queue = self._declared(topic or stored.declare(wanted.topic), wanted)
        if pattern is not None:
            durable = WildDurable(queue.lasting, pattern, wanted.selector)
            self._destinations.leadership.patterns.add(durable)
        return queue

    def _require_level(self, wanted: Wanted) -> None:
        level = self._state.format_level
        if level < DURABLE_LEVEL:
            raise LevelNotReachedError.of("durable subscriptions", DURABLE_LEVEL, level)
        if has_wildcards(wanted.topic) and level < WILD_DURABLES_LEVEL:
            what = "durable subscriptions of wildcards"
            raise LevelNotReachedError.of(what, WILD_DURABLES_LEVEL, level)

    def _require_room_to_match(
        self, pattern: Pattern, wanted: Wanted, known: DurableQueue | None
    ) -> None:
        """
        Refuse a wildcard that is one too many: each may mean the same topic.

        Raises:
            DestinationError: There are too many, or selectors are too long or would take too long.
        """
        size = len(wanted.selector_text.encode())
        if size > WILD_SELECTOR_BYTES_MAX:
            raise DestinationError(
                f"the selector of a durable subscription of a wildcard has {size:,} bytes, at most"
                f" {WILD_SELECTOR_BYTES_MAX:,}: it is stored for each topic"
            )
        patterns = self._destinations.leadership.patterns
        patterns.require_room(pattern)
        before = patterns.by_number.get(0 if known is None else known.number)
        count = len(patterns.by_number) - (before is not None)
        require_room(count, self.wild_max, "durable subscriptions of wildcards")
        effort = patterns.effort + (0 if wanted.selector is None else wanted.selector.effort)
        effort -= 0 if before is None or before.selector is None else before.selector.effort
        if effort > self.wild_effort_max:
            raise DestinationError(
                f"selectors of durable subscriptions of wildcards would take {effort:,} steps a"
                f" message, at most {self.wild_effort_max:,}"
            )

    def _require_room_to_select(
        self, topic: StoredTopic | None, wanted: Wanted, known: DurableQueue | None
    ) -> None:
        """
        Refuse a selector that is one too many: each is kept in memory, and asked of each message.

        Raises:
            DestinationError: They would take too much, all of them, or those of the topic.
        """
        self._require_room_to_shut_out(topic, wanted, known)
        selector = wanted.selector
        if selector is None:
            return
        before = None if known is None else known.topic.selective.get(known.slot)
        taken = self._destinations.leadership.selector_bytes
        taken += selector.cost_bytes - (0 if before is None else before.cost_bytes)
        if taken > self.selector_bytes_max:
            raise DestinationError(
                f"selectors of durable subscriptions would take {taken:,} bytes of memory,"
                f" at most {self.selector_bytes_max:,}: there are too many long ones"
            )
        effort = selector.effort + (0 if topic is None else topic.effort)
        if before is not None and known is not None and known.topic is topic:
            effort -= before.effort
        if effort > self.effort_max:
            raise DestinationError(
                f"selectors of durable subscriptions of topic {wanted.topic!r} would take"
                f" {effort:,} steps a message, at most {self.effort_max:,}"
            )

    def _require_room_to_shut_out(
        self, topic: StoredTopic | None, wanted: Wanted, known: DurableQueue | None
    ) -> None:
        """
        Refuse one too many that does not want what its own client sends: it takes as long.

        Raises:
            DestinationError: There are too many of this client.
        """
        if topic is not None and wanted.has_no_local:
            own = [*topic.no_local.get(wanted.client_id, ())]
            if known is not None and known.topic is topic and known.slot in own:
                own.remove(known.slot)
            what = f"of topic {wanted.topic!r} without what client-id {wanted.client_id!r} sends"
            require_room(len(own), self.effort_max, f"durable subscriptions {what}")

    def _declared(self, topic: StoredTopic, wanted: Wanted) -> DurableQueue:
        leadership = self._destinations.leadership
        number = self._destinations.take_number()
        first, slot = topic.assigned_sequence, topic.take_slot()
        lasting = LastingSubscription(number, topic.lasting, first, slot)
        lasting.client_id, lasting.name = wanted.key
        lasting.selector = wanted.selector_text
        lasting.has_no_local = wanted.has_no_local
        lasting.owner = wanted.owner if says_owners(self._state) else NOBODY
        lasting.dispatch_mark = 0
        queue = DurableQueue(lasting, leadership, topic)
        queue.asked_mark = first - 1 + queue.mark_step
        topic.subscription_count += 1
        if wanted.selector is not None:
            topic.select(slot, number, wanted.selector)
            if not queue.whole_number:  # It has the whole's.
                leadership.selector_bytes += wanted.selector.cost_bytes
        if wanted.has_no_local:
            topic.shut_out(queue.sent_as, slot)
        self._receipts.record(
            SubscriptionRecord(
                *(number, topic.number, slot, wanted.client_id, wanted.name),
                selector=wanted.selector_text,
                has_no_local=wanted.has_no_local,
                first_sequence=first,
                dispatch_mark=queue.asked_mark,
                owner=lasting.owner,
            )
        )
        leadership.durables[wanted.key] = leadership.plans[number] = queue
        leadership.durables_to_come += 1
        return queue

    def _give_parts(self, name: str, topic: StoredTopic | None) -> StoredTopic | None:
        """
        Let those durable subscriptions have parts on a topic whose wildcards mean it.

        They get what is sent there from now on: to where a new leader finds no part nothing was
        sent since their wildcard was there.

        Raises:
            DestinationError: There are too many subscriptions for that.
        """
        patterns = self._destinations.leadership.patterns
        lacking = self.lacking(name, topic)
        if lacking:
            what = "durable subscriptions, with one for each topic that a wildcard means"
            require_room(self.count + len(lacking) - 1, self.count_max, what)
            topic = topic or self._destinations.stored.declare(name)
            for durable in lacking:
                self.give_part(durable, topic)
            self.given_total += len(lacking)
        if topic is not None:
            topic.parts_given = patterns.change_count
        return topic

    def lacking(self, name: str, topic: StoredTopic | None) -> list[WildDurable]:
        """Give those whose wildcards mean a topic, and that have no part on it, as it is now."""
        found = self._destinations.leadership.patterns.of(name)
        if topic is None:
            return found
        return [it for it in found if not self._is_there(it.key_on(topic.number))]

    def _is_there(self, key: SubscriptionKey) -> bool:
        """Whether there is a subscription of this client-id and name; asking makes nothing."""
        leadership = self._destinations.leadership
        if key in leadership.durables:
            return True
        lasting = self._state.subscriptions.get(key)
        return lasting is not None and lasting.number not in leadership.leaving

    def give_part(self, durable: WildDurable, topic: StoredTopic) -> None:
        """Let a durable subscription of a wildcard have its part on a topic."""
        leadership, lasting = self._destinations.leadership, durable.lasting
        selector = leadership.selector_for(lasting.selector, topic.lasting)
        part = self._declared(
            topic,
            Wanted(
                topic.name,
                *durable.key_on(topic.number),
                lasting.selector,
                selector,
                lasting.has_no_local,
                lasting.owner,
            ),
        )
        whole = leadership.half_of(lasting)
        if isinstance(whole, DurableQueue) and whole.subscriptions:
            self.came(whole, part)

    def parts_of(self, number: int) -> list[SubscriptionKey]:
        """Give by what the parts of a durable subscription of a wildcard are known, in no order."""
        lasting = self._state.parts.get(number, {})
        plans = self._destinations.leadership.plans.values()
        planned = [it for it in plans if isinstance(it, DurableQueue)]
        found = [it.key for it in lasting.values()]
        return found + [it.key for it in planned if it.whole_number == number]

    def lead(self) -> None:
        """Go on with what the last leader did not end: parts of what is not there any more."""
        for number in [*self._state.parts]:
            if not self._is_whole(number):
                self._errands.begin(self._remove_parts(number))

    def _is_whole(self, number: int) -> bool:
        """Whether the subscription of a number is there, of which there are parts."""
        found = self._state.queues.get(number)
        return isinstance(found, LastingSubscription) and found.is_declared

    def mark_topics(self, pattern: Pattern) -> Iterator[None]:
        """Let, in steps, topics that somebody uses know whether what they are sent is stored."""
        destinations = self._destinations
        for count, name in enumerate([*destinations.topics], 1):
            topic = destinations.topics.get(name)
            if topic is not None and pattern.matches(Kind.TOPIC, name):
                topic.note_stored(destinations.stored.is_stored(name))
            if not count % _MARKED_PER_STEP:
                yield

    def _remove_parts(self, number: int, pattern: Pattern | None = None) -> Iterator[None]:
        """End, in steps, the parts of what has ended: nobody sees them any more."""
        yield
        for key in self.parts_of(number):
            part = self.find(key)
            if part is not None:
                self.remove(part)
                yield
        if pattern is not None:
            yield from self.mark_topics(pattern)

    def remove(self, queue: DurableQueue) -> None:
        """
        End a subscription from which nobody consumes, with what it has not been given.

        Of one of a wildcard that is one record; its parts, which nobody sees then, go in steps.
        """
        durable = self._destinations.leadership.patterns.remove(queue.number)
        if durable is not None:
            self._errands.begin(self._remove_parts(queue.number, *durable.patterns))
        topic = queue.topic
        self._take_away(queue)
        if topic.subscription_count == 1:
            self._destinations.stored.remove(topic)
        else:
            self._say_purged(queue, queue.assigned_sequence - 1)
            self._receipts.record(DeleteQueueRecord(queue.number, topic.number))
        selector = topic.selective.get(queue.slot)
        if selector is not None and not queue.whole_number:
            self._destinations.leadership.selector_bytes -= selector.cost_bytes
        topic.free_slot(queue.slot, queue.sent_as)

    def _take_away(self, queue: DurableQueue) -> None:
        """Let nothing of a subscription be given to anybody, or be said of it, any more."""
        leadership = self._destinations.leadership
        queue.delete()
        queue.purge_through(queue.assigned_sequence - 1)
        leadership.durables.pop(queue.key, None)
        leadership.leaving[queue.number] = queue
        leadership.durables_to_come -= 1
        self._destinations.empty(queue)

    def remove_part(self, key: SubscriptionKey) -> None:
        """End the part of a subscription of a wildcard; its consumer leaves it, and only it."""
        part = self.find(key)
        if part is not None:
            self._removed_total += 1
            self._destinations.went(part)
            self.remove(part)

    def purge(self, queue: DurableQueue) -> int:
        """Let a subscription be done with all that is there now; gives how many messages."""
        through = queue.assigned_sequence - 1
        removed = len(queue.transients)
        if queue.lasting.is_declared:
            removed += queue.index.live_count
        self._destinations.empty(queue)
        queue.purge_through(through)
        queue.choice.skip_to(through + 1)
        self._say_purged(queue, through)
        return removed

    def _say_purged(self, queue: DurableQueue, through: int) -> None:
        """Say in as many records as it takes that a subscription is done with all up to this."""
        for border in (*_borders(queue.topic.index, queue.lasting.index.begin, through), through):
            self._receipts.record(PurgeRecord(queue.number, border, queue.topic_number))

    def attached(self, queue: Queue) -> None:
        """Note that somebody consumes from a subscription from now on."""
        if isinstance(queue, DurableQueue):
            queue.topic.active[queue] = None
            if queue.detached_at and not queue.whole_number:
                self._note_detached(queue, 0)

    def detached(self, queue: Queue) -> None:
        """Note that nobody does any more."""
        if not isinstance(queue, DurableQueue) or queue.whole_number:
            return  # Of a part its whole says it.
        if not (queue.subscriptions or queue.is_deleted):
            self._note_detached(queue, max(1, self._destinations.leadership.now_ms))

    def _note_detached(self, queue: DurableQueue, at_ms: int) -> None:
        queue.detached_at = at_ms
        self._receipts.record(DetachedRecord(queue.number, at_ms))


def _is_as_wanted(known: DurableQueue, wanted: Wanted) -> bool:
    """Whether a subscription is what somebody wants now."""
    lasting = known.lasting
    is_of_it = known.topic.name == wanted.topic and lasting.has_no_local == wanted.has_no_local
    return is_of_it and lasting.selector == wanted.selector_text


def _nothing(whole: DurableQueue, part: DurableQueue) -> None:
    """Be told of a part, and do nothing."""


def _borders(index: SequenceIndex, begin: int, through: int) -> Iterator[int]:
    """Give, below the last, up to where a topic has so many chunks more each time."""
    number, count = index.chunk_from(begin >> CHUNK_SHIFT), 0
    while 0 <= number < through >> CHUNK_SHIFT:
        count += 1
        if not count % _PURGED_CHUNKS:
            yield (number << CHUNK_SHIFT) | ((1 << CHUNK_SHIFT) - 1)
        number = index.chunk_from(number + 1)
