"""
Destinations by name: queues, topics, and the temporary ones of connections.

A queue is declared by a record; until that is applied it is the leader's plan. Its serving half is
made when somebody first asks for it. A topic exists while somebody asks for it.

Invariants:
    A name means one queue: the leader's, where it has planned one or its deletion, else the log's.
    There are never more of each kind than the settings say.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from holdfast.broker.errands import IsSpent
from holdfast.broker.flow_control import FlowControl, require_room
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.seen_ranges import gathered, united
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.advises import SILENCE, Advises
from holdfast.broker.serving.choice import Choice
from holdfast.broker.serving.dispatch import next_mark
from holdfast.broker.serving.leadership import Leadership, ReadSelector, no_selectors
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.publishing import NOWHERE
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.shelves import LOOKED_AT, NO_SHELF, SHELF_SHIFT
from holdfast.broker.serving.temporaries import Temporaries
from holdfast.broker.serving.topic import IdleTopics, Topic
from holdfast.broker.serving.virtual_consumers import VirtualConsumers
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.stored_topics import StoredTopics
from holdfast.errors import DestinationError
from holdfast.model.destination import Kind, has_wildcards
from holdfast.model.format_level import RETURNS_LEVEL
from holdfast.model.forwarding import is_mirror
from holdfast.model.limits import BINDINGS_MAX, VIRTUAL_CONSUMERS_MAX
from holdfast.model.numbering import Numbering
from holdfast.model.records import (
    DeleteQueueRecord,
    DispatchMarkRecord,
    QueueRecord,
    ReturnedRecord,
)
from holdfast.model.virtual_topics import DEFAULT_FORM, Form, form_of

_READ_PER_STEP: Final = 1_000


class Idle(NamedTuple):
    """A queue as it was when it was found idle; it was not used since, if it is the same still."""

    since_ms: int
    next_sequence: int
    sent_total: int


class Destinations:
    """What messages can be sent to and taken from."""

    __slots__ = (
        "_flow",
        "_make_choice",
        "_receipts",
        "_settings",
        "_state",
        "advising",
        "came",
        "form_of",
        "forms",
        "idle",
        "idle_ms",
        "idle_topics",
        "leadership",
        "next_queue_number",
        "nowhere",
        "read_selector",
        "stored",
        "temporaries",
        "topics",
        "virtual",
        "went",
    )

    def __init__(
        self,
        settings: BrokerSettings,
        state: BrokerState,
        receipts: Receipts,
        flow: FlowControl,
        make_choice: Callable[[Queue], Choice],
    ) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self._flow = flow
        self._make_choice = make_choice
        self.next_queue_number = 0
        self.came: Callable[[Queue | Topic], None] = _nothing
        """Is told of a queue or topic that is new."""
        self.went: Callable[[Queue | Topic], None] = _nothing
        """Is told of one that is gone, while others than those it named may subscribe to it."""
        self.form_of: Callable[[str], Form | None] = form_of
        """Says how the queues of a topic are called that consume it; None: there are none."""
        self.forms: Callable[[], Sequence[Form]] = lambda: (DEFAULT_FORM,)
        """Gives all forms in which they may be called, if these are not many."""
        self.nowhere = Topic(NOWHERE)
        """A topic that nobody can name: what is sent there is gone."""
        self.advising: Advises = SILENCE
        self.idle: dict[int, Idle] = {}
        """Queues by number that nobody uses, where policies say that such ones go."""
        self.read_selector: ReadSelector = no_selectors
        """Gives what a durable subscription wants of its topic; whoever conducts sets it."""
        self.idle_ms: dict[int, int] = {}
        """By number, after how long a queue goes of which nobody has use, as far as it is known; 0:
        never."""
        self.topics: dict[str, Topic] = {}
        self.idle_topics = IdleTopics()
        self.begin(Numbering())
        self.stored = StoredTopics(self, state, receipts)
        """The topics of which messages are stored, as they are sent to."""

    def begin(self, numbering: Numbering) -> None:
        """Begin anew, for a leadership that gives these numbers: nothing of the last is here."""
        self.leadership = Leadership(
            self._settings,
            self._flow,
            self._make_choice,
            numbering,
            producers=self._state.producers,
            say=self._say_returned,
            read_selector=self.read_selector,
        )
        self._state.planning = self.leadership
        self.virtual = VirtualConsumers(self.queue_names)
        leadership = self.leadership
        self.temporaries = Temporaries(
            self._settings.temporary_count_max,
            self._temporary,
            orphan_ms=round(self._settings.temporary_orphan_seconds * 1000),
            elapsed_ms=lambda: leadership.passed_ms,
            empty=self.empty,
            came=self.say_came,
            went=self.say_gone,
        )
        self.topics = {}
        self.idle_topics.clear()

    def read_ahead(self, forms: Sequence[Form]) -> Iterator[None]:
        """
        Read, in steps, what durable subscriptions want, and who consumes virtual topics of these
        forms: later it would hold up who sends.
        """
        yield from self.virtual.look_ahead(forms, list(self._state.by_name))
        leadership = self.leadership
        for count, subscription in enumerate(list(self._state.subscriptions.values()), 1):
            if subscription.selector:
                leadership.read_ahead(subscription)
            if has_wildcards(subscription.topic.name):
                leadership.know_wildcard(subscription)
            if subscription.selector or not count % _READ_PER_STEP:
                yield

    def end(self) -> None:
        """Let go, in steps, of what the leader has: the leadership is over."""
        discards = self._flow.discards
        self.leadership.is_over = True
        discards.add_later(self.leadership.piles())
        for queue in self.temporaries.queues.values():
            discards.add_later(queue.piles())
        discards.add(self.topics)

    def _say_returned(self, record: ReturnedRecord) -> bool:
        """Let the log say what comes back, if it has reached the level; whether it has."""
        if self._state.format_level < RETURNS_LEVEL:
            return False
        self._receipts.record(record)
        return True

    @property
    def format_level(self) -> int:
        """Which records the log may hold by now, see `model.format_level`."""
        return self._state.format_level

    def _temporary(self, name: str) -> Queue:
        queue = Queue(LastingQueue(0, name), self.leadership, name)
        queue.mark_step = 0  # Nothing of it is in the log.
        return queue

    def queue(self, name: str) -> Queue:
        """
        Give the queue of this name, declaring it if it is new.

        Raises:
            DestinationError: There are too many queues already.
        """
        return self.leadership.by_name.get(name) or self._known(name) or self._declared(name)

    def existing(self, name: str) -> Queue:
        """
        Give the queue of this name.

        Raises:
            DestinationError: There is no such queue.
        """
        queue = self.leadership.by_name.get(name) or self._known(name)
        if queue is None:
            raise DestinationError(f"there is no queue {name!r}")
        return queue

    def _known(self, name: str) -> Queue | None:
        """Give a queue that the log has and this leader does not serve yet."""
        lasting = self._state.by_name.get(name)
        if lasting is None or lasting.number in self.leadership.leaving:
            return None
        return self.leadership.serve(lasting)

    def has_place(self, names: Sequence[str]) -> bool:
        """Whether names mean queues, or queues of those names may be declared, all of them."""
        try:
            self.require_place(names)
        except DestinationError:
            return False
        return True

    def require_place(self, names: Sequence[str]) -> None:
        """
        Refuse names that do not all mean queues, where those cannot be declared together.

        Raises:
            DestinationError: There would be too many, or too many that consume one topic.
        """
        new = list(dict.fromkeys(name for name in names if not self.has_queue(name)))
        if new:
            self.require_queues(len(new))
            self._require_virtual_room(new)

    def _declared(self, name: str) -> Queue:
        require_room(self.queue_count, self._settings.queue_count_max, "queues")
        self._require_virtual_room([name])
        leadership = self.leadership
        number = self.take_number()
        queue = Queue(LastingQueue(number, name), leadership, name)
        queue.asked_mark = queue.newest_before + queue.mark_step
        # First: a queue that is known and not declared would lose its messages at a restart.
        record = QueueRecord(number, name, queue.assigned_sequence, queue.asked_mark)
        self._receipts.record(record)
        leadership.by_name[name] = leadership.plans[number] = queue
        leadership.names_to_come += 1
        self.virtual.add(name)
        self.came(queue)
        self.say_came(queue)
        return queue

    def take_number(self) -> int:
        """Take a number that nothing else has: queues, stored topics and subscriptions share it."""
        self.next_queue_number += 1
        return self.next_queue_number - 1

    def _require_virtual_room(self, names: Sequence[str]) -> None:
        for own in {DEFAULT_FORM.topic_of(name) for name in names}:
            if own is not None:  # Of other forms it is known once one was asked of.
                self.virtual.of(own, DEFAULT_FORM)
        topic = self.virtual.full_topic(names, self.form_of)
        if topic is not None:
            raise _too_many_consumers(topic)

    def consumes_mirror(self, queue: str) -> bool:
        """Whether what comes to a queue of this name is what comes to another one."""
        return any(map(is_mirror, self.virtual.consumed_by(queue, self.form_of)))

    @property
    def form_serial(self) -> int:
        """Changes as queues are found to consume virtual topics of one form more."""
        return self.virtual.form_serial

    def look_for_consumers(self, topic: str) -> Iterator[None] | None:
        """Give what finds out, in steps, who consumes a topic; None: it is known, or soon found."""
        form = self.form_of(topic)
        if form is None or not self.virtual.has_to_look(form, self.queue_count):
            return None
        return self.virtual.look_through(form, self.has_queue)

    def consumers_of(self, topic: str) -> list[str]:
        """
        Give the names of the queues that consume a topic, if it is a virtual one.

        Raises:
            DestinationError: There are too many: they came before it was one.
        """
        form = self.form_of(topic)
        found = [] if form is None else self.virtual.of(topic, form)
        if len(found) > VIRTUAL_CONSUMERS_MAX + BINDINGS_MAX:
            raise _too_many_consumers(topic)
        return found

    def is_heard(self, topic: str) -> bool:
        """Whether anybody gets what is sent to a topic now."""
        found = self.topics.get(topic)
        if (found is not None and found.subscriptions) or self.stored.is_stored(topic):
            return True
        wildcards = self.leadership.wildcards
        return bool(self.consumers_of(topic)) or wildcards.concern(Kind.TOPIC, topic)

    @property
    def queue_count(self) -> int:
        """How many names mean a queue now."""
        return len(self._state.by_name) + self.leadership.names_to_come

    def require_queues(self, count: int) -> None:
        """
        Refuse what would declare so many new queues.

        Raises:
            DestinationError: There would be too many.
        """
        if count:
            require_room(self.queue_count + count - 1, self._settings.queue_count_max, "queues")

    def has_queue(self, name: str) -> bool:
        """Whether the name means a queue now."""
        if name in self.leadership.by_name:
            return True
        lasting = self._state.by_name.get(name)
        return lasting is not None and lasting.number not in self.leadership.leaving

    def queue_names(self) -> list[str]:
        """Give the names that mean a queue now, temporary ones too, in no order."""
        known, leadership = self._state.by_name, self.leadership
        names = [*known, *self.temporaries.queues]
        planned = [each for each in leadership.plans.values() if type(each) is Queue]
        to_come = {each.name for each in planned if not each.is_deleted}
        leaving = {each.name for each in leadership.leaving.values() if type(each) is Queue}
        going = leaving - leadership.by_name.keys()
        if going:
            names = [name for name in names if name not in going]
        names += [name for name in to_come if name not in known]
        return names

    def find(self, name: str) -> tuple[LastingQueue, Queue | None] | None:
        """Give both halves of a queue, also of a temporary one; None if the name means none."""
        served = self.leadership.by_name.get(name) or self.temporaries.queues.get(name)
        if served is not None:
            return served.lasting, served
        return (self._state.by_name[name], None) if self.has_queue(name) else None

    def numbered(self, number: int) -> Queue:
        """Give the queue of a number that this leader has served or planned."""
        planned = self.leadership.plans.get(number)
        if planned is not None:
            return planned
        lasting = self._state.queues[number]
        return self.leadership.half_of(lasting) or self.leadership.serve(lasting)

    def delete(self, queue: Queue) -> None:
        """Send the deletion of a queue, with all that is on it, on its way to the log."""
        self.remove(queue)
        self.empty(queue)
        self._receipts.record(DeleteQueueRecord(queue.number))

    def remove(self, queue: Queue) -> None:
        """Let a queue's name mean nothing any more: its deletion is on its way to the log."""
        queue.delete()
        self.idle.pop(queue.number, None)
        self.idle_ms.pop(queue.number, None)
        del self.leadership.by_name[queue.name]
        self.leadership.leaving[queue.number] = queue
        self.leadership.names_to_come -= 1
        self.virtual.remove(queue.name)
        self.went(queue)
        self.say_gone(queue)

    def say_came(self, place: Queue | Topic) -> None:
        """Let who listens know of a destination that is new."""
        if self.advising.listeners:
            self.advising.came(place)

    def say_gone(self, place: Queue | Topic) -> None:
        """Let who listens know of one that is gone."""
        if self.advising.listeners:
            self.advising.went(place)

    def empty(self, queue: Queue) -> None:
        """Take away what the leader alone has of a queue's messages; it is let go of in steps."""
        self._state.acknowledged_total += len(queue.transients)
        if queue.user is not None:
            taken = queue.transient_bytes + self._flow.overhead * len(queue.transients)
            self._flow.temporary_shares.add(queue.user, -taken)
            self._flow.answer_shares.drop(queue, queue.user)
        queue.empty()

    def settle_transient(self, queue: Queue, key: int) -> None:
        """Note that a non-persistent message is done with, if it is still there."""
        # As `take` does it, without a call for each message.
        transients = queue.transients
        shelf: dict[int, TransientMessage] = transients.shelves.get(key >> SHELF_SHIFT, NO_SHELF)
        message = shelf.pop(key, None)
        if message is not None:
            if len(shelf) in LOOKED_AT:
                transients.tidy(key)
            queue.lasting.acknowledged_total += 1
            queue.transient_bytes -= message.size
            queue.forget((key,))
            self._state.acknowledged_total += 1
            self._flow.volatile_bytes -= message.size + self._flow.overhead
            if queue.user is not None:
                freed = -message.size - self._flow.overhead
                self._flow.temporary_shares.add(queue.user, freed)
                if message.payer is not None:
                    self._flow.answer_shares.add(queue, queue.user, message.payer, freed)

    def advance_mark(self, queue: Queue) -> None:
        """Ask for a dispatch mark further ahead."""
        mark = next_mark(queue, self._settings.dispatch_mark_step_max)
        if mark > queue.asked_mark:
            self._receipts.record(DispatchMarkRecord(queue.number, mark))
            # Now only: else nothing beyond the old mark would go out.
            queue.asked_mark, queue.asked_seen = united(queue.asked_mark, queue.asked_seen, 0, mark)

    def advance_beyond_mark(self, queue: Queue, sequence: int) -> None:
        """Ask that a message far beyond the dispatch mark may go out, and its neighbours."""
        asked = queue.asked_mark, queue.asked_seen
        if united(*asked, sequence, sequence) == asked:
            return
        # Short at first: what it covers and nobody saw is flagged, too. One that goes on doubles.
        step = self._settings.dispatch_mark_step_min
        before = [last - first for first, last in queue.asked_seen if last + 1 == sequence]
        step = min(max(step, *before, 0), self._settings.dispatch_mark_step_max)
        first, last = gathered(*asked, sequence, sequence + step)
        self._receipts.record(DispatchMarkRecord(queue.number, last, first))
        queue.asked_mark, queue.asked_seen = united(*asked, first, last)

    def topic(self, name: str) -> Topic:
        """
        Give the topic of this name; a topic exists while somebody asks for it.

        Raises:
            DestinationError: There are too many topics with subscribers already.
        """
        topic = self.topics.get(name)
        if topic is None:
            if len(self.topics) >= self._settings.topic_count_max:
                forgotten = self.idle_topics.forget_one(self.topics)
                if forgotten is not None:
                    self.went(forgotten)
                    if not forgotten.is_stored:
                        self.say_gone(forgotten)
            require_room(len(self.topics), self._settings.topic_count_max, "topics")
            topic = self.topics[name] = Topic(name)
            topic.note_stored(self.stored.is_stored(name))
            self.idle_topics.add(topic)
            self.came(topic)
            if not topic.is_stored:
                self.say_came(topic)
        return topic

    def drop_temporary(self, owner: Hashable, *, comes_back: bool = False) -> Iterator[None]:
        """
        Remove the temporary destinations of a connection that is gone, in short steps.

        Those of a client that may come back and be known again are kept for a while.
        """
        if comes_back:
            yield from self.temporaries.abandon(owner)
            return
        for count, queue in enumerate(self.temporaries.drop(owner), 1):
            if queue is not None:
                self.empty(queue)
            if not count % self._settings.step_count_max:
                yield

    def drop_orphans(self, is_spent: IsSpent) -> bool:
        """Remove temporary destinations that nobody has come back to; whether more are due."""
        return any(is_spent() for _ in self.temporaries.drop_orphans())


def _too_many_consumers(topic: str) -> DestinationError:
    return DestinationError(f"at most {VIRTUAL_CONSUMERS_MAX:,} queues may consume topic {topic!r}")


def _nothing(destination: Queue | Topic) -> None:
    """Be told of a destination, and do nothing."""
