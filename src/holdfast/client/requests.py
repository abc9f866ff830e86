"""
The small requests: goodbye, unsubscribe, subscribe, acknowledge with a receipt.

Each is an `Operation`: it knows what a new link must be sent for it, and whom to tell the outcome.
Sends and commits, which have numbers, live beside the producer and the transaction.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.client.outstanding import Operation
from holdfast.client.settlements import ACKNOWLEDGE, Settlements
from holdfast.client.wire import settlement
from holdfast.errors import HoldfastError, LinkLostError


def succeed(outcome: asyncio.Future[None]) -> None:
    """Set a future whose waiter may have gone: cancelling a wait cancels the future."""
    if not outcome.done():
        outcome.set_result(None)


def fail(outcome: asyncio.Future[None], error: HoldfastError) -> None:
    """Fail a future; nobody need ask, and asyncio shall not complain if nobody does."""
    if not outcome.done():
        outcome.set_exception(error)
        outcome.exception()


class Farewell(Operation):
    """UNSUBSCRIBE, ABORT, DISCONNECT: a lost link does the same, so nothing is sent again."""

    __slots__ = ("outcome",)

    is_done_by_loss = True

    def __init__(self, outcome: asyncio.Future[None]) -> None:
        super().__init__()
        self.outcome = outcome

    def received(self, receipt: str) -> None:
        succeed(self.outcome)

    def refused(self, receipt: str, error: HoldfastError) -> None:
        fail(self.outcome, error)

    def abandoned(self, error: HoldfastError) -> None:
        succeed(self.outcome)

    def replay(self) -> list[tuple[str, bytes]]:
        succeed(self.outcome)
        return []


class Goodbye(Farewell):
    """DISCONNECT: its receipt stands behind every acknowledgement, and makes all certain."""

    __slots__ = ("number", "settlements")

    def __init__(self, outcome: asyncio.Future[None], settlements: Settlements) -> None:
        super().__init__(outcome)
        self.settlements = settlements
        self.number = settlements.number

    def received(self, receipt: str) -> None:
        self.settlements.confirm_through(self.number)
        super().received(receipt)


class SubscribeOwner(Protocol):
    """Whom a SUBSCRIBE was sent for."""

    def subscribed(self) -> None:
        """The broker has it."""

    def ended(self, error: HoldfastError | None) -> None:
        """The broker refused it."""


class SubscribeRequest(Operation):
    """SUBSCRIBE; on a new link the session asks each subscription for a new one."""

    __slots__ = ("owner",)

    def __init__(self, owner: SubscribeOwner) -> None:
        super().__init__()
        self.owner = owner

    def received(self, receipt: str) -> None:
        self.owner.subscribed()

    def refused(self, receipt: str, error: HoldfastError) -> None:
        self.owner.ended(error)

    def abandoned(self, error: HoldfastError) -> None:
        self.owner.ended(error)

    def replay(self) -> list[tuple[str, bytes]]:
        return []


class SettlementRequest(Operation):
    """
    An acknowledgement with a receipt, which makes all before it certain too.

    On a new link it is said by message id: delivery ids are the lost link's. A rejection cannot be
    said so; it is repeated if the message is delivered here again, and its waiter told that.
    """

    __slots__ = ("message_id", "number", "outcome", "settlements", "verb")

    def __init__(
        self,
        settlements: Settlements,
        number: int,
        message_id: str,
        verb: bytes,
        outcome: asyncio.Future[None] | None,
    ) -> None:
        super().__init__()
        self.settlements = settlements
        self.number = number
        self.message_id = message_id
        self.verb = verb
        self.outcome = outcome

    def received(self, receipt: str) -> None:
        self.settlements.confirm_through(self.number)
        if self.outcome is not None:
            succeed(self.outcome)

    def refused(self, receipt: str, error: HoldfastError) -> None:
        # Saying it again would be refused again. What was said before it may still be lost.
        self.settlements.refused(self.message_id, self.number)
        if self.outcome is not None:
            fail(self.outcome, error)

    def abandoned(self, error: HoldfastError) -> None:
        if self.outcome is not None:
            fail(self.outcome, error)

    def replay(self) -> list[tuple[str, bytes]]:
        if self.verb != ACKNOWLEDGE:
            self.abandoned(
                LinkLostError(
                    f"the link was lost while message {self.message_id} was rejected; it will be"
                    " rejected again if it is delivered here again"
                )
            )
            return []
        receipt = self.receipt
        return [(receipt, settlement(self.verb, self.message_id, receipt))]
