"""
Protocols that a node serves: one line for each, and nothing else in the server knows one.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.server
from holdfast.protocols.detect import by_words
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.security.principal import ANONYMOUS
from holdfast.server import assembly
from holdfast.server.node import Node
from holdfast.server.protocols import served
from holdfast.sessions.registration import Arrival, Registration
from holdfast.sessions.session import Session
from tests.unit.server.whole_node import run

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"


class Echo(Session):
    """A protocol for this test: what is said comes back, until somebody says `bye`."""

    protocol_name = "ECHO"

    def __init__(self, arrival: Arrival) -> None:
        super().__init__("echo")
        self.context = arrival.context
        self.is_connected = True

    def receive(self, data, is_spent=lambda: False) -> bool:
        self.write(data)
        self.is_closing = data.endswith(b"bye\n")
        return True

    def write(self, data: bytes) -> None:
        if not self.out:
            self.context.dirty.append(self)
        self.out.append(data)

    def farewell(self, text: str, code: str) -> None:
        self.write(text.encode())
        self.is_closing = True

    def deliver(self, subscription, key, message, *, redelivered) -> None:
        """Nobody subscribes."""

    def reply(self, receipt) -> None:
        """Nobody asks for anything that lasts."""

    confirm = reply

    def recount_room(self) -> None:
        """Nothing is delivered."""

    def leaving(self) -> Iterator[None]:
        return iter(())

    held_count = 0


ECHO = Registration("ECHO", by_words([b"echo"], b"\n"), Echo)


async def talk(node: Node, *said: bytes) -> bytes:
    """Say one thing after the other to a node's client port; gives all that it answers."""
    address = node.config.stomp
    reader, writer = await asyncio.open_connection(address.host, address.port)
    answers = b""
    for words in said:
        writer.write(words)
        answers += await reader.read(4096)
    if answers[-1:] != b"\0":
        answers += await reader.read()
    writer.close()
    await writer.wait_closed()
    return answers


def test_one_session_and_one_line_serve_another_protocol(tmp_path, monkeypatch) -> None:
    """
    On the same port as STOMP, over real sockets; what neither speaks costs its connection only.
    """
    monkeypatch.setattr(assembly, "served", lambda stomp: (*served(stomp), ECHO))

    async def work(node: Node) -> list[bytes]:
        return [
            await talk(node, b"echo\n", b"bye\n"),
            await talk(node, b"GET / HTTP/1.1\r\n"),
            await talk(node, CONNECT),
        ]

    (echoed, unknown, connected), code = run(tmp_path, work)
    assert echoed == b"echo\nbye\n"
    assert unknown.startswith(b"this looks like HTTP; spoken here: STOMP, ECHO")
    assert connected.startswith(b"CONNECTED\nversion:1.2\n")
    assert code == 0


def test_a_port_may_be_bound_to_one_protocol(node) -> None:
    """
    Its clients need not begin as that protocol does.
    """
    node.serve()
    bound, shared = node.open(ECHO), node.open(*node.conductor.clients.protocols, ECHO)
    for connection in (bound, shared):
        connection.data_received(b"CONNECT\n\n\0")
        node.turn()
    assert bound.session.protocol_name == "ECHO"
    assert bound.transport.take() == b"CONNECT\n\n\0"
    assert shared.session.protocol_name == "STOMP 1.0"


def test_a_login_may_be_answered_turns_later(node) -> None:
    """
    The client is not read on meanwhile, however much it sends, and then goes on where it was.
    """
    node.serve()
    node.conductor.context.check = lambda session, credential: None
    client, gone = node.open(), node.open()
    sends = [b"SEND\ndestination:/queue/q\nreceipt:%d\n\nx\0" % it for it in range(50)]
    for each in (CONNECT, *sends):
        client.data_received(each)
        node.turn()
    gone.data_received(CONNECT)
    node.settle()
    assert client.is_paused
    assert client.transport.take() == b""
    assert client.session.unfinished_bytes == sum(map(len, sends))
    gone.connection_lost(None)
    node.settle()
    for connection in (client, gone):
        node.conductor.clients.authenticated(connection, ANONYMOUS)
    node.settle()
    answers = client.transport.take()
    assert answers.startswith(b"CONNECTED\n")
    assert answers.count(b"RECEIPT\n") == len(sends)
    assert not client.is_paused
    assert not gone.session.is_connected


def test_what_a_node_serves_is_recognized_by_its_own_beginning() -> None:
    """
    Names are told apart, and each protocol knows the word its clients begin with.
    """
    protocols = served(StompSettings())
    assert [each.name for each in protocols] == ["STOMP"]
    assert protocols[0].recognizes(CONNECT).value == "yes"


def modules_of_the_server() -> list[Path]:
    return sorted(Path(holdfast.server.__path__[0]).rglob("*.py"))


@pytest.mark.parametrize("path", modules_of_the_server(), ids=lambda path: path.stem)
def test_no_module_of_the_server_knows_a_protocol_but_the_one_that_lists_them(path) -> None:
    """
    Another protocol is another line there, and no line anywhere else.
    """
    known = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            known |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            known |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            assert "Stomp" not in name or path.stem == "protocols", f"{path.name}: {name}"
    protocols = {
        it for it in known if it.startswith(("holdfast.protocols.", "holdfast.sessions.stomp"))
    }
    assert not protocols or path.stem == "protocols", f"{path.name} imports {sorted(protocols)}"
