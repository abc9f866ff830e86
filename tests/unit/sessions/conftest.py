"""
A broker with STOMP clients that speak raw bytes, and a conductor that turns when it is told to.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.moved import read_as_it_stands
from holdfast.broker.outputs import Batch
from holdfast.broker.serving.router.examiner import Examiner
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import RecordNotFoundError
from holdfast.model.format_level import MOVES_LEVEL, RETURNS_LEVEL
from holdfast.model.records import MessageRecord, MoveRecord
from holdfast.protocols.stomp.codec import encode_frame
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import Frame, ProtocolFailed
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.sessions.context import SessionContext
from holdfast.sessions.stomp import StompSession
from holdfast.store.record_codec import decode_records, encode_records


class StompClient:
    """The other end of one session."""

    def __init__(self, desk: Desk, version: str, headers: dict[str, str]) -> None:
        self.desk = desk
        self.session = StompSession(
            desk.broker, desk.context, desk.stomp, desk.read_message, opened_at=0.0
        )
        self.session.room_bytes = 1 << 30
        self.parser = StompConnection("client")
        self.version = version
        if version:
            named = [("accept-version", version), *headers.items()]
            self.raw(encode_frame("CONNECT", named, b"", "1.2"))
            (connected,) = self.frames()
            assert connected.command == "CONNECTED"
            self.connected = connected

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.session.receive(data)

    def say(self, command: str, body: bytes = b"", **headers: str) -> None:
        """Send a frame; `_` in header names stands for `-`, `__` for a dot; ActiveMQ's have it."""
        named = [
            (
                name if name.startswith("AMQ_") else name.replace("__", ".").replace("_", "-"),
                value,
            )
            for name, value in headers.items()
        ]
        self.raw(encode_frame(command, named, body, self.version or "1.2"))

    def send(self, body: bytes, destination: str = "/queue/orders", **headers: str) -> None:
        """Send a persistent message."""
        self.say("SEND", body, destination=destination, **{"persistent": "true", **headers})

    def bytes(self) -> bytes:
        """Take what was sent to us, as it is on the wire."""
        data = b"".join(self.session.out)
        self.session.out.clear()
        return data

    def frames(self) -> list[Frame]:
        """Take the frames sent to us."""
        self.parser.receive_data(self.bytes())
        frames = self.parser.events_received()
        assert not any(isinstance(frame, ProtocolFailed) for frame in frames), frames
        return frames  # type: ignore[return-value]

    def ask(self, command: str, body: bytes = b"", **headers: str) -> list[Frame]:
        """Send a frame, let the broker do all there is to do, and take the answers."""
        self.say(command, body, **headers)
        self.desk.turn()
        return self.frames()

    def refusal(self, command: str, body: bytes = b"", **headers: str) -> Frame:
        """Send a frame that must be refused, and give the ERROR."""
        (frame,) = self.ask(command, body, **headers)
        assert frame.command == "ERROR", frame
        return frame

    def bodies(self) -> list[str]:
        """Let the broker do all there is to do; give the bodies of the messages that came."""
        self.desk.turn()
        return [frame.body.decode() for frame in self.frames() if frame.command == "MESSAGE"]

    def subscribe(self, destination: str = "/queue/orders", id: str = "s", **headers: str) -> None:
        """Subscribe, by default with individual acknowledgement."""
        self.say(
            "SUBSCRIBE",
            destination=destination,
            id=id,
            **{"ack": "client-individual", **headers},
        )

    def leave(self) -> None:
        """Lose the connection."""
        self.session.disconnected()
        self.session.leave()


