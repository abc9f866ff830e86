"""
What is to be sent by TLS: sealed as the socket takes it, in a slice of each turn.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.transport.tls_sealing import RECORD_BYTES, Sealing
from holdfast.transport.turn_slice import UNITS_PER_TURN, TurnSlice

HIGH = 256 * 1024


class Ends:
    """A sealer that puts a word before each record."""

    def __init__(self) -> None:
        self.out = b""
        self.count = 0
        self.is_broken = False

    def write(self, data: memoryview) -> int:
        if self.is_broken:
            raise ssl.SSLError("broken")
        assert len(data) <= RECORD_BYTES
        self.out += b"R" + bytes(data)
        self.count += 1
        return len(data)

    def read(self) -> bytes:
        out, self.out = self.out, b""
        return out


class Socket:
    """A transport that tells when more waits than it likes, and takes when it is told to."""

    def __init__(self) -> None:
        self.waiting = b""
        self.taken = b""
        self.is_full = self.is_closed = False
        self.sealing: Any = None

    def write(self, data: bytes) -> None:
        self.waiting += data
        if len(self.waiting) > HIGH and not self.is_full:
            self.is_full = True
            self.sealing.socket_is_full()

    def is_closing(self) -> bool:
        return self.is_closed

    def take(self) -> None:
        self.taken += self.waiting
        self.waiting = b""
        if self.is_full:
            self.is_full = False
            self.sealing.socket_has_room()


class One:
    """One connection's direction out."""

    def __init__(self, line: TurnSlice) -> None:
        self.ends = Ends()
        self.socket = Socket()
        self.heard: list[str] = []
        self.sealing = self.socket.sealing = Sealing(
            (self.ends, self.ends),  # type: ignore[arg-type]
            self.socket,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            line,
            lambda: self.heard.append("abort"),
        )

    def pause_writing(self) -> None:
        self.heard.append("full")

    def resume_writing(self) -> None:
        self.heard.append("drained")


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(20):
            await work()

    asyncio.run(scenario())


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_what_goes_to_many_who_do_not_read_is_not_sealed_for_each() -> None:
    """
    Sixteen subscribers made a gigabyte of 63 MiB, which the node counts once, as it is in clear.
    """

    async def work() -> None:
        line = TurnSlice()
        message = bytes(8 * 1024 * 1024)
        many = [One(line) for _ in range(16)]
        for one in many:
            one.sealing.write(message)
        await turns(100)
        for one in many:
            assert 0 < len(one.socket.waiting) < 2 * HIGH
            assert one.sealing.bytes > len(message) - 2 * HIGH
            assert all(piece.obj is message for piece in one.sealing._pieces)
            assert one.heard == ["full"]

    run(work)


def test_a_turn_seals_no_more_than_its_slice() -> None:
    """A thousand subscribers that all read were a stop of the loop with each message."""

    async def work() -> None:
        line = TurnSlice()
        many = [One(line) for _ in range(60)]
        before = 0
        for one in many:
            one.sealing.write(bytes(192 * 1024))
        for _ in range(12):
            count = sum(one.ends.count for one in many)
            assert count - before <= UNITS_PER_TURN // 4 + 8
            before = count
            await turns(1)
        assert before == 60 * 12, "all of it, after a while"

    run(work)


def test_all_is_sent_in_order_as_the_socket_takes_it() -> None:
    """Large, small and large again; who writes is told to wait once, and once that it need not."""

    async def work() -> None:
        one = One(TurnSlice())
        changing = bytearray(b"c" * 700_000)
        pieces = [b"a" * 1_000_000, b"b", bytes(changing), b"d" * 20_000]
        for piece in pieces[:2]:
            one.sealing.write(piece)
        one.sealing.write(changing)
        changing[:] = b"x" * len(changing)
        one.sealing.write(pieces[3])
        ended: list[int] = []
        for _ in range(30):
            one.socket.take()
            await turns(2)
        one.socket.take()
        sent = one.socket.taken.replace(b"R", b"")
        assert sent == b"".join(pieces)
        assert one.heard == ["full", "drained"]
        assert one.sealing.bytes == 0
        one.sealing.end(lambda: ended.append(1))
        assert ended == [1]

    run(work)


def test_the_end_waits_for_all_that_was_given() -> None:
    """And comes once; where the connection is gone before, it does not come."""

    async def work() -> None:
        one, gone = One(TurnSlice()), One(TurnSlice())
        ended: list[str] = []
        for each, name in ((one, "one"), (gone, "gone")):
            each.sealing.write(bytes(2_000_000))
            each.sealing.end(lambda name=name: ended.append(name))  # type: ignore[misc]
        gone.sealing.forget()
        assert gone.sealing.bytes == 0
        for _ in range(30):
            assert ended == [] or one.sealing.bytes == 0
            for each in (one, gone):
                each.socket.take()
            await turns(2)
        assert ended == ["one"]
        assert one.heard == ["full"], "nobody writes to it any more"

    run(work)


def test_nothing_more_is_sealed_for_a_socket_that_is_closing() -> None:
    """The loop has found out, and says so in its next turn; until then nobody waits for it."""

    async def work() -> None:
        one = One(TurnSlice())
        one.sealing.write(bytes(2_000_000))
        one.socket.is_closed = True
        before = one.ends.count
        one.socket.take()
        await turns(10)
        assert one.ends.count == before

    run(work)


def test_what_cannot_be_sealed_ends_it() -> None:
    """As the rest could not be read by anybody either."""

    async def work() -> None:
        one = One(TurnSlice())
        one.ends.is_broken = True
        one.sealing.write(b"x")
        assert one.heard == ["abort"]
        assert one.socket.waiting == b""

    run(work)
