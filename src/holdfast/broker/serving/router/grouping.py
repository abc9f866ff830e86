"""
The order of a queue on which messages are in groups: each group's go to one consumer, in order.

Each message is looked at once, in order. One in no group goes to whose turn it is. One of a group
goes to the owner of its bucket (`owners`); where that has no room, or may be given nothing of it
now, it is parked (`parked`), and those behind it are looked at: nobody is held up by a group that
is not his. Who has room gets what is parked for him first.

What was lost with others too often (`suspects`) is sent alone. It keeps its place in its group, so
its bucket is *isolated*: nothing of it goes out but that, to its owner where that holds nothing, or
to anybody who holds nothing, once nothing of the bucket is out. One in no group stands outside the
order, as it does on a queue without any.

Invariants, beside those of `choice`:
    What is at hand below `cursor` is parked or given back.
    Of a bucket nothing is given while something is parked that stands before it.
    What is parked in a bucket that is to be had is in `_ownerless`.
    Of an isolated bucket nobody takes as of others; something is parked there, or it is looked at.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final, cast

from holdfast.broker.serving.choice import Settle
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.delivery import EFFORT_SHIFT, Step
from holdfast.broker.serving.effective import Sharing
from holdfast.broker.serving.lanes import NO_RANK, USUAL_RANK, Lanes
from holdfast.broker.serving.plain import ALL, Plain
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.router.bucketed import RANKS, Bucketed
from holdfast.broker.serving.router.hands import Hands
from holdfast.broker.serving.router.isolated import Isolated, find_empty
from holdfast.broker.serving.router.owners import Owners
from holdfast.broker.serving.router.parked import Heads, Parked
from holdfast.broker.serving.shelves import ShelvedSet
from holdfast.broker.serving.suspects import Suspects

_LOOKED_AT_SHIFT: Final = 3
"""To look at so many consumers or buckets, as a power of two, takes as long as a delivery."""

_LOOKED_AT_AT_ONCE: Final = 64
"""So many buckets are looked at before anything else is done."""

_CHOSEN_AMONG_MAX: Final = 1_000
"""Among so many consumers with room an owner is looked for, those whose turn it is next: among a
hundred thousand it would take 100 ms for each bucket, and there are fewer buckets than that."""


class Grouping(Bucketed):
    """Gives each message to the owner of its group."""

    __slots__ = (
        *("_asked_about", "_heads", "_hungry", "_is_newcomers_turn"),
        *("_left", "_newcomers", "_ownerless", "_stale"),
    )

    def __init__(
        self, queue: Queue, before: Plain, sharing: Sharing, hands: Hands | None = None
    ) -> None:
        """
        Go on where a plain order has come to: nothing of a group is out yet.

        Args:
            hands: Knows what of groups is out, if they were shared by selectors until now.
        """
        super().__init__(queue)
        self.cursor = before.cursor
        self.lanes = before.lanes
        self.returned, self.waiting = before.returned, before.waiting
        self.suspects = before.end_isolation()
        self.adopt_returned()
        self._parked = Parked(self._takers)
        """By bucket and rank."""
        known = queue.leadership.flow.groups_known
        self.owners = Owners(sharing, known) if hands is None else hands.owners
        self._heads: dict[Consumer, Heads] = {}
        """Of owners for whom something was parked: where the first of it stands."""
        self._hungry: dict[Consumer, None] = {}
        """Those for whom something may be parked, and who may have room."""
        self._ownerless: dict[int, None] = {}
        """Buckets that are to be had, in which something may be parked."""
        self._stale: dict[int, None] = {}
        """Buckets that others may take from than before."""
        self._newcomers: OrderedDict[Consumer, None] = OrderedDict()
        """Who has come, and of whom it is to be found out which buckets prefer him."""
        self._asked_about: list[int] | None = None
        """Those still to be asked about the first of these; None: he was not begun with."""
        self._is_newcomers_turn = False
        """Whether they come before what is parked: once in each step, so that it goes on."""
        self._note_held(self._custody.reserved if hands is None else hands.held_before)
        self._left = 0
        """So much more may be done in this step."""
        self._isolated = Isolated()

    def _takers(self, place: int) -> list[Heads]:
        bucket = place // RANKS
        consumer = self.owners.taker(bucket)
        if consumer is None or bucket in self._isolated:
            return []
        heads = self._heads.get(consumer)
        if heads is None:
            heads = self._heads[consumer] = Heads()
        return [heads]

    def came(self, consumer: Consumer) -> None:
        """Note a consumer that has come: buckets that prefer it move, each when it may."""
        is_for_all = len(self._queue.subscriptions) <= self.owners.bucket_count
        if self.owners and is_for_all:  # Else there are not as many as would like one.
            self._newcomers[consumer] = None

    def left(self, consumer: Consumer) -> None:
        """Note that a consumer is closed: its buckets are to be had once nothing is out."""
        heads = self._heads.pop(consumer, None)
        if heads is not None:
            heads.is_over = True
        self._hungry.pop(consumer, None)
        self._isolated.left(consumer)
        if consumer in self._newcomers:
            if consumer is next(iter(self._newcomers)):
                self._asked_about = None
            del self._newcomers[consumer]
        self._note_stale(self.owners.left(consumer))

    @property
    def is_idle_awaited(self) -> bool:
        """Whether a suspect waits, in a group or in none."""
        return super().is_idle_awaited or self._isolated.first() is not None

    def has_room(self, consumer: Consumer) -> bool:
        """Note that a consumer may have room again; whether something may be parked for it."""
        is_awaited = self.suspects is not None and self._has_emptied(self.suspects, consumer)
        if consumer not in self._heads or not consumer.has_room():
            return is_awaited
        self._hungry[consumer] = None
        return True

    def _has_emptied(self, suspects: Suspects, consumer: Consumer) -> bool:
        """Whether somebody holds nothing, and something waits to be sent alone."""
        if consumer.held_count:
            return False
        if not (self._isolated or suspects.waiting):
            suspects.widen(consumer)
            return False
        self._isolated.runs_empty(consumer)
        return bool(suspects.waiting) or self._isolated.first() is not None

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
        places = cast("Iterable[int]", self._parked.buckets)
        self._note_stale(place // RANKS for place in places)

    def _note_stale(self, buckets: Iterable[int]) -> None:
        self._stale.update(dict.fromkeys(buckets))

    def _note_changes(self) -> None:
        """Find out, of some buckets that may be others' now, who takes from them."""
        self._left -= _LOOKED_AT_AT_ONCE >> _LOOKED_AT_SHIFT
        for _ in range(min(_LOOKED_AT_AT_ONCE, len(self._stale))):
            self._changed(self._stale.popitem()[0])

    def _ask_about_newcomer(self) -> None:
        """Find out, of some buckets, whether they prefer the first of those who have come."""
        self._is_newcomers_turn = False
        self._left -= _LOOKED_AT_AT_ONCE >> _LOOKED_AT_SHIFT
        newcomer = next(iter(self._newcomers))
        if self._asked_about is None:
            self._asked_about = self.owners.buckets
        some = self._asked_about[-_LOOKED_AT_AT_ONCE:]
        del self._asked_about[-_LOOKED_AT_AT_ONCE:]
        if not self._asked_about:
            del self._newcomers[newcomer]
            self._asked_about = None
        self._note_stale(self.owners.came(newcomer, len(self._queue.subscriptions), some))

    def _changed(self, bucket: int) -> None:
        """Note that others may take from a bucket than before, or that it is to be had."""
        if bucket in self._isolated:
            self._isolated.look_again(bucket)
            return
        if not self._has_parked(bucket):
            return
        if self._begins_with_suspect(bucket):
            self._put_alone(bucket)  # Its owner may have no room for long.
            return
        for place in self._places_of(bucket):
            self._parked.ask_again(place)
        consumer = self.owners.taker(bucket)
        if consumer is not None:
            self._hungry[consumer] = None
        elif self.owners.is_free(bucket):
            self._ownerless[bucket] = None

    def assign(self, settle: Settle, step: Step, count_max: int, ring: Ring | None = None) -> bool:
        """Do as much as may be done in a step."""
        ring = self if ring is None else ring
        self._left = count_max
        self._is_newcomers_turn = bool(self._newcomers)
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
        if self._held_before:
            self._left -= 1
            self._set_held_aside()
            return None
        if self.lanes is not None:
            return self._go_on_in_lanes(self.lanes, settle, step, ring)
        if self._stored or self._volatile or self._custody.withheld.shelves:
            self._left -= self.pass_over(self._left)
            if self._left <= 0:
                return False
            key = self._next_returned()
            if key:
                return self._place(key, settle, step, ring)
        if self._stale:
            self._note_changes()
            return None
        if self._is_newcomers_turn and self._newcomers:
            self._ask_about_newcomer()
            return None
        if self.suspects is not None and (effort := self._isolate(ring, settle, step)):
            self._left -= effort
            return None
        if self._hungry:
            return self._feed(next(iter(self._hungry)), settle, step)
        if self._ownerless:
            self._find_owner(next(iter(self._ownerless)), ring)
            return None
        before = self.cursor
        key = 0 if self._parked.is_full else self.next_key()
        if not key:
            self._is_newcomers_turn = bool(self._newcomers)
            return None if self._newcomers else True
        due_ms = self._index.returned(key).due_ms if key >= before else 0
        if due_ms:
            # It came back under a leader before, and rests.
            self._left -= 1
            self._queue.rest(key, due_ms)
            self.set_aside([key])
            return None
        return self._place(key, settle, step, ring)

    def _go_on_in_lanes(self, lanes: Lanes, settle: Settle, step: Step, ring: Ring) -> bool | None:
        """The same by priority: what is parked waits for what is new of a higher one."""
        if self._stale:
            self._note_changes()
            return None
        if self._is_newcomers_turn and self._newcomers:
            self._ask_about_newcomer()
            return None
        lanes.left = self._left
        rank = NO_RANK if self._parked.is_full else lanes.next_rank()
        self._left = lanes.left
        if self._left <= 0:
            return False
        if self.suspects is not None:
            alone = self._isolated.first()
            is_next = alone is None or lanes.comes_after(self._first_rank(alone), rank)
            if is_next and (effort := self._isolate(ring, settle, step)):
                self._left -= effort
                return None
        if self._hungry:
            consumer = next(iter(self._hungry))
            heads = self._heads.get(consumer)
            place = None if heads is None else heads.first()
            if place is None or lanes.comes_after(place.rank, rank):
                return self._feed(consumer, settle, step)
        elif self._ownerless:
            self._find_owner(next(iter(self._ownerless)), ring)
            return None
        if rank == NO_RANK:
            self._is_newcomers_turn = bool(self._newcomers)
            return None if self._newcomers else True
        key = self.next_in_lanes(lanes)
        self._left = lanes.left
        if key:
            return self._place(key, settle, step, ring)
        if self._left <= 0:
            return False
        return True if self._queue.wanted else None  # Else something was put aside that rests.

    def rests(self, key: int, due_ms: int) -> None:
        """Put aside what was come by before it is due; what is behind it in its group waits."""
        super().rests(key, due_ms)
        self.set_aside([key])

    def _place(self, key: int, settle: Settle, step: Step, ring: Ring) -> bool | None:
        """Give a message to whose it is, or park it."""
        bucket = self._bucket_of(key)
        if bucket is None:
            if self._suspect(key):
                self._left -= 1
                return None
            consumer = ring.ready[0]
            if len(ring.ready) > 1:
                ring.ready.rotate(-1)
            return self._give(consumer, key, settle, step)
        owners = self.owners
        owner = owners.taker(bucket)
        rank = USUAL_RANK if self.lanes is None else self.lanes.rank_of(key)
        is_behind = bucket in self._isolated or self._has_parked(bucket, rank)
        is_alone = not is_behind and self._is_suspect(key)
        if is_alone:
            self._put_alone(bucket)
        elif not is_behind:
            if owner is None and owners.is_free(bucket):
                owner = self._choose(bucket, ring)
                self._changed(bucket)  # Of a lower priority there may be some.
            if owner is not None and owner.has_room():
                owners.went_out(key, bucket)
                return self._give(owner, key, settle, step)
        order = key if key > 0 else self._queue.transients[key].order
        self._parked.put(bucket * RANKS + rank, key, order, rank)
        self._left -= 1
        if bucket in self._isolated:
            self._isolated.look_again(bucket)  # It may be the next one now.
            return None
        if self._begins_with_suspect(bucket):
            self._put_alone(bucket)
            return None
        if owner is not None:
            self._hungry[owner] = None
        elif owners.is_free(bucket):
            self._ownerless[bucket] = None
        return None

    def _choose(self, bucket: int, ring: Ring) -> Consumer:
        asked_count = min(len(ring.ready), _CHOSEN_AMONG_MAX)
        among = islice(ring.ready, asked_count)
        # Who is first has room, but a part of a subscription that acknowledges nothing may have
        # been asked for the last time of its turn.
        ready = [consumer for consumer in among if consumer.has_room()] or [ring.ready[0]]
        self._left -= asked_count >> _LOOKED_AT_SHIFT
        chosen = self.owners.choose(bucket, ready, len(self._queue.subscriptions))
        if asked_count < len(ring.ready):
            ring.ready.rotate(-asked_count)
        elif chosen is ring.ready[0] and asked_count > 1:
            ring.ready.rotate(-1)
        return chosen

    def _find_owner(self, bucket: int, ring: Ring) -> None:
        """Let somebody have a bucket in which something is parked."""
        self._left -= 1
        del self._ownerless[bucket]
        is_wanted = self._has_parked(bucket) and bucket not in self._isolated
        if is_wanted and self.owners.is_free(bucket):
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
        parked_at = self._parked.bucket_of(key)
        assert isinstance(parked_at, int), "it stands there"
        bucket = parked_at // RANKS
        if self.owners.taker(bucket) is not consumer:
            self._changed(bucket)  # It was the consumer's until just now.
            return None
        if self._is_suspect(key):
            self._put_alone(bucket)
            return None
        self._parked.take(key)
        if self._begins_with_suspect(bucket):
            self._put_alone(bucket)
        if key in self._custody.withheld or not self._is_there(key):
            return None  # It comes back, or is gone.
        self.owners.went_out(key, bucket)
        return self._give(consumer, key, settle, step)

    def _suspect(self, key: int) -> bool:
        """Let one in no group wait outside the order if it was lost with others too often."""
        return self._bucket_of(key) is None and super()._suspect(key)

    def _isolate(self, ring: Ring, settle: Settle, step: Step) -> int:
        """Give one of a group that is to be sent alone to somebody, or another one; as before."""
        suspects = self.suspects
        assert suspects is not None, "there were some"
        bucket = self._isolated.first()
        if bucket is None:
            return super()._isolate(ring, settle, step)
        key = self._next_alone(bucket)
        if not key:
            return 1
        owners, owner = self.owners, self.owners.taker(bucket)
        is_at_hand = owners.is_at_hand(bucket)
        if owner is not None and not owner.held_count and owner.has_room():
            consumer: Consumer | None = owner
        elif not is_at_hand:
            owners.await_all(bucket)
            self._isolated.wait(bucket, owner)
            return 1
        else:
            consumer = find_empty(suspects, ring)
        if consumer is None:
            return 0 if ring.ready[0].has_room() else 1
        if is_at_hand:
            owners.lend(bucket, consumer)
        self._parked.take(key)
        self._isolated.discard(bucket)
        owners.went_out(key, bucket)
        record = self.deliver(consumer, key, settle, step)
        suspects.give(consumer)
        self._changed(bucket)
        return ALL if record is None else 1 + (record.size >> EFFORT_SHIFT)

    def _next_alone(self, bucket: int) -> int:
        """Give the next message of an isolated bucket, 0 if it is not to be sent alone."""
        key = self._first_parked(bucket)
        if key and (key in self._custody.withheld or not self._is_there(key)):
            self._parked.take(key)  # It comes back, or is gone.
        elif key and self._is_suspect(key):
            return key
        else:
            self._isolated.discard(bucket)
            self._changed(bucket)
        return 0

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
        self._take(key)
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
            self._take(key)
            self._came_in(key, is_gone=True)

    def _came_in(self, key: int, *, is_gone: bool = False) -> None:
        changed = self.owners.came_in(key)
        if changed is not None:
            self._changed(changed)
            self._queue.touch()
        if self.owners.is_delayed(key) and (is_gone or self._custody.comes_at_once(key)):
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
        self._held_before = ShelvedSet()
        self._isolated.empty()
        return (*super().empty(), *self._parked.empty(), *self.owners.empty())
