"""What somebody answers at an admin port who may be anybody."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, repeat
from typing import Any

import pytest

from holdfast.admin import answers
from holdfast.admin.answers import ANSWER_BYTES_MAX, BYTES_A_SECOND_MIN, BoundedResponse
from holdfast.admin.remote import RemoteNode
from holdfast.errors import LinkLostError
from holdfast.spark.log.admin_link import AdminLink

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SECONDS = 10.0


class Pieces(io.RawIOBase):
    """What comes by a socket: a piece each so many seconds of a clock that a test has."""

    def __init__(self, pieces: Iterator[bytes], pause: float) -> None:
        self.pieces, self.pause, self.now = pieces, pause, 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.now += self.pause
        piece = next(self.pieces, b"")
        buffer[: len(piece)] = piece
        return len(piece)


class PaperSocket:
    """One end of a connection, of which only reading is asked."""

    def __init__(self, pieces: Pieces) -> None:
        self.pieces, self.seconds = pieces, SECONDS
        self.waited: list[float] = []

    def gettimeout(self) -> float:
        return self.seconds

    def settimeout(self, seconds: float) -> None:
        self.seconds = seconds
        self.waited.append(seconds)

    def makefile(self, _mode: str, buffering: int = -1) -> io.RawIOBase:
        return io.RawIOBase() if buffering else self.pieces


@contextmanager
def answered(
    monkeypatch: pytest.MonkeyPatch, pieces: Iterator[bytes], pause: float
) -> Iterator[tuple[BoundedResponse, PaperSocket]]:
    sock = PaperSocket(Pieces(pieces, pause))
    monkeypatch.setattr(answers.time, "monotonic", lambda: sock.pieces.now)
    with BoundedResponse(sock, method="GET") as response:
        yield response, sock


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [
        (b"HTTP/1.1 200 O", b"K"),
        (_HEAD, b"X"),
        (_HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
        (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_an_answer_that_drips_ends(
    monkeypatch: pytest.MonkeyPatch, begins: bytes, goes_on: bytes
) -> None:
    """Whatever part of it; before, each byte was waited for as long as the first."""
    pieces = chain([begins] if begins else [], repeat(goes_on, 1000))
    with answered(monkeypatch, pieces, 9.0) as (response, sock):
        with pytest.raises(TimeoutError, match="did not come to its end in time"):
            response.begin()
            response.read()
        assert sock.pieces.now == 18.0
        assert sock.waited == [SECONDS, pytest.approx(1.0, abs=0.01)], "no longer than is left"


def test_who_goes_on_without_end_gets_no_more_time_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What an answer may hold has its time; what comes beyond that adds none."""
    monkeypatch.setattr(answers, "ANSWER_BYTES_MAX", 40_000)
    goes_on = b"HTTP/1.1 100 Continue\r\n\r\n" * 300
    seconds = len(goes_on) / BYTES_A_SECOND_MIN
    with answered(monkeypatch, repeat(goes_on, 100_000), seconds / 2) as (response, sock):
        with pytest.raises(TimeoutError):
            response.begin()
        assert sock.pieces.now == pytest.approx(SECONDS + 40_000 / BYTES_A_SECOND_MIN, abs=1)
    assert ANSWER_BYTES_MAX / BYTES_A_SECOND_MIN < 3600


def test_a_large_answer_that_comes_on_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a long list by a slow way; the connection then waits as long as before."""
    pieces = [b" " * 8000] * 100
    head = _HEAD + b"Content-Length: %d\r\n\r\n" % (8000 * 100)
    with answered(monkeypatch, iter([head, *pieces]), 0.24) as (response, sock):
        response.begin()
        assert len(response.read()) == 8000 * 100
        assert sock.pieces.now > 2 * SECONDS
        assert sock.seconds == SECONDS


@contextmanager
def dripping() -> Iterator[str]:
    """Somebody at a port of loopback, who never comes to an end; gives the address."""
    listening = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def serve() -> None:
        with suppress(OSError):
            while True:
                one, _ = listening.accept()
                with one, suppress(OSError):
                    one.sendall(_HEAD + b"Content-Length: 100000\r\n\r\n")
                    while not is_over.wait(0.02):
                        one.sendall(b" ")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    host, port = listening.getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        is_over.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


def test_whoever_asks_an_admin_port_waits_so_long() -> None:
    """Commands, and readers of the log."""
    with dripping() as address:
        with pytest.raises(LinkLostError, match=r"did not come to its end in time|timed out"):
            RemoteNode(address, timeout_seconds=0.2).get("/health")
        with (
            AdminLink(address, "", 0.2) as link,
            pytest.raises(LinkLostError, match=r"did not come to its end in time|timed out"),
        ):
            link.ask("GET", "/health", None)


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"3", b"", b"\xff"])
def test_what_is_no_object_is_one_error(data: bytes) -> None:
    """However deep it goes: Python has an error of its own for that."""
    with pytest.raises(ValueError):
        answers.read_object(data)
    assert answers.read_object(b'{"a": 1}') == {"a": 1}
