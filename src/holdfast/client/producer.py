"""
Sending: single messages whose receipt is awaited, and producers that keep many under way.

A persistent message to a queue carries a producer id and a number, so that resending it after a
failover stores it once. A producer's messages are stored in its order and without gaps: if one is
refused, all sent after it are refused too, and the producer goes on from the refused number once
all have their answer. What is not stored has no number: after a failover it may come twice; so may
whatever is sent to another broker than Holdfast, which would take the numbers for the application's
own headers.
A broker forgets who is idle for days; what it refuses for that reason only is sent again, once.

Invariants:
    `unconfirmed` counts messages sent whose outcome is unknown; it never exceeds `window`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias, Unpack

from holdfast.client.failures import Failure
from holdfast.client.outstanding import Operation, doubtful
from holdfast.client.refusal import anew
from holdfast.client.requests import fail
from holdfast.client.sent_properties import Properties, headers_with
from holdfast.client.sequence import UNNUMBERED, ProducerSequence, Sent, is_counted
from holdfast.client.session import ClientSession
from holdfast.client.waiters import Waiters
from holdfast.client.wire import (
    Body,
    Headers,
    encode_body,
    encode_lines,
    encode_text,
    plain_send,
    produced_send,
    renumbered,
    repeated,
    send_prefix,
    text_of,
)
from holdfast.errors import HoldfastError, RefusedError
from holdfast.model.schedule_headers import says_when

Confirmation: TypeAlias = "asyncio.Future[Sent]"
"""Done when the broker has stored the message, or failed with why it has not."""

_NONE: dict[str, str] = {}


class Producer:
    """
    Sends to one destination, many messages at a time.

    Made by `Connection.producer`. As an async context manager it flushes at the end. Several tasks
    may share it; a message's place in the order is decided when `send` has found room for it.

    With a `producer_id` of the application's own it ends at its first failure: under that id no
    number may ever stand for another message, and only the application knows where to go on.
    """

    def __init__(
        self, session: ClientSession, destination: str, window: int, producer_id: str | None = None
    ) -> None:
        self.destination = destination
        self.window = window
        self.unconfirmed = 0
        self.confirmed_count = 0
        self.told: Failure | None = None
        """The failure that was raised last."""

        self.marks_repeats = session.settings.marks_repeats
        self._session = session
        self._is_fixed = producer_id is not None
        self._sequence = ProducerSequence(
            session.next_producer_id if producer_id is None else partial(str, producer_id)
        )
        self._places = Waiters()
        self._settled = Waiters()
        self._ended_by: HoldfastError | None = None
        self._refused_number = 0
        self._refused_code = ""
        self._is_counted = is_counted(destination)
        self._is_renewal_due = False
        self._prefixes: dict[tuple[bool, bool], bytes] = {}
        self._headers = _NONE
        self._forgotten: list[tuple[ProducedMessage, HoldfastError]] = []
        """Refused since the broker has forgotten us, and not sent again yet."""

    @property
    def producer_id(self) -> str:
        """The id on the wire; another one after an outcome stayed unknown."""
        return self._sequence.id

    async def send(
        self,
        body: Body,
        *,
        headers: Headers | None = None,
        persistent: bool = True,
        **properties: Unpack[Properties],
    ) -> Confirmation:
        """
        Send a message as soon as fewer than `window` are unconfirmed; wait for that, no longer.

        Cancelling while it waits sends nothing. The future returned is done when the broker has
        stored the message, and gives which it is (`Sent`); cancelling it changes nothing but that
        nobody waits.

        Raises:
            HoldfastError: An earlier message of this producer was refused or given up, told once;
                the next call goes on.
            LocalProtocolError: The message can never be sent.
        """
        if properties:
            headers = headers_with(headers, properties)
        return await self.send_encoded(*encode_body(body), headers, persistent=persistent)

    async def send_encoded(
        self, encoded: bytes, text_line: bytes, headers: Headers | None, *, persistent: bool
    ) -> Confirmation:
        """As `send`, for a body that `encode_body` has encoded."""
        session = self._session
        if (
            self.unconfirmed >= self.window
            or session.failures
            or session.outstanding.bytes >= session.settings.unconfirmed_bytes_max
        ):
            await self._wait_place()
        is_numbered = session.is_holdfast and (
            (persistent and self._is_counted) or _is_scheduled(session, headers)
        )
        prefix = self._prefix(headers, persistent, is_numbered)
        session.check_open()
        if self._ended_by is not None:
            raise anew(self._ended_by)
        receipt = session.next_receipt()
        if is_numbered:
            number = self._sequence.next()
            frame = produced_send(prefix, number, receipt, text_line, encoded)
        else:
            number = 0
            frame = plain_send(prefix, receipt, text_line, encoded)
        confirmation: Confirmation = session.loop.create_future()
        self.unconfirmed += 1
        session.request(ProducedMessage(self, number, frame, confirmation), receipt, frame)
        return confirmation

    async def flush(self) -> None:
        """
        Wait until every message sent has its outcome. Cancelling stops the wait.

        Raises:
            HoldfastError: The first refusal since the last one told.
        """
        while self.unconfirmed:
            await self._settled.wait()
        self._raise_failure()

    async def __aenter__(self) -> Self:
        """Nothing is sent by entering."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Flush, unless the block failed."""
        if error is None:
            await self.flush()

    async def _wait_place(self) -> None:
        while True:
            if self in self._session.failures:
                await self.flush()
            if self.unconfirmed >= self.window:
                await self._places.wait()
            elif not self._session.has_room:
                await self._session.wait_room()
            elif self not in self._session.failures:
                return

    def _prefix(self, headers: Headers | None, persistent: bool, is_numbered: bool) -> bytes:
        """The constant part of a message; kept until other headers come."""
        # By their texts: True, 1 and 1.0 are equal, and not the same on the wire.
        texts = {name: text_of(value) for name, value in headers.items()} if headers else _NONE
        if texts != self._headers:
            encode_lines(texts)
            self._prefixes = {}
            self._headers = texts
        prefix = self._prefixes.get((persistent, is_numbered))
        if prefix is None:
            lines = encode_lines(self._headers)
            if is_numbered:
                lines = self._sequence.line + lines
            prefix = send_prefix(self.destination, lines, persistent=persistent)
            self._prefixes[persistent, is_numbered] = prefix
        return prefix

    def message_confirmed(self, number: int) -> None:
        """The broker has stored a message; 0 stands for one without a number."""
        self.confirmed_count += 1
        if self._refused_number and number > self._refused_number:
            # Not a broker that numbers producers: the refused number cannot be used again.
            self._is_renewal_due = True
        self._answered()

    def message_forgotten(self, message: ProducedMessage, error: HoldfastError) -> bool:
        """
        The broker knows nothing of this producer. If that is all, the message is sent again once.

        Whatever else is under way will be refused for the same reason; when the last has been, all
        of them go again in their order, under another id.
        """
        if (
            self._is_fixed
            or self._refused_number
            or message.is_repeated
            or not self._sequence.is_forgotten(message.number, error)
        ):
            return False
        self._forgotten.append((message, error))
        self._repeat_forgotten()
        return True

    def _repeat_forgotten(self) -> None:
        if not self._forgotten or len(self._forgotten) < self.unconfirmed:
            return
        forgotten, self._forgotten = self._forgotten, []
        before = self._sequence.line
        self._sequence.renew()
        self._prefixes = {}
        for message, _ in forgotten:
            message.is_repeated = True
            after = self._sequence.next()
            message.frame = renumbered(
                message.frame, (before, message.number), (self._sequence.line, after)
            )
            message.number = after
            self._session.request(message, message.receipt, message.frame)

    def message_refused(self, number: int, error: HoldfastError) -> None:
        """The broker has not stored a message."""
        forgotten, self._forgotten = self._forgotten, []
        for message, why in forgotten:
            # Among them one was refused for another reason: none after it may be stored.
            message.fail(why)
        self._session.failures.add(self, f"to {self.destination}", error)
        if self._is_fixed:
            self._ended_by = self._ended_by or error
        if number and not self._refused_number:
            self._refused_number = number
            self._refused_code = error.code if isinstance(error, RefusedError) else ""
        self._answered()

    def message_abandoned(self, number: int, error: HoldfastError) -> None:
        """Whether the broker has stored a message is unknown: its number is burnt."""
        self._is_renewal_due = self._is_renewal_due or number > 0
        self.message_refused(number, error)

    def _answered(self) -> None:
        self.unconfirmed -= 1
        self._repeat_forgotten()
        if not self.unconfirmed:
            if self._refused_number and not self._is_fixed:
                self._begin_anew()
            self._settled.wake_all()
            self._places.wake_all()
        else:
            self._places.wake_one()

    def _begin_anew(self) -> None:
        if self._is_renewal_due:
            self._sequence.renew()
        else:
            self._sequence.refused(self._refused_number, self._refused_code)
        self._refused_number = 0
        self._is_renewal_due = False
        self._prefixes = {}

    def _raise_failure(self) -> None:
        failure = self._session.failures.take(self)
        if failure is not None:
            self.told = failure
            # Whoever waited for a place was woken to hear this, and may have handed nothing on.
            self._places.wake_all()
            raise failure.error


