"""Logins over real sockets: a node with users, real hashes, and clients that come at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.node import NodeConfig
from holdfast.model.access_records import AuditRecord
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.limits import KiB
from holdfast.security.grants import read_grant
from holdfast.server.node import Node
from holdfast.testing.free_ports import free_ports
from tests.unit.server.whole_node import config, within

AUDIT = AuditRecord(1, "test", "test", "test", "test", "done")
STORM = 300


OPENED: list[asyncio.StreamWriter] = []
"""What is to be closed at the end of a test."""


async def serve(node: Node, work: Callable[[Node], Awaitable[Any]]) -> tuple[Any, int]:
    """Run a node, do the work, and close all that it opened."""

    async def done(node: Node) -> Any:
        try:
            return await work(node)
        finally:
            while OPENED:
                OPENED.pop().transport.abort()
            await asyncio.sleep(0)

    return await within(node, done)


class _Told:
    """Whoever asked for a change: knows when it is stored."""

    def __init__(self) -> None:
        self.stored = asyncio.Event()

    def reply(self, _receipt: bytes) -> None:
        self.stored.set()


async def change(node: Node, what: str, *arguments: Any) -> None:
    told = _Told()
    node.parts.broker.state.format_level = NEWEST_LEVEL
    getattr(node.parts.broker.access_changes, what)(*arguments, AUDIT, told, b"")
    node.conductor.schedule()
    await told.stored.wait()


async def add_user(node: Node, name: str, password: str) -> None:
    kept = (await node.parts.access.keep_password(name, password)).password
    await change(node, "put_user", name, {"roles": ["all"], "password": kept})


async def connect(node: Node, name: str = "", password: str = "") -> tuple[bytes, Any, Any]:
    """Connect as somebody; gives the answer and the streams."""
    address = node.config.stomp
    reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
    OPENED.append(writer)
    lines = f"login:{name}\npasscode:{password}\n" if name else ""
    writer.write(f"CONNECT\naccept-version:1.2\nhost:h\n{lines}\n\0".encode())
    return await reader.readuntil(b"\0"), reader, writer


def test_a_user_logs_in_by_his_password_and_is_cut_off_when_he_is_removed(tmp_path: Path) -> None:
    """The way through all of it, with real hashes: before there are users, with them, after."""

    async def work(node: Node) -> list[bytes]:
        answers = [(await connect(node))[0]]
        await add_user(node, "ann", "right")
        assert (tmp_path / "data" / "password-key").exists()
        answers.append((await connect(node))[0])
        answers.append((await connect(node, "ann", "wrong"))[0])
        answer, reader, writer = await connect(node, "ann", "right")
        answers.append(answer)
        send = b"SEND\ndestination:/queue/a\npersistent:true\nreceipt:r\n\nx\0"
        writer.write(send)
        answers.append(await reader.readuntil(b"\0"))
        await change(node, "grant", read_grant("all", "write,admin", "queue://>"))
        writer.write(send)
        answers.append(await reader.readuntil(b"\0"))
        await change(node, "remove_user", "ann")
        answers.append(await reader.readuntil(b"\0"))
        assert await reader.read() == b"\n"[:0]
        answers.append((await connect(node, "ann", "right"))[0])
        return answers

    answers, code = asyncio.run(serve(Node(config(tmp_path)), work))
    assert code == 0
    expected = [
        b"CONNECTED",
        b"say login and passcode",
        b"login or passcode is wrong",
        b"CONNECTED",
        b"user 'ann' may not write /queue/a",
        b"RECEIPT",
        b"user 'ann' was removed",
        b"CONNECTED",
    ]
    assert [it in answer for it, answer in zip(expected, answers, strict=True)] == [True] * 8


def test_many_who_come_back_at_once_cost_one_hash_and_no_heart_beat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of clients of one user after a failover: one look, and the loop goes on (S3)."""

    async def work(node: Node) -> tuple[int, float, set[bytes]]:
        await add_user(node, "ann", "right")
        threads = node.parts.access._threads
        looked_at: list[str] = []
        real = threads._is_right

        def is_right(kept: str, secret: str) -> bool:
            looked_at.append(secret)
            return real(kept, secret)

        monkeypatch.setattr(type(threads), "_is_right", staticmethod(is_right))
        node.conductor.counters.turn_cpu_seconds_max = 0.0
        async with asyncio.TaskGroup() as group:
            clients = [group.create_task(connect(node, "ann", "right")) for _ in range(STORM)]
        answers = {client.result()[0].split(b"\n")[0] for client in clients}
        longest = node.conductor.counters.turn_cpu_seconds_max
        return len(looked_at), longest, answers

    (count, longest, answers), _ = asyncio.run(serve(Node(config(tmp_path)), work))
    assert answers == {b"CONNECTED"}
    assert count == 1
    # Of a processor's time: what else runs on this machine has no part in it.
    assert longest < 0.2


@pytest.mark.parametrize("anonymous", [False, True])
def test_a_node_is_open_to_other_machines_once_it_has_users(
    tmp_path: Path, anonymous: bool
) -> None:
    """Or where the operator lets everybody in; its port opens with the first user (S1)."""
    stomp, inner, admin = free_ports(3)
    flags = {
        "data": tmp_path / "data",
        "stomp": f"0.0.0.0:{stomp}",
        "listen": [f"127.0.0.1:{inner}"],
        "admin": f"127.0.0.1:{admin}",
        "segment": 64 * KiB,
    }
    if anonymous:
        flags["anonymous_role"] = "guest"
    node = Node(NodeConfig.load(flags=flags, environment={}))

    async def work(node: Node) -> list[bool]:
        open_before = await is_open(stomp)
        await add_user(node, "ann", "right")
        async with asyncio.timeout(10):
            while not (is_open_now := await is_open(stomp)):
                await asyncio.sleep(0)
        return [open_before, is_open_now]

    async def is_open(port: int) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return False
        OPENED.append(writer)
        return True

    (found, code) = asyncio.run(serve(node, work))
    assert (found, code) == ([anonymous, True], 0)


def test_what_was_changed_by_a_lost_key_is_told(tmp_path: Path) -> None:
    """Without the file of the key nobody comes in by a password, and the words are the same."""

    async def first(node: Node) -> None:
        await add_user(node, "ann", "right")

    async def second(node: Node) -> bytes:
        return (await connect(node, "ann", "right"))[0]

    settings = config(tmp_path)

    async def both() -> bytes:
        await serve(Node(settings), first)
        (tmp_path / "data" / "password-key").unlink()
        return (await serve(Node(settings), second))[0]

    assert b"login or passcode is wrong" in asyncio.run(both())
