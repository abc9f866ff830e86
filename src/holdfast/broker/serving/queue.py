"""
A queue's serving half: what its leader adds to what the log says; it may vanish.

Made when somebody first asks for the queue, anew under each leader. Of a queue that is only stored
to, it is next to nothing: custody and choice are made at first use. What never lasts is only here.

Invariants:
    lasting.next_sequence <= assigned_sequence: what is assigned and not applied is on its way to
    the log.
    It is its lasting half's listener from the beginning on, until the leadership is over.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from itertools import islice
from typing import Final

from holdfast.broker.lasting.queue import LastingQueue, flagged_through
from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.broker.lasting.seen_ranges import Seen
from holdfast.broker.serving.bounds import Bounds
from holdfast.broker.serving.choice import Choice, KeepsGroups, Sifts
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.custody import Custody
from holdfast.broker.serving.effective import Effective
from holdfast.broker.serving.expiry import Expiry
from holdfast.broker.serving.leads import Leads
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.shelves import Shelves
from holdfast.broker.serving.time_limits import TimeLimits
from holdfast.model.records import AcknowledgeRecord, MessageRecord, ReturnCause
from holdfast.model.schedules import SCHEDULE_QUEUE

NO_ALARM: Final = (0, 0)


class Queue:
    """One queue of the leader."""

    __slots__ = (
        *("_choice", "_custody", "acknowledged", "alarm", "asked_mark", "asked_seen"),
        *("assigned_sequence", "bounds", "cache", "expiry", "flag_seen", "flag_through"),
        *("grouping", "index", "is_deleted", "is_outdated", "is_temporary", "is_touched"),
        *("lasting", "leadership", "mark_step", "name", "newest_before", "number", "owner"),
        *("policy", "purging_through", "redelivered_total", "sifting", "subscriptions"),
        *("suspect_after", "time_limits", "transient_bytes", "transients", "user"),
        *("volatile_ordering", "wanted", "wild_count"),
    )

    topic_number = 0
    """That of the topic whose messages these are; 0: they are the queue's own."""

    def __init__(self, lasting: LastingQueue, leadership: Leads[Queue], name: str) -> None:
        self.lasting = lasting
        self.leadership = leadership
        self.name = name
        self.number = lasting.number
        self.index = lasting.index
        """The lasting half's: what lives."""
        self.assigned_sequence = leadership.first_number(lasting)
        """The next number to be given."""
        self.newest_before = self.assigned_sequence - 1
        """The last number below those that this leader gives."""
        self.asked_mark, self.asked_seen = lasting.dispatch_mark, lasting.seen
        """What may be seen once all that is asked for is in the log."""
        self.wanted = 0
        """A stored message that is next, by priority, and far beyond the mark; 0: none is."""
        self.mark_step = leadership.settings.dispatch_mark_step_min
        self.flag_through = flagged_through(lasting, leadership.numbering)
        """The last one that a former leader may have sent."""
        self.flag_seen = Seen(max(lasting.dispatch_mark, leadership.numbering.floor), lasting.seen)
        """Which of those up to there."""
        self.acknowledged: list[int] = []
        """Stored messages that were settled since the gathering batch began."""
        self.is_deleted = self.is_outdated = self.is_temporary = False
        """It is no more. Who remembers where a name leads asks the second, as of topics."""
        self.alarm = NO_ALARM
        """When it is to be woken, and which of the leadership's alarms that is."""
        self.owner: Hashable = None
        """A temporary queue's connection."""
        self.user: str | None = None  # Of whose share a temporary one is, and what is on it.
        self.policy: Effective | None = None
        """What holds for it, kept by the policies; None until somebody asks."""
        self.purging_through = self.redelivered_total = 0
        self.is_touched = False
        """Whether it stands in the leadership's `touched`, which alone says so."""
        self.subscriptions: dict[Consumer, None] = {}
        """In the order they came; any of ten thousand may leave."""
        self.wild_count = 0
        """How many of those came by a wildcard."""
        self.cache: Shelves[MessageRecord] = Shelves()
        """Contents of stored messages, as many as are held in memory."""
        self.transients, self.transient_bytes = Shelves[TransientMessage](), 0
        self.suspect_after = 0
        """After being lost with others so often a message is sent alone; 0: never."""
        self.time_limits: TimeLimits | None = None
        """What is in delivery for how long; None where nobody who came had a limit."""
        self.volatile_ordering = 0
        """By what messages may go that are in memory only, as the index says it of others."""
        self.grouping: KeepsGroups | None = None
        """Who has each group; None where nobody asked for any yet."""
        self.sifting: Sifts | None = None
        """Looks at each message, who wants it; None: nobody has said what he wants."""
        self._custody: Custody | None = None
        self._choice: Choice | None = None
        self.expiry: Expiry | None = None
        """When its messages expire; None, as of most queues, if none ever did."""
        self.bounds: Bounds | None = None
        """How full it is; None, as of most queues, if nothing says how full it may be."""
        lasting.listener = self
        if self.index.expiring:
            self.mortal([])

    @property
    def custody(self) -> Custody:
        """What is known of single messages."""
        if self._custody is None:
            self._custody = Custody()
        return self._custody

    @property
    def choice(self) -> Choice:
        """Who pairs its messages with its consumers."""
        if self._choice is None:
            self._choice = self.leadership.make_choice(self)
        return self._choice

    @property
    def is_idle(self) -> bool:
        """Whether nobody was interested in its messages yet under this leader."""
        return self._choice is None

    def choose(self, choice: Choice) -> None:
        """Let another one choose from now on; it knows what was given back, and the consumers."""
        self._choice = choice

    def added(self, first: int, records: list[MessageRecord]) -> None:
        """Keep contents in memory while there is room, and let the messages be dispatched."""
        if self.expiry is None or self.name != SCHEDULE_QUEUE:  # There they would be for long.
            self.leadership.flow.keep(self.cache, first, records)
        if self.subscriptions:
            self.touch()

    def arrived(self) -> None:
        """Let what was moved here be dispatched; it is read when somebody gets it."""
        if self.subscriptions:
            self.touch()

    def mortal(self, expiring: list[tuple[int, int]]) -> None:
        """Look after messages that live from now on and expire."""
        if self.expiry is None:
            self.expiry = Expiry(self)
        self.expiry.add(expiring)
        self.leadership.expires(self)

    def gone(self, sequences: list[int]) -> None:
        """Forget what is known of messages that are settled for good."""
        if self.cache.shelves:
            self.leadership.flow.forget(self.cache, sequences)
        self.forget(sequences)

    def purged(self) -> None:
        """
        Let go, in steps, of the contents of what was taken off.

        What is known of each beside its content was dropped when the operator asked (`operating`),
        before this was in the log.
        """
        contents, self.cache = self.cache, Shelves()
        if contents and self.index.live_count:
            for sequence in self.index.sequences(self.index.first(), self.index.last() + 1):
                content = contents.take(sequence)
                if content is not None:
                    self.cache[sequence] = content
        self.leadership.flow.discards.add_contents(contents)

    def mark_moved(self) -> None:
        """Dispatch what may be dispatched now."""
        self.touch()

    def delete(self) -> None:
        """Let its name mean it no more; who remembers where it leads looks it up anew."""
        self.is_deleted = self.is_outdated = True

    def deleted(self) -> None:
        """Forget the queue: its deletion is in the log."""
        self.delete()
        self.leadership.deleted(self)
        self.drop_contents()
        if not self.subscriptions:
            # It has the queue, which has it: only Python's collector would find them.
            self._choice = self.grouping = self.sifting = None

    def drop_contents(self) -> None:
        """Let go, in steps, of all contents that are held in memory."""
        contents, self.cache = self.cache, Shelves()
        self.leadership.flow.discards.add_contents(contents)

    def acknowledgement(self, sequences: list[int]) -> AcknowledgeRecord:
        """Give what says of stored messages that they are done with."""
        return AcknowledgeRecord(self.number, sequences)

    def touch(self) -> None:
        """Note that there may be something to dispatch."""
        if not self.is_touched:
            self.is_touched = True
            self.leadership.touched.append(self)

    def empty(self) -> None:
        """
        Take away all non-persistent messages, and what is known of single ones; freed in steps.

        Nothing of what is on the queue may be dispatched after this.
        """
        discards = self.leadership.flow.discards
        messages, self.transients = self.transients, Shelves()
        self.transient_bytes = 0
        self.lasting.acknowledged_total += len(messages)
        discards.add_volatile(messages)
        for half in (self._choice, self._custody):
            if half is not None:
                discards.add(*half.empty())

    def piles(self) -> Iterator[Collection[object]]:
        """Give all that it holds, to be let go of: the leadership is over."""
        if self.lasting.listener is self:
            self.lasting.listener = None
        self.drop_contents()
        yield self.transients
        for half in (self._choice, self._custody, self.time_limits, self.expiry):
            if half is not None:
                yield from half.empty()

    def send_back(
        self,
        keys: list[int],
        cause: ReturnCause,
        client: str | None = None,
        *,
        due_ms: int = 0,
        is_awaited: bool = False,
    ) -> None:
        """
        Give back deliveries: stored messages are there when the log says so, others at once.

        Args:
            cause: Why they come back.
            client: As with `give_back`.
            due_ms: Nobody gets them before, in milliseconds since the epoch.
            is_awaited: Whether nothing is dispatched before all of them are there.
        """
        stored = [key for key in keys if key > 0 and not self.has_ended(key)]
        if stored and self.leadership.say_returned(self, cause, stored, due_ms):
            comebacks = self.custody.made_comebacks()
            comebacks.begin(stored, client or "", is_awaited=is_awaited)
            if self.grouping is not None:
                self.grouping.set_aside(stored)
            keys = [key for key in keys if key < 0]
        self.give_back(keys, redelivered=True, client=client)
        for key in keys:
            if key < 0 and key in self.transients:
                comebacks = self.custody.made_comebacks()
                comebacks.volatile_again(key, failed=cause.is_failure)
                self.rest(key, due_ms)
                if due_ms and self.grouping is not None:
                    self.grouping.set_aside([key])

    def returned(self, sequences: list[int], due_ms: int) -> None:
        """Give back, or let rest, what the log says came back, and is known to be on its way."""
        custody = self._custody
        comebacks = None if custody is None else custody.comebacks
        if custody is None or comebacks is None:
            return
        for sequence in sequences:
            coming = comebacks.arrived(sequence)
            if coming is not None:
                # Else it was settled late meanwhile.
                if sequence not in custody.withheld or sequence in custody.reserved:
                    self.rest(sequence, due_ms)
                self.give_back([sequence], redelivered=True, client=coming.client)
        self.touch()

    def rest(self, key: int, due_ms: int) -> None:
        """Let a message that is in nobody's hands rest, if it is due later."""
        if due_ms and not (key > 0 and self.has_ended(key)) and self.custody.rest(key, due_ms):
            self.leadership.rests(self)

    def wake(self, now_ms: int, count_max: int) -> tuple[int, int]:
        """Let so many of what is due be dispatched; gives how many, and when the next is, or 0."""
        count, soonest = self._let_rested_go(now_ms, count_max)
        if self.time_limits is not None:
            more, due_ms = self.time_limits.wake(max(1, count_max - count))
            count += more
            soonest = min(filter(None, (soonest, due_ms)), default=0)
        if self._choice is not None:
            more, due_ms = self._choice.wake(now_ms, max(1, count_max - count))
            count += more
            soonest = min(filter(None, (soonest, due_ms)), default=0)
        return count, soonest

    def _let_rested_go(self, now_ms: int, count_max: int) -> tuple[int, int]:
        custody = self._custody
        if custody is None or custody.comebacks is None:
            return 0, 0
        keys = custody.comebacks.due(now_ms, count_max)
        at_hand = custody.come_due(keys)
        # Whoever had them is known already.
        self.give_back(at_hand, redelivered=True)
        if at_hand:
            self.touch()
        return len(keys), custody.comebacks.soonest

    def give_back(self, keys: list[int], *, redelivered: bool, client: str | None = None) -> None:
        """
        Put unacknowledged deliveries back at the head in their old order.

        Args:
            client: Who had them, empty if it cannot be known again; None if nobody had them since
                it was last said.
        """
        custody, choice = self.custody, self.choice
        for key in keys:
            order, serial = key, 0
            if key > 0:
                if self.has_ended(key):
                    continue
            else:
                transient = self.transients.find(key)
                if transient is None:
                    continue
                # Sent behind the persistent message of the same order, and behind older serials.
                order, serial = transient.order, -key
            if redelivered:
                custody.redelivered.add(key)
            if client:
                custody.had_by[key] = client
            elif client is not None and custody.had_by:
                custody.had_by.take(key)
            choice.give_back(order, serial, key)
        if self.expiry is not None and self.expiry.came_back(keys):
            self.leadership.expires(self)
        if self.bounds is not None:
            self.bounds.came_back(keys)
            self.note_filling()

    def note_filling(self) -> None:
        """Note that it may have come to hold more than it may, if anything says how much."""
        if self.bounds is not None:
            self.leadership.filling[self] = None

    def reserve(self, key: int) -> None:
        """
        Keep a message that nobody has for a transaction that settles it.

        What the log lets rest rests beside that, also where nobody has come by it yet.
        """
        self.custody.reserve(key)
        if self.grouping is not None:
            self.grouping.set_aside([key])  # It may come again, before those behind it.
        if key > 0 and not self.custody.is_coming(key):  # Else it rests once the log says so.
            self.rest(key, self.index.returned(key).due_ms)

    def release(
        self, whose: Hashable, keys: list[int], step_count: int, client: str | None = None
    ) -> Iterator[None]:
        """
        Let everybody have what a transaction had settled that is rolled back, in short steps.

        Until `whose` keys are all back nothing is given to anybody, so that the old order is kept.
        """
        if len(keys) > step_count:
            self.custody.releasing[whose] = None
        for start in range(0, len(keys), step_count):
            some = keys[start : start + step_count]
            custody = self.custody  # Each time: this half may have been built anew.
            some = custody.release(some)
            if client is None:
                # What is on its way back is there when the log says so, and not twice.
                comebacks = custody.comebacks
                is_coming = () if comebacks is None else comebacks.under_way
                self.give_back([key for key in some if key not in is_coming], redelivered=True)
            else:
                self.send_back(some, ReturnCause.RELEASED, client, is_awaited=True)
            if start + step_count < len(keys):
                yield
        self.custody.releasing.pop(whose, None)

    def forget(self, keys: Collection[int]) -> None:
        """Forget what is known of messages that are settled; they are in memory no more."""
        if self._custody is not None:
            self._custody.forget(keys)
        if self.grouping is not None:
            self.grouping.forget(keys)
        if self.sifting is not None:
            self.sifting.forget(keys)

    def has_ended(self, sequence: int) -> bool:
        """Whether a stored message is gone, or a purge on its way to the log takes it along."""
        return sequence <= self.purging_through or not self.index.is_live(sequence)

    def is_withheld(self, key: int) -> bool:
        """Whether a message is kept from everybody: it is settled late, moved, or damaged."""
        return self._custody is not None and key in self._custody.withheld

    def is_flagged(self, key: int) -> bool:
        """Whether a delivery of `key` must say that it may have been delivered before."""
        if 0 < key <= self.flag_through and key in self.flag_seen:
            return True
        return self._custody is not None and key in self._custody.redelivered

    def returned_so_far(self, key: int) -> Returned:
        """Give what came of a message so far: as the log says, or as is remembered of it."""
        if key > 0:
            return self.index.returned(key)
        comebacks = None if self._custody is None else self._custody.comebacks
        return NEVER if comebacks is None else comebacks.volatile.find(key) or NEVER

    def delivery_count(self, key: int) -> int:
        """Give which delivery of a message this one is, that is flagged: at least the second."""
        return max(2, self.returned_so_far(key).attempts + 1)

    def close_subscription(self, consumer: Consumer) -> None:
        """Remove a consumer that gets nothing more; what it holds is not given back yet."""
        consumer.is_closed = True
        consumer.prefetch = 0  # The ring passes over it as over one without room.
        self.subscriptions.pop(consumer, None)
        self.choice.leave(consumer)

    def take_back(
        self, consumer: Consumer, step_count: int, cause: ReturnCause = ReturnCause.RELEASED
    ) -> Iterator[None]:
        """Give back, flagged, what a closed consumer holds, in steps of so many messages."""
        held = consumer.unacknowledged
        keys = iter(list(held))
        returning = self.custody.returning
        returning[consumer] = None
        while consumer in returning:
            some = list(islice(keys, step_count))
            self.send_back(some, cause, consumer.client, is_awaited=True)
            for key in some:
                held.pop(key, None)
            if not held or len(some) < step_count:
                del returning[consumer]
                return
            yield

    def renew(self, leaving: set[int]) -> None:
        """
        Build this half anew from the lasting one: nobody consumes, everything is flagged.

        What is on its way to the log stays so: numbers, marks, `leaving` acknowledgements, and what
        comes back.
        """
        before = self.custody
        before.returning.clear()  # Who gives back goes on no more.
        for consumer in self.subscriptions:
            consumer.is_closed = True
            consumer.is_ready = False
            consumer.unacknowledged = {}
            if consumer.groups is not None:
                consumer.groups.clear()
        self.subscriptions.clear()
        self.wild_count = 0
        self.drop_contents()
        self.transients = Shelves()
        self.transient_bytes = 0
        if self.expiry is not None:
            self.expiry = None
            self.mortal([])
        if self.bounds is not None:
            self.bounds.begin_anew()
        self.flag_through = self.lasting.next_sequence - 1
        self.flag_seen = Seen(self.flag_through, ())
        custody = self._custody = Custody()
        if before.comebacks is not None and before.comebacks.under_way:
            custody.made_comebacks().await_from(before.comebacks)
        stored = [key for key in before.reserved if key > 0 and not self.has_ended(key)]
        custody.withheld.update([key for key in leaving if not self.has_ended(key)])
        for key in stored:
            self.reserve(key)
        self._choice = self.grouping = self.sifting = None

    @property
    def is_held(self) -> bool:
        """Whether nothing is dispatched now, as older messages are just being given back."""
        return self._custody is not None and self._custody.is_held

    @property
    def newest_under_way(self) -> int:
        """The last sequence given; what is sent now stands behind it."""
        newest = self.assigned_sequence - 1
        # Nothing was given since the numbers jumped to this leader's.
        return newest if newest > self.newest_before else self.lasting.next_sequence - 1

    @property
    def transient_count(self) -> int:
        """Non-persistent messages waiting or in delivery."""
        return len(self.transients)
