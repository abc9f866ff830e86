"""
Clients that take memory and give nothing back: they do not read, or never come to an end.

Each kind is a crowd of connections that send as long as anything is taken from them, and read
nothing. How much the node has grown by is read from its process; what the crowd got is of no
interest.

    with HOSTILE["bodies"].crowd(node, 50) as crowd:
        crowd.press(256 * MiB)
    assert resident_bytes_max(node) < ...

One thread owns a crowd.
"""

from __future__ import annotations

import itertools
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from holdfast.testing.local_cluster import LocalNode

Script = Callable[[int], Iterator[bytes]]
"""What the client of this number sends, piece by piece; it may never end."""

_RECEIVE_BYTES = 4096
_SEND_BYTES = 64 << 10
QUIET_SECONDS = 0.5
_WAIT_SECONDS = 0.05
_LOOK_SECONDS = 0.2
_IDLE_SHARE = 0.3
"""Whoever works for less of the time is idle."""

_CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
_MANY = 200
"""Frames in one piece."""
_BODY_BYTES = 64 << 20
_PIECE = b"x" * (256 << 10)


def resident_bytes(node: LocalNode) -> int:
    """What the node's process takes of the machine's memory now."""
    return _memory_line(node, "VmRSS")


def resident_bytes_max(node: LocalNode) -> int:
    """The most that it took since `forget_maximum`."""
    return _memory_line(node, "VmHWM")


def forget_maximum(node: LocalNode) -> None:
    """Let the most be what it takes now."""
    Path(f"/proc/{node.pid}/clear_refs").write_text("5")


def _memory_line(node: LocalNode, name: str) -> int:
    lines = Path(f"/proc/{node.pid}/status").read_text().splitlines()
    found = next(line for line in lines if line.startswith(f"{name}:"))
    return int(found.split()[1]) * 1024


def wait_idle(node: LocalNode, seconds_max: float = 20.0) -> None:
    """Wait until the node has done what it was asked, as far as it does it at all."""
    until = time.monotonic() + seconds_max
    before = _worked_seconds(node)
    while time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
        worked = _worked_seconds(node)
        if worked - before < _IDLE_SHARE * _LOOK_SECONDS:
            return
        before = worked


def _worked_seconds(node: LocalNode) -> float:
    times = os.sysconf("SC_CLK_TCK")
    fields = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / times


class Crowd:
    """Connections of one script to one port; use as a context manager."""

    def __init__(self, port: int, script: Script, count: int) -> None:
        self._port = port
        self.quiet_seconds = QUIET_SECONDS
        self._script = script
        self._count = count
        self._selector = selectors.DefaultSelector()
        self._left: dict[socket.socket, bytes] = {}
        self._scripts: dict[socket.socket, Iterator[bytes]] = {}
        self.sent_bytes = 0
        self.closed_count = 0
        """How many the node has closed."""

    def __enter__(self) -> Self:
        for number in range(self._count):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
            self._left[client] = b""
            client.connect(("127.0.0.1", self._port))
            client.setblocking(False)
            self._scripts[client] = self._script(number)
            self._selector.register(client, selectors.EVENT_WRITE)
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for client in self._left:
            client.close()

    def press(self, bytes_max: int, seconds_max: float = 30.0) -> None:
        """Send so much, or until nothing more is taken for a while; or for so long."""
        until = time.monotonic() + seconds_max
        taken_at = time.monotonic()
        while self.sent_bytes < bytes_max and self._selector.get_map():
            now = time.monotonic()
            if now > until or now - taken_at > self.quiet_seconds:
                return
            for key, _ in self._selector.select(_WAIT_SECONDS):
                assert isinstance(key.fileobj, socket.socket), "nothing else is registered"
                if self._send(key.fileobj):
                    taken_at = now

    def _send(self, client: socket.socket) -> bool:
        data = self._left[client] or next(self._scripts[client], b"")
        if not data:
            self._selector.unregister(client)
            return False
        count = 0
        try:
            count = client.send(data)
        except BlockingIOError:
            pass
        except OSError:
            self._selector.unregister(client)
            self.closed_count += 1
        self._left[client] = data[count:]
        self.sent_bytes += count
        return count > 0


def _receipts(_number: int) -> Iterator[bytes]:
    """Ask for receipts with long names, of messages that nobody stores."""
    name = b"r" * 4000
    frame = b"SEND\ndestination:/topic/nobody\nreceipt:%b\n\nx\0" % name
    yield _CONNECT
    yield from itertools.repeat(frame * 16)


