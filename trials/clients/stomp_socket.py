"""
A blocking STOMP client of a few lines, for tests that say what is on the wire.

It shares no code with the broker and checks nothing: what a test sends is what it wrote. Reading is
bounded; a broker that says nothing in time fails the test with what it was expected to say.

One thread owns a socket.
"""

from __future__ import annotations

import secrets
import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from trials.clients.load import FrameReader

if TYPE_CHECKING:
    from holdfast.testing.local_cluster import LocalCluster

_READ_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class ReceivedFrame:
    """One frame from the broker; header names and values as they were on the wire."""

    command: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_redelivered(self) -> bool:
        """Whether the broker says that this message may have been delivered before."""
        return self.headers.get("redelivered") == "true"


class StompSocket:
    """
    One connection; use as a context manager.

    Args:
        timeout_seconds: The longest wait for anything.
        receive_bytes: The size of the socket's own buffer, to be a slow reader; 0 leaves it.
    """

    def __init__(self, port: int, *, timeout_seconds: float = 10.0, receive_bytes: int = 0) -> None:
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(timeout_seconds)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        self.timeout_seconds = timeout_seconds
        self.is_closed = False
        """The broker has closed the connection, as far as was read."""
        self._reader = FrameReader()
        self._frames: deque[ReceivedFrame] = deque()
        self._receipt_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket without a word."""
        self.socket.close()

    def write(self, data: bytes) -> None:
        """Send these bytes."""
        self.socket.sendall(data)

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a frame; headers are written as they are."""
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        self.write(f"{command}\n{lines}\n".encode() + body + b"\0")

    def connect(self, version: str = "1.2", **headers: str) -> dict[str, str]:
        """Send CONNECT and give the headers of CONNECTED."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.send("CONNECT", {"accept-version": version, "host": "/", **names})
        frame = self.read()
        assert frame.command == "CONNECTED", f"CONNECTED expected: {frame}"
        return frame.headers

    def ask(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> ReceivedFrame:
        """Send a frame with a receipt and give the RECEIPT or ERROR for it; others are kept."""
        self._receipt_count += 1
        name = f"r{self._receipt_count}"
        self.send(command, {**headers, "receipt": name}, body)
        return self.await_receipt(name)

    def await_receipt(self, name: str) -> ReceivedFrame:
        """Give the RECEIPT or ERROR for a receipt; what else comes is kept for `read`."""
        kept: list[ReceivedFrame] = []
        while True:
            frame = self.read()
            if frame.headers.get("receipt-id") == name or frame.command == "ERROR":
                self._frames.extendleft(reversed(kept))
                return frame
            kept.append(frame)

    def publish(
        self, destination: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> ReceivedFrame:
        """Send a persistent message and give the answer."""
        named = {"destination": destination, "persistent": "true"}
        named["content-length"] = str(len(body))
        return self.ask("SEND", {**named, **(headers or {})}, body)

    def subscribe(
        self,
        destination: str,
        mode: str = "client-individual",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Subscribe under the id 0 and wait for the receipt."""
        named = {"id": "0", "destination": destination, "ack": mode}
        answer = self.ask("SUBSCRIBE", {**named, **(headers or {})})
        assert answer.command == "RECEIPT", f"RECEIPT expected: {answer}"

    def read(self, seconds: float | None = None) -> ReceivedFrame:
        """
        Give the next frame.

        Raises:
            TimeoutError: None came in time.
            ConnectionError: The broker closed the connection.
        """
        deadline = time.monotonic() + (self.timeout_seconds if seconds is None else seconds)
        while not self._frames:
            left = deadline - time.monotonic()
            if left <= 0 or not self._has_come(left):
                raise TimeoutError("the broker said nothing in time")
            self._take()
        return self._frames.popleft()

    def _has_come(self, seconds: float) -> bool:
        # Not select(): it knows no descriptor beyond 1,023, and tests may hold more.
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(1000 * seconds))

    def read_message(self, seconds: float | None = None) -> ReceivedFrame:
        """Give the next frame, which must be a MESSAGE."""
        frame = self.read(seconds)
        assert frame.command == "MESSAGE", f"MESSAGE expected: {frame}"
        return frame

    def read_all(self, quiet_seconds: float = 0.3) -> Iterator[ReceivedFrame]:
        """Give every frame until none came for a while or the broker closed the connection."""
        while True:
            try:
                yield self.read(quiet_seconds)
            except (TimeoutError, ConnectionError):
                return

    def read_queue(self, destination: str) -> list[ReceivedFrame]:
        """
        Give all that a subscription to this queue gets before a message that is sent now.

        A queue has an order: this is the whole of it, however long a new leader waits before it
        dispatches and however slow the machine is. The prefetch must be larger than the queue.
        """
        end = secrets.token_bytes(8).hex().encode()
        self.send("SEND", {"destination": destination, "persistent": "true"}, end)
        found: list[ReceivedFrame] = []
        while (frame := self.read_message()).body != end:
            found.append(frame)
        return found

    def acknowledge(self, message: ReceivedFrame) -> ReceivedFrame:
        """Acknowledge a delivery and wait until that is stored."""
        return self.ask("ACK", {"id": message.headers["ack"]})

    def _take(self) -> None:
        try:
            data = self.socket.recv(_READ_BYTES)
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            raise ConnectionError("the broker closed the connection")
        for command, headers, body in self._reader.feed(data):
            text = {name.decode(): value.decode() for name, value in headers.items()}
            self._frames.append(ReceivedFrame(command.decode(), text, body))


def connected(cluster: LocalCluster) -> StompSocket:
    """A connection to the leader, which waits patiently for answers."""
    client = StompSocket(cluster.leader().stomp_port, timeout_seconds=60.0)
    client.connect()
    return client
