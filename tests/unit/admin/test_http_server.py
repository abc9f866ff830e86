"""
The admin port on loopback: started and stopped inside a loop that belongs to somebody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import Any

import pytest
from uvicorn.server import ServerState

from holdfast.admin import http_server
from holdfast.admin.access import Access
from holdfast.admin.http_api import build_application
from holdfast.admin.http_server import AdminConnection, AdminPortSettings, AdminServer
from holdfast.admin.operations import Operations
from holdfast.admin.remote import RemoteNode, admin_token
from holdfast.errors import LinkLostError

TOKEN = "33" * 32
SECRET = b"0123456789abcdef"


def server_of(node, host: str = "127.0.0.1", port: int = 0, **limits: Any) -> AdminServer:
    settings = AdminPortSettings(**limits)
    access = Access(local_token=TOKEN, secret=SECRET)
    application = build_application(Operations(node), access=access)
    return AdminServer(application, host=host, port=port, settings=settings)


async def dial(server: AdminServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = server.address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait for the end of a connection that nothing was sent on."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


@pytest.mark.slow
def test_it_serves_from_start_to_stop_and_leaves_signals_alone(node) -> None:
    """
    The node keeps its own signal handlers, learns the real port, and the port is closed in the end.
    """

    async def scenario() -> None:
        before = signal.getsignal(signal.SIGTERM)
        server = server_of(node)
        assert server.address == "127.0.0.1:0"
        await server.stop()
        await server.start()
        remote = RemoteNode(server.address)
        assert (await asyncio.to_thread(remote.get, "/status"))["name"] == "a"
        assert signal.getsignal(signal.SIGTERM) is before
        await server.stop()
        with pytest.raises(LinkLostError, match=r"no answer from the admin port 127.0.0.1"):
            await asyncio.to_thread(remote.get, "/status")

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_port_that_is_taken_is_an_error_for_the_node(node) -> None:
    """
    uvicorn would end the process; the node wants to say which port it was.
    """

    async def scenario() -> None:
        first = server_of(node)
        await first.start()
        port = int(first.address.rpartition(":")[2])
        with pytest.raises(OSError):
            await server_of(node, port=port).start()
        await first.stop()

    asyncio.run(scenario())


def test_an_ipv6_address_keeps_its_brackets(node) -> None:
    """
    The address can be pasted into `--admin`.
    """
    assert server_of(node, host="::1", port=8161).address == "[::1]:8161"


@pytest.mark.slow
@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost: a\r\nX-Slow: ",
        b"POST /cluster/transfer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n"
        b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n{",
    ],
)
def test_a_request_that_does_not_come_to_its_end_is_cut_off(node, begun: bytes) -> None:
    """
    Nothing at all, headers that never end, a body that stops: the connection is closed.
    """

    async def scenario() -> None:
        server = server_of(node, request_seconds_max=0.05)
        await server.start()
        reader, writer = await dial(server)
        writer.write(begun)
        assert await is_closed(reader)
        writer.close()
        await server.stop()

    asyncio.run(scenario())


@pytest.mark.slow
def test_an_idle_connection_is_closed_and_a_request_in_time_is_answered(node) -> None:
    """
    The first request of a connection, and the second on the same; then silence ends it.
    """

    async def scenario() -> None:
        server = server_of(node, idle_seconds_max=0)
        await server.start()
        reader, writer = await dial(server)
        question = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        writer.write(question + question)
        answers = await reader.read()
        assert answers.count(b"HTTP/1.1 200") == 2
        writer.close()
        await server.stop()

    asyncio.run(scenario())


@pytest.mark.slow
def test_who_has_proven_itself_keeps_its_place(node) -> None:
    """
    A reader of the log is not cut off by whoever asks without a proof, or asks nothing.
    """

    async def scenario() -> None:
        server = server_of(node, connection_count_max=2)
        await server.start()
        reader, writer = await dial(server)
        question = b"GET /log?from=102 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        question += TOKEN.encode() + b"\r\n\r\n"
        for _ in range(2):
            writer.write(question)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            silent = [await dial(server) for _ in range(6)]
            assert await is_closed(silent[0][0])
            for _, each in silent:
                each.close()
        writer.close()
        await server.stop()

    asyncio.run(scenario())


class Socket(asyncio.Transport):
    """A transport whose other end is the test."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reading = True
        self.is_ended = False
        self.written = b""

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_ended

    def close(self) -> None:
        self.is_ended = True

    abort = close


