"""
A load that keeps books: STOMP producers and consumers over raw sockets that outlive their broker.

It shares no code with the broker's protocol, client or session, so that a mistake there cannot hide
here. A connection that is cut off, or silent while it should not be, goes to the next address after
10 ms and sends again what had no receipt. It runs in a thread of its own: the test beside it kills,
pauses and starts brokers and then asks for the account.

Invariants:
    A sequence number is used for one message only, also when it is sent again.
    A message counts as confirmed only by its own receipt.

One thread owns the loop and the ledger; the methods of `Load` may be called from another one.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from trials.clients.ledger import BODY_BYTES_MIN, Account, Ledger, make_body

_RECONNECT_SECONDS = 0.01
_BEAT_MS = 500
_TURN_SECONDS = 0.005
_OUTPUT_BYTES_MAX = 1 << 20
_ENDLESS = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """What a load does; sizes in bytes, times in seconds."""

    destination: str = "/queue/load"
    producers: int = 1
    consumers: int = 1
    window: int = 500
    """Unconfirmed messages per producer."""

    body_bytes: int = 1024
    rate: float = 4_000.0
    """Messages per second at most, over all producers: leaves the machine to the brokers."""

    count_max: int = _ENDLESS
    """Messages per producer at most; a load with such an end is waited for as a whole."""

    mode: str = "client-individual"
    prefetch: int = 500
    persistent: bool = True
    deduplicated: bool = False
    """Send producer-id and producer-sequence, so that a retry is not stored again."""

    settle_receipts: bool = False
    """Ask a receipt for every acknowledgement, and watch that none comes back after it."""

    silence_seconds: float = 1.5
    """A connection that hears nothing for so long, not even a heart-beat, is given up."""

    answer_seconds: float = 0.0
    """The same of a new one that is not answered; 0: as long as any other."""

    def __post_init__(self) -> None:
        assert self.body_bytes >= BODY_BYTES_MIN, "a body holds run, producer and sequence"


class FrameReader:
    """Cuts the broker's bytes into (command, headers, body); heart-beats are left out."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, dict[bytes, bytes], bytes]]:
        """Take bytes and give the frames that are whole now."""
        buffer = self._data
        buffer += data
        start = 0
        while True:
            while start < len(buffer) and buffer[start] in b"\r\n":
                start += 1
            head_end = buffer.find(b"\n\n", start)
            if head_end < 0:
                break
            lines = bytes(buffer[start:head_end]).split(b"\n")
            headers: dict[bytes, bytes] = {}
            for line in lines[1:]:
                name, _, value = line.partition(b":")
                headers.setdefault(name, value)
            body_start = head_end + 2
            if b"content-length" in headers:
                body_end = body_start + int(headers[b"content-length"])
            else:
                body_end = buffer.find(b"\0", body_start)
            if body_end < 0 or body_end >= len(buffer):
                break
            if buffer[body_end]:
                raise ValueError("a frame does not end with NUL where content-length says")
            yield lines[0], headers, bytes(buffer[body_start:body_end])
            start = body_end + 1
        del buffer[:start]


