"""
The choice of a queue without features: in order, to whoever has room, one after the other.

Consumers with room stand in a ring (`ring`), which it is itself; a router, which knows more of the
consumers, has rings of its own and lets it give messages to one of them.

What was given back goes first, in its old order; then, by order of sending, persistent messages up
to the dispatch mark and non-persistent ones, which wait in a lane of their own, each behind the
persistent message that was sent before it: so one producer's order holds across both. Those of a
transaction take their place when it is stored: what was sent after the COMMIT meanwhile goes first.

Invariants, beside those of `choice`:
    A live sequence below `cursor` is in delivery, in `returned`, reserved, withheld, or its
    acknowledgement is on its way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from holdfast.broker.serving.choice import Settle
from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.delivery import EFFORT_SHIFT, UNREAD_BYTES, Step
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.returned import Returned
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.shelves import NO_SHELF, SHELF_SHIFT, SLOT_BITS, SLOT_MASK
from holdfast.model.records import MessageRecord


class Plain(Ring):
    """Round robin over the consumers with room."""

    __slots__ = (
        "_custody",
        "_index",
        "_lasting",
        "_queue",
        "_stored",
        "_volatile",
        "cursor",
        "returned",
        "waiting",
    )

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue
        self._custody = queue.custody
        self._lasting = queue.lasting
        self._index = queue.index
        # Made late, there may be messages on their way to the log: none is below these.
        first = queue.index.first() or queue.newest_before + 1
        self.cursor = max(first, queue.purging_through + 1)
        self.returned = Returned()
        """What goes out again, before anything new."""
        self.adopt_returned()
        self.waiting: deque[int] = deque()
        """Non-persistent messages that were never assigned."""

    def adopt_returned(self) -> None:
        """Have at hand what is looked at for each message: whether anything was given back."""
        self._stored, self._volatile = self.returned.stored.shelves, self.returned.volatile

    def may_hold(self, consumer: Consumer) -> bool:
        """Say that each may have back what its transaction gives back."""
        return True

    def wake(self, now_ms: int, count_max: int) -> tuple[int, int]:
        """Do nothing: nothing is ever due."""
        return 0, 0

    def add_transient(self, key: int) -> None:
        """Let a non-persistent message wait for its first consumer."""
        self.waiting.append(key)

    def give_back(self, order: int, serial: int, key: int) -> None:
        """Put a key back in its old order, if it is not there and does not come in its turn."""
        if key < self.cursor:
            self.returned.put(order, serial, key)

    def is_at_hand(self, sequence: int) -> bool:
        """Whether it was given back, or comes in its turn."""
        return sequence in self.returned or sequence >= self.cursor

    def skip_to(self, sequence: int) -> None:
        """Go on from a sequence, if that is further."""
        self.cursor = max(self.cursor, sequence)

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget what was given back and what waits."""
        waiting, self.waiting = self.waiting, deque()
        known = (waiting, *self.returned.empty())
        self.adopt_returned()
        return known

    def assign(self, settle: Settle, step: Step, count_max: int, ring: Ring | None = None) -> bool:
        """Put deliveries to those of a ring (or its own) into a step; whether that is all."""
        queue = self._queue
        ring = self if ring is None else ring
        ready = ring.ready
        cache = queue.cache.shelves
        transients = queue.transients.shelves
        next_key = self.next_key
        flag_through = queue.flag_through
        redelivered = self._custody.redelivered.shelves
        stored, volatile = self._stored, self._volatile
        withheld = self._custody.withheld.shelves
        passed_over = 0
        left = count_max
        while ready:
            consumer = ready[0]
            receiver = consumer.receiver
            unacknowledged = consumer.unacknowledged
            if receiver.room_bytes <= 0 or len(unacknowledged) >= consumer.prefetch:
                ring.drop_first()
                passed_over += 1
                if passed_over >= count_max:
                    return False
                continue
            if stored or volatile or withheld:
                passed_over += self.pass_over(count_max - passed_over)
                if passed_over >= count_max:
                    return False
            key = next_key()
            if not key:
                return True
            shelf = key >> SHELF_SHIFT
            record = cache.get(shelf, NO_SHELF).get(key) if key > 0 else transients[shelf][key]
            number = 0
            if record is not None:
                receiver.room_bytes -= record.size
                left -= record.size >> EFFORT_SHIFT
            else:
                receiver.room_bytes -= UNREAD_BYTES
                number = self._index.record_number(key)
            # As `Queue.is_flagged` says it, without a call for each message.
            flagged: int = 0 < key <= flag_through
            if redelivered and not flagged:
                flagged = redelivered.get(shelf, 0) & SLOT_BITS[key & SLOT_MASK]
            if flagged:
                queue.redelivered_total += 1
                flagged = queue.delivery_count(key)
            step.append((consumer, key, record, number, flagged))
            if consumer.mode is AcknowledgeMode.AUTO:
                settle(key)
            else:
                unacknowledged[key] = None
            if len(ready) > 1:
                ready.rotate(-1)
            left -= 1
            if record is None or left <= 0:
                return False
        return True

    def deliver(
        self, consumer: Consumer, key: int, settle: Settle, step: Step
    ) -> MessageRecord | TransientMessage | None:
        """
        Put one delivery into a step, as `assign` does it many times; gives its content.

        None: that is not in memory, and the step ends with it, as it is to be read.
        """
        queue = self._queue
        number = flagged = 0
        record = queue.cache.find(key) if key > 0 else queue.transients.find(key)
        if record is None:
            consumer.receiver.room_bytes -= UNREAD_BYTES
            number = self._index.record_number(key)
        else:
            consumer.receiver.room_bytes -= record.size
        if queue.is_flagged(key):
            queue.redelivered_total += 1
            flagged = queue.delivery_count(key)
        step.append((consumer, key, record, number, flagged))
        if consumer.mode is AcknowledgeMode.AUTO:
            settle(key)
        else:
            consumer.unacknowledged[key] = None
        return record

    def next_key(self) -> int:
        """Take the next message to dispatch and give its key, 0 if there is none now."""
        if self._stored or self._volatile:
            key = self._next_returned()
            if key:
                return key
        sequence = self.cursor
        end = self._lasting.next_sequence
        if sequence < end:
            index = self._index
            sequence = index.next_live(sequence, end)
            withheld = self._custody.withheld
            if withheld.shelves:
                while sequence in withheld:
                    sequence = index.next_live(sequence + 1, end)
            self.cursor = sequence
        if self.waiting:
            key = self._next_waiting(sequence)
            if key:
                return key
        if sequence < end and sequence <= self._lasting.dispatch_mark:
            self.cursor = sequence + 1
            return sequence
        return 0

    def _next_returned(self) -> int:
        """Take the first of what was given back that somebody may have, 0 if there is none."""
        withheld, transients = self._custody.withheld, self._queue.transients
        while key := self.returned.pop():
            if key in withheld:
                continue
            if key in transients or self._index.is_live(key):
                return key
        return 0

    def _next_waiting(self, sequence: int) -> int:
        """Take the first non-persistent message sent before a stored one, 0 if there is none."""
        waiting, transients = self.waiting, self._queue.transients.shelves
        while waiting:
            key = waiting[0]
            transient = transients.get(key >> SHELF_SHIFT, NO_SHELF).get(key)
            if transient is not None and transient.order >= sequence:
                break
            waiting.popleft()
            if transient is not None:
                return key
        return 0

    def pass_over(self, count_max: int) -> int:
        """
        Go past so many messages at the head that nobody can have now; give how many there were.

        Fewer than `count_max`: the next key is near. A transaction may settle a hundred thousand by
        their ids, and whatever was given back stands here until somebody comes by.
        """
        passed = 0
        returned, withheld = self.returned, self._custody.withheld
        transients, index = self._queue.transients, self._index
        while (key := returned.first()) and passed < count_max:
            is_there = key in transients or index.is_live(key)
            if is_there and key not in withheld:
                return passed
            returned.pop()
            passed += 1
        sequence, end = self.cursor, self._lasting.next_sequence
        while withheld and sequence < end and passed < count_max:
            sequence = self.cursor = index.next_live(sequence, end)
            if sequence not in withheld:
                break
            sequence = self.cursor = sequence + 1
            passed += 1
        return passed
