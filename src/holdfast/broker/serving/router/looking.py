"""
Looking at the messages of a queue on which consumers want some, and not others: who wants each.

Each is looked at once, in order, whether or not it may be sent yet, and asked of all classes that
may want it (`classes`). A class that is new looks through what was looked at before, as far as it
has room for what it finds, with a place of its own; or knows at once where to look
(`classes.known`). Who of those that want it gets it says `sifting`.

What is not in memory is asked of whoever conducts, as deliveries are: it is handed to the
`Examiner`, who never gets it. So one message at a time is read from the log, between two looks at
the clock.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

from holdfast.broker.lasting.seen_ranges import Ranges
from holdfast.broker.serving.choice import Settle
from holdfast.broker.serving.consumer import MessageSelector
from holdfast.broker.serving.delivery import Step
from holdfast.broker.serving.lanes import USUAL_RANK
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.buckets import Bucket, Stream, wanted_by
from holdfast.broker.serving.router.classes import Backlog, Classes, ConsumerClass
from holdfast.broker.serving.router.examiner import Examiner, Look
from holdfast.broker.serving.router.hands import Hands
from holdfast.broker.serving.router.kept import Kept
from holdfast.broker.serving.router.pouring import Pouring
from holdfast.broker.serving.router.turns import Turns
from holdfast.model.records import MessageRecord

_KNOWN_AT_ONCE_MAX: Final = 100
"""So many that a new class may want are looked at again at once; of more it looks through all."""


class Looking(Plain):
    """Finds out who wants each message."""

    __slots__ = (
        *("_examiner", "_failure", "_look", "_looks_back", "_mark", "_orphans", "_plain"),
        *("_pouring", "_reads", "_turns", "classes", "hands", "kept", "reach"),
    )

    isolates = False  # It does, but not before it is known who wants a message.

    def __init__(self, queue: Queue, before: Plain) -> None:
        """Go on where a plain order has come to; its consumers are told of one by one."""
        super().__init__(queue)
        self._adopt(before)
        self.classes = Classes(queue.leadership)
        self.kept = Kept(queue)
        self.hands: Hands | None = None
        """In whose hands groups of messages are; None where there are none."""
        self.reach = 0
        """Behind the last stored message that somebody wanted: the mark has to cover it."""
        self._turns = Turns()
        self._mark: tuple[int, Ranges] = (0, ())
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
        self._plain = before.ungrouped
        """What it is to be again."""
        self.cursor = before.cursor
        self.lanes = before.lanes
        self.returned = before.returned
        self.waiting = before.waiting
        self.adopt_returned()

    def begin_to_group(self, hands: Hands) -> None:
        """Let no group be in two hands from now on."""
        hands.begin(self.kept.parked, self._turns, self.classes)
        self.hands = self.kept.hands = self._queue.grouping = hands

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

    @property
    def selector_count(self) -> int:
        """How many different selectors its consumers have."""
        return len(self.classes) - self.classes.has_equal

    @property
    def parked_count(self) -> int:
        """So many messages wait for those who want them."""
        return self.kept.parked.count

    @property
    def unlooked_count(self) -> int:
        """Places that the class with most to do has still to look through."""
        return max((each.backlog.left for each in self._turns.behind if each.backlog), default=0)

    @property
    def is_full(self) -> bool:
        """Whether nothing more is looked at until some of those are taken."""
        return self.kept.parked.is_full

    def _look_at(self, key: int) -> None:
        """Look at a message that is come by for the first time; what rests is put aside."""
        due_ms = self._index.returned(key).due_ms if key > 0 else 0
        if due_ms:
            self._turns.left -= 1
            self.rests(key, due_ms)
        else:
            self._begin(key)

    def rests(self, key: int, due_ms: int) -> None:
        """Put aside what was come by before it is due; what is behind it in its group waits."""
        super().rests(key, due_ms)
        if self.hands is not None:
            self.hands.set_aside([key])

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

    def _adopt_some(self, hands: Hands) -> None:
        """Look again at what was parked before anybody selected."""
        effort, keys = hands.adopt_some(self._turns.left)
        self._turns.left -= effort
        for key in keys:
            self._put_back(key)

    def _is_sendable(self, key: int) -> bool:
        """Whether the mark covers a message; it is asked for if not."""
        if self.lanes is not None:
            may_go = key < 0 or self._lasting.may_be_sent(key)
            if not may_go:
                self._queue.wanted = key
            return may_go
        if key > 0:
            self.reach = max(self.reach, key + 1)
        return key <= self._lasting.dispatch_mark

    def _drop(self, key: int) -> None:
        """Take a message out, wherever it stands."""
        self.classes.forget(key)
        self.kept.take(key)

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
            rank = USUAL_RANK if self.lanes is None else self.lanes.rank_of(key)
            wanted = wanted_by([one for one in look.wanted if not one.is_over], rank)
            if look.asked is None:
                return self._place(look, wanted, settle, step)
            if wanted:
                self.kept.add(key, look.asked, rank)
                bucket = self.kept.parked.bucket_of(key)
                self._turns.look_at(bucket if isinstance(bucket, Stream) else (look.asked,))
                if key in self.kept.alone:
                    self._note_apart((look.asked,))
        return None

    def _is_there(self, key: int) -> bool:
        return key in self._queue.transients if key < 0 else not self._queue.has_ended(key)

    def _look_back(self, one: ConsumerClass) -> None:
        """Look whether a class wants the next message that was there before it."""
        backlog = one.backlog
        assert backlog is not None, "it is behind"
        del self._turns.behind[one]
        self._turns.behind[one] = None  # The last one now.
        if one in self._turns.blocked:
            del self._turns.blocked[one]
            self._turns.hungry[one] = None
        if self.hands is not None:
            self.hands.resume()
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
        if self.hands is not None:
            self.hands.came_in(key)
        super().give_back(order, serial, key)

    def is_at_hand(self, sequence: int) -> bool:
        """Whether nobody has it."""
        if super().is_at_hand(sequence) or sequence in self.kept:
            return True
        if self.hands is not None and self.hands.is_at_hand(sequence):
            return True
        return self._look is not None and self._look.key == sequence

    def _look_again(self, key: int) -> None:
        """Let a message be looked at again that is kept."""
        self._drop(key)
        if self._is_there(key):
            self._put_back(key)

    def _put_back(self, key: int) -> None:
        """Let a message be looked at that stands nowhere."""
        order = key if key > 0 else self._queue.transients[key].order
        super().give_back(order, 0 if key > 0 else -key, key)

    def forget(self, keys: Iterable[int]) -> None:
        """Forget what is gone for good."""
        for key in keys:
            self._drop(key)
        if self.hands is not None and self.hands.has_freed:
            self._queue.touch()

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget single keys; consumers stay."""
        self._look = None
        self._orphans.clear()
        known = () if self.hands is None else self.hands.empty()
        return (*known, *super().empty(), *self.kept.empty(), *self.classes.empty())

    def _note_apart(self, wanted: Iterable[ConsumerClass]) -> None:
        """Note that something that is to be sent alone waits for some classes."""
        raise NotImplementedError

    def _place(self, look: Look, wanted: Bucket, settle: Settle, step: Step) -> bool | None:
        """Give a message to somebody who wants it, or keep it; false if the step ends with it."""
        raise NotImplementedError