class _Link(asyncio.Protocol):
    """One connection of the load; comes back after every loss until the load ends."""

    def __init__(self, load: Load, number: int) -> None:
        self.load = load
        self.number = number
        self.address = number % len(load.addresses)
        self.transport: asyncio.Transport | None = None
        self.reader = FrameReader()
        self.is_ready = False
        self.heard_at = 0.0
        self.connection_count = 0

    async def keep(self) -> None:
        """Stay connected; runs until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            host, _, port = self.load.addresses[self.address].rpartition(":")
            self.heard_at = time.monotonic()
            self.reader = FrameReader()
            with suppress(OSError):
                await loop.create_connection(lambda: self, host, int(port))
                await self._watch()
            self.address = (self.address + 1) % len(self.load.addresses)
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _watch(self) -> None:
        """Return when the connection is gone or silent for too long."""
        settings = self.load.settings
        while self.transport is not None:
            patience = 0.0 if self.is_ready else settings.answer_seconds
            if time.monotonic() - self.heard_at > (patience or settings.silence_seconds):
                self.transport.abort()
            await asyncio.sleep(_TURN_SECONDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "a TCP connection"
        self.transport = transport
        self.connection_count += 1
        transport.set_write_buffer_limits(high=_OUTPUT_BYTES_MAX)
        beat = b"heart-beat:0,%d\n" % _BEAT_MS
        transport.write(b"CONNECT\naccept-version:1.2\nhost:/\n" + beat + b"\n\0")

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.is_ready = False

    def data_received(self, data: bytes) -> None:
        self.heard_at = time.monotonic()
        for command, headers, body in self.reader.feed(data):
            if command == b"CONNECTED":
                self.connected()
            elif command == b"RECEIPT":
                self.receipt(headers[b"receipt-id"])
            elif command == b"MESSAGE":
                self.message(headers, body)
            elif command == b"ERROR":
                text = headers.get(b"message", b"").decode(errors="replace")
                self.load.ledger.errors.append(text)

    def connected(self) -> None:
        self.is_ready = True

    def receipt(self, name: bytes) -> None:
        raise NotImplementedError

    def message(self, headers: dict[bytes, bytes], body: bytes) -> None:
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)


class _Producer(_Link):
    """Sends while its window allows; keeps what had no receipt."""

    def __init__(self, load: Load, number: int) -> None:
        super().__init__(load, number)
        self.open: OrderedDict[int, None] = OrderedDict()
        settings = load.settings
        persistent = b"persistent:true\n" if settings.persistent else b""
        self.head = b"SEND\ndestination:%b\ncontent-length:%d\n%b" % (
            settings.destination.encode(),
            settings.body_bytes,
            persistent,
        )
        if settings.deduplicated:
            self.head += b"producer-id:%08x-%d\n" % (load.ledger.run, number)

    def connected(self) -> None:
        super().connected()
        for sequence in self.open:
            if not self.load.settings.deduplicated:
                self.load.ledger.note_sent_again(self.number, sequence)
            self._write(sequence)

    def receipt(self, name: bytes) -> None:
        sequence = int(name)
        self.open.pop(sequence, None)
        self.load.ledger.note_confirmed(self.number, sequence, time.monotonic())

    def produce(self, allowance: int) -> int:
        """Send up to so many new messages; gives how many."""
        if not self.is_ready or self.transport is None:
            return 0
        if self.transport.get_write_buffer_size() > _OUTPUT_BYTES_MAX:
            return 0
        ledger, settings = self.load.ledger, self.load.settings
        first = ledger.sent.get(self.number, 0) + 1
        count = min(allowance, settings.window - len(self.open), settings.count_max - first + 1)
        now = time.monotonic()
        for sequence in range(first, first + count):
            ledger.note_sent(self.number, sequence, now)
            self.open[sequence] = None
            self._write(sequence)
        return max(0, count)

    def _write(self, sequence: int) -> None:
        load = self.load
        extra = b"producer-sequence:%d\n" % sequence if load.settings.deduplicated else b""
        body = make_body(load.ledger.run, self.number, sequence, load.settings.body_bytes)
        self.write(b"%b%breceipt:%d\n\n%b\0" % (self.head, extra, sequence, body))


class _Consumer(_Link):
    """Takes and acknowledges everything."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.load.ledger.note_lost(self.number)

    def connected(self) -> None:
        self.load.ledger.note_connected(self.number)
        settings = self.load.settings
        self.write(
            b"SUBSCRIBE\nid:0\nreceipt:subscribed\ndestination:%b\nack:%b\n"
            b"activemq.prefetchSize:%d\n\n\0"
            % (settings.destination.encode(), settings.mode.encode(), settings.prefetch)
        )

    def receipt(self, name: bytes) -> None:
        if name == b"subscribed":
            self.is_ready = True
        else:
            self.load.ledger.note_settled(name)

    def message(self, headers: dict[bytes, bytes], body: bytes) -> None:
        identity = headers[b"message-id"]
        flagged = headers.get(b"redelivered") == b"true"
        self.load.ledger.note_delivered(
            self.number, body, identity, redelivered=flagged, now=time.monotonic()
        )
        if b"ack" in headers:
            wanted = b"receipt:%b\n" % identity if self.load.settings.settle_receipts else b""
            self.write(b"ACK\nid:%b\n%b\n\0" % (headers[b"ack"], wanted))


