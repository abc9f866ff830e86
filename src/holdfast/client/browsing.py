"""
Looking through a queue: all that is on it, once, and nothing is taken.

What is acknowledged here only makes room for more. So it is said by the delivery, on the link that
brought it, and never later: by a message's own id the broker would take it for a consumer's word,
and the message off its queue.

Invariants:
    No acknowledgement of what was only looked at names a message by its id.
    Once all was shown, nothing is asked for again, and what is in the buffer stays there.
"""

from __future__ import annotations

import asyncio

from holdfast.client.consumer import Subscription
from holdfast.client.message import Message
from holdfast.client.settlements import ACKNOWLEDGE
from holdfast.client.wire import control
from holdfast.errors import (
    DestinationError,
    HoldfastError,
    LocalProtocolError,
    TransactionError,
)
from holdfast.model.consumer_wishes import browser_wished
from holdfast.model.destination import parse_destination
from holdfast.protocols.stomp.frames import Frame


class BrowsingSubscription(Subscription):
    """
    The messages of a queue, as an asynchronous iterator that ends when all were shown.

    After a failover it begins anew: what was taken before may come once more.
    """

    is_shown = False
    """Whether the broker has said that this was all."""

    async def close(self) -> None:
        """Look no further."""
        if self.is_shown:
            self.ended(None)
        else:
            await super().close()

    async def _wait_arrival(self) -> None:
        if self.is_shown:
            raise StopAsyncIteration
        await super()._wait_arrival()

    def delivered(self, frame: Frame) -> None:
        """Take a message, or the word that there are no more."""
        if frame.headers.get("browser") != "end":
            super().delivered(frame)
            return
        self.is_shown = True
        self._session.subscribers.pop(self.id, None)
        self._session.write(control("UNSUBSCRIBE", id=self.id))
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def settle(
        self, message: Message, verb: bytes, *, confirm: bool = False
    ) -> asyncio.Future[None] | None:
        """
        Make room for more; there is nothing to be confirmed.

        Raises:
            LocalProtocolError: It is rejected.
        """
        if verb != ACKNOWLEDGE:
            raise LocalProtocolError(
                f"message {message.id} was only looked at; it cannot be rejected",
                code="only-looked-at",
            )
        if message.verb:
            return None
        message.verb = verb
        self._held.pop(message.id, None)
        if self.is_present(message) and not self.is_shown:
            self._session.write(control("ACK", id=message.delivery_id))
        return None

    def covered_by(self, message: Message) -> list[Message]:
        """
        Refuse to be part of a transaction, which asks this.

        Raises:
            TransactionError: In any case.
        """
        raise TransactionError(
            f"message {message.id} was only looked at; no transaction settles it"
        )

    def interrupted(self) -> None:
        """The link is lost: all of it is shown again on the next one."""
        super().interrupted()
        self._survivors.clear()

    def ended(self, error: HoldfastError | None) -> None:
        """No more will come; what was shown whole can still be taken."""
        if not self.is_shown or error is None:
            super().ended(error)


def says_browser(headers: dict[str, str], destination: str) -> bool:
    """Whether a SUBSCRIBE only wants to look through a queue, as the broker reads it."""
    try:
        options = parse_destination(destination).read_options()
    except DestinationError:
        return False  # The broker refuses it.
    return browser_wished(headers, options)[1] == "true"
