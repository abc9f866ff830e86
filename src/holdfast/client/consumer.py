"""
Receiving: subscriptions, and the messages they deliver.

What the broker delivered and the application has not taken lies in a buffer, bounded by the
prefetch; a lost link empties it, for the broker delivers all of it again. What the application has
taken and not settled is `held`: if the broker delivers such a message again after a failover, the
application's copy is tied to the new delivery instead of being shown twice.

Invariants:
    A message is settled once; the first verb counts.
    What is in the buffer belongs to the present link, and nobody has settled it: what another
    subscription of the connection had, and settles late, is taken out of it.
    Matching by message id is done for persistent messages only: their ids come from the log and
    are never given to another message. It is done with Holdfast only: another broker takes back
    what a lost link had brought, and only the new delivery of it can be settled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import MutableMapping
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

from holdfast.client.failures import Failures
from holdfast.client.message import Message
from holdfast.client.overflow import Overflowed
from holdfast.client.receiving import Receiver
from holdfast.client.refusal import anew
from holdfast.client.requests import SubscribeRequest, fail, subscribing, succeed
from holdfast.client.sequence import is_lasting, is_one
from holdfast.client.session import ClientSession
from holdfast.client.settlements import ACKNOWLEDGE, REJECT, Promise, Settlement
from holdfast.client.subscribing import is_durable
from holdfast.client.wire import (
    WIRE_MODES,
    AcknowledgeMode,
    control,
)
from holdfast.errors import (
    HoldfastError,
    LocalProtocolError,
    TransactionError,
    UnknownDeliveryError,
)
from holdfast.protocols.stomp.frames import Frame


class Subscription(Receiver):
    """
    Messages of one destination, as an asynchronous iterator.

    Made by `Connection.subscribe`; subscribes on entering, unsubscribes on leaving. For one task.

    In mode "client" an acknowledgement covers what was taken before, and in no transaction. For the
    broker it covers what was delivered before, and after a failover that may lie in the buffer,
    unseen. So the broker is left to count only from a message that was taken out of the buffer of
    the present link: all that came before it was taken before it. Else each is named by its own id.

    In mode "auto" a message is acknowledged when the next one is asked for, or when the block is
    left without an error: a message whose processing failed is delivered again.
    """

    def __init__(
        self,
        session: ClientSession,
        destination: str,
        *,
        acknowledge: AcknowledgeMode,
        prefetch: int,
        headers: dict[str, str],
    ) -> None:
        self.destination = destination
        self.mode = acknowledge
        self.prefetch = prefetch
        self.id = session.next_subscription_id()
        self._session = session
        self._wire_mode = ""
        self._headers = headers
        """Those of a SUBSCRIBE that stay the same on every link."""
        self._buffer: deque[Message | Overflowed] = deque()
        self._again: dict[str, Message | Overflowed] = {}
        """What in the buffer may have been delivered before, to another subscription of ours."""
        self._held: dict[str, Message] = {}
        # What the application has dropped without settling shall be delivered again; in mode
        # "client" it may have dropped what a later message's acknowledgement covers.
        self._survivors: MutableMapping[str, Message] = (
            {} if acknowledge == "client" else WeakValueDictionary()
        )
        # Of a topic what is settled is over, but of a durable subscription.
        self._is_of_one = is_one(destination)
        self._is_lasting = is_lasting(destination) or is_durable(headers)
        self._taken_count = 0
        self._taken_back_generation = 0
        self._last: list[Message] = []
        self._arrival: asyncio.Future[None] | None = None
        self._opened: asyncio.Future[None] = session.loop.create_future()
        self._drained: asyncio.Future[None] | None = None
        """Set when what was taken is settled; None: messages are still taken."""

        self._is_ended = False
        self._error: HoldfastError | None = None

    async def open(self) -> Self:
        """
        Subscribe, and wait until the broker has it. Cancelling unsubscribes.

        Raises:
            RefusedError: The broker refused it.
            LinkError: The connection has ended.
        """
        self._session.check_open()
        self._session.subscribers[self.id] = self
        self.resubscribe()
        try:
            await self._opened
        except asyncio.CancelledError:
            self.abandon()
            raise
        return self

    async def close(self) -> None:
        """
        Unsubscribe. What was taken may still be acknowledged (with another broker than Holdfast it
        may not: it is delivered again, too); the rest is delivered to others.

        Cancelling stops the wait for the broker's answer.
        """
        if self._is_ended:
            return
        self._leave()
        await self._session.farewell("UNSUBSCRIBE", id=self.id)

    async def drain(self) -> None:
        """
        Take no more, wait until what was taken is settled, and close: acknowledgements are stored
        when this returns.

        Iterating, `consume` and `answer` end meanwhile as if the subscription were closed. Of a
        queue, what was delivered and not taken goes to others; of a topic it is still given. It
        waits for whoever has a message, however long that takes; cancelling stops the wait, and
        takes no more nevertheless.
        """
        if self._is_ended:
            return
        if self._drained is None:
            self._drained = self._session.loop.create_future()
            if self._is_lasting:
                self._drop_buffer()
            self._wake()
            self._look_whether_drained()
        await asyncio.shield(self._drained)
        await self.close()

    def _look_whether_drained(self) -> None:
        drained = self._drained
        is_over = self._is_ended or not (self._buffer or self.held_count)
        if drained is not None and is_over and not drained.done():
            drained.set_result(None)

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def abandon(self) -> None:
        """Unsubscribe without waiting; nothing happens if it was never opened, or has ended."""
        if self.id in self._session.subscribers:
            self._leave()
            self._session.write(control("UNSUBSCRIBE", id=self.id))

    def _leave(self) -> None:
        self.ended(None)
        self._session.subscribers.pop(self.id, None)

    async def __aenter__(self) -> Self:
        """Subscribe; see `open`."""
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Unsubscribe; see `close`. In mode "auto" the last message is acknowledged first."""
        if self._session.failure is not None:
            return
        if error is None:
            self._acknowledge_last()
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """
        The next message. Cancelling takes none.

        Raises:
            LinkError: The connection has ended, and not by the application.
            RefusedError: The broker refused the subscription after a failover.
        """
        if self.mode == "auto":
            self._acknowledge_last()
        while not self._buffer:
            if self._error is not None:
                raise anew(self._error)
            if self._is_ended or self._drained is not None:
                self._look_whether_drained()
                raise StopAsyncIteration
            await self._wait_arrival()
        return self._take()

    @property
    def buffered_count(self) -> int:
        """Messages that can be taken without waiting."""
        return len(self._buffer)

    @property
    def held_count(self) -> int:
        """Messages taken and not settled."""
        return len(self._held) + len(self._survivors)

    async def _wait_arrival(self) -> None:
        assert self._arrival is None, "two tasks read one subscription"
        self._arrival = self._session.loop.create_future()
        try:
            await self._arrival
        finally:
            self._arrival = None

    def _take(self) -> Message:
        message = self._buffer[0]
        if isinstance(message, Overflowed):
            frame = self._session.overflow.take(message)  # Or an OSError: then it stays the first.
            message = Message(frame, self, self._session.generation)
        else:
            self._session.message_taken(message.size_bytes)
        self._buffer.popleft()
        if self._again:
            self._again.pop(message.id, None)
        self._taken_count += 1
        message.number = self._taken_count
        self._held[message.id] = message
        self._last = [message]
        return message

    def _acknowledge_last(self) -> None:
        last, self._last = self._last, []
        for message in last if self.mode == "auto" else ():
            if not message.verb and message.transaction is None:
                self.settle(message, ACKNOWLEDGE)

    def settle(
        self, message: Message, verb: bytes, *, confirm: bool = False
    ) -> asyncio.Future[None] | None:
        """Settle a message; see `Message.acknowledge`. Gives what to wait for, if anything."""
        if message.transaction is not None:
            raise TransactionError(f"message {message.id} belongs to an unfinished transaction")
        session = self._session
        if verb not in {ACKNOWLEDGE, REJECT} and not session.is_holdfast:
            raise LocalProtocolError(
                f"message {message.id} cannot be given back: the broker is no Holdfast, and would"
                " not let it come again",
                code="no-holdfast",
            )
        if message.verb and message.verb != verb:
            raise UnknownDeliveryError(f"message {message.id} was settled otherwise before")
        if self.is_taken_back(message):
            session.check_open()
            if confirm:
                raise UnknownDeliveryError(
                    f"the link that brought message {message.id} is lost; the broker will deliver"
                    " it again, unless it has stored an acknowledgement, of which it tells nothing"
                )
            return None
        if message.verb:
            return self._confirm(message) if confirm else None
        session.check_open()
        if not confirm and self.mode != "client":  # The same as below, for one alone.
            session.settle(self._settle_alone(message, verb), self.exact_id(message, verb))
            return None
        promise = Promise(session.loop.create_future()) if confirm else None
        promises = () if promise is None else (promise,)
        is_cumulative = self._is_cumulative(message, verb)
        before = self.covered_by(message)[:-1]
        if is_cumulative and before:
            counted, before = self._split(before)
            # The broker counts them with the message, and refuses them with it.
            settled = self._settled(counted, verb, promises)
            session.settlements.add_counted(settled, message.delivery_id)
        for other in before:
            (one,) = self._settled([other], verb, promises)
            session.settle(one, self.exact_id(other, verb))
        # The message itself comes last: when its receipt is there, nothing is unknown of any.
        (last,) = self._settled([message], verb, promises)
        id = message.delivery_id if is_cumulative else self.exact_id(message, verb)
        session.settle(last, id, promise)
        return None if promise is None else promise.outcome

    def _settled(
        self, messages: list[Message], verb: bytes, promises: tuple[Promise, ...]
    ) -> list[Settlement]:
        """Settle messages here; gives what has to be said of them."""
        settled = [self._settle_alone(message, verb) for message in messages]
        for one in settled:
            one.promises = promises
        return settled

    def _settle_alone(self, message: Message, verb: bytes) -> Settlement:
        """Settle a message here; gives what has to be said of it."""
        self.forget(message, verb)
        is_lasting = self._lasts(message) and self._session.is_holdfast
        return Settlement(message.id, verb, self.id, message.number, is_lasting=is_lasting)

    def _lasts(self, message: Message) -> bool:
        """Whether a message is settled for good: of several destinations each says so itself."""
        lasts = self._is_lasting if self._is_of_one else is_lasting(message.destination)
        return lasts and message.persistent

    def _split(self, messages: list[Message]) -> tuple[list[Message], list[Message]]:
        """What the broker counts with a message after it, and what it does not."""
        present = self._session.generation
        counted = [m for m in messages if m.generation == present and not m.is_out_of_order]
        return counted, [m for m in messages if m.generation != present or m.is_out_of_order]

    def _confirm(self, message: Message) -> asyncio.Future[None] | None:
        first = 0 if self.mode == "client" else message.number
        return self._session.confirm_settled(self.id, range(first, message.number + 1))

    def covered_by(self, message: Message) -> list[Message]:
        """What settling a message settles: itself, in mode "client" also all taken before it."""
        is_alone = len(self._held) == 1 and not self._survivors and message.id in self._held
        if is_alone or self.mode != "client":
            return [message]
        number = message.number
        held = self._held.values()
        others = [*self._survivors.values(), *held] if self._survivors else held
        covered = [each for each in others if each.number < number and each.transaction is None]
        return [*covered, message]

    def _is_cumulative(self, message: Message, verb: bytes) -> bool:
        """Whether an ACK by the delivery settles what the application means, and nothing else."""
        return (
            self._wire_mode == "client"
            and verb == ACKNOWLEDGE
            and self._session.address is not None
            and self.is_present(message)
            and not message.is_out_of_order
            and (
                len(self._held) == 1 or not any(other.transaction for other in self._held.values())
            )
        )

    def exact_id(self, message: Message, verb: bytes) -> str | None:
        """By what the present link's broker knows a delivery alone; None if it was another's."""
        if message.generation != self._session.generation:
            return None
        is_counted = self._wire_mode == "client" and verb == ACKNOWLEDGE
        return message.id if self._is_ended or is_counted else message.delivery_id

    def is_present(self, message: Message) -> bool:
        """Whether a message's delivery id is valid on the link there is."""
        return message.generation == self._session.generation and not self._is_ended

    def is_taken_back(self, message: Message) -> bool:
        """Whether its broker, which is no Holdfast, has ended its delivery; it comes again."""
        return message.generation <= self._taken_back_generation

    def forget(self, message: Message, verb: bytes) -> None:
        """A message is settled, here or by a transaction."""
        message.verb = verb
        if self._held.pop(message.id, None) is None:
            self._survivors.pop(message.id, None)
        if verb == ACKNOWLEDGE and not self.is_present(message):
            self._session.drop_copies(message.id)
        if self._drained is not None:
            self._look_whether_drained()

    @property
    def failures(self) -> Failures:
        """What was not done and nobody has been told of yet."""
        return self._session.failures

    def resubscribe(self) -> None:
        """Ask the broker for messages, at first and again on every new link."""
        session = self._session
        receipt = session.next_receipt()
        # Another broker than Holdfast knows no name for one message among those before it.
        self._wire_mode = WIRE_MODES[self.mode] if session.is_holdfast else "client-individual"
        headers = {
            "id": self.id,
            "destination": self.destination,
            "ack": self._wire_mode,
            **self._headers,
        }
        frame = subscribing(headers, receipt, is_holdfast=session.is_holdfast)
        session.request(SubscribeRequest(self), receipt, frame)

    def subscribed(self) -> None:
        """The broker has the subscription."""
        succeed(self._opened)

    def delivered(self, frame: Frame) -> None:
        """A MESSAGE came: into the buffer, unless the application has or had it already."""
        headers = frame.headers
        is_again = headers.get("redelivered") == "true"
        if (is_again and self._is_known(headers)) or self._drained is not None:
            return
        session = self._session
        kept = session.overflow.put(frame) if session.is_overflowing else None
        came: Message | Overflowed
        if kept is None:
            came = message = Message(frame, self, session.generation)
            session.buffered_bytes += message.size_bytes
        else:
            came = kept
        self._buffer.append(came)
        if is_again:
            self._again[headers["message-id"]] = came
        self._wake()

    def drop_copy(self, id: str) -> None:
        """A message is settled that was delivered to another subscription before."""
        copy = self._again.pop(id, None)
        if copy is not None:
            self._buffer.remove(copy)
            self._drop(copy)

    def _is_known(self, headers: dict[str, str]) -> bool:
        if headers.get("persistent") != "true" or not self._session.is_holdfast:
            return False
        id = headers["message-id"]
        delivery_id = headers.get("ack", "")
        settled = self._session.settlements.find(id)
        if settled is not None:
            # The application is done with it; only the word of that was lost. What has been said
            # by the message's id meets this delivery on its way, whichever is the first.
            if settled.said != id:
                is_exact = settled.verb != ACKNOWLEDGE or self._wire_mode != "client"
                self._session.settle(settled, delivery_id if is_exact else id)
            return True
        message = self._survivors.pop(id, None)
        if message is None:
            return False
        message.delivery_id = delivery_id
        message.generation = self._session.generation
        message.is_out_of_order = True
        self._held[id] = message
        return True

    def interrupted(self) -> None:
        """The link is lost: drop what was not taken, remember what was."""
        self._drop_buffer()
        if not self._session.is_holdfast:
            self._take_back()
        for id, message in self._held.items():
            # Anything else comes again as another message, if it comes again.
            if self.mode != "client" or self._lasts(message):
                self._survivors[id] = message
        self._held = {}

    def _drop_buffer(self) -> None:
        for message in self._buffer:
            self._drop(message)
        self._buffer.clear()
        self._again.clear()

    def _drop(self, message: Message | Overflowed) -> None:
        if isinstance(message, Overflowed):
            self._session.overflow.drop(message)
        else:
            self._session.message_taken(message.size_bytes)

    def _take_back(self) -> None:
        self._taken_back_generation = self._session.generation
        self._held = {}

    def ended(self, error: HoldfastError | None) -> None:
        """No more messages will come; None if the application wanted it so."""
        if self._is_ended:
            return
        self._is_ended = True
        self._error = error
        if not self._session.is_holdfast:
            self._take_back()
        self._session.subscribers.pop(self.id, None)
        self._drop_buffer()
        if error is not None:
            fail(self._opened, error)
        self._wake()
        self._look_whether_drained()
