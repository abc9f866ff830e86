"""
Loads whose headers differ from message to message, which the generator in C does not make.

Each body is a number; what is filled is drained, and every number must come, once. Frames are made
before the clock starts, read in large pieces and cut at their NUL bytes, so that one thread of
Python is quicker than any broker it was held against so far; `own_cpu` tells how busy it was.
"""

from __future__ import annotations

import resource
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_READ_BYTES = 1 << 20
_FRAMES_A_WRITE = 500
_WAIT_SECONDS = 60.0

HeadersOf = Callable[[int], Mapping[str, str]]


@dataclass
class Drained:
    """What came of a queue: how much, how fast, and what was wrong."""

    count: int = 0
    seconds: float = 0.0
    own_cpu: float = 0.0
    """Processor seconds of this process meanwhile."""
    faults: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.count / self.seconds if self.seconds else 0.0


def frame(command: str, headers: Mapping[str, str], body: str = "") -> bytes:
    """One frame as bytes."""
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    return f"{command}\n{lines}\n{body}\0".encode()


class Wire:
    """A connection that is logged in; frames without a look at their headers."""

    def __init__(self, address: str, **connect: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=_WAIT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        self.messages: list[bytes] = []
        """What came while a receipt was awaited."""
        named = {name.replace("_", "-"): value for name, value in connect.items()}
        self.write(frame("CONNECT", {"accept-version": "1.1", "host": "/", **named}))
        self.await_start(b"CONNECTED")

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def write(self, data: bytes) -> None:
        """Send these bytes."""
        self.socket.sendall(data)

    def read(self) -> list[bytes]:
        """Frames that have come, at least a read's worth of waiting for them."""
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the broker closed the connection")
        *whole, self._data = (self._data + data).split(b"\0")
        frames = [each.lstrip(b"\n") for each in whole]
        for each in frames:
            if each.startswith(b"ERROR"):
                raise ConnectionError(each.decode(errors="replace")[:400])
        return frames

    def await_start(self, start: bytes) -> None:
        """Read on until a frame begins so."""
        while not any(each.startswith(start) for each in self.read()):
            pass

    def leave(self) -> None:
        """Say goodbye, so that whoever comes next under this name is welcome."""
        self.write(frame("DISCONNECT", {"receipt": "bye"}))
        self.await_receipts(1)
        self.close()

    def await_receipts(self, count: int) -> None:
        """Read on until so many receipts have come."""
        while count > 0:
            frames = self.read()
            count -= sum(each.startswith(b"RECEIPT") for each in frames)
            self.messages += [each for each in frames if each.startswith(b"MESSAGE")]

    def subscribe(self, destination: str, number: str, **headers: str) -> None:
        """Subscribe and wait for the receipt."""
        self.write(subscribing(destination, number, **headers))
        self.await_receipts(1)


def subscribing(destination: str, number: str, **headers: str) -> bytes:
    """A SUBSCRIBE that asks for a receipt."""
    named = {"destination": destination, "id": number, "receipt": f"s{number}", **headers}
    return frame("SUBSCRIBE", named)


def fill(
    address: str, destination: str, numbers: Sequence[int], headers_of: HeadersOf, body_bytes: int
) -> float:
    """Send a persistent message for each number, 500 to a receipt; gives messages a second."""
    wire = Wire(address)
    padding = "x" * (body_bytes - 12)
    seconds = 0.0
    for start in range(0, len(numbers), _FRAMES_A_WRITE):
        batch = numbers[start : start + _FRAMES_A_WRITE]
        frames = []
        for number in batch:
            headers = {"destination": destination, "persistent": "true", **headers_of(number)}
            if number == batch[-1]:
                headers["receipt"] = f"f{start}"
            frames.append(frame("SEND", headers, f"{number:012d}{padding}"))
        data = b"".join(frames)
        began = time.monotonic()
        wire.write(data)
        wire.await_receipts(1)
        seconds += time.monotonic() - began
    wire.close()
    return len(numbers) / seconds


class Drain:
    """
    Consumers that take until all is there; each message is acknowledged, or each hundredth.

    Where each of them is to get every message, `expected` are those to all together.
    """

    def __init__(
        self,
        wires: Sequence[Wire],
        expected: int,
        *,
        acknowledge_every: int = 1,
        to_each: bool = False,
    ) -> None:
        self.wires = wires
        self.expected = expected
        self.to_each = to_each
        self.acknowledge_every = acknowledge_every
        self.order: list[tuple[int, int]] = []
        """Which consumer got which number, in the order of reading."""
        self._since = [0] * len(wires)

    def run(self) -> Drained:
        """Take all; what did not come within a minute of silence is a fault."""
        result = Drained()
        poll = select.poll()
        by_descriptor = {}
        for index, wire in enumerate(self.wires):
            poll.register(wire.socket, select.POLLIN)
            by_descriptor[wire.socket.fileno()] = index
        own = _cpu_seconds()
        began = time.monotonic()
        for index, wire in enumerate(self.wires):
            self._take(index, wire.messages)
        while len(self.order) < self.expected:
            ready = poll.poll(1000 * _WAIT_SECONDS)
            if not ready:
                break
            for descriptor, _ in ready:
                index = by_descriptor[descriptor]
                self._take(index, self.wires[index].read())
        result.seconds = time.monotonic() - began
        result.own_cpu = _cpu_seconds() - own
        result.count = len(self.order)
        distinct = len(set(self.order) if self.to_each else {number for _, number in self.order})
        if distinct < self.expected:
            result.faults.append(f"{self.expected - distinct:,} of {self.expected:,} never came")
        if distinct < result.count:
            result.faults.append(f"{result.count - distinct:,} came twice")
        return result

    def _take(self, index: int, frames: list[bytes]) -> None:
        answers = []
        for each in frames:
            if not each.startswith(b"MESSAGE"):
                continue
            head, _, body = each.partition(b"\n\n")
            self.order.append((index, int(body[:12])))
            self._since[index] += 1
            if self._since[index] % self.acknowledge_every == 0:
                answers.append(_acknowledging(head))
        if answers:
            self.wires[index].write(b"".join(answers))


def _acknowledging(head: bytes) -> bytes:
    found = {}
    for line in head.split(b"\n")[1:]:
        name, _, value = line.partition(b":")
        found.setdefault(name, value)
    identity, subscription = found[b"message-id"], found[b"subscription"]
    return b"ACK\nmessage-id:" + identity + b"\nsubscription:" + subscription + b"\n\n\0"


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
