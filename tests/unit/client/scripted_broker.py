"""
A small STOMP 1.2 broker on loopback, to be led through any misfortune by a test.

It parses with our own codec, keeps messages in lists, numbers producers as Holdfast does, and does
on demand what real brokers do on bad days: hold receipts back, refuse, hang up in the middle, come
back as another leader over the same store. Several brokers may share one `Store`: a cluster.

A test waits for what the broker has seen (`saw`), never for time to pass.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self, cast

from holdfast.protocols.stomp.codec import encode_frame, encode_receipt, unescape
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    ProtocolFailed,
    SendFrame,
)

KEPT = {
    *(
        "colour",
        "content-length",
        "content-type",
        "correlation-id",
        "persistent",
        "reply-to",
        "type",
    )
}


@dataclass
class Stored:
    """A message in the store."""

    id: str
    destination: str
    headers: dict[str, str]
    body: bytes
    deliveries: int = 0


@dataclass
class Store:
    """What a cluster remembers over the deaths of its brokers."""

    cluster: str = "c1"
    term: int = 1
    messages: dict[str, list[Stored]] = field(default_factory=lambda: defaultdict(list))
    settled: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    producers: dict[str, int] = field(default_factory=dict)
    stored_count: int = 0

    def put(self, destination: str, headers: dict[str, str], body: bytes) -> Stored:
        self.stored_count += 1
        message = Stored(f"ID:{self.cluster}-1-{self.stored_count}", destination, headers, body)
        self.messages[destination].append(message)
        return message

    def settle(self, id: str, *, is_rejected: bool) -> bool:
        for messages in self.messages.values():
            for message in messages:
                if message.id == id:
                    messages.remove(message)
                    (self.rejected if is_rejected else self.settled).append(id)
                    return True
        return id in self.settled or id in self.rejected

    def bodies(self, destination: str) -> list[bytes]:
        return [message.body for message in self.messages[destination]]


@dataclass
class ServedSubscription:
    """A subscription of one connection."""

    id: str
    destination: str
    mode: str
    prefetch: int
    under_way: dict[str, Stored] = field(default_factory=dict)


def id_of(frame: AcknowledgeFrame) -> str:
    """The id an ACK names; raw on the wire, so with its escapes."""
    return unescape(frame.id.decode(), "1.2")


class Served(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.stomp = StompConnection("server")
        self.subscriptions: dict[str, ServedSubscription] = {}
        self.transactions: dict[str, list[Event]] = {}
        self.deliveries = 0
        self.received = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.broker.connections.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        if self in self.broker.connections:
            self.broker.connections.remove(self)
        self.broker.noticed()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.broker.noticed()
        if self.broker.is_deaf:
            return
        self.stomp.receive_data(data)
        for event in self.stomp.events_received():
            self.broker.events.append(event)
            self.serve(event)
        self.broker.noticed()

    def send(self, command: str, body: bytes = b"", **headers: str) -> None:
        pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.transport.write(encode_frame(command, pairs, body, "1.2"))

    def receipt(self, raw: bytes | None) -> None:
        if raw is not None:
            self.broker.answer(lambda: self.transport.write(encode_receipt(raw)))

    def error(
        self, raw: bytes | None, code: str, text: str, named: str | None = None, **more: str
    ) -> None:
        headers = more if raw is None else {"receipt_id": raw.decode()}
        if raw is None and named is not None and self.broker.is_naming:
            headers["id"] = named
        self.broker.answer(lambda: self.send("ERROR", code=code, message=text, **headers))

    # Frames --------------------------------------------------------------------------------------

    def serve(self, event: Event) -> None:
        refusal = self.broker.refuse(event)
        if refusal is not None:
            named = id_of(event) if isinstance(event, AcknowledgeFrame) else None
            self.error(getattr(event, "receipt", None), *refusal, named)
        elif isinstance(event, SendFrame):
            self.serve_send(event)
        elif isinstance(event, AcknowledgeFrame):
            self.serve_acknowledge(event)
        elif isinstance(event, ProtocolFailed):
            self.error(event.receipt, event.error.code, str(event.error))
            self.transport.close()
        else:
            getattr(self, f"serve_{event.command.lower()}")(event)

    def serve_connect(self, frame: Frame) -> None:
        if self.broker.refuse_connect is not None:
            code, text = self.broker.refuse_connect
            self.send("ERROR", code=code, message=text)
            self.transport.close()
            return
        headers = {"version": "1.2", "heart_beat": self.broker.heart_beat}
        self.send("CONNECTED", **headers, **self.broker.greeting())

    def serve_disconnect(self, frame: Frame) -> None:
        self.receipt(frame.receipt)

    def number_refused(self, headers: dict[str, str], number: bytes | str | None) -> str | None:
        """None: take it. "again": it is stored already. Otherwise why not."""
        producer = headers.get("producer-id")
        if producer is None or number is None:
            return None
        last = self.broker.store.producers.get(producer, 0)
        if int(number) <= last:
            return "again"
        if int(number) > last + 1:
            return f"producer {producer}: expected {last + 1}, found {int(number)}"
        self.broker.store.producers[producer] = int(number)
        return None

    def gap_code(self, headers: dict[str, str]) -> str:
        known = headers["producer-id"] in self.broker.store.producers
        return "producer-sequence-gap" if known else "producer-forgotten"

    def serve_send(self, frame: SendFrame) -> None:
        headers = frame.block.headers
        transaction = headers.get("transaction")
        if transaction is not None:
            self.transactions[transaction].append(frame)
            self.receipt(frame.receipt)
            return
        # As Holdfast does: only what is stored is counted.
        is_stored = headers.get("persistent") == "true" and "/topic/" not in headers["destination"]
        why = self.number_refused(headers, frame.producer_sequence) if is_stored else None
        if why is not None and why != "again":
            self.error(frame.receipt, self.gap_code(headers), why)
            return
        if why is None:
            self.store(frame)
        self.receipt(frame.receipt)
        self.broker.dispatch()

    def store(self, frame: SendFrame) -> None:
        headers = frame.block.headers
        kept = {name: headers[name] for name in headers if name in KEPT}
        self.broker.store.put(headers["destination"], kept, frame.body)

    def serve_acknowledge(self, frame: AcknowledgeFrame) -> None:
        transaction = frame.block.headers.get("transaction") if frame.block else None
        if transaction is not None:
            self.transactions[transaction].append(frame)
        elif not self.settle(frame):
            return
        self.receipt(frame.receipt)
        self.broker.dispatch()

    def settle(self, frame: AcknowledgeFrame) -> bool:
        """Do what an ACK or NACK asks; False, and refused, if it cannot be done."""
        id = id_of(frame)
        for subscription in self.subscriptions.values():
            if id in subscription.under_way:
                if frame.block is not None and "requeue" in frame.block.headers:
                    del subscription.under_way[id]  # It comes again, whenever that is.
                    return True
                self.settle_delivery(subscription, id, is_rejected=frame.negative)
                return True
            for delivery, message in subscription.under_way.items():
                if message.id == id:
                    # As Holdfast does: the message's own id means exactly that one.
                    del subscription.under_way[delivery]
                    self.broker.store.settle(id, is_rejected=frame.negative)
                    return True
        if frame.negative or id.startswith("d"):
            # As Holdfast does: only a message's own id is fine if it is settled already.
            self.error(frame.receipt, "unknown-delivery", f"{id} was not delivered here", id)
            return False
        self.broker.store.settle(id, is_rejected=False)
        return True

    def settle_delivery(
        self, subscription: ServedSubscription, id: str, *, is_rejected: bool
    ) -> None:
        ids = list(subscription.under_way)
        is_cumulative = subscription.mode == "client" and not is_rejected
        covered = ids[: ids.index(id) + 1] if is_cumulative else [id]
        for delivery in covered:
            message = subscription.under_way.pop(delivery)
            self.broker.store.settle(message.id, is_rejected=is_rejected)

    def serve_subscribe(self, frame: Frame) -> None:
        headers = frame.headers
        prefetch = int(headers.get("activemq.prefetchSize", "1000"))
        self.subscriptions[headers["id"]] = ServedSubscription(
            headers["id"], headers["destination"], headers["ack"], prefetch
        )
        self.receipt(frame.receipt)
        self.broker.dispatch()

    def serve_unsubscribe(self, frame: Frame) -> None:
        self.subscriptions.pop(frame.headers["id"], None)
        self.receipt(frame.receipt)
        self.broker.dispatch()

    def serve_begin(self, frame: Frame) -> None:
        self.transactions[frame.headers["transaction"]] = []
        self.receipt(frame.receipt)

    def serve_abort(self, frame: Frame) -> None:
        self.transactions.pop(frame.headers["transaction"], None)
        self.receipt(frame.receipt)

    def serve_commit(self, frame: Frame) -> None:
        parts = self.transactions.pop(frame.headers["transaction"])
        why = self.number_refused(frame.headers, frame.headers.get("producer-sequence"))
        if why is not None and why != "again":
            self.error(frame.receipt, self.gap_code(frame.headers), why)
            return
        if why is None:
            for part in parts:
                if isinstance(part, SendFrame):
                    self.store(part)
                else:
                    assert isinstance(part, AcknowledgeFrame)
                    self.settle(part)
        self.receipt(frame.receipt)
        self.broker.dispatch()

    def deliver(self, subscription: ServedSubscription, message: Stored) -> None:
        self.deliveries += 1
        delivery = f"d{id(self) % 10_000}-{self.deliveries}"
        subscription.under_way[delivery] = message
        message.deliveries += 1
        headers = dict(message.headers)
        if message.deliveries > 1:
            headers["redelivered"] = "true"
        pairs = [
            ("destination", message.destination),
            ("message-id", message.id),
            ("subscription", subscription.id),
            ("ack", delivery),
            *headers.items(),
        ]
        self.transport.write(encode_frame("MESSAGE", pairs, message.body, "1.2"))


class ScriptedBroker:
    """A broker; `async with ScriptedBroker() as broker` listens on a free port."""

    served = Served
    """How it serves one connection."""

    def __init__(self, store: Store | None = None, *, port: int = 0) -> None:
        self.store = store or Store()
        self.term: int | None = None
        """A term of its own; None tells the store's."""

        self.port = port
        self.heart_beat = "0,0"
        self.events: list[Event] = []
        self.connections: list[Served] = []
        self.refuse: Callable[[Event], tuple[str, str] | None] = lambda _event: None
        self.refuse_connect: tuple[str, str] | None = None
        self.is_holding = False
        self.is_deaf = False
        self.is_dispatching = True
        self.is_naming = True
        """Whether the refusal of an acknowledgement names it, as Holdfast's does."""

        self.tls: ssl.SSLContext | None = None
        self._held: list[Callable[[], None]] = []
        self._server: asyncio.Server | None = None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    @property
    def uri(self) -> str:
        return f"stomp://127.0.0.1:{self.port}"

    def greeting(self) -> dict[str, str]:
        term = self.store.term if self.term is None else self.term
        return {
            "server": "Holdfast/test",
            "holdfast_cluster": self.store.cluster,
            "holdfast_term": str(term),
            "holdfast_node": f"node-{self.port}",
        }

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: self.served(self), "127.0.0.1", self.port, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Hang up on everybody without a word, and listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.hang_up()

    def hang_up(self) -> None:
        """Hang up on everybody, and go on listening."""
        self._held.clear()
        for connection in list(self.connections):
            connection.transport.abort()
        self.connections.clear()

    def dispatch(self) -> None:
        """Give every message that is not under way to the first subscription with room."""
        if not self.is_dispatching:
            return
        subscriptions = [
            (connection, subscription)
            for connection in self.connections
            for subscription in connection.subscriptions.values()
        ]
        busy = {
            message.id
            for _, subscription in subscriptions
            for message in subscription.under_way.values()
        }
        for connection, subscription in subscriptions:
            for message in self.store.messages[subscription.destination]:
                if message.id in busy or len(subscription.under_way) >= subscription.prefetch:
                    continue
                busy.add(message.id)
                connection.deliver(subscription, message)

    # Receipts ------------------------------------------------------------------------------------

    def answer(self, write: Callable[[], None]) -> None:
        if self.is_holding:
            self._held.append(write)
        else:
            write()

    def release(self) -> None:
        """Send what was held back, and hold no more."""
        self.is_holding = False
        for write in self._held:
            write()
        self._held.clear()

    # What a test asks ----------------------------------------------------------------------------

    async def saw(self, condition: Callable[[], Any]) -> None:
        """Wait until the condition holds, which is looked at whenever something came in."""
        if condition():
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((lambda: bool(condition()), waiter))
        await waiter

    def noticed(self) -> None:
        for condition, waiter in list(self._waiting):
            if not waiter.done() and condition():
                waiter.set_result(None)
        self._waiting = [item for item in self._waiting if not item[1].done()]

    def frames(self, command: str) -> list[Frame]:
        return [
            event for event in self.events if isinstance(event, Frame) and event.command == command
        ]

    @property
    def sends(self) -> list[SendFrame]:
        return [event for event in self.events if isinstance(event, SendFrame)]

    @property
    def settled_ids(self) -> list[str]:
        return [id_of(frame) for frame in self.settlements]

    @property
    def settlements(self) -> list[AcknowledgeFrame]:
        return [event for event in self.events if isinstance(event, AcknowledgeFrame)]

    def failover(self, *others: ScriptedBroker, options: str = "randomize=false") -> str:
        """A failover URI of this broker and others, in this order."""
        uris = ",".join(broker.uri for broker in (self, *others))
        return f"failover:({uris})?{options}"
