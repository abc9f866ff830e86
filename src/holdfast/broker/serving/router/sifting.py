"""
The order of a queue on which consumers want some messages, and not others.

Each message is looked at once, in order: which classes of consumers want it (`classes`). It goes to
whoever of those has room, of the highest priority, in turns; if nobody has, it is parked where the
next one of them with room finds it. What nobody wants stays, a bit for each, until a class comes
that does. A class that is new looks through what was looked at before, as far as it has room for
what it finds, with a place of its own; or knows at once where to look (`classes.known`).

What is not in memory is asked of whoever conducts, as deliveries are: it is handed to the
`Examiner`, who never gets it. So one message at a time is read from the log, between two looks at
the clock.

Invariants, beside those of `choice`:
    What is at hand below `cursor` is parked, left over, given back, or being looked at.
    Before a message is looked at, whoever has room has got what is parked for him and may be sent.
    A class gets its messages in order: behind its own place in the backlog it gets nothing.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from operator import itemgetter
from typing import Final, cast

from holdfast.broker.serving.choice import Settle
from holdfast.broker.serving.consumer import Consumer, MessageSelector
from holdfast.broker.serving.delivery import EFFORT_SHIFT, Step
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.returned import Returned
from holdfast.broker.serving.ring import Ring
from holdfast.broker.serving.router.classes import Backlog, Classes, ConsumerClass
from holdfast.broker.serving.router.examiner import Examiner, Look
from holdfast.broker.serving.router.kept import Bucket, Kept
from holdfast.broker.serving.router.parked import Place
from holdfast.broker.serving.router.pouring import Pouring
from holdfast.broker.serving.router.ranks import Ranks
from holdfast.broker.serving.router.turns import Turns, is_next
from holdfast.model.records import MessageRecord

_KNOWN_AT_ONCE_MAX: Final = 100
"""So many that a new class may want are looked at again at once; of more it looks through all."""


class Sifting(Plain):
    """Gives each message to somebody who wants it."""

    __slots__ = (
        *("_examiner", "_failure", "_look", "_looks_back", "_mark", "_orphans", "_plain"),
        *("_pouring", "_reads", "_turns", "classes", "kept", "reach"),
    )

    def __init__(self, queue: Queue, before: Plain) -> None:
        """Go on where a plain order has come to; its consumers are told of one by one."""
        super().__init__(queue)
        self._adopt(before)
        self.classes = Classes()
        self.kept = Kept(queue)
        self.reach = 0
        """Behind the last stored message that somebody wanted: the mark has to cover it."""
        self._turns = Turns()
        self._mark = 0
        """Where the mark was when it was looked last who may be sent something."""
        self._orphans: deque[Bucket] = deque()
        """Buckets of which somebody is gone."""
        self._look: Look | None = None
        self._looks_back = False
        """Whether a class that is behind comes before what nobody has looked at."""
        self._examiner = Examiner(queue, self.examined)
        self._failure: Exception | None = None
        """A mistake of ours, made while nobody could be told."""
        self._reads: MessageSelector | None = None
        """Reads messages for all selectors."""
        self._pouring: Pouring | None = None
        """How far it is on the way back to the plain order."""

    def _adopt(self, before: Plain) -> None:
        self._plain = type(before)
        """What it is to be again."""
        self.cursor = before.cursor
        self.returned = before.returned
        self.waiting = before.waiting
        self.adopt_returned()

    def add(self, consumer: Consumer) -> None:
        """Note a consumer that has come."""
        if consumer.selector is not None:
            self._reads = consumer.selector
            self._begin_again()
        has_looked = bool(self.kept or self._look)
        made = self.classes.add(consumer, self._turns.era, self.cursor if has_looked else 0)
        if made is not None and has_looked:
            self._catch_up(made)

    def _begin_again(self) -> None:
        """Let all look through everything, as what was parked for them was put back by now."""
        pouring, self._pouring = self._pouring, None
        if pouring is None:
            return
        self.kept.left_over_volatile.update(pouring.keys())
        for one in self.classes:
            first = self._index.first() or self.cursor
            one.backlog = Backlog(first, self.cursor, self._queue.transients.shelves)
            if one in self._turns.ready:
                self._turns.stand_ready(one)

    def _catch_up(self, made: ConsumerClass) -> None:
        """Let a new class have what was looked at before it came."""
        covers_from, keys = self.classes.known(made)
        if covers_from is None or len(keys) > _KNOWN_AT_ONCE_MAX:
            covers_from = self.cursor
        else:
            for key in [*keys]:
                self._look_again(key)
        if not covers_from:
            return
        first = self._index.first() or covers_from
        made.backlog = Backlog(first, covers_from, self._queue.transients.shelves)

    def leave(self, consumer: Consumer) -> None:
        """Note that a consumer is closed."""
        self._turns.renew_rings(self.classes.of(consumer))
        gone = self.classes.discard(consumer)
        if gone is not None:
            self._orphans.extend(cast("Iterable[Bucket]", gone.heads.buckets))
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
        if not one.ranks.ring_of(consumer).make_ready(consumer):
            return False
        self._turns.stand_ready(one)
        return True

    @property
    def selector_count(self) -> int:
        """How many different selectors its consumers have."""
        return len(self.classes) - self.classes.has_equal

    @property
    def parked_count(self) -> int:
        """So many messages wait for those who want them."""
        return self.kept.parked.count

    @property
    def is_full(self) -> bool:
        """Whether nothing more is looked at until some of those are taken."""
        return self.kept.parked.is_full

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
        if self._lasting.dispatch_mark != self._mark:
            self._mark = self._lasting.dispatch_mark
            self._turns.hungry.update(self._turns.blocked)
            self._turns.blocked = {}
        while self._turns.left > 0 and self._turns.ready:
            known = self._go_on(settle, step)
            if known is not None:
                return known
        return self._turns.left > 0

    def _go_on(self, settle: Settle, step: Step) -> bool | None:
        """Do what comes next; false if the step ends with it, true if there is nothing now."""
        if self._look is not None:
            return self._look_on(self._look, settle, step)
        if self._orphans:
            self._turns.left -= 1 + self.kept.rehome(self._orphans[0], self._turns.left)
            if not self.kept.parked.count_of(self._orphans[0]):
                self._orphans.popleft()
            return None
        if self._stored or self._volatile or self._custody.withheld.shelves:
            self._turns.left -= self.pass_over(self._turns.left)
            if self._turns.left <= 0:
                return False
        key = self._next_returned()
        if key:
            self._begin(key)
            return None
        if self._turns.hungry:
            return self._feed(self._first_hungry(), settle, step)
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

    def _look_at(self, key: int) -> None:
        """Look at a message that is come by for the first time; what rests is put aside."""
        due_ms = self._index.returned(key).due_ms if key > 0 else 0
        if due_ms:
            self._turns.left -= 1
            self._queue.rest(key, due_ms)
        else:
            self._begin(key)

    def next_key(self) -> int:
        """Take the next message and give its key, 0 if there is none; the mark does not matter."""
        sequence = self.cursor
        end = self._lasting.next_sequence
        if sequence < end:
            sequence = self._index.next_live(sequence, end)
            withheld = self._custody.withheld
            while sequence in withheld:
                sequence = self._index.next_live(sequence + 1, end)
            self.cursor = sequence
        if self.waiting:
            key = self._next_waiting(sequence)
            if key:
                return key
        if sequence < end:
            self.cursor = sequence + 1
            return sequence
        return 0

    def _first_hungry(self) -> ConsumerClass:
        """Give a class to be fed: no other one that wants its next message has an earlier one."""
        hungry = self._turns.hungry
        one = next(iter(hungry))
        while (place := one.heads.first()) is not None:
            bucket = cast("Bucket", self.kept.parked.bucket_of(place.key))
            others = [(first, it) for it in bucket if it in hungry and (first := it.heads.first())]
            earliest, other = min(others, key=itemgetter(0), default=(place, one))
            if earliest >= place:
                break
            one = other
        return one

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
        chosen = self._turns.choose(bucket, place)
        if chosen is None:
            return None  # The step is over.
        self._drop(key)
        return self._give(*chosen, key, settle, step)

    def _is_sendable(self, key: int) -> bool:
        """Whether the mark covers a message; it is asked for if not."""
        if key > 0:
            self.reach = max(self.reach, key + 1)
        return key <= self._lasting.dispatch_mark

    def _drop(self, key: int) -> None:
        """Take a message out, wherever it stands."""
        self.classes.forget(key)
        self.kept.take(key)

    def _give(
        self, one: ConsumerClass, consumer: Consumer, key: int, settle: Settle, step: Step
    ) -> bool | None:
        """Put a delivery into the step; false if it ends with it."""
        record = self.deliver(consumer, key, settle, step)
        self._turns.had_one(one, consumer)
        if record is None:
            return False
        self._turns.left -= record.size >> EFFORT_SHIFT
        return None

    def _content(self, key: int) -> MessageRecord | TransientMessage | None:
        return self._queue.cache.find(key) if key > 0 else self._queue.transients.find(key)

    def _begin(self, key: int, asked: ConsumerClass | None = None) -> None:
        """Begin to look at a message: who wants it, or whether one class does."""
        self._turns.left -= 1
        self._look = look = Look(key, asked)
        content = self._content(key)
        if content is not None:
            self._read(look, content)

    def _read(self, look: Look, content: MessageRecord | TransientMessage) -> None:
        reads, key = self._reads, look.key
        if reads is not None:
            flagged = self._queue.delivery_count(key) if self._queue.is_flagged(key) else 0
            look.values = reads.values_of(key, content, flagged)
            look.classes = self.classes.candidates(look.values)
        if look.asked is not None:
            look.classes = [look.asked]

    def examined(self, key: int, message: MessageRecord | TransientMessage) -> None:
        """Take what was asked for."""
        look = self._look
        if look is None or look.key != key or look.values is not None:
            return
        try:
            self._read(look, message)
        except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
            self._failure = error

    def _look_on(self, look: Look, settle: Settle, step: Step) -> bool | None:
        """Ask those who may want a message; false if it must be read first."""
        key = look.key
        if not self._is_there(key) or key in self._custody.withheld:
            self._look = None  # It comes back, or is gone.
            return None
        if look.values is None:
            step.append((self._examiner, key, None, self._index.record_number(key), 0))
            return False
        values, classes = look.values, look.classes
        while look.place < len(classes) and self._turns.left > 0:
            one = classes[look.place]
            look.place += 1
            self._turns.left -= one.effort
            if one.selector is None or one.selector.is_true_of(values):
                look.wanted.append(one)
        if look.place >= len(classes):
            self._look = None
            wanted = frozenset([one for one in look.wanted if not one.is_over])
            if look.asked is None:
                return self._place(look, wanted, settle, step)
            if wanted:
                self.kept.add(key, look.asked)
                if look.asked in self._turns.ready:
                    self._turns.hungry[look.asked] = None
        return None

    def _is_there(self, key: int) -> bool:
        return key in self._queue.transients if key < 0 else not self._queue.has_ended(key)

    def _place(self, look: Look, wanted: Bucket, settle: Settle, step: Step) -> bool | None:
        """Give a message to somebody who wants it, or keep it."""
        key = look.key
        order = key if key > 0 else self._queue.transients[key].order
        place = Place(0, order, 0 if key > 0 else -key)
        # Who is hungry may have to get something else first.
        if self._turns.hungry.keys().isdisjoint(wanted):
            chosen = self._turns.choose(wanted, place)
            if chosen is not None and self._is_sendable(key):
                return self._give(*chosen, key, settle, step)
        for one in wanted:
            if one in self._turns.ready:
                self._turns.hungry[one] = None
        assert look.values is not None, "it was read"
        self.classes.note(key, look.values, self.cursor)
        self.kept.put(key, order, wanted)
        return None

    def _look_back(self, one: ConsumerClass) -> None:
        """Look whether a class wants the next message that was there before it."""
        backlog = one.backlog
        assert backlog is not None, "it is behind"
        del self._turns.behind[one]
        self._turns.behind[one] = None  # The last one now.
        if one in self._turns.blocked:
            del self._turns.blocked[one]
            self._turns.hungry[one] = None
        while self._turns.left > 0:
            self._turns.left -= 1
            if backlog.keys:
                key = backlog.keys.pop()
                if key in self.kept:
                    self._begin(key, one)
                    return
            elif backlog.shelves:
                shelf = self._queue.transients.shelves.get(backlog.shelves.pop(), {})
                backlog.keys = [*shelf]
            else:
                key = self._index.next_live(backlog.sequence, backlog.end)
                backlog.sequence = key + 1
                if key >= backlog.end:
                    one.backlog = None
                    del self._turns.behind[one]
                    self._turns.hungry[one] = None
                    return
                if key in self.kept:
                    self._begin(key, one)
                    return

    def give_back(self, order: int, serial: int, key: int) -> None:
        """Put a key back in its old order: it is looked at again."""
        look = self._look
        if look is not None and look.key == key:
            self._look = None
        self._drop(key)
        super().give_back(order, serial, key)

    def is_at_hand(self, sequence: int) -> bool:
        """Whether nobody has it."""
        if super().is_at_hand(sequence) or sequence in self.kept:
            return True
        return self._look is not None and self._look.key == sequence

    def _look_again(self, key: int) -> None:
        """Let a message be looked at again that is kept."""
        self._drop(key)
        if self._is_there(key):
            order = key if key > 0 else self._queue.transients[key].order
            super().give_back(order, 0 if key > 0 else -key, key)

    def forget(self, keys: Iterable[int]) -> None:
        """Forget what is gone for good."""
        for key in keys:
            self._drop(key)

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget single keys; consumers stay."""
        self._look = None
        self._orphans.clear()
        return (*super().empty(), *self.kept.empty(), *self.classes.empty())

    def pour_back(self, count_max: int) -> Plain | None:
        """Go back in steps to the plain order, and give it; nobody wants anything special."""
        pouring = self._pouring
        if pouring is None:
            pouring = self._pouring = Pouring(self._queue, self._lasting.dispatch_mark)
        look, self._look = self._look, None
        if look is not None and look.asked is None:
            pouring.put(self.kept, (look.key,))
        if not pouring.step(self.kept, self.returned, count_max):
            return None
        plain = self._plain(self._queue)
        # Nobody has anything above the mark: what was looked at there comes in its turn.
        plain.cursor = min(self.cursor, pouring.mark + 1)
        self.kept.left_over.cut(plain.cursor)
        self.waiting.extendleft(reversed(pouring.waiting))
        plain.waiting = self.waiting
        plain.returned = Returned(self.kept.left_over, pouring.below)
        plain.adopt_returned()
        return plain
