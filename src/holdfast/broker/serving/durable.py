"""
The serving halves of stored topics and of their durable subscriptions.

A durable subscription is served as a queue is, by the same code: it has a consumer at most, custody
of what that has, and what is dispatched comes from the view that it has on its topic. The topic
gives the numbers, and has the contents in memory, once for all of its subscriptions.

Messages that are not persistent are for those subscriptions that somebody consumes from now: one
copy waits for each, as on a queue.

Invariants:
    What has no consumer costs a message nothing.
    Numbers are the topic's: a subscription gives none.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from holdfast.broker.lasting.topic_index import bitmap_of, bits_of
from holdfast.broker.lasting.topics import (
    LastingSubscription,
    LastingTopic,
    SubscriptionKey,
)
from holdfast.broker.serving.consumer import Consumer, MessageSelector
from holdfast.broker.serving.leads import Leads
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.shelves import Shelves
from holdfast.model.facts import TOPIC_MARK
from holdfast.model.owners import Owner, sent_id
from holdfast.model.records import (
    AcknowledgeRecord,
    DispatchMarkRecord,
    MessageRecord,
    MoveRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import SubscriptionRecord


class StoredTopic(Queue):
    """A topic whose messages are stored, as it is sent to; nobody consumes from it itself."""

    __slots__ = (
        "_free_slots",
        "_slot_count",
        "active",
        "effort",
        "no_local",
        "parts_given",
        "passed_count",
        "purging",
        "selecting",
        "selective",
        "subscription_count",
    )

    lasting: LastingTopic

    def __init__(self, lasting: LastingTopic, leadership: Leads[Queue], name: str = "") -> None:
        self.active: dict[DurableQueue, None] = {}
        """Its subscriptions that have a consumer."""
        self.purging: dict[DurableQueue, None] = {}
        """Those of which something is being taken away by what is on its way to the log."""
        self.subscription_count = lasting.declared_count
        """How many it has, with what is on its way to the log."""
        taken = lasting.index.by_slot
        self._slot_count = max(taken, default=-1) + 1
        self._free_slots = [slot for slot in range(self._slot_count) if slot not in taken]
        """Those below; a heap."""
        self.selective: dict[int, MessageSelector] = {}
        """By slot: what those want that do not want every message."""
        self.selecting: dict[int, int] = {}
        """The numbers of these."""
        self.no_local: dict[str, list[int]] = {}
        """By client-id: the slots of those that do not want what this client sends."""
        self.parts_given = 0
        """Which change of the durable subscriptions of wildcards was the last when those that mean
        it were given parts here; 0: it was never looked at."""
        self.passed_count = 0
        """Messages that came here and are not kept; whoever asks whether it is used looks at it."""
        self.effort = 0
        """What asking all of them whether they want one message takes, in deliveries."""
        for each in lasting.subscriptions.values():
            selector = leadership.selector_of(each) if each.is_declared else None
            if selector is not None:
                self.select(each.index.slot, each.number, selector)
            if each.is_declared and each.has_no_local:
                self.shut_out(sent_id(each.owner, each.client_id), each.index.slot)
        super().__init__(lasting, leadership, name or lasting.name)

    def take_slot(self) -> int:
        """Take the lowest number that no subscription has."""
        if self._free_slots:
            return heappop(self._free_slots)
        self._slot_count += 1
        return self._slot_count - 1

    def select(self, slot: int, number: int, selector: MessageSelector) -> None:
        """Let a subscription get only what it wants."""
        self.selective[slot], self.selecting[slot] = selector, number
        self.effort += selector.effort

    def shut_out(self, client_id: str, slot: int) -> None:
        """Let a subscription not get what its own client sends."""
        self.no_local.setdefault(client_id, []).append(slot)

    def let_in(self, client_id: str, slot: int) -> None:
        """Let a subscription get what this client sends, too, if it did not."""
        own = self.no_local.get(client_id, [])
        if slot in own:
            own.remove(slot)
            if not own:
                del self.no_local[client_id]

    def free_slot(self, slot: int, client_id: str) -> None:
        """Let a subscription be no more that had this number, and was this client's."""
        self.let_in(client_id, slot)
        heappush(self._free_slots, slot)
        selector = self.selective.pop(slot, None)
        if selector is not None:
            self.effort -= selector.effort
        self.selecting.pop(slot, None)
        self.subscription_count -= 1

    def added(self, first: int, records: list[MessageRecord]) -> None:
        """Keep contents in memory if somebody is about to get them."""
        if self.active:
            self.leadership.flow.keep(self.cache, first, records)
            for queue in self.active:
                queue.touch()

    def arrived(self) -> None:
        """Let what was moved here go to those who consume."""
        for queue in self.active:
            queue.touch()

    def mortal(self, expiring: list[tuple[int, int]]) -> None:
        """Let each subscription look after what expires."""
        for lasting in self.lasting.subscriptions.values():
            queue = self.leadership.half_of(lasting)
            if queue is not None:
                queue.mortal(expiring)
            elif lasting.is_declared:
                self.leadership.serve(lasting)  # It is told so of all that expires.

    def effort_of(self, *, is_stored: bool) -> int:
        """Give what one message takes, in deliveries: what is stored is given to nobody yet."""
        return self.effort if is_stored else self.effort + len(self.active)

    def asks_of(self, client_id: str) -> bool:
        """Whether there is anybody who may not want a message of a client."""
        return bool(self.selective) or client_id in self.no_local

    def asking_effort(self, client_id: str) -> int:
        """Give what that takes for one of its messages, in deliveries."""
        return self.effort + len(self.no_local.get(client_id, ()))

    def skips_of(
        self, sequence: int, message: MessageRecord | TransientMessage, client_id: str = ""
    ) -> bytes:
        """Give who does not want a message of a client, a bit for each slot."""
        values = None
        skipping = [*self.no_local.get(client_id, ())]
        for slot, selector in self.selective.items():
            if values is None:
                values = selector.values_of(sequence, message, 0)
            if not selector.is_true_of(values):
                skipping.append(slot)
        return bitmap_of(skipping) if skipping else b""

    def skipping_moved(
        self, move: MoveRecord, message: MessageRecord
    ) -> Iterator[SubscriptionAcknowledgeRecord]:
        """Give what says who does not want a message that comes here by a move."""
        (sequence,) = move.target_sequences
        for slot in bits_of(self.skips_of(sequence, message)):
            yield SubscriptionAcknowledgeRecord(self.selecting[slot], [sequence], self.number)

    def wanting(self, message: TransientMessage, client_id: str) -> Iterator[DurableQueue]:
        """Give the subscriptions with a consumer that want what a client sends and none stores."""
        skipping = b""
        if self.asks_of(client_id):
            skipping = self.skips_of(message.key, message, client_id)
        for queue in self.active:
            slot = queue.slot
            if slot >> 3 >= len(skipping) or not skipping[slot >> 3] >> (slot & 7) & 1:
                yield queue