class Load:
    """
    A running load; use as a context manager around what is done to the brokers.

    Args:
        addresses: `host:port` of every broker that may serve.
    """

    def __init__(self, addresses: Sequence[str], settings: LoadSettings | None = None) -> None:
        self.addresses = list(addresses)
        self.settings = settings or LoadSettings()
        self.ledger = Ledger(secrets.randbits(32), self.settings.body_bytes)
        self.is_producing = True
        self._producers = [_Producer(self, n) for n in range(self.settings.producers)]
        self._consumers = [_Consumer(self, n) for n in range(self.settings.consumers)]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(10)

    @property
    def reconnections(self) -> int:
        """How often a connection came back."""
        links = [*self._producers, *self._consumers]
        return sum(max(0, link.connection_count - 1) for link in links)

    def wait_confirmed(self, more: int, seconds: float = 60.0) -> None:
        """
        Wait until so many more messages are confirmed than now.

        Only of a load without an end: "now" is some time after its start, so that of one with an
        end fewer may be left than are waited for. `wait_all_confirmed` is for those.

        Raises:
            TimeoutError: They were not in time; it tells the account so far.
        """
        assert self.settings.count_max == _ENDLESS, "what is left of a load with an end is unknown"
        wanted = self.ledger.confirmed_count + more
        self._wait(lambda: self.ledger.confirmed_count >= wanted, f"{more} confirms", seconds)

    def wait_all_confirmed(self, seconds: float = 60.0) -> None:
        """
        Wait until every message of a load with an end is confirmed, however early that is.

        Raises:
            TimeoutError: They were not in time; it tells the account so far.
        """
        assert self.settings.count_max < _ENDLESS, "a load without an end is never through"
        wanted = self.settings.count_max * self.settings.producers
        self._wait(lambda: self.ledger.confirmed_count >= wanted, f"all {wanted} confirms", seconds)

    def finish(self, seconds: float = 60.0) -> Account:
        """
        Send nothing new, wait until all is confirmed and delivered, and give the account.

        Raises:
            TimeoutError: Something is missing after so long; it tells the account so far.
        """
        self.is_producing = False
        try:
            self._wait(self._is_complete, "complete", seconds)
            quiet = time.monotonic()
            self._wait(lambda: time.monotonic() - max(quiet, self.ledger.last_event) > 0.3, "quiet")
        finally:
            self._stopping.set()
            self._thread.join(10)
        return self.ledger.account(time.monotonic())

    def _is_complete(self) -> bool:
        ledger = self.ledger
        if ledger.due_count:
            return False
        return not self._consumers or len(ledger.identities) >= ledger.confirmed_count

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if self._failure is not None:
                raise self._failure
            if time.monotonic() > deadline:
                account = self.ledger.account(time.monotonic())
                raise TimeoutError(f"not {what} within {seconds:g} s: {account}")
            time.sleep(_TURN_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - told to the thread that waits
            self._failure = error

    async def _serve(self) -> None:
        links = [*self._producers, *self._consumers]
        tasks = [asyncio.create_task(link.keep()) for link in links]
        credit, then = 0.0, time.monotonic()
        try:
            while not self._stopping.is_set():
                now = time.monotonic()
                credit = min(credit + self.settings.rate * (now - then), self.settings.rate / 10)
                then = now
                if self.is_producing:
                    for producer in self._producers:
                        credit -= producer.produce(int(credit))
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(_TURN_SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for link in links:
                if link.transport is not None:
                    link.transport.abort()
            await asyncio.sleep(0)
