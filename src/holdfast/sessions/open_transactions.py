"""
The transactions of one connection: begun, added to, and committed or rolled back.

Invariants:
    What they hold is counted as it grows: nobody has to look at each of a hundred thousand.

Owned by its holdings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.broker.addressing import RouteUnknownError
from holdfast.broker.broker import Broker
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.broker.serving.transactions import Transaction
from holdfast.errors import (
    DestinationError,
    ForbiddenError,
    RefusedError,
    StoreFullError,
    TransactionError,
)
from holdfast.model.destination import Destination
from holdfast.sessions.context import SessionContext
from holdfast.sessions.holder import Holder
from holdfast.sessions.permissions import (
    require_granted,
    require_may_pass_policies,
    require_settled,
    sharer,
    who_is,
)
from holdfast.sessions.requirements import no_room
from holdfast.sessions.target import Action, Outgoing, Target


class _Judged:
    """What one transaction sends, as its client has written that."""

    __slots__ = ("_last", "change_count", "has_placed", "roles", "written")

    def __init__(self, change_count: int) -> None:
        self.change_count = change_count
        """How often users and grants had changed when all of it was allowed."""
        self.roles: frozenset[str] | None = None
        """The roles by which it was allowed; None while nothing was sent."""
        self.written: dict[Destination, None] = {}
        self.has_placed = False
        """Whether some of it passes policies by, as an operator's copies do."""
        self._last: tuple[Destination, ...] = ()

    def add(self, target: Target, roles: frozenset[str]) -> None:
        written = target.written
        self.has_placed |= target.is_placed
        if self.roles is None:
            self.roles = roles  # If they change in between all is judged again at the end.
        if written is not self._last:  # As most are that come one after the other.
            self._last = written
            self.written |= dict.fromkeys(written)


