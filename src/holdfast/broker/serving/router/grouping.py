"""
The order of a queue on which messages are in groups: each group's go to one consumer, in order.

Each message is looked at once, in order. One in no group goes to whose turn it is. One of a group
goes to the owner of its bucket (`owners`); where that has no room, or may be given nothing of it
now, it is parked (`parked`), and those behind it are looked at: nobody is held up by a group that
is not his. Who has room gets what is parked for him first.

Invariants, beside those of `choice`:
    What is at hand below `cursor` is parked or given back.
    Of a bucket nothing is given while something is parked that stands before it.
    What is parked in a bucket that is to be had is in `_ownerless`.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final, cast

from holdfast.broker.serving.choice import Settle
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.delivery import EFFORT_SHIFT, Step
from holdfast.broker.serving.effective import Sharing
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.router.owners import Owners
from holdfast.broker.serving.router.parked import Heads, Parked

_LOOKED_AT_SHIFT: Final = 3
"""To look at so many consumers or buckets, as a power of two, takes as long as a delivery."""

_LOOKED_AT_AT_ONCE: Final = 64
"""So many buckets are looked at before anything else is done."""


class Grouping(Plain):
    """Gives each message to the owner of its group."""

    __slots__ = (
        *("_heads", "_hungry", "_left", "_newcomers", "_ownerless", "_parked", "_stale", "owners"),
    )

    def __init__(self, queue: Queue, before: Plain, sharing: Sharing) -> None:
        """Go on where a plain order has come to: nothing of a group is out yet."""
        super().__init__(queue)
        self.cursor = before.cursor
        self.returned = before.returned
        self.waiting = before.waiting
        self._stored, self._volatile = self.returned.stored.shelves, self.returned.volatile
        self.owners = Owners(sharing)
        self._parked = Parked(self._takers)
        """By bucket."""
        self._heads: dict[Consumer, Heads] = {}
        """Of owners for whom something was parked: where the first of it stands."""
        self._hungry: dict[Consumer, None] = {}
        """Those for whom something may be parked, and who may have room."""
        self._ownerless: dict[int, None] = {}
        """Buckets that are to be had, in which something may be parked."""
        self._stale: deque[int] = deque()
        """Buckets that others may take from than before."""
        self._newcomers: deque[tuple[Consumer, list[int]]] = deque()
        """Who has come, and the buckets of which it is to be found out whether they prefer him."""
        self._left = 0
        """So much more may be done in this step."""

    def _takers(self, bucket: int) -> list[Heads]:
        consumer = self.owners.taker(bucket)
        if consumer is None:
            return []
        heads = self._heads.get(consumer)
        if heads is None:
            heads = self._heads[consumer] = Heads()
        return [heads]

    def came(self, consumer: Consumer) -> None:
        """Note a consumer that has come: buckets that prefer it move, each when it may."""
        buckets = self.owners.buckets
        if buckets:
            self._newcomers.append((consumer, buckets))

    def left(self, consumer: Consumer) -> None:
        """Note that a consumer is closed: its buckets are to be had once nothing is out."""
        heads = self._heads.pop(consumer, None)
        if heads is not None:
            heads.is_over = True
        self._hungry.pop(consumer, None)
        self._stale.extend(self.owners.left(consumer))

    def has_room(self, consumer: Consumer) -> bool:
        """Note that a consumer may have room again; whether something may be parked for it."""
        if consumer not in self._heads or not consumer.has_room():
            return False
        self._hungry[consumer] = None
        return True

    def let_only(self, consumer: Consumer | None) -> None:
        """Let only one get messages, who holds all that is held; None: all, again."""
        owners = self.owners
        if owners.only is consumer:
            return
        if owners.only is not None:
            owners.end_alone()
        if consumer is not None:
            owners.begin_alone(consumer)
        for heads in self._heads.values():
            heads.is_over = True
        self._heads, self._hungry, self._ownerless = {}, {}, {}
        self._stale.extend(cast("Iterable[int]", self._parked.buckets))

    def _note_changes(self) -> None:
        """Find out, of some buckets that may be others' now, who takes from them."""
        self._left -= _LOOKED_AT_AT_ONCE >> _LOOKED_AT_SHIFT
        if self._stale:
            for _ in range(min(_LOOKED_AT_AT_ONCE, len(self._stale))):
                self._changed(self._stale.popleft())
            return
        newcomer, buckets = self._newcomers[0]
        some = buckets[-_LOOKED_AT_AT_ONCE:]
        del buckets[-_LOOKED_AT_AT_ONCE:]
        if newcomer.is_closed or not buckets:
            self._newcomers.popleft()
        if not newcomer.is_closed:
            count = len(self._queue.subscriptions)
            self._stale.extend(self.owners.came(newcomer, count, some))

    def _changed(self, bucket: int) -> None:
        """Note that others may take from a bucket than before, or that it is to be had."""
        if not self._parked.count_of(bucket):
            return
        self._parked.ask_again(bucket)
        consumer = self.owners.taker(bucket)
        if consumer is not None:
            self._hungry[consumer] = None
        elif self.owners.is_free(bucket):
            self._ownerless[bucket] = None

    def assign(self, settle: Settle, step: Step, count_max: int, ring: Ring | None = None) -> bool:
        """Do as much as may be done in a step."""
        ring = self if ring is None else ring
        self._left = count_max
        while self._left > 0 and ring.ready:
            consumer = ring.ready[0]
            if not consumer.has_room():
                ring.drop_first()
                self._left -= 1
                continue
            known = self._go_on(settle, step, ring)
            if known is not None:
                return known
        return self._left > 0

    def _go_on(self, settle: Settle, step: Step, ring: Ring) -> bool | None:
        """Do what comes next; false if the step ends with it, true if there is nothing now."""
        if self._stored or self._volatile or self._custody.withheld.shelves:
            self._left -= self.pass_over(self._left)
            if self._left <= 0:
                return False
            key = self._next_returned()
            if key:
                return self._place(key, settle, step, ring)
        if self._stale or self._newcomers:
            self._note_changes()
            return None
        if self._hungry:
            return self._feed(next(iter(self._hungry)), settle, step)
        if self._ownerless:
            self._find_owner(next(iter(self._ownerless)), ring)
            return None
        if self._parked.is_full:
            return True
        before = self.cursor
        key = self.next_key()
        if not key:
            return True
        due_ms = self._index.returned(key).due_ms if key >= before else 0
        if due_ms:
            # It came back under a leader before, and rests.
            self._left -= 1
            self._queue.rest(key, due_ms)
            self.set_aside([key])
            return None
        return self._place(key, settle, step, ring)

    def _bucket_of(self, key: int) -> int | None:
        """Give the bucket of a message's group, None if it is in none."""
        if key > 0:
            group_hash = self._index.group_hash(key)
        else:
            transient = self._queue.transients.find(key)
            group_hash = 0 if transient is None else transient.group_hash
        return group_hash % self.owners.bucket_count if group_hash else None

    def _place(self, key: int, settle: Settle, step: Step, ring: Ring) -> bool | None:
        """Give a message to whose it is, or park it."""
        bucket = self._bucket_of(key)
        if bucket is None:
            consumer = ring.ready[0]
            if len(ring.ready) > 1:
                ring.ready.rotate(-1)
            return self._give(consumer, key, settle, step)
        owners = self.owners
        owner = owners.taker(bucket)
        if not self._parked.count_of(bucket):
            if owner is None and owners.is_free(bucket):
                owner = self._choose(bucket, ring)
            if owner is not None and owner.has_room():
                owners.went_out(key, bucket)
                return self._give(owner, key, settle, step)
        order = key if key > 0 else self._queue.transients[key].order
        self._parked.put(bucket, key, order)
        self._left -= 1
        if owner is not None:
            self._hungry[owner] = None
        elif owners.is_free(bucket):
            self._ownerless[bucket] = None
        return None

    def _choose(self, bucket: int, ring: Ring) -> Consumer:
        ready = [consumer for consumer in ring.ready if consumer.has_room()]
        self._left -= len(ring.ready) >> _LOOKED_AT_SHIFT
        chosen = self.owners.choose(bucket, ready, len(self._queue.subscriptions))
        if chosen is ring.ready[0] and len(ring.ready) > 1:
            ring.ready.rotate(-1)
        return chosen

    def _find_owner(self, bucket: int, ring: Ring) -> None:
        """Let somebody have a bucket in which something is parked."""
        self._left -= 1
        del self._ownerless[bucket]
        if self._parked.count_of(bucket) and self.owners.is_free(bucket):
            self._choose(bucket, ring)
            self._changed(bucket)

    def _feed(self, consumer: Consumer, settle: Settle, step: Step) -> bool | None:
        """Give somebody the first of what is parked for him."""
        self._left -= 1
        heads = self._heads.get(consumer)
        place = None if heads is None or not consumer.has_room() else heads.first()
        if place is None:
            del self._hungry[consumer]
            return None
        key = place.key
        bucket = self._parked.bucket_of(key)
        assert isinstance(bucket, int), "it stands there"
        if self.owners.taker(bucket) is not consumer:
            self._changed(bucket)  # It was the consumer's until just now.
            return None
        self._parked.take(key)
        if key in self._custody.withheld or not self._is_there(key):
            return None  # It comes back, or is gone.
        self.owners.went_out(key, bucket)
        return self._give(consumer, key, settle, step)

    def _is_there(self, key: int) -> bool:
        return key in self._queue.transients if key < 0 else not self._queue.has_ended(key)

    def _give(self, consumer: Consumer, key: int, settle: Settle, step: Step) -> bool | None:
        """Put a delivery into the step; false if it ends with it."""
        record = self.deliver(consumer, key, settle, step)
        self._left -= 1
        if record is None:
            return False
        self._left -= record.size >> EFFORT_SHIFT
        return None

    def give_back(self, order: int, serial: int, key: int) -> None:
        """Put a key back in its old order; what rests is out until then."""
        self._parked.take(key)
        self._came_in(key)
        super().give_back(order, serial, key)

    def set_aside(self, keys: Iterable[int]) -> None:
        """Note that messages come again, later; what is behind one in its group waits for it."""
        for key in keys:
            bucket = self._bucket_of(key)
            if bucket is not None and self.owners.delay(key, bucket):
                self._changed(bucket)

    def forget(self, keys: Iterable[int]) -> None:
        """Note what is gone for good."""
        for key in keys:
            self._parked.take(key)
            self._came_in(key, is_gone=True)

    def _came_in(self, key: int, *, is_gone: bool = False) -> None:
        changed = self.owners.came_in(key)
        if changed is not None:
            self._changed(changed)
            self._queue.touch()
        comebacks = self._custody.comebacks
        if self.owners.is_delayed(key) and (
            is_gone or comebacks is None or key not in comebacks.resting
        ):
            changed = self.owners.end_delay(key)
            if changed is not None:
                self._changed(changed)
                self._queue.touch()

    def is_at_hand(self, sequence: int) -> bool:
        """Whether nobody has it."""
        return sequence in self._parked or super().is_at_hand(sequence)

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget single keys; consumers and owners stay."""
        self._ownerless = {}
        return (*super().empty(), *self._parked.empty(), *self.owners.empty())
