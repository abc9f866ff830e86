"""
A queue: each message goes to one consumer.

Lasting state (changed only by `apply`): number, name, index, next_sequence, numbered_term,
dispatch_mark. The rest lives on the leader only: who has what, what was given back, contents still
in memory.

Non-persistent messages never reach the log. They wait in a lane of their own, each behind the
persistent message that was sent before it, so that one producer's order holds across both.

Invariants:
    next_sequence <= assigned_sequence: what is assigned and not applied is on its way to the log.
    Nothing with a sequence above dispatch_mark is dispatched.
    A live sequence below `cursor` is in delivery, given back, reserved, withheld, or its
    acknowledgement is on its way; never lost sight of.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from itertools import islice
from typing import Any, ClassVar, Final

from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.message import TransientMessage
from holdfast.model.numbering import FIRST_TERM, Numbering
from holdfast.model.records import MessageRecord

_MADE_AT_FIRST_USE: Final[dict[str, Callable[[], Any]]] = {
    "closed_ready_count": int,
    "had_by": dict,
    "ready": deque,
    "redelivered": set,
    "reserved": set,
    "returned": list,
    "returned_keys": set,
    "releasing": dict,
    "returning": dict,
    "waiting": deque,
    "withheld": set,
}
"""What only a queue with traffic has. Empty, these are more than all the rest of a queue."""

_GOING_ON: Final = Numbering()
"""Without a leap: for what nobody leads yet."""


class Queue:
    """One queue of one broker. It is idle until somebody needs what only traffic needs."""

    is_idle: ClassVar[bool] = False

    __slots__ = (
        "acknowledged",
        "acknowledged_total",
        "asked_mark",
        "assigned_sequence",
        "cache",
        "closed_ready_count",
        "cursor",
        "dispatch_mark",
        "enqueued_total",
        "flag_through",
        "had_by",
        "home",
        "index",
        "is_declared",
        "is_deleted",
        "is_temporary",
        "is_touched",
        "mark_step",
        "name",
        "newest_before",
        "next_sequence",
        "number",
        "numbered_term",
        "owner",
        "purging_through",
        "ready",
        "redelivered",
        "redelivered_total",
        "releasing",
        "reserved",
        "returned",
        "returned_keys",
        "returning",
        "subscriptions",
        "transient_bytes",
        "transients",
        "waiting",
        "withheld",
    )

    acknowledged: list[int]
    returned: list[tuple[int, int, int]]
    """Heap of (order, serial, key): what goes out again, before anything new."""
    returned_keys: set[int]
    """The keys in `returned`, each there once."""
    redelivered: set[int]
    had_by: dict[int, str]
    """What was given back, by the client that had it last, where that can be known again."""
    withheld: set[int]
    """Live sequences not to dispatch: damaged on disk, or acknowledged late."""
    reserved: set[int]
    """Acknowledged in open transactions: nobody's, until those end."""
    waiting: deque[int]
    subscriptions: dict[Consumer, None]
    """In the order they came; a dictionary, because any of ten thousand may leave."""
    ready: deque[Consumer]
    closed_ready_count: int
    """Closed subscriptions that still stand in `ready`: they are taken out together."""
    releasing: dict[Hashable, None]
    """Transactions' parts that are just being rolled back; as with `returning`."""
    returning: dict[Consumer, None]
    """Closed subscriptions whose deliveries are just being given back; until they all are, nothing
    is dispatched, so that the old order is kept."""
    cache: dict[int, MessageRecord]
    transients: dict[int, TransientMessage]

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self.index = SequenceIndex()
        self.next_sequence = 1
        """The sequence after the last one applied."""
        self.numbered_term = FIRST_TERM
        """The term of the entry that has said so."""
        self.dispatch_mark = 0
        self.home = 0
        """The record number of the record that declares this queue; 0: not in the log."""
        self.is_declared = False
        """Whether the declaring record is applied; until then the queue is the leader's plan."""
        self.is_temporary = False
        self.owner: Hashable = None
        """A temporary queue's connection."""
        self.enqueued_total = 0
        self.acknowledged_total = 0
        self.redelivered_total = 0
        self.subscriptions = {}
        self.cache = {}
        self.transients = {}
        self.is_touched = False
        """Whether it stands in the state's `touched`, which alone says so."""
        self.transient_bytes = 0
        self.__class__ = _IdleQueue  # noqa: PLE0237 - an object's class is not in its slots
        self.forget_leadership(0)

    def wake(self) -> None:
        """Make what a queue with traffic needs, if it is not made."""
        self.__class__ = Queue
        for name, make in _MADE_AT_FIRST_USE.items():
            if not hasattr(self, name):
                setattr(self, name, make())

    def forget_leadership(self, step: int, numbering: Numbering = _GOING_ON) -> None:
        """
        Start the volatile half anew from lasting state; nobody is connected.

        Numbers up to the floor of `numbering` belong to former generations of the cluster: none
        of them is given any more, and where such a message still lives, it may have been seen.
        """
        was_idle = self.is_idle
        self.__class__ = Queue
        self.is_deleted = False  # A deletion that was applied has taken the queue out of the state.
        self.assigned_sequence = numbering.first(self.next_sequence, self.numbered_term)
        self.newest_before = self.assigned_sequence - 1
        """The last number below those that this leader gives."""
        self.asked_mark = self.dispatch_mark
        self.mark_step = step
        self.cursor = self.index.first() or self.assigned_sequence
        self.flag_through = min(max(self.dispatch_mark, numbering.floor), self.next_sequence - 1)
        self.purging_through = 0
        self.acknowledged = []
        self.subscriptions.clear()
        self.cache.clear()
        self.transients.clear()
        self.transient_bytes = 0
        if not was_idle:
            for name in _MADE_AT_FIRST_USE:
                delattr(self, name)
        self.__class__ = _IdleQueue

    def empty(self) -> tuple[dict[int, TransientMessage], tuple[Collection[object], ...]]:
        """
        Take away all non-persistent messages, and what is known of single messages.

        Gives both, to be let go of. Nothing of what is on the queue may be dispatched after this.
        """
        messages, self.transients = self.transients, {}
        self.transient_bytes = 0
        if self.is_idle:
            return messages, ()
        known = (
            *(self.waiting, self.returned, self.returned_keys),
            *(self.redelivered, self.had_by, self.withheld),
        )
        self.waiting, self.returned = deque(), []
        self.returned_keys, self.redelivered, self.withheld = set(), set(), set()
        self.had_by = {}
        return messages, known

    def next_key(self) -> int:
        """
        Take the next message to dispatch and give its key, 0 if there is none now.

        What was given back goes first, in its old order; then, by order of sending, persistent
        messages up to the dispatch mark and non-persistent ones.
        """
        while self.returned:
            key = heapq.heappop(self.returned)[2]
            self.returned_keys.discard(key)
            if key in self.withheld:
                continue
            if key in self.transients or self.index.is_live(key):
                return key
        sequence = self.cursor
        if sequence < self.next_sequence:
            sequence = self.index.next_live(sequence, self.next_sequence)
            while sequence in self.withheld:
                sequence = self.index.next_live(sequence + 1, self.next_sequence)
            self.cursor = sequence
        while self.waiting:
            transient = self.transients.get(self.waiting[0])
            if transient is not None and transient.order >= sequence:
                break
            key = self.waiting.popleft()
            if transient is not None:
                return key
        if sequence < self.next_sequence and sequence <= self.dispatch_mark:
            self.cursor = sequence + 1
            return sequence
        return 0

    def pass_over(self, count_max: int) -> int:
        """
        Go past so many messages at the head that nobody can have now; give how many there were.

        Fewer than `count_max`: the next key is near. A transaction may settle a hundred thousand by
        their ids, and whatever was given back stands here until somebody comes by.
        """
        passed = 0
        returned, withheld = self.returned, self.withheld
        while returned and passed < count_max:
            key = returned[0][2]
            is_there = key in self.transients or self.index.is_live(key)
            if is_there and key not in withheld:
                return passed
            heapq.heappop(returned)
            self.returned_keys.discard(key)
            passed += 1
        sequence, end = self.cursor, self.next_sequence
        while withheld and sequence < end and passed < count_max:
            sequence = self.cursor = self.index.next_live(sequence, end)
            if sequence not in withheld:
                break
            sequence += 1
            passed += 1
        return passed

    def give_back(self, keys: list[int], *, redelivered: bool, client: str | None = None) -> None:
        """
        Put unacknowledged deliveries back at the head in their old order.

        Args:
            client: Who had them, empty if it cannot be known again; None if nobody had them since
                it was last said.
        """
        for key in keys:
            order, serial = key, 0
            if key > 0:
                if key <= self.purging_through or not self.index.is_live(key):
                    continue
            else:
                transient = self.transients.get(key)
                if transient is None:
                    continue
                # Sent behind the persistent message of the same order, and behind older serials.
                order, serial = transient.order, -key
            if redelivered:
                self.redelivered.add(key)
            if client:
                self.had_by[key] = client
            elif client is not None and self.had_by:
                self.had_by.pop(key, None)
            if key >= self.cursor or key in self.returned_keys:
                continue  # It goes out in its turn, or stands here already.
            self.returned_keys.add(key)
            heapq.heappush(self.returned, (order, serial, key))

    def reserve(self, key: int) -> None:
        """Keep a message that nobody has from everybody, for a transaction that settles it."""
        self.reserved.add(key)
        self.withheld.add(key)

    def unreserve(self, keys: list[int]) -> None:
        """
        Let go of some of what is reserved.

        One by one: a set that loses many at once is built anew in between, which takes 2 ms for
        100,000.
        """
        reserved = self.reserved
        for key in keys:
            reserved.discard(key)
        if not reserved:
            self.reserved = set()

    def release(self, whose: Hashable, keys: list[int], step_count: int) -> Iterator[None]:
        """
        Let everybody have what a transaction had settled that is rolled back, in short steps.

        Until `whose` keys are all back nothing is given to anybody, so that the old order is kept.
        """
        client = whose.client if isinstance(whose, Consumer) else None
        if len(keys) > step_count:
            self.releasing[whose] = None
        for start in range(0, len(keys), step_count):
            some = keys[start : start + step_count]
            self.unreserve(some)
            for key in some:
                self.withheld.discard(key)
            self.give_back(some, redelivered=True, client=client)
            if start + step_count < len(keys):
                yield
        self.releasing.pop(whose, None)

    def is_flagged(self, key: int) -> bool:
        """Whether a delivery of `key` must say that it may have been delivered before."""
        return 0 < key <= self.flag_through or key in self.redelivered

    def make_ready(self, consumer: Consumer) -> bool:
        """Put a consumer that has room into the ring; True if it was not there."""
        if consumer.is_ready or consumer.is_closed or not consumer.has_room():
            return False
        consumer.is_ready = True
        self.ready.append(consumer)
        return True

    def close_subscription(self, subscription: Consumer) -> None:
        """Remove a subscription that gets nothing more; what it holds is not given back yet."""
        subscription.is_closed = True
        subscription.prefetch = 0  # The ring passes over it as over one without room.
        self.subscriptions.pop(subscription, None)
        if subscription.is_ready:
            ready = self.ready
            self.closed_ready_count += 1
            if 2 * self.closed_ready_count > len(ready):
                for _ in range(len(ready)):
                    each = ready.popleft()
                    if each.is_closed:
                        each.is_ready = False
                    else:
                        ready.append(each)
                self.closed_ready_count = 0

    def take_back(self, subscription: Consumer, step_count: int) -> Iterator[None]:
        """Give back, flagged, what a closed subscription holds, in steps of so many messages."""
        held = subscription.unacknowledged
        keys = iter(list(held))
        self.returning[subscription] = None
        while subscription in self.returning:  # Else this half of the queue was built anew.
            some = list(islice(keys, step_count))
            self.give_back(some, redelivered=True, client=subscription.client)
            for key in some:
                held.pop(key, None)
            if not held or len(some) < step_count:
                del self.returning[subscription]
                return
            yield

    def renew(self, leaving: set[int]) -> None:
        """
        Build the leader's half anew from lasting state: nobody consumes, everything is flagged.

        What is on its way to the log stays so: numbers, marks, `leaving` acknowledgements.
        """
        reserved = self.reserved
        numbers = self.assigned_sequence, self.newest_before
        kept = (self.asked_mark, self.acknowledged, self.purging_through)
        for subscription in self.subscriptions:
            subscription.is_closed = True
            subscription.is_ready = False
            subscription.unacknowledged = {}
        is_deleted = self.is_deleted
        self.forget_leadership(self.mark_step)
        self.is_deleted = is_deleted
        self.assigned_sequence, self.newest_before = numbers
        self.asked_mark, self.acknowledged, self.purging_through = kept
        self.cursor = max(self.cursor, self.purging_through + 1)
        self.flag_through = self.next_sequence - 1
        self.wake()
        self.reserved = {key for key in reserved if key > 0}
        self.withheld = self.reserved | leaving

    @property
    def is_held(self) -> bool:
        """Whether nothing is dispatched now, as older messages are just being given back."""
        return bool(self.returning or self.releasing)

    @property
    def newest_under_way(self) -> int:
        """The last sequence given; what is sent now stands behind it."""
        newest = self.assigned_sequence - 1
        # Nothing was given since the numbers jumped to this leader's.
        return newest if newest > self.newest_before else self.next_sequence - 1

    @property
    def transient_count(self) -> int:
        """Non-persistent messages waiting or in delivery."""
        return len(self.transients)


class _IdleQueue(Queue):
    """
    A queue without what only traffic needs; whoever asks for any of it makes it a `Queue`.

    A class of its own with a property for each, because a class with `__getattr__` is slower to
    ask for everything else.
    """

    __slots__ = ()
    is_idle: ClassVar[bool] = True


def _made_at_first_use(name: str) -> property:
    def take(queue: Queue) -> Any:
        queue.wake()
        return getattr(queue, name)

    def put(queue: Queue, value: Any) -> None:
        queue.wake()
        setattr(queue, name, value)

    return property(take, put)


for _name in _MADE_AT_FIRST_USE:
    setattr(_IdleQueue, _name, _made_at_first_use(_name))