class DurableQueue(Queue):
    """One durable subscription of a stored topic, as it is consumed from."""

    __slots__ = ("belongs_to", "detached_at", "slot", "topic", "topic_number", "whole_number")

    lasting: LastingSubscription

    def __init__(
        self, lasting: LastingSubscription, leadership: Leads[Queue], topic: StoredTopic
    ) -> None:
        self.topic = topic
        self.topic_number = topic.number
        self.whole_number = lasting.whole_number
        """The number of the subscription of a wildcard that it is a part of; 0: it is none."""
        self.slot = lasting.index.slot
        self.detached_at = lasting.detached_at
        """Since when nobody consumes from it, with what is on its way to the log; 0: somebody does,
        or it was never said."""
        self.belongs_to = lasting.owner
        """Whose it is, with what is on its way to the log."""
        super().__init__(lasting, leadership, f"{TOPIC_MARK}{topic.name}")
        self.newest_before = topic.newest_before

    @property
    def key(self) -> SubscriptionKey:
        """By which its client names it."""
        return self.lasting.key

    @property
    def sent_as(self) -> str:
        """By which client-id its owner is known here, who may not want what it sends."""
        return sent_id(self.belongs_to, self.lasting.client_id)

    def belong_to(self, owner: Owner) -> None:
        """Be this one's; the log is told of it by whoever asks."""
        before, self.belongs_to = self.sent_as, owner
        if self.lasting.has_no_local:
            self.topic.let_in(before, self.slot)
            self.topic.shut_out(self.sent_as, self.slot)

    @property
    def client_key(self) -> SubscriptionKey:
        """By which its client names all of it, of which this may be a part."""
        return self.leadership.client_key_of(self.lasting)

    @property
    def assigned_sequence(self) -> int:
        """The topic's."""
        return self.topic.assigned_sequence

    @assigned_sequence.setter
    def assigned_sequence(self, following: int) -> None:
        """Do nothing: it gives no numbers."""

    @property
    def cache(self) -> Shelves[MessageRecord]:
        """The topic's."""
        return self.topic.cache

    @cache.setter
    def cache(self, contents: Shelves[MessageRecord]) -> None:
        """Do nothing: it has none."""

    def acknowledgement(self, sequences: list[int]) -> AcknowledgeRecord:
        """Give what says of messages that this subscription is done with them."""
        return SubscriptionAcknowledgeRecord(self.number, sequences, self.topic_number)

    def gone(self, sequences: list[int]) -> None:
        """Forget what is known here of messages that are settled for good."""
        self.forget(sequences)

    def purge_through(self, sequence: int) -> None:
        """Note that all up to this one is being taken away."""
        self.purging_through = sequence
        self.topic.purging[self] = None

    def purged(self) -> None:
        """Note that some is taken away; what was known of it was dropped when it was asked for."""
        if self.lasting.index.begin > self.purging_through and not self.is_deleted:
            self.topic.purging.pop(self, None)

    def drop_contents(self) -> None:
        """Do nothing: contents are the topic's."""

    def deleted(self) -> None:
        """Forget it: its deletion is in the log."""
        super().deleted()
        self.topic.active.pop(self, None)
        self.topic.purging.pop(self, None)

    def close_subscription(self, consumer: Consumer) -> None:
        """Remove its consumer."""
        super().close_subscription(consumer)
        self.topic.active.pop(self, None)

    def renew(self, leaving: set[int]) -> None:
        """Build this half anew: nobody consumes."""
        super().renew(leaving)
        self.topic.active.pop(self, None)


def restored(
    subscription: LastingSubscription, serving: DurableQueue | None = None
) -> Iterator[SubscriptionRecord | DispatchMarkRecord]:
    """Give a subscription as it will be once all is applied that is on its way to the log."""
    topic, index = subscription.topic, subscription.index
    mark = subscription.dispatch_mark if serving is None else serving.asked_mark
    detached_at = subscription.detached_at if serving is None else serving.detached_at
    yield SubscriptionRecord(
        subscription.number,
        topic.number,
        index.slot,
        subscription.client_id,
        subscription.name,
        selector=subscription.selector,
        has_no_local=subscription.has_no_local,
        first_sequence=index.first() or topic.next_sequence,
        dispatch_mark=mark,
        detached_at=detached_at,
        owner=subscription.owner if serving is None else serving.belongs_to,
    )
    for first, last in subscription.seen if serving is None else serving.asked_seen:
        yield DispatchMarkRecord(subscription.number, last, first)
