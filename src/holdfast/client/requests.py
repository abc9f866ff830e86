"""
The small requests: goodbye, unsubscribe, subscribe, acknowledge with a receipt.

Each is an `Operation`: it knows what a new link must be sent for it, and whom to tell the outcome.
Sends and commits, which have numbers, live beside the producer and the transaction.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from holdfast.client.outstanding import Operation
from holdfast.client.settlements import Promise, Settlement, Settlements
from holdfast.client.wire import VERSION, control
from holdfast.errors import HoldfastError, LinkLostError
from holdfast.model.destination import has_wildcards
from holdfast.protocols.stomp.codec import encode_frame


def succeed(outcome: asyncio.Future[None]) -> None:
    """Set a future whose waiter may have gone: cancelling a wait cancels the future."""
    if not outcome.done():
        outcome.set_result(None)


def fail(outcome: asyncio.Future[Any], error: HoldfastError) -> None:
    """Fail a future; nobody need ask, and asyncio shall not complain if nobody does."""
    if not outcome.done():
        outcome.set_exception(error)
        outcome.exception()


def nothing_done(transaction: str, receipt: str, **said: str) -> bytes:
    """A transaction with nothing in it: only what its COMMIT says, and its receipt."""
    begin = control("BEGIN", transaction=transaction)
    return begin + control("COMMIT", transaction=transaction, receipt=receipt, **said)


def subscribing(headers: dict[str, str], receipt: str, *, is_holdfast: bool) -> bytes:
    """
    SUBSCRIBE, with a receipt.

    ActiveMQ delivers nothing of a wildcard whose SUBSCRIBE asks for one: there the receipt is that
    of a transaction with nothing in it, which comes behind.
    """
    if is_holdfast or not has_wildcards(headers["destination"]):
        return encode_frame("SUBSCRIBE", {**headers, "receipt": receipt}.items(), b"", VERSION)
    frame = encode_frame("SUBSCRIBE", headers.items(), b"", VERSION)
    return frame + nothing_done(f"subscribed-{receipt}", receipt)


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

    A new link has been told of everything late when this is repeated, so it only asks whether that
    is stored: by the receipt of a transaction with nothing in it. Without a settlement of its own
    it asks nothing else from the beginning. Another broker than Holdfast was told nothing late, so
    it cannot be asked: there `is_done_by_loss`.
    """

    __slots__ = ("is_done_by_loss", "number", "promise", "settled", "settlements")

    def __init__(
        self, settlements: Settlements, settled: Settlement | None, promise: Promise | None
    ) -> None:
        super().__init__()
        self.is_done_by_loss = False
        self.settlements = settlements
        self.settled = settled
        self.number = settlements.number
        self.promise = promise

    def received(self, receipt: str) -> None:
        self.settlements.confirm_through(self.number)
        if self.promise is not None:
            self.settlements.answered(self.promise)

    def refused(self, receipt: str, error: HoldfastError) -> None:
        if self.settled is None:
            self.abandoned(LinkLostError(f"the broker does not say whether it is stored: {error}"))
            return
        # What was said before it may still be lost.
        self.settlements.refused_with_receipt(self.settled, error)
        if self.promise is not None:
            self.settlements.answered(self.promise, error)

    def abandoned(self, error: HoldfastError) -> None:
        if self.promise is not None:
            self.settlements.answer(self.promise, error)

    def replay(self) -> list[tuple[str, bytes]]:
        self.settled = None
        return [(self.receipt, self.question(self.receipt))]

    @staticmethod
    def question(receipt: str) -> bytes:
        """Nothing, done together: its receipt stands behind all that was said before."""
        return nothing_done(f"nothing-{receipt}", receipt)


class Question(Operation):
    """What does no harm if said again: it is asked over each new link until it is answered."""

    __slots__ = ("outcome",)

    def __init__(self, outcome: asyncio.Future[None]) -> None:
        super().__init__()
        self.outcome = outcome
        """Done when the answer has come."""

    def received(self, receipt: str) -> None:
        succeed(self.outcome)

    def refused(self, receipt: str, error: HoldfastError) -> None:
        fail(self.outcome, error)

    def abandoned(self, error: HoldfastError) -> None:
        fail(self.outcome, error)

    def replay(self) -> list[tuple[str, bytes]]:
        return [(self.receipt, self.frame(self.receipt))]

    def frame(self, receipt: str) -> bytes:
        """What is sent for it, each time."""
        raise NotImplementedError


class ForgetRequest(Question):
    """A COMMIT of nothing that says whose producers are done with."""

    __slots__ = ("before", "name")

    is_limited_by_timeout = True

    def __init__(self, outcome: asyncio.Future[None], name: str, before: int) -> None:
        super().__init__(outcome)
        self.name = name
        self.before = before

    def frame(self, receipt: str) -> bytes:
        said = {"holdfast_forget": self.name, "holdfast_forget_before": str(self.before)}
        return nothing_done(f"finished-{receipt}", receipt, **said)
