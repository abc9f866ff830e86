"""
How much may be on a queue: what is refused, and what goes as newer ones come.

Policies say how many messages, and how many bytes of them, a queue may hold, those in delivery and
those on their way to the log among them. Of what is over that either the new is refused, or its
sender waits (`sessions.sending`), or the oldest that nobody has is dropped: taken off by the batch
that brings the new, so that at no place of the log there is more. What is moved to a queue is never
refused, nor is what a mirror shows it: there the oldest go, whatever is said.

Invariants:
    What somebody has, or an open transaction holds, is never dropped, nor is the newest message.
    What is dropped was the oldest of those that nobody had.
    What is to be a dead letter is dropped only while it can be one.
    No more is dropped in one batch than one record moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import IsSpent
from holdfast.broker.expiring import Expiring
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.moving import Moving
from holdfast.broker.receipts import Receipts
from holdfast.broker.sending import Sending
from holdfast.broker.serving.advises import SILENCE, Advises
from holdfast.broker.serving.bounds import Bounds
from holdfast.broker.serving.effective import Limits
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.publishing import Broken
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.broker.serving.transactions import Transaction
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.settling import Settling
from holdfast.errors import DestinationError, QueueFullError
from holdfast.model.facts import Cause, Origin
from holdfast.model.format_level import LIMITS_LEVEL
from holdfast.model.policy_options import BLOCK
from holdfast.model.records import MOVE_COUNT_MAX, MessageRecord
from holdfast.model.schedules import SCHEDULE_QUEUE

_UNLOOKED_MAX: Final = 256
"""After so many sends it is looked whether a queue is too full, else when their batch ends."""
_LOOKED_AT_MAX: Final = 4_000
"""So many messages of a queue are looked at in one step, who has them: a microsecond each."""
_QUEUES_MAX: Final = 256
"""So many queues are looked at before a batch ends."""


class _Over:
    """How much is on a queue beside what may be there."""

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.bytes = size
        self.looked_at = 0
        self.stored: list[int] = []
        self.volatile: list[int] = []
        self.is_left_off = False
        """Whether some may be free that were not looked at, or are not to be moved just now."""

    @property
    def is_any(self) -> bool:
        """Whether there is still too much."""
        return self.count > 0 or self.bytes > 0

    def take(self, key: int, size: int) -> None:
        """Let one be dropped."""
        (self.stored if key > 0 else self.volatile).append(key)
        self.count -= 1
        self.bytes -= size


class Limiting:
    """Keeps queues within their limits."""

    def __init__(
        self,
        settings: BrokerSettings,
        state: BrokerState,
        *,
        receipts: Receipts,
        destinations: Destinations,
        policies: PolicyBook,
        moving: Moving,
        settling: Settling,
        sending: Sending,
        expiring: Expiring,
        broken: Broken,
    ) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self._destinations = destinations
        self._policies = policies
        self._moving = moving
        self._settling = settling
        self._sending = sending
        self._expiring = expiring
        self._broken = broken
        self.advising: Advises = SILENCE
        self._is_trimming = False
        self._change_count = 0
        """How often the policies had been changed when all queues were looked at."""
        self._changed: Iterator[Queue] | None = None
        """Queues that are still to be looked at because of that."""
        self.dropped_total = 0
        """Messages that went as newer ones came, of all leaderships of this process."""
        receipts.before_batch_ends = self.trim_before_batch_ends

    def follow(self) -> None:
        """Forget all."""
        self._changed = None
        self._change_count = 0

    def limits_of(self, queue: Queue) -> Limits | None:
        """Give what is said of how much may be on a queue; None: nothing."""
        if not self._state.policies.by_key or queue.name == SCHEDULE_QUEUE:
            return None  # What is scheduled is meant for other queues, and for their limits.
        limits = self._policies.of(queue).limits
        if limits is None:
            return None
        if queue.bounds is None:
            queue.bounds = Bounds(queue)
        return limits.of_mirror() if self._is_of_mirror(queue, queue.bounds) else limits

    def _is_of_mirror(self, queue: Queue, bounds: Bounds) -> bool:
        """Whether a queue consumes the topic that mirrors another one."""
        now = self._state.policies.change_count, self._destinations.form_serial
        if bounds.judged_at != now:
            bounds.judged_at = now
            is_named = type(queue) is Queue and not queue.is_temporary
            bounds.is_of_mirror = is_named and self._destinations.consumes_mirror(queue.name)
        return bounds.is_of_mirror

    def are_limited(self, destinations: Sequence[Queue | Topic]) -> bool:
        """Whether something is said of how much may be on one of them."""
        if not self._state.policies.by_key:
            return False
        queues = (each for each in destinations if isinstance(each, Queue))
        return any(self.limits_of(each) is not None for each in queues)

    def _drops(self, queue: Queue, limits: Limits) -> bool:
        """Whether the oldest go now. If they have nowhere to go what is new is refused instead."""
        if not limits.drops or self._state.format_level < LIMITS_LEVEL:
            return False
        places = self._places(queue, limits)
        if not places:
            return True
        if self._expiring.is_full and self._policies.of(queue).keeps_volatile:
            return False  # Those would be stored.
        return self._destinations.has_place(places)

    def _places(self, queue: Queue, limits: Limits) -> tuple[str, ...]:
        """
        Give the names of the queues where what is dropped goes; none: it is nowhere any more.

        It would go in a ring for ever where full queues drop what is too much to one another.
        """
        policy = self._policies.of(queue)
        if not limits.buries or policy.keeps_dead_letters:
            return ()
        target = policy.dead_letter_queue
        if target and self._policies.burials.lead_back(queue.name, target, as_dropped=True):
            return ()
        return self._policies.burial_places(queue)

    def refusal(
        self, queue: Queue, count: int, size: int, *, is_stored: bool = True
    ) -> QueueFullError | None:
        """Say why so many messages more, with so many bytes, are not taken now; None: they are."""
        limits = self.limits_of(queue)
        if limits is None or limits.is_of_mirror:
            return None
        bounds = queue.bounds
        assert bounds is not None, "it has limits"
        never = _never(queue, limits, count, size)
        if never is not None:
            return never
        if not is_stored and limits.memory_bytes:
            taken = bounds.memory_bytes(self._settings.message_memory_overhead_bytes)
            if taken > limits.memory_bytes:
                what = f"{taken:,} bytes of memory, at most {limits.memory_bytes:,} (memoryLimit)"
                return _refusal(queue, limits, what, can_wait=True)
        if self._drops(queue, limits):
            return None
        can_wait = limits.overflow == BLOCK
        if limits.length:
            there = _count(queue, bounds)
            if there + count > limits.length:
                what = f"{there:,} messages, at most {limits.length:,} (maxLength)"
                return _refusal(queue, limits, what, can_wait=can_wait)
        if limits.bytes:
            held = _bytes(queue, bounds)
            if held + size > limits.bytes:
                what = f"{held:,} bytes, at most {limits.bytes:,} (maxLengthBytes)"
                return _refusal(queue, limits, what, can_wait=can_wait)
        return None

    def sent(self, queue: Queue, first: int, size: int) -> None:
        """Note that a message of so many bytes was sent, if `first`, the next number, was given."""
        bounds = queue.bounds
        if bounds is None:
            return
        count = queue.assigned_sequence - first
        if count > 0:
            bounds.sent(first, count, size)
        self._destinations.leadership.filling[queue] = None
        if bounds.unlooked_count >= _UNLOOKED_MAX and not self._is_trimming:
            self._trim_now(queue)

    def require_room(self, transaction: Transaction) -> None:
        """
        Refuse a transaction that sends more than may be on a queue.

        Raises:
            QueueFullError: It does.
        """
        if not self._state.policies.by_key:
            return
        for queue, records in transaction.by_queue.items():
            limits = self.limits_of(queue)
            if limits is not None:
                size = _bytes_of(records, transaction) if limits.bytes else 0
                refusal = self.refusal(queue, len(records), size)
                if refusal is not None:
                    raise refusal
        for destination in transaction.targets:
            if isinstance(destination, Queue):
                sizes = [
                    len(each.headers) + len(each.body)
                    for each in transaction.publications
                    if each.destination is destination
                ]
                refusal = self.refusal(destination, len(sizes), sum(sizes), is_stored=False)
                if refusal is not None:
                    raise refusal

    def committed(self, transaction: Transaction) -> None:
        """Note what a transaction has sent."""
        if not self._state.policies.by_key:
            return
        for queue, records in transaction.by_queue.items():
            bounds = queue.bounds
            if bounds is not None and not queue.is_deleted:
                size = _bytes_of(records, transaction)
                bounds.sent(queue.assigned_sequence - len(records), len(records), size)
                self._destinations.leadership.filling[queue] = None

    @property
    def has_any(self) -> bool:
        """Whether a queue may be too full."""
        return (
            bool(self._destinations.leadership.filling)
            or self._changed is not None
            or self._state.policies.change_count != self._change_count
        )

    def step(self, is_spent: IsSpent = lambda: False) -> bool:
        """Take off what is too much, as the time goes; whether there may be more of it."""
        self._look_at_changes(is_spent)
        filling = self._destinations.leadership.filling
        for _ in range(len(filling)):
            if self._receipts.batch.moved_count >= MOVE_COUNT_MAX:
                return False  # The next turn comes when this batch goes.
            self._trim_now(next(iter(filling)))
            if is_spent():
                return bool(filling)
        return self._changed is not None

    def _look_at_changes(self, is_spent: IsSpent) -> None:
        """Look at all queues that are served, in steps, once the policies were changed."""
        leadership = self._destinations.leadership
        if self._state.policies.change_count != self._change_count:
            self._change_count = self._state.policies.change_count
            self._changed = iter(list(leadership.by_name.values()))
        for count, queue in enumerate(self._changed or (), 1):
            if not queue.is_deleted and self.limits_of(queue) is not None:
                leadership.filling[queue] = None
            if not count % self._settings.step_count_max and is_spent():
                return
        self._changed = None

    def trim_before_batch_ends(self) -> None:
        """Take off, in the batch that is about to end, what its messages are too many for."""
        filling = self._destinations.leadership.filling
        if not filling or self._is_trimming:
            return
        for _ in range(min(len(filling), _QUEUES_MAX)):
            if self._receipts.batch.moved_count >= MOVE_COUNT_MAX:
                return
            self._trim_now(next(iter(filling)))

    def _trim_now(self, queue: Queue) -> None:
        """Take a queue out of those that may be too full; back into them if it still is."""
        filling = self._destinations.leadership.filling
        filling.pop(queue, None)
        self._is_trimming = True
        try:
            if not queue.is_deleted and self._trim(queue):
                filling[queue] = None
        except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
            self._broken.append((queue, error))
            queue.touch()
        finally:
            self._is_trimming = False

    def _trim(self, queue: Queue) -> bool:
        """Drop what is too much; whether it is to be looked at again."""
        limits = self.limits_of(queue)
        if limits is None or not self._drops(queue, limits):
            return False
        bounds = queue.bounds
        assert bounds is not None, "it has limits"
        came, bounds.unlooked_count = min(bounds.unlooked_count, _UNLOOKED_MAX), 0
        over, is_leaving = self._over(queue, bounds, limits)
        if limits.is_of_mirror and limits.memory_bytes:
            self._find_volatile(queue, bounds, over, limits.memory_bytes)
        if not (over.is_any or over.volatile):
            return is_leaving
        room = MOVE_COUNT_MAX - self._receipts.batch.moved_count
        if room <= 0:
            room = MOVE_COUNT_MAX  # It goes into a batch of its own.
        places = self._places(queue, limits)
        # What stands on several queues is as many moves; but as many go as came.
        self._find(queue, bounds, over, max(1, came, room // max(1, len(places))))
        try:
            self._drop(queue, bounds, places, over)
        except DestinationError:  # None is gone; it is looked at again as more comes.
            bounds.begin_anew()
            return False
        return is_leaving or over.is_left_off

    def _over(self, queue: Queue, bounds: Bounds, limits: Limits) -> tuple[_Over, bool]:
        """Give how much is too much, and whether something that counts is on its way out."""
        count, size = _count(queue, bounds), _bytes(queue, bounds)  # Both forget what is applied.
        over = _Over(
            count - limits.length if limits.length else 0,
            size - limits.bytes if limits.bytes else 0,
        )
        if not over.is_any:
            return over, False
        leaving = self._receipts.leaving(queue)
        for sequences in leaving:
            over.count -= len(sequences)
            if over.bytes > 0:
                over.bytes -= self._bytes_of(queue, bounds, sequences, over.bytes)
        if not limits.length:
            over.count = 0
        return over, bool(leaving)

    @staticmethod
    def _bytes_of(queue: Queue, bounds: Bounds, sequences: list[int], enough: int) -> int:
        """Give how many bytes these have; it is not looked on once that is enough."""
        index, applied = queue.index, bounds.next_to_apply
        size = 0
        for sequence in sequences:
            if index.is_live(sequence):
                size += index.size(sequence)
                if size >= enough:
                    return size
        if sequences and max(sequences) >= applied:
            wanted = set(sequences)
            size += sum(each for it, each in bounds.sizes_on_their_way(0) if it in wanted)
        return size

    def _find(self, queue: Queue, bounds: Bounds, over: _Over, count_max: int) -> None:
        """Find so many of the oldest that nobody has."""
        newest = bounds.newest
        volatile = bounds.volatile_keys()
        waiting = next(volatile, 0)
        for sequence, size in self._stored(queue, bounds, over):
            while waiting and self._order_of(queue, waiting) < sequence and over.is_any:
                self._take_volatile(queue, bounds, over, waiting, newest)
                waiting = next(volatile, 0)
            if not over.is_any or len(over.stored) >= count_max or sequence == newest:
                over.is_left_off |= over.is_any and sequence != newest
                return
            over.take(sequence, size)
            if sequence >= bounds.next_to_apply:
                bounds.first_on_its_way = sequence + 1
            elif not over.is_left_off:
                bounds.first = sequence + 1
        while waiting and over.is_any and not over.is_left_off:
            self._take_volatile(queue, bounds, over, waiting, newest)
            waiting = next(volatile, 0)

    def _find_volatile(self, queue: Queue, bounds: Bounds, over: _Over, bytes_max: int) -> None:
        """Find the oldest non-persistent ones that take more memory than they may."""
        overhead_bytes = self._settings.message_memory_overhead_bytes
        left, newest = bounds.memory_bytes(overhead_bytes), bounds.newest
        for key in bounds.volatile_keys():
            if left <= bytes_max:
                return
            before, message = len(over.volatile), queue.transients.find(key)
            self._take_volatile(queue, bounds, over, key, newest)
            if message is not None and len(over.volatile) > before:
                left -= message.size + overhead_bytes

    @staticmethod
    def _order_of(queue: Queue, key: int) -> int:
        message = queue.transients.find(key)
        return 0 if message is None else message.order

    def _stored(self, queue: Queue, bounds: Bounds, over: _Over) -> Iterator[tuple[int, int]]:
        """Give the stored messages that nobody has, oldest first, each with its bytes."""
        index, end = queue.index, queue.lasting.next_sequence
        sequence = index.next_live(bounds.first, end)
        while sequence < end:
            if over.looked_at >= _LOOKED_AT_MAX:
                over.is_left_off = True
                return
            over.looked_at += 1
            if self._moving.is_free(queue, sequence):
                if self._moving.is_closed(queue, sequence):
                    over.is_left_off = True  # The cleaner is there: it is dropped a little later.
                else:
                    yield sequence, index.size(sequence)
            elif not over.is_left_off:
                bounds.first = sequence + 1
            sequence = index.next_live(sequence + 1, end)
        for sequence, size in bounds.sizes_on_their_way(bounds.first_on_its_way):
            if not queue.is_withheld(sequence):
                yield sequence, size

    def _take_volatile(
        self, queue: Queue, bounds: Bounds, over: _Over, key: int, newest: int
    ) -> None:
        over.looked_at += 1
        message = queue.transients.find(key)
        if key == newest or message is None:
            return
        if not self._moving.is_volatile_held(queue, key):
            over.take(key, message.size)
        bounds.volatile = key - 1

    def _drop(self, queue: Queue, bounds: Bounds, places: Sequence[str], over: _Over) -> None:
        if over.stored:
            stored = sorted(over.stored)
            now_ms = self._sending.now_microseconds // 1000
            self._settling.bury(queue, places, stored, Cause.MAXLEN, now_ms)
            self._moving.keep_from_all(queue, stored)
        keeps_volatile = bool(places) and self._policies.of(queue).keeps_volatile
        for key in over.volatile:
            message = queue.transients.find(key)
            if message is not None and keeps_volatile:
                self._settling.store_dead(queue, message, Origin(Cause.MAXLEN, queue.name, ""))
            self._destinations.settle_transient(queue, key)
        if over.volatile and not keeps_volatile and self.advising.listeners:
            self.advising.died(queue, over.volatile, Cause.MAXLEN, is_buried=False)
        count = len(over.stored) + len(over.volatile)
        bounds.dropped_total += count
        self.dropped_total += count


def _count(queue: Queue, bounds: Bounds) -> int:
    """Give how many messages there are, those in delivery and on their way to the log included."""
    return queue.index.live_count + queue.transient_count + bounds.count_on_its_way


def _bytes(queue: Queue, bounds: Bounds) -> int:
    """Give how many bytes these have."""
    return queue.index.live_bytes + queue.transient_bytes + bounds.bytes_on_their_way


def _bytes_of(records: Sequence[object], transaction: Transaction) -> int:
    """Give how many bytes of a transaction one queue gets; not less than there are."""
    sizes = [it.size for it in records if isinstance(it, MessageRecord)]
    if len(sizes) < len(records):
        return transaction.records_bytes  # Some have their first place on another queue.
    return sum(sizes)


def _never(queue: Queue, limits: Limits, count: int, size: int) -> QueueFullError | None:
    """Say of what is more than may ever be on a queue that it is."""
    if limits.length and count > limits.length:
        return QueueFullError(
            f"{count:,} messages at once for queue {queue.name!r}, which holds at most"
            f" {limits.length:,} (maxLength); send fewer in one transaction"
        )
    if limits.bytes and size > limits.bytes:
        return QueueFullError(
            f"{size:,} bytes for queue {queue.name!r}, which holds at most"
            f" {limits.bytes:,} (maxLengthBytes): it will never have room for that"
        )
    return None


def _refusal(queue: Queue, limits: Limits, what: str, *, can_wait: bool) -> QueueFullError:
    return QueueFullError(
        f"queue {queue.name!r} has {what}; send again once its consumers have taken some",
        can_wait=can_wait and not limits.fails_at_once,
        wait_ms=limits.wait_ms,
    )
