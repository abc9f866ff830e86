"""
Transactions: sends and acknowledgements that happen together or not at all.

A transaction is collected here and put to the broker only at the commit. So rolling back costs
nothing, a broker never waits for an application to make up its mind, and a failover before the
COMMIT's receipt simply says the whole again: the COMMIT carries one number of a producer, by which
the broker knows whether it has been done. The COMMIT leaves when every part has been taken; if one
was refused, nothing is committed.

Another broker than Holdfast knows no such number. There a COMMIT that was under way when the link
was lost is not repeated, and a transaction whose messages the broker has taken back is not, either.
RabbitMQ gives the receipts of sends only after the COMMIT: an empty transaction behind the parts,
whose end has a receipt, tells that all of them were taken.

Invariants:
    A COMMIT is sent only when all parts have been taken on the same link.
    Every attempt carries the same number.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self, Unpack

from holdfast.client.message import Message
from holdfast.client.outstanding import Operation, doubtful
from holdfast.client.refusal import anew
from holdfast.client.requests import Farewell, fail, succeed
from holdfast.client.sent_properties import Properties, headers_with
from holdfast.client.sequence import ProducerSequence
from holdfast.client.session import ClientSession
from holdfast.client.settlements import ACKNOWLEDGE
from holdfast.client.wire import (
    Body,
    Headers,
    control,
    encode_body,
    encode_lines,
    send_prefix,
    settlement,
    transaction_send,
)
from holdfast.errors import (
    HoldfastError,
    LinkLostError,
    RefusedError,
    TransactionError,
    UnknownDeliveryError,
)


class Transaction:
    """
    One transaction; made by `Connection.transaction`.

    As an async context manager it commits when the block ends, and rolls back if the block fails.
    """

    def __init__(self, session: ClientSession) -> None:
        self._session = session
        self._sends: list[tuple[bytes, bytes, bytes]] = []
        self._messages: list[Message] = []
        self._bytes = 0
        self._state = "open"
        self._commit: Commit | None = None

    async def send(
        self,
        destination: str,
        body: Body,
        *,
        headers: Headers | None = None,
        persistent: bool = True,
        **properties: Unpack[Properties],
    ) -> None:
        """
        Add a message, which exists once the transaction is committed. Does not wait.

        Raises:
            TransactionError: The transaction is finished or too large.
            LocalProtocolError: The message can never be sent.
        """
        self._check_open()
        encoded, text_line = encode_body(body)
        lines = encode_lines(headers_with(headers, properties))
        prefix = send_prefix(destination, lines, persistent=persistent)
        self._bytes += len(encoded) + len(prefix)
        limit = self._session.settings.transaction_bytes_max
        if self._bytes > limit:
            raise TransactionError(f"the transaction is larger than {limit:,} bytes")
        self._sends.append((prefix, text_line, encoded))

    async def acknowledge(self, message: Message) -> None:
        """
        Add the acknowledgement of a message; in mode "client" with all taken before it.

        If the transaction is rolled back the message can be acknowledged again. Does not wait.

        Raises:
            TransactionError: The transaction is finished, the message is settled or in another one.
            UnknownDeliveryError: The broker has taken the message back, and will deliver it again.
        """
        self._check_open()
        if message.is_settled:
            raise TransactionError(f"message {message.id} is settled already")
        if message.transaction is not None:
            raise TransactionError(f"message {message.id} is in a transaction already")
        if message.subscription.is_taken_back(message):
            raise UnknownDeliveryError(f"the broker has taken message {message.id} back")
        for covered in message.subscription.covered_by(message):
            covered.transaction = self
            self._messages.append(covered)

    async def commit(self) -> None:
        """
        Do it all, and wait until the broker has stored it.

        Cancelling stops the wait, not the commit (`wait_outcome` asks for it later); while it waits
        for room to send it rolls back.

        Raises:
            RefusedError: The broker refused a part or the whole; nothing of it was done.
            LinkError: The connection ended, or the repetition after a failover was refused;
                whether it was done is unknown.
        """
        self._check_open()
        self._state = "committed"
        if not self._sends and not self._messages:
            return
        session = self._session
        try:
            await session.wait_room()
            sequence = await session.loans.take()
        except BaseException:
            self._state = "rolled back"
            self._release()
            raise
        self._commit = Commit(session, sequence, self._sends, self._messages)
        self._commit.begin()
        await self._commit.outcome

    async def wait_outcome(self) -> None:
        """
        Wait until a commit has its outcome, for whoever was cancelled while it was under way.

        Returns when the broker has stored it. Cancelling stops the wait; ask again.

        Raises:
            RefusedError: As `commit`: nothing of it was done.
            LinkError: As `commit`: whether it was done is unknown.
            TransactionError: It was never committed.
        """
        commit = self._commit
        if commit is not None:
            await commit.wait_outcome()
        elif self._state != "committed":
            raise TransactionError(f"the transaction is {self._state}, not committed")

    async def roll_back(self) -> None:
        """Forget it all. Does not wait; doing it twice does nothing."""
        if self._state == "open":
            self._state = "rolled back"
            self._release()

    def _release(self) -> None:
        for message in self._messages:
            message.transaction = None
        self._messages = []
        self._sends = []

    def _check_open(self) -> None:
        if self._state != "open":
            raise TransactionError(f"the transaction is {self._state} already")

    async def __aenter__(self) -> Self:
        """Nothing is sent by entering."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back if the block failed; nothing if either was done in the block."""
        if error is not None:
            await self.roll_back()
        elif self._state == "open":
            await self.commit()


