"""A way to a server that is held: nothing arrives until it is released, and then all."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from trials.databases.cutting_proxy import CuttingProxy


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10.0)
        yield listener


def joined(way: CuttingProxy, server: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(("127.0.0.1", way.port), 10.0)
    there, _ = server.accept()
    there.settimeout(10.0)
    return client, there


def hears_nothing(it: socket.socket) -> bool:
    it.settimeout(0.05)
    try:
        return not it.recv(100)
    except TimeoutError:
        return True
    finally:
        it.settimeout(10.0)


@pytest.mark.parametrize(("there", "back"), [(True, False), (False, True), (True, True)])
def test_what_is_held_comes_later(server: socket.socket, *, there: bool, back: bool) -> None:
    """In the direction that is held nothing is heard, in the other all; no byte is lost."""
    with closing(CuttingProxy(server.getsockname()[1])) as way:
        client, other = joined(way, server)
        with client, other:
            way.hold(there=there, back=back)
            client.sendall(b"question")
            other.sendall(b"answer")
            assert hears_nothing(other) if there else other.recv(100) == b"question"
            assert hears_nothing(client) if back else client.recv(100) == b"answer"
            way.release()
            assert not there or other.recv(100) == b"question"
            assert not back or client.recv(100) == b"answer"


def test_who_comes_while_the_server_is_away_may_come_again(server: socket.socket) -> None:
    """The connection ends, and the next one finds the server that is back."""
    port = server.getsockname()[1]
    with closing(CuttingProxy(port)) as way:
        server.close()
        with socket.create_connection(("127.0.0.1", way.port), 10.0) as client:
            assert client.recv(100) == b""
        with socket.create_server(("127.0.0.1", port)) as back:
            back.settimeout(10.0)
            client, there = joined(way, back)
            with client, there:
                client.sendall(b"again")
                assert there.recv(100) == b"again"
