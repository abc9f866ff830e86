"""
A session of a client of the broker: what its holdings do for it, in the words of the contract.

A protocol adds how its bytes are read and written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.subscription import Subscription
from holdfast.errors import (
    ForbiddenError,
    RefusedError,
    RemoteProtocolError,
    SlowConsumerError,
)
from holdfast.model.destination import parse_sources
from holdfast.model.records import ReturnCause
from holdfast.model.shares import refusal_of
from holdfast.security.principal import Principal
from holdfast.sessions.client_ids import let_go
from holdfast.sessions.connection_shares import PORT_FULL
from holdfast.sessions.context import SessionContext
from holdfast.sessions.holder import Holder
from holdfast.sessions.holdings import Holdings, ReadMessage
from holdfast.sessions.ownership import named
from holdfast.sessions.permissions import require_granted, sharer
from holdfast.sessions.send_templates import SendTemplates
from holdfast.sessions.session import Session
from holdfast.sessions.target import Action

NOT_AUTHENTICATED: Final = "not-authenticated"
"""The code of the ERROR for who is not let in, or not any more."""


class ClientSession(Holder):
    """One client connection, whatever it speaks."""

    def __init__(self, broker: Broker, context: SessionContext, read_message: ReadMessage) -> None:
        context.session_count += 1
        super().__init__(f"{context.node}-{context.term}-{context.session_count}")
        self.context = context
        self.holdings = Holdings(broker, context, read_message)
        self.subscriptions = self.holdings.subscriptions
        self.transactions = self.holdings.transactions.by_name
        self.waiting = self.holdings.sending.waiting
        self.templates = SendTemplates()
        self.room = ""
        """In which its producers are known (`producer_rooms`)."""
        self.room_seen = (-1, 0, False)
        """How often users and grants had changed then, the level of the log, and whether it knew of
        producers in rooms."""
        self.left_off_count = 0
        """How often it was not yet known where one message goes."""
        self.put_off_count = 0
        """How often it was not yet there what one message needs where it goes."""
        self.is_told_of = False
        """Whether it is to be said of it that it is gone."""

    def take_place(self, who: Principal, earlier: Iterable[Session]) -> None:
        """
        Count this connection among those of its user, of whose its client gave these up.

        Raises:
            RemoteProtocolError: He has as many as he may have.
        """
        shares = self.context.connection_shares
        user = sharer(self, self.holdings.broker)
        if not shares.take(self, user, earlier):
            had = f"{shares.of(user):,} connections"
            raise RemoteProtocolError(
                f"{named(who)}: {refusal_of(user, had, f'{shares.count_max:,} that there may be')}:"
                f" close some, or have 'connection_count_max' raised",
                code=PORT_FULL,
            )

    @property
    def payer(self) -> str | None:
        return sharer(self, self.holdings.broker)

    def proceed_with_endings(self, is_spent: IsSpent) -> bool:
        return self.holdings.go_on_rolling_back(is_spent)

    def send_waiting(self, is_spent: IsSpent = lambda: False) -> None:
        self.holdings.sending.send_waiting(self, is_spent)

    @property
    def is_full(self) -> bool:
        return self.waiting.is_full

    @property
    def is_spreading(self) -> bool:
        return self.holdings.sending.spreading is not None

    @property
    def is_idle(self) -> bool:
        return self.holdings.are_none

    @property
    def transaction_bytes(self) -> int:
        return self.holdings.transactions.bytes

    def write(self, data: bytes) -> None:
        """Put bytes behind what is to be sent already."""
        if not self.out:
            self.context.dirty.append(self)
        self.out.append(data)

    def recount_room(self) -> None:
        if not self.out:
            self.context.dirty.append(self)

    @abstractmethod
    def say_refused(self, error: RefusedError, receipt: bytes | None) -> None:
        """Tell the client that a request is refused which had this receipt, if any."""

    def overdue(self, subscription: Consumer, keys: list[int]) -> None:
        assert isinstance(subscription, Subscription), "every consumer is one"
        found = self.subscriptions.get(subscription.id)
        if found is not None and found in (subscription, subscription.bundle):
            self.holdings.take_overdue(self, subscription, keys)

    def too_slow(self, subscription: Consumer, why: str, *, ends_connection: bool) -> None:
        if self.subscriptions.get(subscription.id) is not subscription:
            return  # It is leaving.
        assert isinstance(subscription, Subscription), "every consumer is one"
        if ends_connection:
            self.farewell(why, SlowConsumerError.code)
            self.context.leave(self)
            return
        self.holdings.bury_lost(self, subscription.sole_holder)
        self.holdings.unsubscribe(self, subscription, ReturnCause.LOST)
        self.say_ended(SlowConsumerError(why), subscription)

    def judge_again(self, who: Principal | None, why: str) -> Iterator[None]:
        """
        Obey what users and grants are now, in steps: who this client is, and what it consumes.

        A consumer that is not allowed any more is ended as if it had left; what it has comes back,
        and what open transactions acknowledge of it, which can only be rolled back then.
        Whose client is not let in any more is closed; it is for the caller to let it leave.

        Args:
            who: The client as the log has it now; None: it is not let in any more.
            why: What it is told then.
        """
        if who is None:
            self._end_login(why)
            return
        self.principal = who
        broker = self.holdings.broker
        self.context.connection_shares.count_as(self, sharer(self, broker))
        for subscription in list(self.subscriptions.values()):
            sources = parse_sources(subscription.destination)
            try:
                require_granted(self, broker, sources, Action.CONSUME)
            except ForbiddenError as error:
                self.holdings.unsubscribe(self, subscription)
                self.say_ended(error, subscription)
            yield
        yield from self.holdings.transactions.judge_settled(self)

    def is_over(self, now: float) -> bool:
        """Whether what this client came in by has ended by now; it is told so, and closed."""
        who = self.principal
        if who is None or who.expires_at is None or now < who.expires_at:
            return False
        if not self.is_closing:
            self._end_login(f"the token of user {who.name!r} has expired: log in with another one")
        return True

    def _end_login(self, why: str) -> None:
        self.holdings.has_said_goodbye = True  # Nothing is kept for it to come back to.
        self.farewell(why, NOT_AUTHENTICATED)

    @abstractmethod
    def say_ended(self, error: RefusedError, subscription: Subscription) -> None:
        """Tell the client that a consumer of its is ended, and why."""

    def disconnected(self) -> None:
        super().disconnected()
        self.context.connection_shares.give_back(self)
        let_go(self, self.context)

    def leaving(self) -> Iterator[None]:
        self.is_leaving = True
        if self.is_told_of:
            self.is_told_of = False
            self.holdings.broker.advising.disconnected(self)
        return self.holdings.leaving(self)

    @property
    def held_count(self) -> int:
        return self.holdings.held_count(self)

    def forget(self) -> list[Collection[object]]:
        return [*super().forget(), self.holdings.by_ordinal]
