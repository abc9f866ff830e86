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
from holdfast.sessions.sending_room import DISK, Lack, SendingRoom, what_has_room
from holdfast.sessions.target import Goodbye, Outgoing, Question, Target
from holdfast.sessions.waiting_sends import Waiting, WaitingSends

MUCH: Final = 1 << 30
"""The effort of a request after which the clock is looked at."""


class _Stuck(NamedTuple):
    """What was found of a message that has no room."""

    place: Queue | Topic
    """Where there was none."""
    target: Target
    size: int
    change_count: int
    """How often the policies had been changed then."""


class Sending:
    """What one connection sends."""

    __slots__ = (
        *("_broker", "_context", "_is_next", "_refusing_since", "_room", "_stuck"),
        "_transactions",
        *("question_count", "spreading", "spreading_receipt", "steps", "waiting"),
    )

    def __init__(
        self, broker: Broker, context: SessionContext, transactions: OpenTransactions
    ) -> None:
        self._broker = broker
        self._context = context
        self._transactions = transactions
        self.waiting = WaitingSends(context, broker.settings)
        self._room = SendingRoom(broker, context)
        self._is_next = False
        """What is being done is the first of what waited for where it goes."""
        self._stuck: dict[int, _Stuck] = {}
        """Why what waits did not go the last time it was looked at, by its number."""
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
            if waiting.has_place(sending, session.payer):
                waiting.add(sending, queue, producer_id=producer_id, user=session.payer)
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
        if not self._room.waits_for_disk(place):
            if self._broker.advising.listeners:
                self._broker.advising.full(place, "store", "")
            raise StoreFullError(refusal)
        if self._refusing_since != self._context.refused_at:
            waiting.wait_again((DISK,))  # There was room meanwhile.
        self._wait(session, sending, Lack(place, DISK, StoreFullError(refusal)), target)

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
        lack = self._room.lacking(session, target, sending)
        if lack is None:
            self.waiting.wait_again(what_has_room(target))
            return False
        self._wait(session, sending, lack, target)
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
            waiting.wait_again(what_has_room(target))
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
        lack = self._room.lacking(session, target, sending)
        if lack is not None:
            self._wait(session, sending, lack, target)
            return True
        is_behind = bool(waiting.bytes) and not self._is_next
        if not is_behind or not (
            any(map(waiting.holds, destinations)) or waiting.holds_producer(producer_id)
        ):
            return False
        if not waiting.has_place(sending, session.payer):
            raise StoreFullError(no_room(destinations[0]))
        waiting.add(sending, *destinations, producer_id=producer_id, user=session.payer)
        self._context.waiting[session] = None
        return True

    def _is_stuck(self, session: Holder, number: int) -> bool:
        """
        Whether what held up something that waits, the last time, still does.

        Where it goes is worked out anew only when that has room, is gone, or policies were changed:
        it may go to a thousand queues, or be held against as many selectors.
        """
        stuck = self._stuck.get(number)
        if (
            stuck is None
            or stuck.place.is_outdated
            or stuck.change_count != self._broker.state.policies.change_count
        ):
            return False
        size = stuck.size
        lack = self._room.lack_there(session, stuck.place, stuck.target, size, size)
        return lack is not None and not lack.is_final

    def _note_stuck(self, session: Holder, target: Target, waiting: Waiting) -> bool:
        """Note where something that waits has no room; whether there is such a place."""
        sending = waiting.frame
        assert not isinstance(sending, Goodbye), "it goes somewhere"
        lack = self._room.lacking(session, target, sending)
        if lack is None or lack.is_final:
            return False
        size = len(target.lines) + len(sending.body)
        changes = self._broker.state.policies.change_count
        self._stuck[waiting.number] = _Stuck(lack.place, target, size, changes)
        return True

    def _send_transient(self, session: Holder, target: Target, sending: Outgoing) -> None:
        waiting = self.waiting
        broker = self._broker
        destination = target.destination
        queue = target.queue
        receipt = sending.receipt
        if queue is not None and not queue.is_temporary:  # As `has_room`, without a call for each.
            has_room = broker.flow.volatile_bytes <= broker.flow.settings.memory_bytes
        else:
            has_room = not destination.is_temporary and broker.has_room(destination)
        if waiting.bytes or not has_room or target.is_limited:
            lack = self._room.lacking(session, target, sending)
            if lack is None and not self._is_next and self._is_behind(target):
                lack = Lack(destination, None, StoreFullError(no_room(destination)))
            if lack is not None:
                self._wait(session, sending, lack, target)
                return
        if waiting.refusing:
            waiting.wait_again(what_has_room(target))
        if type(destination) is Topic:
            broker.publish(destination, target.lines, sending.body, target.facts, session.id)
            session.effort += destination.effort
            if destination.spread_count:
                self.spreading = destination
                self.spreading_receipt = receipt
                session.effort = MUCH
                return
        elif queue is not None:
            broker.send_transient(queue, target.lines, sending.body, target.facts, session)
            if target.is_limited:
                broker.limiting.sent(queue, queue.assigned_sequence, 0)
        elif isinstance(destination, Question) and destination.answer(receipt):
            return
        if receipt is not None:
            self._confirm(session, receipt)

    def _is_behind(self, target: Target) -> bool:
        """Whether something waits that was sent to the same place, or by the same producer."""
        waiting = self.waiting
        return waiting.holds(target.destination) or waiting.holds_producer(target.producer_id)

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

    def _wait(self, session: Holder, sending: Outgoing, lack: Lack, target: Target) -> None:
        """Set a message aside until there is room, or refuse it if it must not wait any more."""
        waiting, full, wait_ms = self.waiting, lack.error, 0
        may_wait = not waiting.is_refusing(lack.what) and waiting.has_place(sending, session.payer)
        if self._broker.advising.listeners:
            self._say_full(session, target, sending, may_wait=may_wait)
        if isinstance(full, QueueFullError):
            wait_ms = full.wait_ms
            may_wait = may_wait and full.can_wait
            self._broker.sending.answers_refused_total += lack.is_final
        if not may_wait:
            raise full
        destinations = target.destinations or (target.destination,)
        waiting.add(
            sending,
            *destinations,
            producer_id=target.producer_id,
            wait_ms=wait_ms,
            user=session.payer,
        )
        self._context.waiting[session] = None

    def _say_full(
        self, session: Holder, target: Target, sending: Outgoing, *, may_wait: bool
    ) -> None:
        """Let who listens know of what has no room, and of who must wait for it."""
        for place, _, full in self._room.all_lacking(session, target, sending):
            usage, waits = "memory", may_wait
            if isinstance(full, QueueFullError):
                usage, waits = "queue", waits and full.can_wait
            self._broker.advising.full(place, usage, session.id if waits else "")

    def send_waiting(self, session: Holder, is_spent: IsSpent) -> None:
        """
        Send what waited and has room now, in its order; refuse what has waited too long.

        What has no room holds up what goes to the same places, and nothing else.
        """
        waiting = self.waiting
        effort_max = self._broker.settings.step_count_max
        effort = 0
        held: set[object] = set()
        for each in waiting.line():
            if effort >= effort_max and is_spent():
                return
            effort = effort % effort_max + 1 + session.effort
            session.effort = 0
            if self.is_on_its_way(session):
                return
            if not self._go_on_with(session, each, held) or waiting.all_goes_to(held):
                return
        if not self.is_on_its_way(session) and not waiting:
            self._context.waiting.pop(session, None)

    def _go_on_with(self, session: Holder, each: Waiting, held: set[object]) -> bool:
        """
        Send something that waits, or leave it; whether what is behind it may be looked at.

        Args:
            held: Where something earlier has no room, and what sent it.
        """
        if isinstance(each.frame, Goodbye):
            if not held:  # It is the last word.
                self.waiting.remove(each.number)
                session.goodbye(each.frame)
            return not held
        if not held.isdisjoint(each.places):
            held.update(each.places)
            return True
        try:
            if self._is_held_up(session, each):
                held.update(each.places)
                return True
        except RouteUnknownError:
            return False
        return self._send_next(session, each)

    def _send_next(self, session: Holder, waiting: Waiting) -> bool:
        """Send something that waited, or refuse it; false: it is not known yet where it goes."""
        sending = waiting.frame
        assert not isinstance(sending, Goodbye), "it goes somewhere"
        self._is_next = is_done = True
        try:
            target = session.target_of(sending)
            lack = self._room.lacking(session, target, sending)
            if lack is not None:
                self.waiting.refuse(lack.what)
                self._refusing_since = self._context.refused_at
                self._broker.sending.answers_refused_total += lack.is_final
                raise lack.error
            self.send(session, target, sending)
        except RefusedError as error:
            session.refuse(error, sending)
        except RouteUnknownError:
            is_done = False
        finally:
            self._is_next = False
            self._stuck.pop(waiting.number, None)
            if is_done:
                self.waiting.remove(waiting.number)
        return is_done

    def _is_held_up(self, session: Holder, waiting: Waiting) -> bool:
        """
        Whether something has no room, and may wait for it.

        Raises:
            RouteUnknownError: It takes more than one turn to find out where it goes.
        """
        if self.waiting.is_late(waiting):
            return False
        if self._is_stuck(session, waiting.number):
            return True
        assert not isinstance(waiting.frame, Goodbye), "it goes somewhere"
        try:
            target = session.target_of(waiting.frame)
        except RefusedError:
            return False  # It is refused in its turn.
        return self._note_stuck(session, target, waiting)

    def stop(self, session: Holder) -> None:
        """Forget what waits, and what was asked: the connection is gone."""
        self._broker.errands.drop(session)
        self.steps = None
        self._stuck.clear()
        self.waiting.clear()
        self._context.waiting.pop(session, None)
