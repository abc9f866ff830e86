"""
Messages of one connection on their way into the broker, at once or when there is room.

What is persistent goes into the batch. What is not takes memory, so it may have to wait; and what
goes to many subscribers is on its way for a while, and what comes behind it waits for that.

Owned by its holdings.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import RefusedError, StoreFullError
from holdfast.sessions.context import SessionContext
from holdfast.sessions.holder import Holder
from holdfast.sessions.open_transactions import OpenTransactions
from holdfast.sessions.requirements import no_room, read_number
from holdfast.sessions.target import Goodbye, Outgoing, Target
from holdfast.sessions.waiting_sends import WaitingSends

MUCH: Final = 1 << 30
"""The effort of a request after which the clock is looked at."""


class Sending:
    """What one connection sends."""

    __slots__ = (
        *("_broker", "_context", "_is_next", "_transactions"),
        *("spreading", "spreading_receipt", "waiting"),
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
        self.spreading: Topic | None = None
        """Where the last message published is on its way to many; what comes behind it waits."""
        self.spreading_receipt: bytes | None = None

    def send(self, session: Holder, target: Target, sending: Outgoing) -> None:
        """
        Send a message, or let it wait until there is room.

        Raises:
            RefusedError: There is no room, and it must not wait; or it is none the broker takes.
        """
        if target.destinations is not None:
            session.effort = len(target.destinations)
        if target.transaction is not None:
            self._transactions.hold(session, target, sending)
            return
        if target.destinations is not None:
            self._send_to_all(session, target, target.destinations, sending)
            return
        if not target.persistent:
            self._send_transient(session, target, sending)
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
            raise StoreFullError(refusal)
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
            waiting.is_refusing = False
        told = (session, sending.receipt)
        if not is_kept:
            broker.send_transient_to_all(
                destinations, target.lines, sending.body, told, target.facts
            )
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
        full = self._without_room(target)
        if not is_behind and full is None:
            return False
        if not (waiting.is_allowed if full is not None else waiting.has_place):
            raise StoreFullError(no_room(full or destinations[0]))
        waiting.add(sending, *destinations, producer_id=producer_id)
        self._context.waiting[session] = None
        return True

    def _without_room(self, target: Target) -> Queue | Topic | None:
        """Give a destination that would keep a message in memory only, and has no room now."""
        for each in target.destinations or (target.destination,):
            is_kept = target.persistent and isinstance(each, Queue) and not each.is_temporary
            if not (is_kept or self._broker.has_room(each)):
                return each
        return None

    def _send_transient(self, session: Holder, target: Target, sending: Outgoing) -> None:
        waiting = self.waiting
        broker = self._broker
        destination = target.destination
        queue = target.queue
        receipt = sending.receipt
        if queue is not None:  # As `has_room` says it, without a call for each message.
            has_room = broker.flow.volatile_bytes <= broker.settings.memory_bytes
        else:
            has_room = broker.has_room(destination)
        if (waiting.bytes and not self._is_next) or not has_room:
            self._wait(session, sending, destination)
            return
        waiting.is_refusing = False
        if type(destination) is Topic:
            broker.publish(destination, target.lines, sending.body, target.facts)
            session.effort = destination.effort
            if destination.spread_count:
                self.spreading = destination
                self.spreading_receipt = receipt
                session.effort = MUCH
                return
        elif queue is not None:
            broker.send_transient(queue, target.lines, sending.body, target.facts)
        if receipt is not None:
            self._confirm(session, receipt)

    def _confirm(self, session: Holder, receipt: bytes | None) -> None:
        """Say that a message was taken that only this node has, once it is out and ours still."""
        if receipt is not None:
            session.unconfirmed_count += 1
            self._broker.publishing.confirm(session, receipt)

    def is_on_its_way(self, session: Holder) -> bool:
        """Whether a message published is still on its way; else more would come in than leaves."""
        if self.spreading is not None and not self.spreading.spread_count:
            self.spreading = None
            self._confirm(session, self.spreading_receipt)
        return self.spreading is not None

    def has_taken(self, producer_id: str | None, digits: bytes | None) -> bool:
        """Whether a message is stored already: it is confirmed, however late it is by now."""
        if digits is None or not digits.isdigit():
            return False
        return self._broker.has_taken(producer_id, read_number(digits, "producer-sequence"))

    def _wait(self, session: Holder, sending: Outgoing, destination: Queue | Topic) -> None:
        """Set a message aside until there is room, or refuse it if it must not wait any more."""
        waiting = self.waiting
        if not waiting.is_allowed:
            raise StoreFullError(no_room(destination))
        waiting.add(sending, destination)
        self._context.waiting[session] = None

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
            if not waiting.is_late and not self._has_room(session, first):
                return
            self._send_first(session, first)

    def _send_first(self, session: Holder, first: Outgoing) -> None:
        waiting = self.waiting
        self._is_next = True
        try:
            target = session.target_of(first)
            full = self._without_room(target)
            if full is not None:
                waiting.is_refusing = True
                raise StoreFullError(no_room(full))
            self.send(session, target, first)
        except RefusedError as error:
            session.refuse(error, first)
        finally:
            self._is_next = False
            waiting.remove_first()

    def _has_room(self, session: Holder, sending: Outgoing) -> bool:
        try:
            target = session.target_of(sending)
        except RefusedError:
            return True  # It is refused in its turn.
        return self._without_room(target) is None

    def stop(self, session: Holder) -> None:
        """Forget what waits: the connection is gone."""
        self.waiting.clear()
        self._context.waiting.pop(session, None)