def _stored_receipts(number: int) -> Iterator[bytes]:
    """The same, of messages that are stored."""
    frame = b"SEND\ndestination:/queue/h%d\npersistent:true\nreceipt:%b\n\nx\0"
    yield _CONNECT
    yield from itertools.repeat(frame % (number % 8, b"r" * 4000) * 16)


def _messages(number: int) -> Iterator[bytes]:
    """Subscribe to what one publishes oneself, many times over."""
    yield _CONNECT
    frame = b"SUBSCRIBE\nid:%d\ndestination:/topic/own%d\n\n\0"
    yield b"".join(frame % (each, number) for each in range(50))
    frame = b"SEND\ndestination:/topic/own%d\ncontent-length:60000\n\n%b\0"
    yield from itertools.repeat(frame % (number, b"x" * 60_000))


def _topic_backlog(number: int) -> Iterator[bytes]:
    """Subscribe to some topics once each, and publish to all of them."""
    yield _CONNECT
    frame = b"SUBSCRIBE\nid:%d\ndestination:/topic/back%d.%d\n\n\0"
    yield b"".join(frame % (each, number, each) for each in range(7))
    frame = b"SEND\ndestination:/topic/back%d.%d\ncontent-length:60000\n\n%b\0"
    for each in itertools.count():
        yield frame % (number, each % 7, b"x" * 60_000)


def _queue_messages(number: int) -> Iterator[bytes]:
    """The same with a queue."""
    yield _CONNECT
    yield b"SUBSCRIBE\nid:1\ndestination:/queue/own%d\nactivemq.prefetchSize:0\n\n\0" % number
    frame = b"SEND\ndestination:/queue/own%d\ncontent-length:60000\n\n%b\0"
    yield from itertools.repeat(frame % (number, b"x" * 60_000))


def _errors(_number: int) -> Iterator[bytes]:
    """Acknowledge what never was; each such ACK is answered by an ERROR."""
    yield _CONNECT
    frame = b"ACK\nid:%b\nreceipt:%b\n\n\0" % (b"n" * 200, b"r" * 2000)
    yield from itertools.repeat(frame * 32)