class Commit(Operation):
    """A transaction on its way: BEGIN, its parts, and after all their receipts COMMIT."""

    __slots__ = (
        "_awaited",
        "_error",
        "_is_asked_once",
        "_is_committing",
        "_is_finished",
        "_is_repeated",
        "_may_be_done",
        "_messages",
        "_name",
        "_number",
        "_probe",
        "_sends",
        "_sequence",
        "_session",
        "outcome",
    )

    is_limited_by_timeout = True

    def __init__(
        self,
        session: ClientSession,
        sequence: ProducerSequence,
        sends: list[tuple[bytes, bytes, bytes]],
        messages: list[Message],
    ) -> None:
        super().__init__(sum(len(prefix) + len(body) for prefix, _, body in sends))
        self.outcome: asyncio.Future[None] = session.loop.create_future()
        self._session = session
        self._sequence = sequence
        self._sends = sends
        self._messages = messages
        self._number = sequence.next()
        self._name = f"{sequence.id}-{self._number}"
        self._awaited: set[str] = set()
        self._probe = ""
        self._error: HoldfastError | None = None
        self._is_asked_once = False
        self._is_committing = False
        self._is_finished = False
        self._is_repeated = False
        self._may_be_done = False

    async def wait_outcome(self) -> None:
        """Wait for the outcome, or tell it again."""
        if not self._is_finished:
            if self.outcome.cancelled():
                self.outcome = self._session.loop.create_future()
            await self.outcome
        elif self._error is not None:
            # Told by this; else the connection's `close` would tell it once more.
            self._session.failures.take(self)
            raise anew(self._error)

    def begin(self) -> None:
        """Send all but the COMMIT."""
        for receipt, frame in self.replay():
            self._session.request(self, receipt, frame)

    def replay(self) -> list[tuple[str, bytes]]:
        lost = self._loss()
        if lost is not None:
            self.abandoned(lost)
            return []
        # The COMMIT itself was under way when the link was lost.
        self._may_be_done = self._may_be_done or self._is_committing
        self._is_committing = False
        name = self._name
        receipt = self._session.next_receipt()
        frames = [(receipt, control("BEGIN", transaction=name, receipt=receipt))]
        for prefix, text_line, body in self._sends:
            receipt = self._session.next_receipt()
            frames.append((receipt, transaction_send(prefix, name, receipt, text_line, body)))
        for id in self._settled_ids():
            receipt = self._session.next_receipt()
            frames.append((receipt, settlement(ACKNOWLEDGE, id, receipt, name)))
        self._is_asked_once = not self._session.is_holdfast
        if self._is_asked_once:
            frames.append(self._probe_frames())
        self._awaited = {receipt for receipt, _ in frames}
        return frames

    def _loss(self) -> HoldfastError | None:
        """Why it cannot be said again, or for the first time, on a new link."""
        if self._is_asked_once and self._is_committing:
            return LinkLostError(
                "the link was lost while it was committed, and the broker is no Holdfast, which"
                " could be asked again: whether it was done is unknown"
            )
        if any(message.subscription.is_taken_back(message) for message in self._messages):
            return TransactionError(
                "the link was lost before it was committed: nothing of it was done, and the broker"
                " will deliver its messages again"
            )
        return None

    def _probe_frames(self) -> tuple[str, bytes]:
        self._probe = receipt = self._session.next_receipt()
        name = f"{self._name}-probe"
        begin = control("BEGIN", transaction=name)
        return receipt, begin + control("ABORT", transaction=name, receipt=receipt)

    def _settled_ids(self) -> list[str]:
        """What to acknowledge: by the delivery, or after its link was lost by the message's id."""
        return [
            message.subscription.exact_id(message, ACKNOWLEDGE) or message.id
            for message in self._messages
        ]

    def received(self, receipt: str) -> None:
        self._awaited.discard(receipt)
        if self._awaited and (self._is_committing or receipt != self._probe):
            return
        if self._is_committing:
            for message in self._messages:
                message.transaction = None
                message.subscription.forget(message, ACKNOWLEDGE)
                self._session.settlements.committed(message.id)
            self._finish(None)
            return
        self._is_committing = True
        receipt = self._session.next_receipt()
        self._awaited.add(receipt)
        number = {"producer_id": self._sequence.id, "producer_sequence": str(self._number)}
        if self._is_asked_once:
            number = {}
        frame = control("COMMIT", transaction=self._name, receipt=receipt, **number)
        self._session.request(self, receipt, frame)

    def refused(self, receipt: str, error: HoldfastError) -> None:
        session = self._session
        session.outstanding.drop(self)
        # The broker may or may not keep the transaction open; that ABORT is refused tells nobody.
        abort = Farewell(session.loop.create_future())
        receipt = session.next_receipt()
        frame = control("ABORT", transaction=self._name, receipt=receipt)
        session.request(abort, receipt, frame)
        if self._may_be_done:
            self.abandoned(doubtful(error))
            return
        if not self._is_repeated and self._sequence.is_forgotten(self._number, error):
            self._repeat()
            return
        code = error.code if isinstance(error, RefusedError) and self._is_committing else ""
        self._sequence.refused(self._number, code)
        self._release()
        self._finish(error)

    def _repeat(self) -> None:
        """All of it again under another id: the broker had only forgotten this one."""
        self._is_repeated = True
        self._is_committing = False
        self._sequence.renew()
        self._number = self._sequence.next()
        self._name = f"{self._sequence.id}-{self._number}"
        self.begin()

    def abandoned(self, error: HoldfastError) -> None:
        self._sequence.renew()
        self._release()
        self._finish(error)

    def _release(self) -> None:
        for message in self._messages:
            message.transaction = None
            # The broker may deliver it once more, behind what came after it.
            message.is_out_of_order = True

    def _finish(self, error: HoldfastError | None) -> None:
        self._session.loans.give_back(self._sequence)
        self._is_finished = True
        self._error = error
        if error is None:
            succeed(self.outcome)
        else:
            if self.outcome.done():
                # The caller was cancelled and has gone; somebody must hear of it.
                count = len(self._sends) or len(self._messages)
                self._session.failures.add(self, "of a transaction", error, count=count)
            fail(self.outcome, error)
