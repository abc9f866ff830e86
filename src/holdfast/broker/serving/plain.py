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
from typing import ClassVar, Final

from holdfast.broker.serving.choice import Settle
from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.delivery import EFFORT_SHIFT, UNREAD_BYTES, Step
from holdfast.broker.serving.lanes import Lanes
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.returned import Returned
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.shelves import NO_SHELF, SHELF_SHIFT, SLOT_BITS, SLOT_MASK
from holdfast.broker.serving.suspects import Suspects, find_idle
from holdfast.model.records import MessageRecord

ALL: Final = 1 << 30
"""More than any step may take."""


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
        "lanes",
        "returned",
        "suspects",
        "waiting",
    )

    isolates: ClassVar[bool] = True
    """Whether messages that were lost with others too often are sent alone."""

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
        self.lanes: Lanes | None = None
        """All of that by priority; None where messages have none, or they do not matter."""
        self.suspects: Suspects | None = None
        """What is to be sent alone; None before anything was."""
        self.waiting: deque[int] = deque()
        """Non-persistent messages that were never assigned."""

    @property
    def ungrouped(self) -> type[Plain]:
        """What goes on in this order where messages are in no groups, and all are wanted."""
        return type(self)

    def adopt_returned(self) -> None:
        """Have at hand what is looked at for each message: whether anything was given back."""
        self._stored, self._volatile = self.returned.stored.shelves, self.returned.volatile

    @property
    def is_idle_awaited(self) -> bool:
        """Whether a suspect waits."""
        return self.suspects is not None and bool(self.suspects.waiting)

    def may_hold(self, consumer: Consumer) -> bool:
        """Say that each may have back what its transaction gives back."""
        return True

    def wake(self, now_ms: int, count_max: int) -> tuple[int, int]:
        """Do nothing: nothing is ever due."""
        return 0, 0

    def begin_lanes(self) -> None:
        """Go by priority from now on."""
        lanes = self.lanes = Lanes(self._queue, self.cursor)
        while key := self.returned.pop():
            lanes.put_back(key)
        waiting, self.waiting = self.waiting, deque()
        for key in waiting:
            lanes.add_transient(key)

    @property
    def goes_by_priority(self) -> bool:
        """Whether messages are in lanes."""
        return self.lanes is not None

    def add_transient(self, key: int) -> None:
        """Let a non-persistent message wait for its first consumer."""
        if self.lanes is not None:
            self.lanes.add_transient(key)
        else:
            self.waiting.append(key)

    def give_back(self, order: int, serial: int, key: int) -> None:
        """Put a key back in its old order, if it is not there and does not come in its turn."""
        if self.suspects is not None and key in self.suspects.waiting:
            return
        if self.lanes is not None:
            self.lanes.put_back(key)
        elif key < self.cursor:
            self.returned.put(order, serial, key)

    def is_at_hand(self, sequence: int) -> bool:
        """Whether it was given back, or comes in its turn."""
        if self.lanes is not None:
            is_there = sequence in self.lanes
        else:
            is_there = sequence in self.returned or sequence >= self.cursor
        if is_there:
            return True
        return self.suspects is not None and sequence in self.suspects.waiting

    def skip_to(self, sequence: int) -> None:
        """Go on from a sequence, if that is further."""
        self.cursor = max(self.cursor, sequence)
        if self.lanes is not None:
            self.lanes.skip_to(sequence)

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget what was given back and what waits."""
        waiting, self.waiting = self.waiting, deque()
        known = (waiting, *self.returned.empty())
        if self.suspects is not None:
            known = (*known, *self.suspects.empty())
        if self.lanes is not None:
            known = (*known, *self.lanes.empty())
        self.adopt_returned()
        return known

    def assign(self, settle: Settle, step: Step, count_max: int, ring: Ring | None = None) -> bool:
        """Put deliveries to those of a ring (or its own) into a step; whether that is all."""
        queue = self._queue
        ring = self if ring is None else ring
        if self.lanes is not None:
            return self._assign_in_lanes(self.lanes, settle, step, count_max, ring)
        ready = ring.ready
        cache, transients = queue.cache.shelves, queue.transients.shelves
        next_key = self.next_key
        flag_through, seen = queue.flag_through, queue.flag_seen
        redelivered = self._custody.redelivered.shelves
        stored, volatile = self._stored, self._volatile
        withheld = self._custody.withheld.shelves
        suspects, left = self.suspects, count_max
        while ready and left > 0:
            consumer = ready[0]
            receiver = consumer.receiver
            unacknowledged = consumer.unacknowledged
            if receiver.room_bytes <= 0 or len(unacknowledged) >= consumer.prefetch:
                ring.drop_first()
                left -= 1
                continue
            if stored or volatile or withheld:
                left -= self.pass_over(left)
                if left <= 0:
                    break
                suspects = self.suspects
            if suspects is not None and (effort := self._isolate(ring, settle, step)):
                left -= effort
                continue
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
            flagged: int = 0 < key <= flag_through and (not seen.ranges or key in seen)
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
            if record is None:
                return False
        return left > 0

    def _assign_in_lanes(
        self, lanes: Lanes, settle: Settle, step: Step, count_max: int, ring: Ring
    ) -> bool:
        """The same by priority."""
        is_over = self._go_through_lanes(lanes, settle, step, count_max, ring)
        self.cursor = lanes.cursor
        return is_over

    def _go_through_lanes(
        self, lanes: Lanes, settle: Settle, step: Step, count_max: int, ring: Ring
    ) -> bool:
        lanes.left = count_max
        while ring.ready and lanes.left > 0:
            if not ring.ready[0].has_room():
                ring.drop_first()
                lanes.left -= 1
                continue
            if self.suspects is not None and (effort := self._isolate(ring, settle, step)):
                lanes.left -= effort
                continue
            were_waiting = self._has_suspects
            key = self.next_in_lanes(lanes)
            if not key:
                if self._has_suspects and not were_waiting:
                    continue  # They were come by just now: somebody may hold nothing.
                return lanes.left > 0
            record = self.deliver(ring.ready[0], key, settle, step)
            if len(ring.ready) > 1:
                ring.ready.rotate(-1)
            lanes.left -= 1
            if record is None:
                return False
            lanes.left -= record.size >> EFFORT_SHIFT
        return lanes.left > 0

    @property
    def _has_suspects(self) -> bool:
        """Whether something waits to be sent alone."""
        return self.suspects is not None and bool(self.suspects.waiting)

    def next_in_lanes(self, lanes: Lanes, *, heeds_mark: bool = True) -> int:
        """Take the next message that does not rest and is not to be sent alone; 0 for none."""
        while lanes.left > 0:
            if lanes.is_noting:
                lanes.note()
                if lanes.is_noting:
                    return 0
            key = lanes.next_key(heeds_mark=heeds_mark)
            due_ms = self._index.returned(key).due_ms if key > 0 and lanes.is_new else 0
            if due_ms:
                self.rests(key, due_ms)  # It came back under a leader before.
            elif not key or not self._suspect(key):
                return key
            lanes.left -= 1
        return 0

    def rests(self, key: int, due_ms: int) -> None:
        """Put aside what was come by before it is due."""
        self._queue.rest(key, due_ms)

    def _suspect(self, key: int) -> bool:
        """Let a message wait outside the order if it was lost with others too often."""
        if not (self.isolates and self._is_suspect(key)):
            return False
        if self.suspects is None:
            self.suspects = Suspects()
        order = key if key > 0 else self._queue.transients[key].order
        self.suspects.waiting.put(order, -key, key)
        return True

    def _is_suspect(self, key: int) -> bool:
        """Whether a message was lost with others too often."""
        queue = self._queue
        if not queue.suspect_after:
            return False
        returned = queue.returned_so_far(key)
        return returned.attempts - returned.failures >= queue.suspect_after

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

    def end_isolation(self) -> Suspects | None:
        """Let what waits to be sent alone stand in the order again; gives who has less room."""
        suspects, self.suspects = self.suspects, None
        while suspects is not None and (key := self._pop_of(suspects.waiting)):
            if self.lanes is not None:
                self.lanes.put_back(key)
                continue
            order = key if key > 0 else self._queue.transients[key].order
            self.returned.put(order, -key, key)
        return suspects

    def _isolate(self, ring: Ring, settle: Settle, step: Step) -> int:
        """
        Give the first suspect to one of a ring who holds nothing, or make somebody run empty.

        Gives what that took, in deliveries; 0: the head of the ring is to have what comes next.
        """
        suspects, consumer = self.suspects, ring.ready[0]
        assert suspects is not None, "there were some"
        if suspects.is_turn_of(consumer):
            return self._give_alone(ring, settle, step)
        if not consumer.has_room():
            return 1  # From now on.
        if not suspects.waiting:
            return 0
        idle = find_idle(ring)
        if idle is None:
            return 0
        ring.ready.remove(idle)
        ring.ready.appendleft(idle)
        return self._give_alone(ring, settle, step)

    def _give_alone(self, ring: Ring, settle: Settle, step: Step) -> int:
        """
        Give the first suspect that somebody may have to the head of a ring, who holds nothing.

        Gives what that took, in deliveries: all that a step may take, if it must be read.
        """
        suspects, consumer = self.suspects, ring.ready[0]
        assert suspects is not None, "somebody looked there"
        key = self._pop_of(suspects.waiting)
        if not key:
            return 1
        record = self.deliver(consumer, key, settle, step)
        suspects.give(consumer)
        ring.ready.rotate(-1)
        return ALL if record is None else 1 + (record.size >> EFFORT_SHIFT)

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
        return self._pop_of(self.returned)

    def _pop_of(self, keys: Returned) -> int:
        withheld, transients = self._custody.withheld, self._queue.transients
        while key := keys.pop():
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
            if is_there and key not in withheld and not self._suspect(key):
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