def connected(server: AdminServer) -> tuple[AdminConnection, Socket]:
    """A connection to a server whose port was never opened."""
    config = server._server.config
    config.load()
    connection = AdminConnection(config, ServerState(), {}, asyncio.get_running_loop())
    transport = Socket()
    connection.connection_made(transport)
    return connection, transport


def test_who_asks_faster_than_it_is_answered_is_not_read(node) -> None:
    """
    Requests behind one that is not answered stay with who sends them: with each answer some more
    were kept, a gibibyte of fifty clients in ten seconds. All that were sent are answered.
    """
    question = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    sent_at_once = 100

    async def scenario() -> None:
        connection, transport = connected(server_of(node))
        sent = kept_max = 0
        while True:
            if transport.is_reading and sent < 3 * sent_at_once:
                connection.data_received(question * sent_at_once)
                sent += sent_at_once
            kept_max = max(kept_max, len(connection.conn.trailing_data[0]))
            answered = transport.written.count(b"HTTP/1.1 200")
            if answered == 3 * sent_at_once:
                break
            await asyncio.sleep(0)
        assert (sent, answered) == (3 * sent_at_once, 3 * sent_at_once)
        assert kept_max < 2 * sent_at_once * len(question)
        connection.connection_lost(None)

    asyncio.run(scenario())


def test_a_body_that_nobody_waits_for_has_an_end(node) -> None:
    """
    The answer is given when the head is read; what comes behind it cost the loop as much as it
    liked. Some of it is on its way before the answer can be seen: that is let pass.
    """
    head = (
        b"POST /cluster/transfer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
    )

    async def scenario() -> None:
        connection, transport = connected(server_of(node, ignored_bytes_max=1000))
        connection.data_received(head)
        while b"\r\n\r\n" not in transport.written:
            await asyncio.sleep(0)
        assert b"HTTP/1.1 403" in transport.written
        connection.data_received(b"x" * 1000)
        assert not transport.is_ended
        connection.data_received(b"x")
        assert transport.is_ended
        connection.connection_lost(None)

    asyncio.run(scenario())


def test_an_answer_that_nobody_takes_is_not_kept_for_ever(node) -> None:
    """
    Who takes some of it is waited for anew.
    """

    async def scenario() -> None:
        connection, transport = connected(server_of(node, answer_seconds_max=0.001))
        connection.pause_writing()
        connection.resume_writing()
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, later.set)
        await later.wait()
        assert not transport.is_ended
        connection.pause_writing()
        connection.pause_writing()
        while not transport.is_ended:
            await asyncio.sleep(0)
        connection.connection_lost(None)

    asyncio.run(scenario())


def test_who_takes_no_answer_leaves_us_waiting_as_who_asks_nothing(node) -> None:
    """
    So nobody keeps his place by a request whose answer he leaves lying; one that is being answered
    keeps it.
    """
    question = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def scenario() -> None:
        connection, transport = connected(server_of(node))
        assert connection.leaves_waiting
        connection.data_received(question)
        assert not connection.leaves_waiting
        connection.pause_writing()
        assert connection.leaves_waiting
        connection.resume_writing()
        assert not connection.leaves_waiting
        while b"\r\n\r\n" not in transport.written:
            await asyncio.sleep(0)
        while not connection.is_idle:
            await asyncio.sleep(0)
        assert connection.leaves_waiting
        connection.connection_lost(None)

    asyncio.run(scenario())


QUESTION = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("is_here", [True, False], ids=["is here", "is on its way"])
def test_who_has_to_go_is_answered_first_and_told_that_it_is_the_last(node, is_here: bool) -> None:
    """Who reads without a rest was cut off in the middle by whoever came with one connection."""

    async def scenario() -> None:
        connection, transport = connected(server_of(node))
        if is_here:
            connection.data_received(QUESTION)
        connection.finish()
        assert not transport.is_ended
        if not is_here:
            connection.data_received(QUESTION)
        while not transport.is_ended:
            await asyncio.sleep(0)
        head, _, body = transport.written.partition(b"\r\n\r\n")
        assert b"connection: close" in head.lower()
        assert f"content-length: {len(body)}\r\n".encode() in head.lower() + b"\r\n", "all of it"
        connection.connection_lost(None)

    asyncio.run(scenario())


