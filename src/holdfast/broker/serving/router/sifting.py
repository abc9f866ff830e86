"""
The order of a queue on which consumers want some messages, and not others.

Each message is looked at once, in order: which classes of consumers want it (`looking`). It goes to
whoever of those has room, of the highest priority, in turns; if nobody has, it is parked where the
next one of them with room finds it. What nobody wants stays, a bit for each, until a class comes
that does. Where messages are in groups, no group goes to two (`hands`).

Invariants, beside those of `choice`:
    What is at hand below `cursor` is parked, left over, given back, or being looked at.
    Before a message is looked at, whoever has room has got what is parked for him and may be sent.
    A class gets its messages in order: behind its own place in the backlog it gets nothing.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from operator import itemgetter
from typing import Final, TypeAlias, cast

from holdfast.broker.serving.choice import Settle
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.delivery import EFFORT_SHIFT, Step
from holdfast.broker.serving.lanes import BEFORE_ALL, NO_RANK, Lanes
from holdfast.broker.serving.plain import ALL, Plain
from holdfast.broker.serving.returned import Returned
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.router.buckets import Bucket, Stream, rank_of
from holdfast.broker.serving.router.classes import ConsumerClass
from holdfast.broker.serving.router.examiner import Look
from holdfast.broker.serving.router.hands import Hands
from holdfast.broker.serving.router.looking import Looking
from holdfast.broker.serving.router.parked import Place
from holdfast.broker.serving.router.pouring import Pouring, pour_into
from holdfast.broker.serving.router.ranks import Ranks
from holdfast.broker.serving.router.turns import is_next
from holdfast.broker.serving.suspects import Narrowing, Suspects

ALONE_COUNT_MAX: Final = 100_000
"""So many wait at once to be sent alone; of more, others go as all do: each is a round trip."""

_Way: TypeAlias = Callable[[Settle, Step], bool | None]
"""Goes on with something; false if the step ends with it."""


class Sifting(Looking):
    """Gives each message to somebody who wants it."""

    __slots__ = ()

    def add(self, consumer: Consumer) -> None:
        """Note a consumer that has come."""
        if self.hands is not None:
            self.hands.came()
        if consumer.selector is not None:
            self._reads = consumer.selector
            self._begin_again()
        has_looked = bool(self.kept or self._look)
        made = self.classes.add(consumer, self._turns.era, self.cursor if has_looked else 0)
        if made is not None and has_looked:
            self._catch_up(made)

    def leave(self, consumer: Consumer) -> None:
        """Note that a consumer is closed."""
        self._turns.renew_rings(self.classes.of(consumer))
        gone = self.classes.discard(consumer)
        if self.hands is not None:
            self.hands.left(consumer)
        if gone is not None:
            self._orphans.extend(cast("Iterable[Bucket]", gone.heads.buckets))
            self._orphans.extend(cast("Iterable[Bucket]", gone.alone.buckets))
            self._turns.lie_down(gone)

    def adopt_equal(self, ranks: Ranks) -> None:
        """Note all who have come and want everything, and who of them has room."""
        count = ranks.count
        if count:
            one = self.classes.add_equal(count, self._turns.era)
            ranks.hand_over(one.ranks)
            if one.ranks.first_ready() is not None:
                self._turns.stand_ready(one)

    def hand_over(self, ranks: Ranks) -> None:
        """Let those stand there who have room; all want everything."""
        for one in self.classes:
            self._turns.renew_rings(one)
            one.ranks.hand_rings_over(ranks)

    def clear_rings(self) -> None:
        """Let nobody stand in a ring; what each says of itself is to be put right."""
        self._turns.era += 1
        self._turns.clear()

    def make_ready(self, consumer: Consumer) -> bool:
        """Put a consumer that has room into its ring; true if it was not there."""
        one = self.classes.of(consumer)
        self._turns.renew_rings(one)
        if one.narrowing is not None and one in self._turns.ready:
            self._turns.wary[one] = None
        if not one.ranks.ring_of(consumer).make_ready(consumer):
            # There may be something for him also where he stands in his ring, and had no room.
            return self.hands is not None and self.hands.has_room(consumer)
        if self.hands is not None:
            self.hands.has_room(consumer)
        self._turns.stand_ready(one)
        return True

    @property
    def has_ready(self) -> bool:
        """Whether there may be a consumer with room."""
        return bool(self._turns.ready)

    def assign(self, settle: Settle, step: Step, count_max: int, ring: Ring | None = None) -> bool:
        """Do as much as may be done in a step; `ring`: only who stands there gets anything."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self._turns.left = count_max
        self._turns.sole = ring
        if ring is not None:
            if not ring.ready:
                return True
            self._turns.clear()
            self._turns.stand_ready(self.classes.of(ring.ready[0]))
        mark = (self._lasting.dispatch_mark, self._lasting.seen)
        if mark != self._mark:
            self._mark, self._queue.wanted = mark, 0
            self._turns.hungry.update(self._turns.blocked)
            self._turns.blocked = {}
            if self.hands is not None:
                self.hands.resume()
            if self.kept.alone.count:
                self._note_apart([*self._turns.ready])
        while self._turns.left > 0 and self._turns.ready:
            known = self._go_on(settle, step)
            if known is not None:
                return known
        return self._turns.left > 0

    def _go_on(self, settle: Settle, step: Step) -> bool | None:
        """Do what comes next; false if the step ends with it, true if there is nothing now."""
        if self._look is not None:
            return self._look_on(self._look, settle, step)
        if self.hands is not None and self.hands.has_to_adopt:
            self._adopt_some(self.hands)
            return None
        if self._orphans:
            self._turns.left -= 1 + self.kept.rehome(self._orphans[0], self._turns.left)
            if isinstance(self._orphans[0], Stream):
                self._turns.look_at(self._orphans[0])  # It may have slept.
            if not self.kept.count_of(self._orphans[0]):
                self._orphans.popleft()
            return None
        if self.lanes is not None:
            return self._go_on_in_lanes(self.lanes, settle, step)
        if self._stored or self._volatile or self._custody.withheld.shelves:
            self._turns.left -= self.pass_over(self._turns.left)
            if self._turns.left <= 0:
                return False
        key = self._next_returned()
        if key:
            self._begin(key)
            return None
        if self._turns.wary:
            self._send_alone(next(iter(self._turns.wary)), settle, step)
            return None
        if self._turns.hungry:
            return self._feed(self._turns.first_hungry(self.kept.parked), settle, step)
        if self.hands is not None:
            if self.hands.hungry:
                return self._feed_holder(self.hands, settle, step)
            if self.hands.has_freed:
                self._wake(self.hands)
                return None
        key, turns = 0, self._turns
        is_anybody_free = len(turns.blocked) < len(turns.ready)
        if is_anybody_free and not (self.is_full or (self._looks_back and turns.behind)):
            key = self.next_key()
        self._looks_back = bool(key)
        if key:
            self._look_at(key)
        elif self._turns.behind:
            self._look_back(next(iter(self._turns.behind)))
        else:
            return True
        return None

    def _go_on_in_lanes(self, lanes: Lanes, settle: Settle, step: Step) -> bool | None:
        """The same by priority: what is kept waits for what is new of a higher one."""
        turns = self._turns
        if turns.wary:
            self._send_alone(next(iter(turns.wary)), settle, step)
            return None
        lanes.left = turns.left
        is_anybody_free = len(turns.blocked) < len(turns.ready)
        if self.hands is not None and self.hands.hungry:
            is_anybody_free = True  # Before what is his alone something new may come.
        looks = is_anybody_free and not self.is_full
        rank = lanes.next_rank() if looks else NO_RANK
        turns.left = lanes.left
        if turns.left <= 0:
            return False
        kept_rank, goes_on = self._first_kept(self.hands)
        if goes_on is not None and lanes.comes_after(kept_rank, rank):
            return goes_on(settle, step)
        key = 0
        if rank < NO_RANK and not (self._looks_back and turns.behind):
            # Whoever comes later has to look at all that is kept, wherever it stands.
            self.cursor = self._lasting.next_sequence
            key = self.next_in_lanes(lanes, heeds_mark=False)
            turns.left = lanes.left
            if self.hands is not None:
                self.hands.take_turns()
        self._looks_back = bool(key)
        if key:
            self._begin(key)
        elif turns.behind:
            self._look_back(next(iter(turns.behind)))
        elif goes_on is not None and turns.left > 0:
            return goes_on(settle, step)
        else:
            return turns.left > 0
        return None

    def _first_kept(self, hands: Hands | None) -> tuple[int, _Way | None]:
        """Give the rank of what is kept and may go to somebody, and how it is gone on with it."""
        turns = self._turns
        ways: list[tuple[int, _Way | None]] = []
        if turns.hungry:
            one = turns.foremost_hungry(self.kept.parked)
            place = one.heads.first()
            rank = BEFORE_ALL if place is None else place.rank
            ways.append((rank, partial(self._feed, one)))
        if hands is not None:
            if hands.hungry:
                ways.append((hands.rank_of_hungry(), partial(self._feed_holder, hands)))
            if hands.has_freed:
                ways.append((hands.rank_of_freed(), lambda *_: self._wake(hands)))
        return min(ways, key=itemgetter(0), default=(NO_RANK, None))

    def _feed(self, one: ConsumerClass, settle: Settle, step: Step) -> bool | None:
        """Give somebody of a class the first of what is parked for it, if that may be sent."""
        place = one.heads.first()
        if place is None:
            self._turns.left -= 1
            del self._turns.hungry[one]
            return None
        if self._turns.next_of(one) is None:
            return None  # It is hungry no more, or the step is over.
        key = place.key
        if key in self._custody.withheld:
            self._turns.left -= 1
            self._drop(key)  # It comes back, or is gone.
            return None
        if not (is_next(one, place) and self._is_sendable(key)):
            self._turns.left -= 1
            del self._turns.hungry[one]
            self._turns.blocked[one] = None
            return None
        bucket = cast("Bucket", self.kept.parked.bucket_of(key))
        chosen = self._choose(bucket, place)
        if chosen is None:
            if isinstance(bucket, Stream) and self._turns.left > 0:
                self._turns.left -= 1
                cast("Hands", self.hands).lull(bucket, place)
            return None  # Or the step is over.
        if self._is_to_go_alone(key):
            self.kept.take(key)
            self._set_apart(key, place, bucket)
            return None
        if chosen[0].narrowing is not None and self._isolate_one(*chosen, settle, step):
            return None
        self._drop(key)
        return self._give(*chosen, key, settle, step)

    def _choose(self, bucket: Bucket, place: Place) -> tuple[ConsumerClass, Consumer] | None:
        """Give who gets a message that may be sent."""
        if self.hands is not None and isinstance(bucket, Stream):
            return self.hands.choose(bucket, place)
        return self._turns.choose(bucket, place)

    def _feed_holder(self, hands: Hands, settle: Settle, step: Step) -> bool | None:
        """Give somebody who has groups the first that is his alone, if that may be sent."""
        self._turns.left -= 1
        consumer = next(iter(hands.hungry))
        found = hands.first_of(consumer)
        if found is None:
            return None
        stream, place = found
        key, one = place.key, self.classes.of(consumer)
        if key in self._custody.withheld:
            self._drop(key)  # It comes back, or is gone.
        elif not hands.is_taker(consumer, stream, place):
            hands.lull(stream, place)
        elif is_next(one, place) and self._is_sendable(key):
            if one.narrowing is not None and self._isolate_one(one, consumer, settle, step):
                return None
            self._drop(key)
            return self._give(one, consumer, key, settle, step)
        else:
            hands.hold_up(consumer)
        return None

    def _wake(self, hands: Hands) -> None:
        """Let somebody have what slept, as nobody has anything of its group any more."""
        self._turns.left -= 1
        stream = hands.wake()
        if stream is None:
            return
        if any(one.is_over for one in stream):
            self._orphans.append(stream)
        self._turns.look_at(stream)

    @property
    def is_idle_awaited(self) -> bool:
        """Whether something waits that is to be sent alone."""
        return self.kept.alone.count > 0

    def _is_to_go_alone(self, key: int) -> bool:
        """Whether a message was lost with others too often; one of a group goes as all do."""
        if not (self._queue.suspect_after and self._is_suspect(key)):
            return False
        if self.kept.alone.count >= ALONE_COUNT_MAX:
            return False
        return self.hands is None or self.hands.group_of(key) is None

    def _set_apart(self, key: int, place: Place, wanted: Bucket) -> None:
        """Let a message wait outside the order for somebody who wants it and holds nothing."""
        self._turns.left -= 1
        self.kept.set_apart(key, place.order, wanted)
        self._note_apart(wanted)

    def _note_apart(self, wanted: Iterable[ConsumerClass]) -> None:
        for one in wanted:
            if one.narrowing is None:
                one.narrowing = Narrowing()
            if one in self._turns.ready:
                self._turns.wary[one] = None

    def _send_alone(self, one: ConsumerClass, settle: Settle, step: Step) -> None:
        """Let one of a class have what is to be sent alone, if somebody holds nothing."""
        turns = self._turns
        consumer = turns.next_of(one)
        is_done = consumer is not None and self._isolate_one(one, consumer, settle, step)
        if not is_done and turns.left > 0:
            turns.wary.pop(one, None)  # Until somebody has come to hold nothing.

    def _isolate_one(
        self, one: ConsumerClass, consumer: Consumer, settle: Settle, step: Step
    ) -> bool:
        """
        Give what is to be sent alone to who holds nothing, or let one of a class run empty.

        Whether something was done, so that it is to be looked again whose turn it is.
        """
        narrowing = one.narrowing
        assert narrowing is not None, "somebody looked there"
        key = self._next_alone(one)
        if not key:
            narrowing.widen(consumer)
            return False
        if not narrowing.is_turn_of(consumer) and not consumer.has_room():
            self._turns.left -= 1
            return True  # From now on.
        chosen = self._turns.idle_of(cast("Bucket", self.kept.alone.bucket_of(key)))
        if chosen is None:
            return False
        self._drop(key)
        record = self.deliver(chosen[1], key, settle, step)
        cast("Narrowing", chosen[0].narrowing).give(chosen[1])
        self._turns.had_one(*chosen)
        self._turns.left -= ALL if record is None else record.size >> EFFORT_SHIFT
        return True

    def _next_alone(self, one: ConsumerClass) -> int:
        """Give the first of what is to be sent alone to one of a class, 0 if there is nothing."""
        while (place := one.alone.first()) is not None and self._turns.left > 0:
            key = place.key
            if self._is_there(key) and key not in self._custody.withheld:
                return key if self._is_sendable(key) else 0
            self._turns.left -= 1
            self._drop(key)  # It comes back, or is gone.
        return 0

    def isolate_on(self, before: Narrowing) -> None:
        """Let all who had one message at a time go on so: they may have one alone."""
        for consumer in before.narrowed:
            one = self.classes.of(consumer)
            if one.narrowing is None:
                one.narrowing = Narrowing()
            one.narrowing.take_over(before, consumer)

    def suspects_left(self) -> Suspects | None:
        """Let the plain order know who has one message at a time; None if nobody has."""
        suspects = Suspects()
        for before in [one.narrowing for one in self.classes if one.narrowing is not None]:
            for consumer in before.narrowed:
                suspects.take_over(before, consumer)
        return suspects if suspects.narrowed else None

    def _give(
        self, one: ConsumerClass, consumer: Consumer, key: int, settle: Settle, step: Step
    ) -> bool | None:
        """Put a delivery into the step; false if it ends with it."""
        if self.hands is not None and (group := self.hands.group_of(key)) is not None:
            self.hands.went_out(key, group, consumer)
        record = self.deliver(consumer, key, settle, step)
        self._turns.had_one(one, consumer)
        if record is None:
            return False
        self._turns.left -= record.size >> EFFORT_SHIFT
        return None

    def _place(self, look: Look, wanted: Bucket, settle: Settle, step: Step) -> bool | None:
        """Give a message to somebody who wants it, or keep it."""
        key = look.key
        order = key if key > 0 else self._queue.transients[key].order
        place = Place(rank_of(wanted), order, 0 if key > 0 else -key)
        if wanted and self._is_to_go_alone(key):
            assert look.values is not None, "it was read"
            self.classes.note(key, look.values, self.cursor)
            self._set_apart(key, place, wanted)
            return None
        # Who is hungry may have to get something else first.
        if self._turns.hungry.keys().isdisjoint(wanted):
            bucket = wanted
            if wanted and self.hands is not None:
                bucket = self.hands.stream(key, wanted)
            chosen = self._choose(bucket, place)
            if chosen is not None and self._is_sendable(key):
                narrowing = chosen[0].narrowing
                if narrowing is None or not self._isolate_one(*chosen, settle, step):
                    return self._give(*chosen, key, settle, step)
        self._turns.look_at(wanted)
        assert look.values is not None, "it was read"
        self.classes.note(key, look.values, self.cursor)
        self.kept.put(key, order, wanted)
        return None

    def pour_back(self, count_max: int) -> Plain | None:
        """Go back in steps to the plain order, and give it; nobody wants anything special."""
        if self.hands is not None and self.hands.has_to_adopt:
            self._turns.left = count_max
            self._adopt_some(self.hands)
            return None
        if self.lanes is not None:
            return self._pour_into(self.lanes, count_max)
        pouring = self._pouring
        if pouring is None:
            pouring = self._pouring = Pouring(self._queue, self._lasting.dispatch_mark)
        look, self._look = self._look, None
        if look is not None and look.asked is None:
            pouring.put(self.kept, (look.key,))
        if not pouring.step(self.kept, self.returned, count_max):
            return None
        self._queue.leadership.discard(*self.classes.empty())
        plain = self._plain(self._queue)
        # Nobody has anything above the mark: what was looked at there comes in its turn.
        plain.cursor = min(self.cursor, pouring.mark + 1)
        self.kept.left_over.cut(plain.cursor)
        self.waiting.extendleft(reversed(pouring.waiting))
        plain.waiting = self.waiting
        plain.returned = Returned(self.kept.left_over, pouring.below)
        plain.adopt_returned()
        return plain

    def _pour_into(self, lanes: Lanes, count_max: int) -> Plain | None:
        look, self._look = self._look, None
        if look is not None and look.asked is None and self._is_there(look.key):
            lanes.put_back(look.key)
        if not pour_into(lanes, self.kept, self._is_there, count_max):
            return None
        self._queue.leadership.discard(*self.classes.empty())
        plain = self._plain(self._queue)
        plain.lanes = lanes
        return plain