class OpenTransactions:
    """What has begun and is not over."""

    __slots__ = ("_broker", "_context", "_judged", "by_name", "bytes")

    def __init__(self, broker: Broker, context: SessionContext) -> None:
        self._broker = broker
        self._context = context
        self.by_name: dict[str, Transaction] = {}
        self._judged: dict[str, _Judged] = {}
        """By their names: what they send was found to be allowed."""
        self.bytes = 0
        """What they hold."""

    def begin(self, name: str, session: Holder) -> None:
        """
        Begin one.

        Raises:
            TransactionError: It has begun already, or there are too many.
        """
        if name in self.by_name:
            raise TransactionError(f"transaction {name!r} has begun already")
        count_max = self._broker.settings.transaction_count_max
        if len(self.by_name) >= count_max:
            raise TransactionError(f"at most {count_max:,} open transactions on one connection")
        transaction = self.by_name[name] = self._broker.begin(name, sharer(session, self._broker))
        self._judged[name] = _Judged(self._broker.access_book.change_count)
        self.bytes += transaction.own_bytes

    def get(self, name: str) -> Transaction:
        """
        Give an open transaction of this connection.

        Raises:
            TransactionError: It has not begun.
        """
        transaction = self.by_name.get(name)
        if transaction is None:
            raise TransactionError(f"transaction {name!r} has not begun; send BEGIN first")
        return transaction

    def hold(self, session: Holder, target: Target, sending: Outgoing) -> None:
        """
        Hold a message until commit.

        Raises:
            RefusedError: Its transaction has not begun, or there is no room in it.
        """
        assert target.transaction is not None, "a part of one"
        transaction = self.get(target.transaction)
        self._judged[transaction.name].add(target, who_is(session).roles)
        if target.mirrors:
            transaction.mirrors.update(target.mirrors)
        if target.destinations is None:
            self.bytes += self._broker.hold(
                transaction,
                target.destination,
                target.lines,
                sending.body,
                persistent=target.is_wanted,
                facts=target.facts,
            )
        else:
            self.bytes += self._broker.hold_for_all(
                transaction,
                target.destinations,
                target.lines,
                sending.body,
                persistent=target.is_wanted,
                facts=target.facts,
            )
        if sending.receipt is not None:
            session.reply(sending.receipt)

    def fail(self, name: str | None, reason: str) -> None:
        """Note that a part of one was refused: it cannot commit any more."""
        transaction = self.by_name.get(name or "")
        if transaction is not None and transaction.failure is None:
            transaction.failure = reason

    def committed(self, transaction: Transaction, *, is_new: bool) -> None:
        """Note that one is over, and what it has sent if it was not taken before."""
        if is_new:
            self._broker.limiting.committed(transaction)
        self.forget(transaction)

    def forget(self, transaction: Transaction) -> None:
        """Note that one is over."""
        del self.by_name[transaction.name]
        del self._judged[transaction.name]
        self.bytes -= transaction.held_bytes

    def prepare(
        self,
        session: Holder,
        transaction: Transaction,
        is_waited_for: Callable[[Queue | Topic], bool],
    ) -> None:
        """
        Find out whether there is room for what one is about to commit, and give the parts it needs.

        Raises:
            ForbiddenError: Its client may not send any more what it has sent in it.
            RefusedError: There is no room, or there can be no more parts.
            RouteUnknownError: That takes more than one turn.
        """
        self._require_still_allowed(session, transaction)
        try:
            self._require_store(session, transaction, is_waited_for)
            self.give_parts(session, transaction)
        except RefusedError:
            transaction.preparing = None  # More may be sent in it before it is committed again.
            raise

    def _require_still_allowed(self, session: Holder, transaction: Transaction) -> None:
        judged = self._judged[transaction.name]
        # Whom others vouch for has other roles without any change in the log.
        change_count, roles = self._broker.access_book.change_count, who_is(session).roles
        if judged.change_count != change_count or judged.roles != roles:
            require_granted(session, self._broker, tuple(judged.written), Action.SEND)
            if judged.has_placed:
                require_may_pass_policies(session, self._broker)
            judged.change_count, judged.roles = change_count, roles

    def judge_settled(self, session: Holder) -> Iterator[None]:
        """
        Fail, one in each step, those that acknowledge what their client may not read any more.

        That goes back at once, as if it were not acknowledged, and not only as they end: a client
        that is told that a transaction has failed need never end it.
        """
        for transaction in list(self.by_name.values()):
            refused = {}
            for queue in transaction.settles_on:
                try:
                    require_settled(session, self._broker, queue.number)
                except (ForbiddenError, DestinationError) as error:
                    refused[queue] = str(error)
            if refused:
                self.fail(transaction.name, next(iter(refused.values())))
                apart = transaction.without(refused)
                self._broker.errands.begin(self._broker.abort(apart))
            yield

    def _require_store(
        self,
        session: Holder,
        transaction: Transaction,
        is_waited_for: Callable[[Queue | Topic], bool],
    ) -> None:
        """
        Refuse to commit what there is no room for, and what would go before what waits for room.

        Raises:
            StoreFullError: There is none.
            QueueFullError: One of its queues has none, or who reads there is behind.
        """
        if self._context.refusal is not None:
            raise StoreFullError(self._context.refusal)
        self._context.require_storable(transaction.size_bytes)
        for destination in transaction.destinations:
            if is_waited_for(destination):
                raise StoreFullError(no_room(destination))
        self._broker.limiting.require_room(transaction)
        sending = self._broker.sending
        size = max(0, transaction.size_bytes - transaction.records_bytes)
        for destination in transaction.targets:
            behind = sending.refused_answer(destination, session, size, size)
            if behind is not None:
                sending.answers_refused_total += 1
                raise behind
            if not self._broker.has_room(destination):
                raise StoreFullError(no_room(destination))

    def give_parts(self, session: Holder, transaction: Transaction) -> None:
        """
        Let wildcards that are durably subscribed to have what one is about to commit.

        Raises:
            DestinationError: They can have no more parts.
            RouteUnknownError: That takes more than one turn.
        """
        parts = self._broker.parts
        if transaction.preparing is None:
            transaction.preparing = parts.before_commit(transaction)
        before = parts.effort
        is_over = next(transaction.preparing, transaction) is transaction
        session.effort += parts.effort - before
        if not is_over:
            raise RouteUnknownError
        transaction.preparing = None

    @property
    def held_count(self) -> int:
        """What is to be given back of all of them."""
        return len(self.by_name) + sum(each.operation_count for each in self.by_name.values())

    def give_back(self) -> Iterator[None]:
        """Roll all of them back, in steps."""
        while self.by_name:
            transaction = self.by_name.popitem()[1]
            self._judged.pop(transaction.name, None)
            yield from self._broker.abort(transaction)
            yield