@pytest.mark.parametrize("is_asking", [True, False])
def test_who_has_to_go_and_takes_too_long_is_closed(
    node, monkeypatch: pytest.MonkeyPatch, is_asking: bool
) -> None:
    """As one that takes its answer byte by byte, or asks nothing; another has its place."""
    monkeypatch.setattr(http_server, "FINISH_SECONDS_MAX", 0.001)
    monkeypatch.setattr(http_server, "LAST_SECONDS_MAX", 0.001)

    async def scenario() -> None:
        connection, transport = connected(server_of(node))
        if is_asking:
            connection.data_received(QUESTION)
            connection.pause_writing()
        connection.finish()
        connection.finish()
        while not transport.is_ended:
            await asyncio.sleep(0)
        assert transport.written == b""
        connection.connection_lost(None)

    asyncio.run(scenario())


@pytest.mark.slow
def test_silent_connections_make_room_for_who_asks(node) -> None:
    """
    However many sockets are opened and left alone, the next question is answered.
    """

    async def scenario() -> None:
        server = server_of(node, connection_count_max=4)
        await server.start()
        silent = [await dial(server) for _ in range(12)]
        remote = RemoteNode(server.address)
        assert (await asyncio.to_thread(remote.get, "/status"))["name"] == "a"
        closed = [asyncio.create_task(is_closed(reader)) for reader, _ in silent[:8]]
        assert await asyncio.gather(*closed) == [True] * 8
        for _, writer in silent:
            writer.close()
        await server.stop()

    asyncio.run(scenario())


@pytest.mark.slow
def test_who_is_known_does_not_fill_the_port(node) -> None:
    """
    Sixty-four connections of a user who may only look kept everybody out: the node's own user, who
    would remove her, and whoever asks whether the node lives. She keeps three quarters of them.
    """

    async def scenario() -> None:
        server = server_of(node, connection_count_max=8)
        await server.start()
        question = b"GET /segments HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        question += admin_token(SECRET).encode() + b"\r\n\r\n"
        hers = [await dial(server) for _ in range(8)]
        for reader, writer in hers:
            writer.write(question)
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
                await reader.readuntil(b"\r\n\r\n")
        machine = RemoteNode(server.address, login=f"Bearer {TOKEN}")
        for _ in range(3):
            assert (await asyncio.to_thread(machine.get, "/segments"))["segments"]
            assert (await asyncio.to_thread(RemoteNode(server.address).get, "/health"))["alive"]
        for _, writer in hers:
            writer.close()
        await server.stop()

    asyncio.run(scenario())


@pytest.mark.slow
def test_who_asks_is_what_the_socket_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    No header moves the address that is throttled and audited, or makes TLS of clear, whatever the
    environment says of proxies; nor does it end the start.
    """
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    monkeypatch.setenv("WEB_CONCURRENCY", "many")
    seen: list[tuple[str, str]] = []

    async def application(scope: Any, _receive: Any, send: Any) -> None:
        seen.append((scope["client"][0], scope["scheme"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def scenario() -> None:
        server = AdminServer(application, host="127.0.0.1", port=0)
        await server.start()
        reader, writer = await dial(server)
        for said in (
            b"X-Forwarded-For: 10.0.0.9\r\nX-Forwarded-Proto: https\r\n",
            b"Forwarded: for=10.0.0.9;proto=https\r\nX-Real-IP: 10.0.0.9\r\n",
        ):
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + said + b"\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
        writer.close()
        await server.stop()

    asyncio.run(scenario())
    assert seen == [("127.0.0.1", "http")] * 2


@pytest.mark.slow
def test_what_is_no_http_fills_no_log(node, caplog: pytest.LogCaptureFixture) -> None:
    """
    Rubbish at once, in the middle of a body, or behind an answer: closed, without a traceback.
    """
    head = b"POST /cluster/transfer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    proof = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
    rubbish = (b"\x16\x03\x01", head + b"\r\nzz\r\n", head + proof + b"\r\nzz\r\n")
    question = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def scenario() -> None:
        server = server_of(node)
        await server.start()
        for sent in (*rubbish, *(question + each for each in rubbish)):
            reader, writer = await dial(server)
            writer.write(sent)
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
            writer.close()
        reader, writer = await dial(server)
        writer.write(head + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"zz\r\n")
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
        writer.close()
        await server.stop()

    with caplog.at_level(0):
        asyncio.run(scenario())
    assert [it.message for it in caplog.records if it.levelno >= logging.WARNING] == []
