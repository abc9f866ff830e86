"""
Messages of one connection on their way into the broker, at once or when there is room.

What is persistent goes into the batch. What is not takes memory, so it may have to wait; and what
goes to many subscribers is on its way for a while, and what comes behind it waits for that.

Owned by its holdings.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.broker.addressing import RouteUnknownError
from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.publishing import Replaying
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import QueueFullError, RefusedError, StoreFullError
from holdfast.sessions.context import SessionContext
from holdfast.sessions.holder import Holder
from holdfast.sessions.open_transactions import OpenTransactions
from holdfast.sessions.requirements import no_room, read_number
from holdfast.sessions.target import Goodbye, Outgoing, Question, Target
from holdfast.sessions.waiting_sends import WaitingSends

MUCH: Final = 1 << 30
"""The effort of a request after which the clock is looked at."""


class _Stuck(NamedTuple):
    """What was found of a message that has no room."""

    sending: Outgoing
    place: Queue | Topic
    """Where there was none."""
    target: Target
    size: int
    change_count: int
    """How often the policies had been changed then."""


class Sending:
    """What one connection sends."""

    __slots__ = (
        *("_broker", "_context", "_is_next", "_refusing_since", "_stuck", "_transactions"),
        *("question_count", "spreading", "spreading_receipt", "steps", "waiting"),
    )

    def __init__(
        self, broker: Broker, context: SessionContext, transactions: OpenTransactions
    ) -> None:
        self._broker = broker
        self._context = context
        self._transactions = transactions
        self.waiting = WaitingSends(context, broker.settings)
        self._is_next = False
        """What is being done is the first of what waited."""
        self._stuck: _Stuck | None = None
        """Why the first of what waits did not go the last time it was looked at."""
        self._refusing_since = 0.0
        """Since when there was no room on the disk as one had waited too long."""
        self.spreading: Topic | Replaying | None = None
        """Where the last message published is on its way to many, or what was sent before this
        connection subscribed is on its way to it; what comes behind that waits."""
        self.spreading_receipt: bytes | None = None
        self.steps: Iterator[None] | None = None
        """What is left to be done of the last message sent; what comes behind it waits."""
        self.question_count = 0
        """Questions that look through many and are not answered yet."""

    def send(self, session: Holder, target: Target, sending: Outgoing) -> None:
        """
        Send a message, or let it wait until there is room.

        Raises:
            RefusedError: There is no room, and it must not wait; or it is none the broker takes.
        """
        if not target.is_plain and self._send_apart(session, target, sending):
            return
        waiting = self.waiting
        broker = self._broker
        queue = target.queue
        producer_id = target.producer_id
        refusal = self._context.refusal
        assert queue is not None, "only queues keep messages"
        if (
            waiting.bytes
            and not self._is_next
            and (waiting.holds(queue) or waiting.holds_producer(producer_id))
        ):
            # Behind what was sent there, or has an earlier number.
            if waiting.has_place:
                waiting.add(sending, queue, producer_id=producer_id)
                return
            refusal = "too much waits for room before this message; send it again later"
        sequence = 0
        if producer_id is not None:
            sequence = read_number(sending.producer_sequence, "producer-sequence")
        if refusal is not None and not broker.has_taken(producer_id, sequence):
            if refusal is not self._context.refusal:
                raise StoreFullError(refusal)
            self._wait_for_disk(session, target, sending, refusal)
            return
        if self._context.message_bytes_max and not broker.has_taken(producer_id, sequence):
            self._context.require_storable(len(sending.body))
        if target.is_limited:
            # A repetition stores nothing: it is confirmed, room or none.
            is_known = broker.has_taken(producer_id, sequence)
            if not is_known and self._waits_for_room(session, target, sending):
                return
            before = queue.assigned_sequence
        broker.send(
            queue,
            target.lines,
            sending.body,
            session,
            sending.receipt,
            producer_id,
            sequence,
            target.facts,
        )
        if target.is_limited:
            broker.limiting.sent(queue, before, len(target.lines) + len(sending.body))

    def _wait_for_disk(
        self, session: Holder, target: Target, sending: Outgoing, refusal: str
    ) -> None:
        """
        Set a message aside that cannot be stored now, if it may wait for that.

        Raises:
            StoreFullError: It may not, or not any more.
        """
        place, waiting = target.destination, self.waiting
        if not self._waits_for_disk(place):
            if self._broker.advising.listeners:
                self._broker.advising.full(place, "store", "")
            raise StoreFullError(refusal)
        if waiting.is_refusing and self._refusing_since != self._context.refused_at:
            waiting.is_refusing = False  # There was room meanwhile.
        self._wait(session, sending, StoreFullError(refusal), target)

    def _waits_for_disk(self, place: Queue | Topic) -> bool:
        """Whether what is to be stored somewhere may wait until there is room on the disk."""
        if self._broker.settings.send_fail_if_no_space or not isinstance(place, Queue):
            return False
        limits = self._broker.limiting.limits_of(place)
        return limits is None or not limits.fails_at_once

    def _send_apart(self, session: Holder, target: Target, sending: Outgoing) -> bool:
        """Send what no queue, or several, keep at once; see `send`. False: it is not such."""
        destinations = target.destinations
        if destinations is not None:
            session.effort += len(destinations)
        if target.transaction is not None:
            self._transactions.hold(session, target, sending)
        elif destinations is not None:
            self._send_to_all(session, target, destinations, sending)
        elif not target.persistent:
            self._send_transient(session, target, sending)
        else:
            return False
        return True

    def _waits_for_room(self, session: Holder, target: Target, sending: Outgoing) -> bool:
        """
        Set a message for one queue aside that has no room there; false: it has.

        Raises:
            RefusedError: It must not wait, or not any more.
        """
        full = self._without_room(target, sending)
        if full is None:
            self.waiting.is_refusing = False
            return False
        self._wait(session, sending, full, target)
        return True

    def _send_to_all(
        self,
        session: Holder,
        target: Target,
        destinations: tuple[Queue | Topic, ...],
        sending: Outgoing,
    ) -> None:
        """Send to several at once; see `send`. Where one has no room all of it waits."""
        waiting = self.waiting
        broker = self._broker
        producer_id = target.producer_id
        sequence = 0
        if producer_id is not None:
            sequence = read_number(sending.producer_sequence, "producer-sequence")
        is_kept = target.persistent or producer_id is not None
        # A repetition stores nothing and is out already: it is confirmed, room or none.
        if not broker.has_taken(producer_id, sequence):
            if self._must_wait(session, target, destinations, sending):
                return
            if is_kept and self._context.refusal is not None:
                raise StoreFullError(self._context.refusal)
            if is_kept:
                self._context.require_storable(len(sending.body))
            waiting.is_refusing = False
        told = (session, sending.receipt)
        queues = [it for it in destinations if isinstance(it, Queue)] if target.is_limited else ()
        numbers = {each: each.assigned_sequence for each in queues}
        if not is_kept:
            self.steps = broker.send_transient_to_all(
                destinations, target.lines, sending.body, told, target.facts
            )
            self._go_on()
            is_to_be_out_first = True
        else:
            is_to_be_out_first = broker.send_to_all(
                destinations,
                target.lines,
                sending.body,
                told,
                producer_id,
                sequence,
                persistent=target.persistent,
                facts=target.facts,
            )
        for queue, before in numbers.items():
            broker.limiting.sent(queue, before, len(target.lines) + len(sending.body))
        for each in destinations:
            if isinstance(each, StoredTopic):
                session.effort += each.effort_of(is_stored=target.persistent)
        if self.steps is not None:
            session.effort = MUCH
        if is_to_be_out_first and sending.receipt is not None:
            session.unconfirmed_count += 1

    def _must_wait(
        self,
        session: Holder,
        target: Target,
        destinations: tuple[Queue | Topic, ...],
        sending: Outgoing,
    ) -> bool:
        """
        Set a message for several aside that has no room, or is behind one that has none.

        Raises:
            StoreFullError: It must not wait any more.
        """
        waiting, producer_id = self.waiting, target.producer_id
        is_behind = bool(waiting.bytes) and not self._is_next
        if is_behind and target.persistent:
            is_behind = any(map(waiting.holds, destinations))
            is_behind = is_behind or waiting.holds_producer(producer_id)
        full = self._without_room(target, sending)
        if full is not None:
            self._wait(session, sending, full, target)
            return True
        if not is_behind:
            return False
        if not waiting.has_place:
            raise StoreFullError(no_room(destinations[0]))
        waiting.add(sending, *destinations, producer_id=producer_id)
        self._context.waiting[session] = None
        return True

    def _without_room(self, target: Target, sending: Outgoing) -> RefusedError | None:
        """Say why one of a message's destinations has no room for it now; None: all have."""
        size = len(target.lines) + len(sending.body)
        for each in target.destinations or (target.destination,):  # Not by `_full_places`: quick.
            full = self._full_there(each, target, size)
            if full is not None:
                return full
        return None

    def _full_places(
        self, target: Target, sending: Outgoing
    ) -> Iterator[tuple[Queue | Topic, RefusedError]]:
        """Give each destination of a message that has no room for it now, and why."""
        size = len(target.lines) + len(sending.body)
        for each in target.destinations or (target.destination,):
            full = self._full_there(each, target, size)
            if full is not None:
                yield each, full

    def _full_there(
        self, place: Queue | Topic | Question, target: Target, size: int
    ) -> RefusedError | None:
        """Say why one destination has no room for a message of this size; None: it has."""
        is_kept = target.persistent and isinstance(place, Queue) and not place.is_temporary
        if not (is_kept or self._broker.has_room(place)):
            return self._memory_full(place)
        if is_kept and self._context.refusal is not None and self._waits_for_disk(place):
            return StoreFullError(self._context.refusal)
        if target.is_limited and isinstance(place, Queue):
            return self._broker.limiting.refusal(place, 1, size, is_stored=is_kept)
        return None

    def _is_stuck(self, first: Outgoing) -> bool:
        """
        Whether what held up the first of what waits, the last time, still does.

        Where it goes is worked out anew only when that has room, is gone, or policies were changed:
        it may go to a thousand queues, or be held against as many selectors.
        """
        stuck = self._stuck
        return (
            stuck is not None
            and stuck.sending is first
            and not stuck.place.is_outdated
            and stuck.change_count == self._broker.state.policies.change_count
            and self._full_there(stuck.place, stuck.target, stuck.size) is not None
        )

    def _note_stuck(self, target: Target, sending: Outgoing) -> bool:
        """Note where the first of what waits has no room; whether there is such a place."""
        for place, _ in self._full_places(target, sending):
            size = len(target.lines) + len(sending.body)
            changes = self._broker.state.policies.change_count
            self._stuck = _Stuck(sending, place, target, size, changes)
            return True
        return False

    def _memory_full(self, destination: Queue | Topic) -> RefusedError:
        """Say that there is no room in memory, and how long may be waited for it."""
        text = no_room(destination)
        if isinstance(destination, Queue):
            limits = self._broker.limiting.limits_of(destination)
            if limits is not None:
                can_wait = not limits.fails_at_once
                return QueueFullError(text, can_wait=can_wait, wait_ms=limits.wait_ms)
        return StoreFullError(text)

    def _send_transient(self, session: Holder, target: Target, sending: Outgoing) -> None:
        waiting = self.waiting
        broker = self._broker
        destination = target.destination
        queue = target.queue
        receipt = sending.receipt
        if queue is not None and queue.user is None:  # As `has_room`, without a call for each.
            has_room = broker.flow.volatile_bytes <= broker.settings.memory_bytes
        else:
            has_room = broker.has_room(destination)
        if (waiting.bytes and not self._is_next) or not has_room or target.is_limited:
            full = (
                self._without_room(target, sending) if has_room else self._memory_full(destination)
            )
            is_behind = bool(waiting.bytes) and not self._is_next
            if full is not None or is_behind:
                full = full or StoreFullError(no_room(destination))
                self._wait(session, sending, full, target)
                return
        waiting.is_refusing = False
        if type(destination) is Topic:
            broker.publish(destination, target.lines, sending.body, target.facts, session.id)
            session.effort += destination.effort
            if destination.spread_count:
                self.spreading = destination
                self.spreading_receipt = receipt
                session.effort = MUCH
                return
        elif queue is not None:
            broker.send_transient(queue, target.lines, sending.body, target.facts)
            if target.is_limited:
                broker.limiting.sent(queue, queue.assigned_sequence, 0)
        elif isinstance(destination, Question) and destination.answer(receipt):
            return
        if receipt is not None:
            self._confirm(session, receipt)

    def _confirm(self, session: Holder, receipt: bytes | None) -> None:
        """Say that a message was taken that only this node has, once it is out and ours still."""
        if receipt is not None:
            session.unconfirmed_count += 1
            self._broker.publishing.confirm(session, receipt)

    def wait_for_replay(self, session: Holder) -> None:
        """Let what comes wait while this connection is given what topics kept; see `spreading`."""
        under_way = self._broker.publishing.replaying.get(session)
        if under_way is not None:
            self.spreading, self.spreading_receipt = under_way, None
            session.effort = MUCH

    def is_on_its_way(self, session: Holder) -> bool:
        """Whether a message, or what topics kept, is on its way; else more comes in than leaves."""
        if self.steps is not None and not self._go_on():
            return True
        if self.spreading is not None and not self.spreading.spread_count:
            self.spreading = None
            self._confirm(session, self.spreading_receipt)
        return self.spreading is not None

    def _go_on(self) -> bool:
        """Do one step of what is left of a message; whether all of it is done."""
        assert self.steps is not None, "something is left"
        if next(self.steps, self) is self:
            self.steps = None
        return self.steps is None

    def has_taken(self, producer_id: str | None, digits: bytes | None) -> bool:
        """Whether a message is stored already: it is confirmed, however late it is by now."""
        if digits is None or not digits.isdigit():
            return False
        return self._broker.has_taken(producer_id, read_number(digits, "producer-sequence"))

    def _wait(self, session: Holder, sending: Outgoing, full: RefusedError, target: Target) -> None:
        """Set a message aside until there is room, or refuse it if it must not wait any more."""
        waiting, wait_ms = self.waiting, 0
        if self._broker.advising.listeners:
            self._say_full(session, target, sending)
        if isinstance(full, QueueFullError):
            wait_ms = full.wait_ms
            if not full.can_wait:
                raise full
        if not waiting.is_allowed:
            raise full
        destinations = target.destinations or (target.destination,)
        waiting.add(sending, *destinations, producer_id=target.producer_id, wait_ms=wait_ms)
        self._context.waiting[session] = None

    def _say_full(self, session: Holder, target: Target, sending: Outgoing) -> None:
        """Let who listens know of what has no room, and of who must wait for it."""
        for place, full in self._full_places(target, sending):
            usage, waits = "memory", self.waiting.is_allowed
            if isinstance(full, QueueFullError):
                usage, waits = "queue", waits and full.can_wait
            self._broker.advising.full(place, usage, session.id if waits else "")

    def send_waiting(self, session: Holder, is_spent: IsSpent) -> None:
        """
        Do what waited for room, as far as there is room now, and refuse what waited too long.

        Where `is_spent` says that the time is over, the rest goes on waiting.
        """
        waiting = self.waiting
        effort_max = self._broker.settings.step_count_max
        effort = 0
        while effort < effort_max or not is_spent():
            effort = effort % effort_max + 1 + session.effort
            session.effort = 0
            if self.is_on_its_way(session):
                return
            if not waiting:
                self._context.waiting.pop(session, None)
                return
            first = waiting.first()
            if isinstance(first, Goodbye):
                waiting.remove_first()
                session.goodbye(first)
                continue
            if not waiting.is_late and (
                self._is_stuck(first) or not self._has_room(session, first)
            ):
                return
            if not self._send_first(session, first):
                return

    def _send_first(self, session: Holder, first: Outgoing) -> bool:
        """Send the first of what waits, or refuse it; false: it is not known yet where it goes."""
        waiting = self.waiting
        self._is_next = is_done = True
        try:
            target = session.target_of(first)
            full = self._without_room(target, first)
            if full is not None:
                waiting.is_refusing = True
                self._refusing_since = self._context.refused_at
                raise full
            self.send(session, target, first)
        except RefusedError as error:
            session.refuse(error, first)
        except RouteUnknownError:
            is_done = False
        finally:
            self._is_next = False
            self._stuck = None
            if is_done:
                waiting.remove_first()
        return is_done

    def _has_room(self, session: Holder, sending: Outgoing) -> bool:
        try:
            target = session.target_of(sending)
        except RefusedError:
            return True  # It is refused in its turn.
        except RouteUnknownError:
            return False
        return not self._note_stuck(target, sending)

    def stop(self, session: Holder) -> None:
        """Forget what waits, and what was asked: the connection is gone."""
        self._broker.errands.drop(session)
        self._stuck = self.steps = None
        self.waiting.clear()
        self._context.waiting.pop(session, None)
