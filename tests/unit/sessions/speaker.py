"""
A session of no protocol at all, for tests of what every protocol's session has.
"""

from __future__ import annotations

from holdfast.broker.serving.message import TransientMessage
from holdfast.errors import RefusedError
from holdfast.model.destination import parse_destination
from holdfast.model.records import MessageRecord
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.target import Action, Goodbye, Target


class Block:
    cost_bytes = 10


class Message:
    """What a speaker sends."""

    block = Block()

    def __init__(
        self,
        name: str,
        body: bytes = b"x",
        receipt: bytes | None = None,
        *,
        persistent: bool = True,
    ) -> None:
        self.name = name
        self.body = body
        self.receipt = receipt
        self.producer_sequence: bytes | None = None
        self.persistent = persistent
        self.transaction: str | None = None


class Form:
    """Bodies as they are."""

    def write(self, out, key, message: MessageRecord | TransientMessage, *, redelivered) -> None:
        assert message.body is not None
        out.append(message.body)

    def write_shared(self, out, serial, message) -> None:
        self.write(out, serial, message, redelivered=False)


class Speaker(ClientSession):
    """Does what the test says, and notes what it is told."""

    protocol_name = "SPEAKER"

    def __init__(self, desk) -> None:
        super().__init__(desk.broker, desk.context, desk.read_message)
        self.room_bytes = 1 << 20
        self.told: list[object] = []

    def receive(self, data, is_spent=lambda: False) -> bool:
        self.send(Message("/queue/q", data))
        return True

    def send(self, message: Message) -> None:
        self.holdings.sending.send(self, self.target_of(message), message)

    def target_of(self, sending) -> Target:
        place = self.holdings.target(self, parse_destination(sending.name), Action.SEND)
        target = Target(place, b"", persistent=sending.persistent)
        target.transaction = sending.transaction
        target.is_limited = self.holdings.broker.limiting.are_limited((place,))
        return target

    def refuse(self, error: RefusedError, sending) -> None:
        self.told.append(("refused", sending.body, error.code))

    def goodbye(self, goodbye: Goodbye) -> None:
        self.told.append(goodbye)

    def deliver(self, subscription, key, message, *, redelivered) -> None:
        subscription.form.write(self.out, key, message, redelivered=redelivered)

    def reply(self, receipt: bytes) -> None:
        self.told.append(receipt)

    def confirm(self, receipt: bytes) -> None:
        self.unconfirmed_count -= 1
        self.told.append(receipt)

    def say_refused(self, error: RefusedError, receipt: bytes | None) -> None:
        self.told.append(("refused", error.code, receipt))

    def say_ended(self, error: RefusedError, subscription) -> None:
        self.told.append(("ended", error.code, subscription.id))

    def farewell(self, text: str, code: str) -> None:
        self.told.append((text, code))
        self.is_closing = True
