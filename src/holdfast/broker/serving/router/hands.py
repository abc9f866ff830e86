"""
In whose hands message groups are, on a queue on which consumers want some messages, not others.

Groups are in buckets, as in `owners`. Whoever has something of a bucket gets what he wants of it,
and nobody else does; once nothing of it is out it is to be had by whoever wants what comes next, by
him who had it last before others. So no group is ever in two hands, and none waits for somebody who
does not want what comes next.

What is parked of a bucket is a *stream* for each set of classes that want it, and each priority.
Such a stream stands among what its classes take from, until one of them comes by it and the bucket
is in other hands: then it *sleeps*, apart from them, by its bucket; where it is in the hands of
somebody who wants it and has no room it stands among what is his alone. As nothing of the bucket is
out any more the first that sleeps is woken, and the next one only where nobody had room for that.
So what a delivery costs depends neither on how many selectors there are nor on how many groups.

Nothing is given of a bucket behind what sleeps, be it older or of a higher priority: so whoever has
it is given no more, once somebody with room waits for something that he does not want. What is of a
higher priority than all that sleeps does not wait for it.

Invariants:
    A stream's bucket is in one hand as long as something of it is out.
    Where something sleeps of a bucket that is to be had, that is in `_freed`.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, cast

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.lanes import BEFORE_ALL
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.buckets import Bucket, Stream, rank_of
from holdfast.broker.serving.router.classes import Classes, ConsumerClass
from holdfast.broker.serving.router.owners import Owners, bucket_of
from holdfast.broker.serving.router.parked import Heads, Parked, Place
from holdfast.broker.serving.router.turns import Turns, is_next, let_others_first
from holdfast.broker.serving.shelves import ShelvedSet

_POURED_AT_ONCE: Final = 256
"""So much of what was parked before anybody selected is put back before the time is looked at."""


class Hands:
    """The buckets of one queue."""

    __slots__ = (
        *("_asleep", "_classes", "_earlier", "_freed", "_heads", "_held_before", "_is_lulling"),
        *("_last", "_lulled_for", "_parked", "_queue", "_turns", "held_up", "hungry", "owners"),
    )

    def __init__(self, queue: Queue, owners: Owners) -> None:
        """Begin where nothing of a group is out, or with what is known of it."""
        self._queue = queue
        self.owners = owners
        self._parked = Parked()
        self._turns = Turns()
        self._classes = Classes(queue.leadership)
        self._last: dict[int, Consumer] = owners.lend_all()
        """Who had a bucket last, that nobody else had since; since somebody came or went."""
        self._asleep: dict[int, Heads] = {}
        """By bucket: what sleeps."""
        self._heads: dict[Consumer, Heads] = {}
        """What is his alone who had no room for it."""
        self.hungry: dict[Consumer, None] = {}
        """Those of them who may have room."""
        self.held_up: dict[Consumer, None] = {}
        """Those of them whose next one may not be sent yet."""
        self._freed: dict[int, None] = {}
        """Buckets that were to be had, and of which something may sleep."""
        self._is_lulling = False
        self._lulled_for: Consumer | None = None
        self._earlier: Parked | None = None
        """What was parked for whose groups it is of, before anybody selected."""
        self._held_before = ShelvedSet()
        """What transactions held as this was made: those behind it wait, as if it came later."""

    def begin(self, parked: Parked, turns: Turns, classes: Classes) -> None:
        """Know who wants what, and what is parked for whom."""
        self._parked, self._turns, self._classes = parked, turns, classes

    def begin_with(self, earlier: Parked | None, held_before: ShelvedSet) -> None:
        """Know what was parked before anybody selected, and what transactions held."""
        self._earlier = earlier
        self._held_before.shelves = dict(held_before.shelves)

    @property
    def held_before(self) -> ShelvedSet:
        """What transactions held, and it was not said yet whose group waits for it."""
        return self._held_before

    @property
    def has_to_adopt(self) -> bool:
        """Whether something is to be done before anything is given to anybody."""
        return bool(self._earlier or self._held_before)

    def group_of(self, key: int) -> int | None:
        """Give the bucket of a message's group, None if it is in none."""
        return bucket_of(self._queue, key, self.owners.bucket_count)

    def stream(self, key: int, wanted: Bucket) -> Bucket:
        """Give where a message is parked that some classes want."""
        group = self.group_of(key)
        return wanted if group is None else Stream(wanted, group, rank_of(wanted))

    def takers(self, stream: Stream) -> list[Heads]:
        """Give who takes from a stream."""
        if not self._is_lulling:
            return [one.heads for one in stream]
        bed = self._asleep.get(stream.group)
        if bed is None:
            bed = self._asleep[stream.group] = Heads()
        holder = self._lulled_for
        one = None if holder is None else self._wanting(holder, stream)
        if holder is None or one is None:
            return [bed]
        place = self._parked.place_of(stream)
        if place is None or not one.has_looked(place):
            return [bed, one.heads]  # Until all before it was looked at.
        heads = self._heads.get(holder)
        if heads is None:
            heads = self._heads[holder] = Heads()
        self.hungry[holder] = None
        return [bed, heads]

    def _wanting(self, consumer: Consumer, stream: Stream) -> ConsumerClass | None:
        """Give an open consumer's class if that wants what is of a stream."""
        if consumer.is_closed:
            return None
        one = self._classes.of(consumer)
        return one if one in stream else None

    def adopt_some(self, count_max: int) -> tuple[int, list[int]]:
        """Do some of what is to be done first: what that took, and what is looked at again."""
        if self._held_before:
            key = self._held_before.pop()
            if key in self._queue.custody.reserved and self._is_there(key):
                self.set_aside([key])
            return 1, []
        earlier = self._earlier
        keys: list[int] = []
        count = min(count_max, _POURED_AT_ONCE)
        while earlier and len(keys) < count:
            keys += earlier.pour(next(iter(earlier.buckets)), count - len(keys))
        if not earlier:
            self._earlier = None
        return len(keys) + 1, [key for key in keys if self._is_there(key)]

    def _is_there(self, key: int) -> bool:
        queue = self._queue
        return key in queue.transients if key < 0 else not queue.has_ended(key)

    def choose(self, stream: Stream, place: Place) -> tuple[ConsumerClass, Consumer] | None:
        """Give who gets the first of a stream; None: nobody does now."""
        group, owners = stream.group, self.owners
        holder = owners.taker(group)
        if self.is_behind(group, place):
            return None
        if owners.only is not None:
            return None if holder is None else self._turns.choose(stream, place)
        if holder is not None:
            one = self._wanting(holder, stream)
            if one is None or not (holder.has_room() and is_next(one, place)):
                return None
            return one, holder
        if not owners.is_at_hand(group):
            return None
        chosen = self._turns.choose(stream, place)
        last = self._last.get(group)
        if chosen is not None and last is not None and last is not chosen[1] and last.has_room():
            one = self._wanting(last, stream)
            is_lower = last.claim.priority < chosen[1].claim.priority
            if one is not None and not is_lower and is_next(one, place):
                return one, last
        return chosen

    def is_behind(self, group: int, place: Place) -> bool:
        """Whether something of a bucket sleeps that stands before a place."""
        bed = self._asleep.get(group)
        if bed is None:
            return False
        first = bed.first()
        if first is None:
            del self._asleep[group]
            return False
        return first < place

    def went_out(self, key: int, group: int, consumer: Consumer) -> None:
        """Note that somebody who may is given a message of a bucket."""
        owners = self.owners
        if owners.only is None and owners.taker(group) is not consumer:
            owners.lend(group, consumer, again=self._last.get(group) is consumer)
            self._last[group] = consumer
        owners.went_out(key, group)

    def lull(self, stream: Stream, place: Place) -> None:
        """Let a stream sleep of which nobody may have the first now, that stands at a place."""
        owners, group = self.owners, stream.group
        is_behind = self.is_behind(group, place)
        holder = None if is_behind or owners.only is not None else owners.taker(group)
        self._lull_for(holder, stream)
        if is_behind or holder is None:
            self._stir(group)

    def _lull_for(self, holder: Consumer | None, stream: Stream) -> None:
        self._is_lulling, self._lulled_for = True, holder
        self._parked.ask_again(stream)
        self._is_lulling, self._lulled_for = False, None

    def _stir(self, group: int) -> None:
        """Let what sleeps of a bucket be woken once that is to be had."""
        if group in self._asleep:
            self._freed[group] = None

    def taken(self, stream: Stream) -> None:
        """Note that something of a stream is taken out: what sleeps behind it may be first now."""
        self._stir(stream.group)

    @property
    def has_freed(self) -> bool:
        """Whether something may have to be woken."""
        return bool(self._freed)

    def rank_of_hungry(self) -> int:
        """Give the rank of the first that is his alone who comes first of those with room."""
        heads = self._heads.get(next(iter(self.hungry)))
        place = None if heads is None else heads.first()
        return BEFORE_ALL if place is None else place.rank

    def rank_of_freed(self) -> int:
        """Give the rank of the first that sleeps of the bucket that is woken next."""
        bed = self._asleep.get(next(iter(self._freed)))
        place = None if bed is None else bed.first()
        return BEFORE_ALL if place is None else place.rank

    def take_turns(self) -> None:
        """Let others come first than those who may be fed next, and what may be woken."""
        let_others_first(self.hungry)
        let_others_first(self._freed)

    def wake(self) -> Stream | None:
        """
        Wake the first that sleeps of a bucket, if that is to be had; gives it.

        What nobody waits for any more who has room is woken in any case, so that what sleeps behind
        it is not held up.
        """
        freed = self._freed
        group = next(iter(freed))
        bed = self._asleep.get(group)
        place = None if bed is None else bed.first()
        if place is None:
            del freed[group]
            return None
        stream = cast("Stream", self._parked.bucket_of(place.key))
        owners = self.owners
        holder = owners.taker(group)
        is_open = owners.is_at_hand(group) if owners.only is None else holder is not None
        if not is_open and any(one in self._turns.ready for one in stream):
            del freed[group]
            if holder is not None and self._wanting(holder, stream) is not None:
                self._lull_for(holder, stream)
            return None
        self._parked.ask_again(stream)
        return stream

    def first_of(self, consumer: Consumer) -> tuple[Stream, Place] | None:
        """Give the first that is somebody's alone and that he may have; None: there is none."""
        heads = self._heads.get(consumer)
        place = None if heads is None or not consumer.has_room() else heads.first()
        if place is None:
            self.hungry.pop(consumer, None)
            return None
        return cast("Stream", self._parked.bucket_of(place.key)), place

    def is_taker(self, consumer: Consumer, stream: Stream, place: Place) -> bool:
        """Whether somebody has a bucket, and nothing of it sleeps before a place."""
        if self.is_behind(stream.group, place):
            return False
        return self.owners.only is None and self.owners.taker(stream.group) is consumer

    def has_room(self, consumer: Consumer) -> bool:
        """Note that a consumer may have room again; whether something may be his alone."""
        if consumer not in self._heads or not consumer.has_room():
            return False
        self.hungry[consumer] = None
        return True

    def hold_up(self, consumer: Consumer) -> None:
        """Note that the next one of somebody may not be sent yet."""
        del self.hungry[consumer]
        self.held_up[consumer] = None

    def resume(self) -> None:
        """Let those be looked at again whose next one might not be sent."""
        self.hungry.update(self.held_up)
        self.held_up = {}

    def came(self) -> None:
        """Note that somebody has come: who had what last counts no more, so that he has some."""
        if self.owners.rebalances:
            self._last = {}

    def left(self, consumer: Consumer) -> None:
        """Note that a consumer is closed."""
        self._last = {}
        self._drop_heads(consumer)
        for group in self.owners.left(consumer):
            self._stir(group)

    def _drop_heads(self, consumer: Consumer) -> None:
        heads = self._heads.pop(consumer, None)
        if heads is not None:
            heads.is_over = True
        self.hungry.pop(consumer, None)
        self.held_up.pop(consumer, None)

    def let_only(self, consumer: Consumer | None) -> None:
        """Let only one get messages, who holds all that is held; None: all, again."""
        owners = self.owners
        if owners.only is consumer:
            return
        if owners.only is not None:
            owners.end_alone()
            owners.lend_all()
        if consumer is not None:
            owners.begin_alone(consumer)
        self._last = {}
        for each in [*self._heads]:
            self._drop_heads(each)
        self._freed.update(dict.fromkeys(self._asleep))

    def came_in(self, key: int, *, is_gone: bool = False) -> None:
        """Note that a message is back on its queue, or gone."""
        owners = self.owners
        changed = owners.came_in(key)
        if changed is not None:
            self._changed(changed)
        if owners.is_delayed(key) and (is_gone or self._queue.custody.comes_at_once(key)):
            changed = owners.end_delay(key)
            if changed is not None:
                self._changed(changed)

    def _changed(self, group: int) -> None:
        self._stir(group)
        self._queue.touch()

    def set_aside(self, keys: Iterable[int]) -> None:
        """Note that messages come again, later; what is behind one in its group waits for it."""
        for key in keys:
            group = self.group_of(key)
            if group is not None:
                self.owners.delay(key, group)

    def forget(self, keys: Iterable[int]) -> None:
        """Note what is gone for good."""
        for key in keys:
            self.came_in(key, is_gone=True)

    def is_at_hand(self, key: int) -> bool:
        """Whether a message was parked before anybody selected, and was not looked at since."""
        return self._earlier is not None and key in self._earlier

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget single messages; gives what was long, to be let go of."""
        known = () if self._earlier is None else self._earlier.empty()
        self._earlier, self._held_before = None, ShelvedSet()
        self._asleep, self._freed, self._last = {}, {}, {}
        for each in [*self._heads]:
            self._drop_heads(each)
        return (*known, *self.owners.empty())