class Desk:
    """A leading broker, its log, and the loop that a server would run."""

    def __init__(self, settings: BrokerSettings | None = None) -> None:
        self.settings = settings or BrokerSettings()
        self.stomp = StompSettings()
        self.context = SessionContext(node="n1", version="0.1", cluster="c0ffee")
        self.context.term = 1
        self.broker = Broker(self.settings)
        self.broker.sending.now_microseconds = 1_700_000_000_000_999
        self.broker.moving.cluster = self.context.cluster
        self.broker.advising.speaker = self.context
        self.broker.destinations.read_selector = self.context.selections.read_of_topic
        self.broker.lead()
        self.log: list[tuple[int, int, bytes]] = []
        self.next_record = 1
        self.in_flight: list[tuple[int, int, Batch]] = []
        self.unreadable: Exception | None = None

    def connect(self, version: str = "1.2", **headers: str) -> StompClient:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return StompClient(self, version, named)

    def read_message(self, record_number: int) -> MessageRecord:
        if self.unreadable is not None:
            raise self.unreadable
        for first, _, body in self.log:
            for number, record in enumerate(decode_records(body), start=first):
                if number == record_number and isinstance(record, MessageRecord):
                    return record
        raise RecordNotFoundError(f"record {record_number}")

    def read(self, record_number: int) -> MessageRecord:
        return self.read_message(record_number)

    def read_move(self, record_number: int) -> MoveRecord:
        return next(
            record
            for first, _, body in self.log
            for number, record in enumerate(decode_records(body), start=first)
            if number == record_number and isinstance(record, MoveRecord)
        )

    def seal(self) -> None:
        """Make what has gathered an entry of the log, not yet committed."""
        if not self.broker.receipts.has_batch():
            return
        batch = self.broker.receipts.take_batch()
        for _ in chain.from_iterable(batch.unnumbered):
            pass
        timestamp = 1_000_000 + len(self.log)
        self.log.append((self.next_record, timestamp, b"".join(encode_records(batch.records))))
        self.in_flight.append((self.next_record, timestamp, batch))
        self.next_record += len(batch.records)

    def commit(self) -> None:
        """Apply everything in flight, then reply."""
        while self.in_flight:
            first, timestamp, batch = self.in_flight.pop(0)
            self.broker.apply_batch(batch, first, timestamp)
            for replier, receipt in batch.replies:
                replier.reply(receipt)

    def dispatch(self) -> None:
        for subscription, key, message, number, redelivered in chain.from_iterable(
            self.broker.dispatch()
        ):
            queue = subscription.queue
            content = message or self.read_message(number)
            if message is None and queue is not None:
                content = read_as_it_stands(
                    self, number, queue.number, queue.index, key, self.context.cluster
                )
            if isinstance(subscription, Examiner):
                subscription.examine(key, content)
                continue
            subscription.receiver.deliver(  # type: ignore[attr-defined]
                subscription, key, content, redelivered=redelivered
            )

    def confirm(self) -> None:
        """Tell those whose messages are out."""
        for publisher, receipt in self.broker.publishing.take_receipts(1_000_000):
            publisher.confirm(receipt)

    def turn(self) -> None:
        """Do all there is to do."""
        for _ in range(100):
            self.seal()
            self.commit()
            self.broker.errands.finish()
            self.broker.let_go(lambda: False)
            self.dispatch()
            for session in list(self.context.waiting):
                session.send_waiting()
            self.dispatch()
            self.confirm()
            if not self.broker.receipts.has_batch():
                return
        raise AssertionError("the broker does not come to rest")

    def fail_over(self) -> None:
        """Let another node take over that has only the log; all connections are gone."""
        state = BrokerState(self.settings)
        for first, timestamp, body in self.log:
            state.apply(first, decode_records(body, with_content=False), timestamp)
        self.in_flight.clear()
        self.broker = Broker(self.settings, state)
        self.broker.moving.cluster = self.context.cluster
        self.broker.advising.speaker = self.context
        self.broker.destinations.read_selector = self.context.selections.read_of_topic
        self.broker.lead()
        self.context.term += 1
        self.context.dirty.clear()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def new_desk() -> Callable[[BrokerSettings], Desk]:
    return Desk


@pytest.fixture(params=[1, 2, RETURNS_LEVEL, MOVES_LEVEL], ids="level-{}".format)
def any_level(request: pytest.FixtureRequest, desk: Desk) -> int:
    """Let the log have reached each level of the format in turn."""
    level: int = request.param
    desk.broker.state.format_level = level
    return level