def _bodies(_number: int) -> Iterator[bytes]:
    """Begin a body, and send all of it but the end."""
    yield _CONNECT
    yield b"SEND\ndestination:/queue/b\npersistent:true\ncontent-length:%d\n\n" % _BODY_BYTES
    yield from itertools.repeat(_PIECE, _BODY_BYTES // len(_PIECE))


def _unsized_bodies(_number: int) -> Iterator[bytes]:
    """The same without its length, in small pieces."""
    yield _CONNECT
    yield b"SEND\ndestination:/queue/b\npersistent:true\n\n"
    yield from itertools.repeat(b"x" * 1500, _BODY_BYTES // 1500)


def _headers(_number: int) -> Iterator[bytes]:
    """Send headers that never end."""
    yield _CONNECT
    yield b"SEND\ndestination:/queue/b\n"
    yield from (b"%06d:%b\n" % (each, b"x" * 10_000) for each in itertools.count())


def _many_heads(_number: int) -> Iterator[bytes]:
    """Send ever new headers, each of which is kept decoded."""
    yield _CONNECT
    for each in itertools.count():
        lines = b"".join(b"%x:\n" % (each * 200 + line) for line in range(200))
        yield b"SEND\ndestination:/topic/nobody\n%b\nx\0" % lines


def _transactions(number: int) -> Iterator[bytes]:
    """Send in transactions that never end."""
    yield _CONNECT
    begin = b"BEGIN\ntransaction:t%d\n\n\0"
    yield b"".join(begin % each for each in range(20))
    frame = b"SEND\ndestination:/queue/t%d\npersistent:true\ntransaction:t%d\n\n%b\0"
    for each in itertools.count():
        yield frame % (number, each % 20, b"x" * 60_000)


def _empty_transactions(_number: int) -> Iterator[bytes]:
    """Begin very many."""
    yield _CONNECT
    begin = b"BEGIN\ntransaction:t%d%b\n\n\0"
    for start in range(0, 2000, _MANY):
        yield b"".join(begin % (each, b"t" * 200) for each in range(start, start + _MANY))


def _small_sends(number: int) -> Iterator[bytes]:
    """Send very many empty messages in a transaction that never ends."""
    yield _CONNECT
    yield b"BEGIN\ntransaction:t\n\n\0"
    frame = b"SEND\ndestination:/queue/t%d\npersistent:true\ntransaction:t\n\n\0" % number
    yield from itertools.repeat(frame * _MANY)


def _subscriptions(number: int) -> Iterator[bytes]:
    """Subscribe as often as one may, under long names, to one queue."""
    yield _CONNECT
    frame = b"SUBSCRIBE\nid:%d%b\ndestination:/queue/s%d\n\n\0"
    for start in range(0, 40_000, _MANY):
        yield b"".join(frame % (each, b"s" * 1000, number) for each in range(start, start + _MANY))


def _topics(number: int) -> Iterator[bytes]:
    """Subscribe to ever new topics."""
    yield _CONNECT
    frame = b"SUBSCRIBE\nid:%d%b\ndestination:/topic/%d.%d%b\n\n\0"
    for start in range(0, 20_000, _MANY):
        yield b"".join(
            frame % (each, b"s" * 200, number, each, b"t" * 200)
            for each in range(start, start + _MANY)
        )


def _queues(number: int) -> Iterator[bytes]:
    """Make ever new queues."""
    yield _CONNECT
    frame = b"SEND\ndestination:/queue/%d.%d%b\npersistent:true\n\n\0"
    for start in range(0, 20_000, _MANY):
        yield b"".join(frame % (number, each, b"q" * 200) for each in range(start, start + _MANY))


def _volatile(number: int) -> Iterator[bytes]:
    """Fill queues with messages that are in memory only, empty ones."""
    yield _CONNECT
    frame = b"SEND\ndestination:/queue/v%d\n\n\0" % number
    yield from itertools.repeat(frame * _MANY)


def _stored(number: int) -> Iterator[bytes]:
    """Fill queues with stored ones."""
    yield _CONNECT
    frame = b"SEND\ndestination:/queue/v%d\npersistent:true\n\n\0" % number
    yield from itertools.repeat(frame * _MANY)


def _nothing(_number: int) -> Iterator[bytes]:
    """Say nothing at all."""
    return iter(())


def _half_requests(_number: int) -> Iterator[bytes]:
    """Begin a request and its body."""
    yield b"POST /queues/a/purge HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
    yield from itertools.repeat(_PIECE)


def _huge_request_headers(_number: int) -> Iterator[bytes]:
    """Send headers that never end."""
    yield b"GET /status HTTP/1.1\r\nHost: localhost\r\n"
    yield from (b"%d: %b\r\n" % (each, b"x" * 10_000) for each in itertools.count())


def _unread_answers(_number: int) -> Iterator[bytes]:
    """Ask again and again, one behind the other, and read no answer."""
    frame = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield from itertools.repeat(frame * _MANY)


def _half_frames(_number: int) -> Iterator[bytes]:
    """Promise a frame of 60 MiB to another member, and send."""
    yield (60 << 20).to_bytes(4, "little") + b"\x01"
    yield from itertools.repeat(_PIECE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """A kind of crowd."""

    script: Script
    port: str = "stomp"
    """Which of the node's: stomp, admin or peer."""

    def crowd(self, node: LocalNode, count: int) -> Crowd:
        """So many of them, at one node."""
        return Crowd(getattr(node, f"{self.port}_port"), self.script, count)


HOSTILE: dict[str, Hostile] = {
    "receipts": Hostile(script=_receipts),
    "stored receipts": Hostile(script=_stored_receipts),
    "messages": Hostile(script=_messages),
    "topic backlog": Hostile(script=_topic_backlog),
    "queue messages": Hostile(script=_queue_messages),
    "errors": Hostile(script=_errors),
    "bodies": Hostile(script=_bodies),
    "bodies without length": Hostile(script=_unsized_bodies),
    "headers": Hostile(script=_headers),
    "many heads": Hostile(script=_many_heads),
    "transactions": Hostile(script=_transactions),
    "empty transactions": Hostile(script=_empty_transactions),
    "small sends": Hostile(script=_small_sends),
    "subscriptions": Hostile(script=_subscriptions),
    "topics": Hostile(script=_topics),
    "queues": Hostile(script=_queues),
    "volatile": Hostile(script=_volatile),
    "stored": Hostile(script=_stored),
    "silent": Hostile(script=_nothing),
    "half requests": Hostile(script=_half_requests, port="admin"),
    "request headers": Hostile(script=_huge_request_headers, port="admin"),
    "unread answers": Hostile(script=_unread_answers, port="admin"),
    "silent admin": Hostile(script=_nothing, port="admin"),
    "half frames": Hostile(script=_half_frames, port="peer"),
    "silent peers": Hostile(script=_nothing, port="peer"),
}