class ProducedMessage(Operation):
    """A message of a producer, until its receipt."""

    __slots__ = ("confirmation", "frame", "is_repeated", "number", "producer")

    is_limited_by_timeout = True

    def __init__(
        self, producer: Producer, number: int, frame: bytes, confirmation: Confirmation
    ) -> None:
        self.size_bytes = len(frame)
        self.awaited_count = 0
        self.deadline = None
        self.links = 1
        self.producer = producer
        self.number = number
        self.frame = frame
        self.is_repeated = False
        self.confirmation = confirmation

    def received(self, receipt: str) -> None:
        confirmation = self.confirmation
        if not confirmation.done():
            number = self.number
            confirmation.set_result(
                Sent(self.producer.producer_id, number) if number else UNNUMBERED
            )
        self.producer.message_confirmed(self.number)

    def refused(self, receipt: str, error: HoldfastError) -> None:
        if self.links > 1:
            self.abandoned(doubtful(error))
        elif not self.producer.message_forgotten(self, error):
            self.fail(error)

    def fail(self, error: HoldfastError) -> None:
        """It is not stored."""
        fail(self.confirmation, error)
        self.producer.message_refused(self.number, error)

    def abandoned(self, error: HoldfastError) -> None:
        fail(self.confirmation, error)
        self.producer.message_abandoned(self.number, error)

    def replay(self) -> list[tuple[str, bytes]]:
        self.links += 1
        if not self.number and self.producer.marks_repeats:
            self.frame = repeated(self.frame)
        return [(self.receipt, self.frame)]


