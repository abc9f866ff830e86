"""
A message that a subscription has delivered: what it says, and how the application settles it.

It is told of by the subscription that brought it, which knows by what the broker knows it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol, Self, Unpack

from holdfast.client.failures import Failures
from holdfast.client.processing import Processing
from holdfast.client.properties import MessageProperties
from holdfast.client.sent_properties import Properties
from holdfast.client.settlements import ACKNOWLEDGE, REJECT, come_again
from holdfast.client.wire import Body, Headers
from holdfast.protocols.stomp.frames import Frame


class Deliverer(Protocol):
    """The subscription that brought a message, as the message and a transaction see it."""

    @property
    def failures(self) -> Failures:
        """What was not done and nobody has been told of yet."""

    async def reply(
        self,
        message: Message,
        body: Body,
        headers: Headers | None,
        *,
        persistent: bool | None,
        properties: Properties,
    ) -> None:
        """Answer a message."""

    def settle(
        self, message: Message, verb: bytes, *, confirm: bool = False
    ) -> asyncio.Future[None] | None:
        """Settle a message; gives what to wait for, if anything."""

    def covered_by(self, message: Message) -> list[Message]:
        """What settling a message settles."""

    def exact_id(self, message: Message, verb: bytes) -> str | None:
        """By what the present link's broker knows a delivery alone; None if it was another's."""

    def is_taken_back(self, message: Message) -> bool:
        """Whether its broker has ended its delivery; it comes again."""

    def forget(self, message: Message, verb: bytes) -> None:
        """A message is settled, here or by a transaction."""


class Message(MessageProperties):
    """
    A message the application has, until it settles it.

    `headers` and `body` are as the producer gave them, with what the broker adds.
    """

    __slots__ = (
        "__weakref__",
        "body",
        "delivery_id",
        "generation",
        "headers",
        "id",
        "is_out_of_order",
        "number",
        "size_bytes",
        "subscription",
        "transaction",
        "verb",
    )

    def __init__(self, frame: Frame, subscription: Deliverer, generation: int) -> None:
        self.headers = frame.headers
        self.body = frame.body
        self.id = frame.headers["message-id"]
        self.subscription = subscription
        self.generation = generation
        self.delivery_id = frame.headers.get("ack", "")
        self.number = 0
        self.size_bytes = size_of(frame)
        self.is_out_of_order = False
        """Whether what was delivered before it may have been taken after it, or not at all."""

        self.verb = b""
        self.transaction: object | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it was acknowledged or rejected."""
        return bool(self.verb)

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction that is not finished will settle it."""
        return self.transaction is not None

    def process(
        self, *, confirm: bool = False, give_back_after: float | None = None
    ) -> Processing[Self]:
        """
        A block that settles the message at its end: `async with message.process(): ...`.

        Acknowledged if the block ends well, rejected (to the dead-letter queue) if it raises, whose
        error then goes on; with `give_back_after` one that failed comes again after so many
        seconds, instead. Nothing happens if the block has settled it, or a transaction will; nor
        if the task is cancelled: it comes again when the subscription or the connection ends. With
        `confirm` the end of the block waits as `acknowledge` does, and raises as it does.
        """
        return Processing(self, confirm=confirm, give_back_after=give_back_after)

    async def acknowledge(self, *, confirm: bool = False) -> None:
        """
        Tell the broker that it is done; in mode "client" with all taken before it.

        Returns at once: if the link breaks now it is said again on the next one. With `confirm`
        it waits until the broker has stored it, after which it is never delivered again;
        cancelling stops the wait, not the acknowledgement. Doing it twice does nothing more, but
        with `confirm` waits as the first time.

        Raises:
            UnknownDeliveryError: It was rejected before; or, with `confirm`, the broker no longer
                waits for it, or for one of those before it. What it refuses without `confirm` is
                told by the connection's `close`.
            TransactionError: It belongs to a transaction that is not finished.
            LinkError: The connection has ended.
        """
        outcome = self.subscription.settle(self, ACKNOWLEDGE, confirm=confirm)
        if outcome is not None:
            await outcome

    async def reject(self, *, confirm: bool = False) -> None:
        """
        Tell the broker that it cannot be processed: it goes to the dead-letter queue.

        Waiting, cancelling and errors as with `acknowledge`; but if the link is lost before it is
        confirmed, the message may first be delivered to another consumer (LinkLostError). If it
        comes here again it is rejected again.
        """
        outcome = self.subscription.settle(self, REJECT, confirm=confirm)
        if outcome is not None:
            await outcome

    async def give_back(self, *, after: float = 0.0, confirm: bool = False) -> None:
        """
        Let it come again, to whoever is there, after so many seconds; at most a week.

        However often it has come before: `delivery_count` tells. Its place is the old one, before
        what was sent later. Waiting and cancelling as with `acknowledge`; of a link that is lost
        before it is confirmed, it comes again at once.

        Raises:
            LocalProtocolError: It was only looked at, there is no such time, or the broker is no
                Holdfast: another one would not do it.
        """
        outcome = self.subscription.settle(self, come_again(after), confirm=confirm)
        if outcome is not None:
            await outcome

    async def reply(
        self,
        body: Body,
        *,
        headers: Headers | None = None,
        persistent: bool | None = None,
        **properties: Unpack[Properties],
    ) -> None:
        """
        Answer it: to its `reply_to`, with its `correlation_id` (or its id, if it has none).

        Returns when the broker has the answer. It settles nothing: acknowledge what is done.

        Args:
            headers: More headers of the answer.
            persistent: None: if it goes to a queue that keeps it.
            properties: As `Connection.send` has them.

        Raises:
            DestinationError: Whoever asked has gone, and its temporary queue with it.
            LocalProtocolError: It awaits no answer, or the answer can never be sent.
            RefusedError, LinkError: As `Connection.send` does.
        """
        await self.subscription.reply(
            self, body, headers, persistent=persistent, properties=properties
        )

    def __repr__(self) -> str:
        return f"<Message {self.id} from {self.destination}, {len(self.body):,} bytes>"


def size_of(frame: Frame) -> int:
    """What a message takes in memory, but for what every one takes."""
    return len(frame.body) + len("".join(frame.headers.values()))
