"""
What a session has of the broker, and the one door through which it asks for more.

Every protocol's session has one: here it is decided which destination a name means for this client
and whether it may use it, what it holds is counted, and all of it is given back when it is gone.

Invariants:
    No session reaches the broker but through its holdings.
    Who leaves is given nothing more from the first step of it on.

Owned by its session, which each call brings along (`holder` says why).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.broker.returning import SILENT, Rejection
from holdfast.broker.serving.consumer import (
    NO_CLAIM,
    NO_WISHES,
    AcknowledgeMode,
    Claim,
    DeliveryForm,
    MessageSelector,
    TopicWishes,
    subscription_cost,
)
from holdfast.broker.serving.late import settled_over
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.broker.serving.transactions import Transaction
from holdfast.errors import DestinationError, RefusedError, StoreError, StoreFullError
from holdfast.model.destination import Destination, Kind
from holdfast.model.facts import Cause
from holdfast.model.policy_option import Value
from holdfast.model.producer_ids import said_id
from holdfast.model.records import MessageRecord, ReturnCause
from holdfast.sessions.client_ids import forget_left, let_go
from holdfast.sessions.context import SessionContext
from holdfast.sessions.earlier import EarlierConnections
from holdfast.sessions.holder import Holder, unnamed
from holdfast.sessions.open_transactions import OpenTransactions
from holdfast.sessions.permissions import require_allowed, require_late, sharer
from holdfast.sessions.requirements import (
    require_served_name,
    require_short,
    require_subscription_room,
)
from holdfast.sessions.sending import Sending
from holdfast.sessions.session import Session
from holdfast.sessions.target import Action

ReadMessage = Callable[[int], MessageRecord]

_WITHOUT_ROOM_MS: Final = 1000
"""How long a message rests that is rejected and cannot be stored as a dead letter now."""


class Holdings:
    """What one connection holds."""

    __slots__ = (
        *("_leaving", "_ordinal", "read_message", "acknowledge", "broker", "by_ordinal"),
        *("context", "earlier", "has_browsed", "has_said_goodbye", "rollback", "rollback_count"),
        *("sending", "subscriptions", "transactions"),
    )

    def __init__(self, broker: Broker, context: SessionContext, read_message: ReadMessage) -> None:
        self.broker = broker
        self.context = context
        self.read_message = read_message
        self.acknowledge = broker.acknowledge
        """The broker's own, with no step between: it is asked a hundred thousand times a second."""
        self.transactions = OpenTransactions(broker, context)
        self.sending = Sending(broker, context, self.transactions)
        self.subscriptions: dict[str, Subscription] = {}
        self.by_ordinal: dict[bytes, Subscription] = {}
        """By the number that each has on this connection, in digits."""
        self._ordinal = 0
        self.rollback: Iterator[None] | None = None
        """The rest of a roll-back, or nothing while `earlier` ones leave; what comes behind it
        waits, as it counts on what that gives back."""
        self.rollback_count = 0
        """The operations of that transaction; not 0 while there is something that is waited for."""
        self.earlier = EarlierConnections()
        self._leaving: Iterator[None] | None = None
        self.has_browsed = False
        """Whether it has been shown what was not given to it."""
        self.has_said_goodbye = False
        """Whether its client ends the connection, else it is lost."""

    def target(self, session: Holder, written: Destination, action: Action) -> Queue | Topic:
        """
        Give the destination that a name means for this client, declaring it if it is new.

        Raises:
            ForbiddenError: It may not be used so by this client.
            DestinationError: It may not be used so, it cannot be, or there are too many.
        """
        require_allowed(session, self.broker, (written,), action)
        require_served_name(written)
        return self._find(session, written)

    def _find(self, session: Holder, written: Destination) -> Queue | Topic:
        kind, name, broker = written.kind, written.name, self.broker
        temporaries, user = broker.temporaries, sharer(session, broker)
        if kind is Kind.QUEUE:
            return broker.queue(name)
        if kind is Kind.TOPIC:
            return broker.topic(name)
        if kind is Kind.TEMPORARY_QUEUE:
            return temporaries.queue(f"{session.address}.{name}", session, session.client, user)
        if kind is Kind.REMOTE_TEMPORARY_QUEUE:
            return temporaries.queue(name, user=user)
        if kind is Kind.TEMPORARY_TOPIC:
            return temporaries.topic(f"{session.address}.{name}", session, session.client, user)
        return temporaries.topic(name, user=user)

    def targets(self, session: Holder, written: Sequence[Destination]) -> tuple[Queue | Topic, ...]:
        """
        Give the destinations that names mean for this client, each once, declaring what is new:
        all, or none. What it wrote itself was found to be allowed before; where policies send a
        message on, nobody is asked. Where it goes beside that is for the broker to say.

        Raises:
            DestinationError: One cannot be, or there are too many.
        """
        for each in written:
            require_served_name(each)
        if len(written) > 1:
            names = [each.name for each in written if each.kind is Kind.QUEUE]
            destinations = self.broker.destinations
            new = sum(not destinations.has_queue(name) for name in names)
            destinations.require_queues(new)
        # What may not be there comes before what would be declared.
        known = {each: self._find(session, each) for each in written if each.kind is not Kind.QUEUE}
        found = dict.fromkeys(
            known[each] if each in known else self._find(session, each) for each in written
        )
        return tuple(found)

    def require_place(
        self,
        session: Holder,
        subscription_id: str | None,
        written: Destination | str,
        selector: MessageSelector | None = None,
    ) -> None:
        """
        Refuse a consumer that there may not be.

        Raises:
            DestinationError: Its id is in use or too long, or there are too many.
        """
        if subscription_id is not None and subscription_id in self.subscriptions:
            raise DestinationError(f"subscription id {subscription_id!r} is in use already")
        require_short(subscription_id or "", "subscription id")
        cost = subscription_cost(subscription_id or "", str(written))
        cost += 0 if selector is None else selector.cost_bytes
        count_max = self.broker.settings.subscription_count_max
        if len(self.subscriptions) >= count_max:
            raise DestinationError(f"at most {count_max:,} subscriptions on one connection")
        require_subscription_room(self.broker, cost, sharer(session, self.broker))

    def prefetch(
        self, destination: Queue | Topic, wanted: int | None, *, browses: bool = False
    ) -> int:
        """Give how much a consumer may have at once that wishes so much; 0: as much as may be."""
        if wanted is None:
            policy = self.broker.policies.of(destination)
            return policy.browser_prefetch if browses else policy.prefetch
        prefetch_max = self.broker.settings.prefetch_max
        return min(wanted, prefetch_max) or prefetch_max

    def subscribe(
        self,
        session: Holder,
        destination: Queue | Topic,
        *,
        subscription_id: str | None,
        written: Destination,
        mode: AcknowledgeMode,
        prefetch: int,
        form: Callable[[Subscription], DeliveryForm],
        selector: MessageSelector | None = None,
        redelivery: Mapping[str, Value] | None = None,
        claim: Claim = NO_CLAIM,
        browses: bool = False,
        wishes: TopicWishes = NO_WISHES,
    ) -> Subscription:
        """
        Add a consumer with a place (`require_place`); without an id it is given one.

        Args:
            browses: It only looks through what is on a queue.
        """
        ordinal = self.next_ordinal()
        subscription = Subscription(
            session,
            subscription_id if subscription_id is not None else unnamed(ordinal),
            mode=mode,
            prefetch=prefetch,
            destination=str(written),
            client=session.client,
            selector=selector,
        )
        subscription.ordinal, subscription.user = ordinal, sharer(session, self.broker)
        subscription.redelivery = redelivery
        subscription.claim = claim
        subscription.wish(wishes)
        self.subscriptions[subscription.id] = self.by_ordinal[b"%d" % ordinal] = subscription
        if browses:
            assert isinstance(destination, Queue)
            self.broker.browse(subscription, destination)
        else:
            self.broker.subscribe(subscription, destination)
        subscription.form = form(subscription)
        return subscription

    def next_ordinal(self) -> int:
        """Give the number of one consumer more on this connection."""
        self._ordinal += 1
        return self._ordinal

    def unsubscribe(
        self, session: Holder, subscription: Subscription, cause: ReturnCause = ReturnCause.RELEASED
    ) -> None:
        """End a consumer; what it holds goes back, for this cause."""
        del self.subscriptions[subscription.id]
        self.by_ordinal.pop(b"%d" % subscription.ordinal, None)
        self.broker.unsubscribe(subscription, cause)
        session.recount_room()  # What was on its way to it is not written any more.

    def reply_after_pending(self, session: Holder, receipt: bytes) -> None:
        """Tell the client when all that it asked for so far lasts."""
        self.broker.receipts.reply_after_pending(session, receipt)

    def acknowledge_within(
        self,
        session: Holder,
        transaction: Transaction,
        subscription: Subscription,
        key: int,
        receipt: bytes | None,
        *,
        exact: bool,
    ) -> None:
        """
        Acknowledge in a transaction; `exact` leaves what was delivered before alone.

        Raises:
            RefusedError: It is not in delivery, or the transaction has grown too large.
        """
        for each, keys in settled_over(subscription, key, exact=exact):
            transaction.add_settlement(each, keys)
            self.broker.refill(each)
        if receipt is not None:
            session.reply(receipt)

    def acknowledge_late(
        self,
        session: Holder,
        queue_number: int,
        key: int,
        receipt: bytes | None,
        transaction: Transaction | None,
    ) -> None:
        """
        Acknowledge what was delivered on another connection of this client, by its identity.

        Raises:
            RefusedError: It cannot have been, as far as is known.
            ForbiddenError: It may not read there, and it is not known that it had this last.
        """
        require_late(session, self.broker, queue_number, key)
        if transaction is None:
            self.broker.acknowledge_identity(queue_number, key, session, receipt, session.client)
            return
        self.broker.hold_identity(transaction, queue_number, key, session.client)
        if receipt is not None:
            session.reply(receipt)

    def reject(
        self,
        session: Holder,
        subscription: Subscription,
        key: int,
        receipt: bytes | None,
        said: Rejection = SILENT,
        *,
        why: ReturnCause = ReturnCause.REJECTED,
    ) -> None:
        """
        Let a delivery come again, now or later, or send it to the dead-letter queue.

        Raises:
            RefusedError: It is not in delivery, or it cannot be read now, and comes again.
        """
        due_ms = self.broker.returning.due_of(subscription, key, said)
        if due_ms is not None:
            self.broker.give_back(subscription, key, due_ms, session, receipt, why)
            return
        has_come_again = said.requeue is None and subscription.queue is not None
        if has_come_again and self.broker.returning.rule_of(subscription) is not None:
            self._bury(session, subscription, key, receipt, Cause.EXHAUSTED)
        else:
            self._bury(session, subscription, key, receipt, Cause.REJECTED)

    def has_lost(self, subscription: Subscription, key: int) -> bool:
        """Note that a client says something of a delivery; whether that was taken from it."""
        is_lost = subscription.answered(key)
        if is_lost:
            self.broker.refill(subscription)
        return is_lost

    def take_overdue(self, session: Holder, subscription: Subscription, keys: list[int]) -> None:
        """Reject in a consumer's stead what it had for too long; it comes again if that fails."""
        for key in keys:
            try:
                self.reject(session, subscription, key, None, why=ReturnCause.TIMEOUT)
            except RefusedError:
                if key in subscription.unacknowledged:
                    self.broker.put_back(subscription, key)

    def _bury(
        self,
        session: Holder,
        subscription: Subscription,
        key: int,
        receipt: bytes | None,
        cause: Cause,
    ) -> None:
        """
        Send a delivery to the dead-letter queue.

        Raises:
            RefusedError: It cannot be read now, or only memory has it and nothing new is stored; it
                comes again.
        """
        queue = subscription.queue
        record: MessageRecord | TransientMessage | None = None
        message_id = ""
        is_held = queue is not None and key in subscription.unacknowledged
        if queue is not None and is_held and self.broker.settling.needs_content(queue, key):
            record = queue.transients.find(key) if key < 0 else queue.cache.find(key)
            named = key if key > 0 else f"t{self.context.term}.{-key}"
            message_id = f"ID:{self.context.cluster}-{queue.number}-{named}"
            if record is None and key > 0:
                try:
                    record = self.read_message(queue.index.record_number(key))
                except StoreError as error:
                    self.broker.put_back(subscription, key)
                    raise RefusedError(
                        f"the message cannot be read now; once it can, it comes again: {error}"
                    ) from error
            if key < 0 and record is not None and (refusal := self.context.refusal) is not None:
                due_ms = self.broker.returning.now_ms + _WITHOUT_ROOM_MS
                self.broker.give_back(subscription, key, due_ms, session, None)
                raise StoreFullError(f"{refusal}; the rejected message comes again")
        self.broker.reject(subscription, key, record, session, receipt, message_id, cause)

    def commit(
        self,
        session: Holder,
        transaction: Transaction,
        receipt: bytes | None,
        producer_id: str | None = None,
        sequence: int = 0,
        finished: tuple[str, int] | None = None,
    ) -> None:
        """
        Commit: all of it or nothing; `finished` tells whose producers are done with.

        Raises:
            RefusedError: There is no room for it, or it is not this producer's next.
            RouteUnknownError: To find out where it goes takes more than one turn; nothing is done.
        """
        if self.sending.waiting.holds_producer(producer_id):
            said = said_id(producer_id or "")
            text = f"messages of producer {said} with earlier numbers wait for room"
            raise StoreFullError(text)
        has_sends = transaction.records or transaction.targets
        has_taken = self.broker.has_taken(producer_id, sequence)
        if has_sends and not has_taken:
            self.transactions.prepare(session, transaction, self.sending.waiting.holds)
        if finished is not None:
            self.broker.finished.forget(*finished)
        # Many small ones are as much as one that is large.
        session.effort += transaction.numbered_count >> 3
        self.broker.commit(transaction, session, receipt, producer_id, sequence)
        session.effort += transaction.asked
        self.transactions.committed(transaction, is_new=not has_taken)
        if receipt is not None and transaction.publications and not has_taken:
            session.unconfirmed_count += 1

    def roll_back(self, session: Holder, transaction: Transaction, receipt: bytes | None) -> None:
        """Roll back, in steps."""
        self.transactions.forget(transaction)
        steps = self._rolling_back(session, transaction, receipt)
        self.wait_for(session, steps, transaction.operation_count)

    def _rolling_back(
        self, session: Holder, transaction: Transaction, receipt: bytes | None
    ) -> Iterator[None]:
        yield from self.broker.abort(transaction)
        self.rollback_count = 0
        if receipt is not None:
            session.reply(receipt)

    def wait_for(self, session: Holder, steps: Iterator[None], count: int) -> None:
        """Do nothing else before these steps are done, which give back about so much."""
        self.rollback = steps
        self.rollback_count = count
        # It is gone on with before anything.
        session.effort = self.broker.settings.step_count_max

    def wait_for_earlier(self, session: Holder, lost: Iterable[Session]) -> None:
        """Do nothing else before these connections of the same client have left."""
        self.earlier.add(lost)
        self.wait_for(session, iter(()), 1)  # They give back what they hold, each for itself.

    def go_on_rolling_back(self, is_spent: IsSpent) -> bool:
        """Do some of these steps; True if all of them are done."""
        if self.earlier and not self.earlier.have_left(is_spent):
            return False
        if self.rollback is not None:
            for _ in self.rollback:
                if is_spent():
                    return False
            self.rollback = None
            self.rollback_count = 0
        return True

    @property
    def are_none(self) -> bool:
        """Whether nothing is held, and nothing waits."""
        held = self.subscriptions or self.transactions.by_name or self.rollback_count
        return not (held or self.sending.waiting)

    def leaving(self, session: Holder) -> Iterator[None]:
        """Give all of it back in short steps, the same ones for all who ask."""
        if self._leaving is None:
            self._leaving = self._leave_in_steps(session)
        return self._leaving

    def _leave_in_steps(self, session: Holder) -> Iterator[None]:
        try:
            yield from self._give_back(session)
        except Exception:
            self._leaving = None  # It can be begun anew.
            raise

    def _give_back(self, session: Holder) -> Iterator[None]:
        """Give back what this connection holds; nothing is delivered from the first step on."""
        self.by_ordinal.clear()
        let_go(session, self.context)
        self.sending.stop(session)
        subscriptions = self.subscriptions
        for subscription in subscriptions.values():
            subscription.prefetch = 0
        cause = ReturnCause.RELEASED if self.has_said_goodbye else ReturnCause.LOST
        while subscriptions:
            subscription = subscriptions.pop(next(iter(subscriptions)))
            if cause is ReturnCause.LOST:
                self.bury_lost(session, subscription.sole_holder)
            yield from self.broker.left(subscription, cause)
            yield
        yield from self.rollback or ()
        yield from self.transactions.give_back()
        comes_back = bool(session.client) and not self.has_said_goodbye
        yield from self.broker.drop_temporary(session, comes_back=comes_back)
        forget_left(session, self.context)

    def bury_lost(self, session: Holder, subscription: Subscription) -> None:
        """Send what has taken its last consumer with it to the dead-letter queue, if it can be."""
        key = self.broker.returning.dies_with(subscription)
        if key is not None:
            try:
                self._bury(session, subscription, key, None, Cause.LOST)
            except RefusedError:
                pass  # It comes again, and is dead then, should it take one more with it.

    def held_count(self, session: Holder) -> int:
        """What there is to give back."""
        held = sum(it.left_in for it in self.subscriptions.values()) + self.rollback_count
        return held + self.transactions.held_count + self.broker.temporaries.count_of(session)