class SingleMessage(Operation):
    """A message sent by `Connection.send`, with a borrowed producer id if it is numbered."""

    __slots__ = ("destination", "frame", "is_repeated", "outcome", "sequence", "session")

    is_limited_by_timeout = True

    def __init__(
        self,
        session: ClientSession,
        sequence: ProducerSequence | None,
        destination: str,
        frame: bytes,
    ) -> None:
        super().__init__(len(frame))
        self.session = session
        self.destination = destination
        self.sequence = sequence
        self.frame = frame
        self.is_repeated = False
        self.outcome: asyncio.Future[Sent] = session.loop.create_future()

    def received(self, receipt: str) -> None:
        sequence = self.sequence
        if not self.outcome.done():
            sent = UNNUMBERED if sequence is None else Sent(sequence.id, sequence.last)
            self.outcome.set_result(sent)
        if sequence is not None:
            self.session.loans.give_back(sequence)

    def refused(self, receipt: str, error: HoldfastError) -> None:
        if self.links > 1:
            self.abandoned(doubtful(error))
            return
        if self._repeat(error):
            return
        if self.sequence is not None:
            code = error.code if isinstance(error, RefusedError) else ""
            self.sequence.refused(self.sequence.last, code)
            self.session.loans.give_back(self.sequence)
        self._fail(error)

    def _repeat(self, error: HoldfastError) -> bool:
        """Send it again under another id, once, if the broker has only forgotten this one."""
        sequence = self.sequence
        if (
            sequence is None
            or self.is_repeated
            or not sequence.is_forgotten(number := sequence.last, error)
        ):
            return False
        self.is_repeated = True
        before = sequence.line
        sequence.renew()
        self.frame = renumbered(self.frame, (before, number), (sequence.line, sequence.next()))
        self.session.request(self, self.receipt, self.frame)
        return True

    def abandoned(self, error: HoldfastError) -> None:
        if self.sequence is not None:
            self.sequence.renew()
            self.session.loans.give_back(self.sequence)
        self._fail(error)

    def _fail(self, error: HoldfastError) -> None:
        if self.outcome.done():
            # The caller was cancelled and has gone; somebody must hear of it.
            self.session.failures.add(self, f"to {self.destination}", error)
        fail(self.outcome, error)

    def replay(self) -> list[tuple[str, bytes]]:
        self.links += 1
        if self.sequence is None and self.session.settings.marks_repeats:
            self.frame = repeated(self.frame)
        return [(self.receipt, self.frame)]


async def send_single(
    session: ClientSession,
    destination: str,
    body: Body,
    headers: Headers | None,
    *,
    persistent: bool,
) -> Sent:
    """Send one message and wait for its receipt; see `Connection.send`."""
    encode_text(destination, "the destination")
    encoded, text_line = encode_body(body)
    lines = encode_lines(headers)
    await session.wait_room()
    sequence = None
    is_kept = (persistent and is_counted(destination)) or _is_scheduled(session, headers)
    if is_kept and session.is_holdfast:
        sequence = await session.loans.take()
    # Nothing is awaited from here to the request, so a cancelled caller has borrowed nothing.
    receipt = session.next_receipt()
    if sequence is None:
        prefix = send_prefix(destination, lines, persistent=persistent)
        frame = plain_send(prefix, receipt, text_line, encoded)
    else:
        prefix = send_prefix(destination, sequence.line + lines, persistent=persistent)
        frame = produced_send(prefix, sequence.next(), receipt, text_line, encoded)
    operation = SingleMessage(session, sequence, destination, frame)
    session.request(operation, receipt, frame)
    return await operation.outcome


def _is_scheduled(session: ClientSession, headers: Headers | None) -> bool:
    """Whether the broker stores a message until it is due, and so counts it."""
    return headers is not None and not session.settings.carries_headers and says_when(headers)
