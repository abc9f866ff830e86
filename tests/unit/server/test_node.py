"""
One node put together and run in this process: real files, real loopback ports, one loop.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog.testing

from holdfast.admin.remote import RemoteNode
from holdfast.admin.token_file import FILE_NAME
from holdfast.config.node import NodeConfig
from holdfast.errors import (
    AuthenticationError,
    StoreLockedError,
)
from holdfast.model.limits import KiB
from holdfast.server import node as node_module
from holdfast.server.node import Node
from holdfast.server.waiting import wait_until
from holdfast.testing.free_ports import free_ports
from tests.unit.server.whole_node import WAIT_SECONDS, config, run, store, within


def test_a_node_serves_and_stops_cleanly(tmp_path) -> None:
    """
    Exit code 0, and what was stored is there at the next start without replaying the log.
    """

    async def first(node: Node) -> int:
        await store(node, 20)
        return node.administration.status().store.live_messages

    async def second(node: Node) -> tuple[int, int]:
        return node.administration.status().store.live_messages, node.checkpoints.saved_index

    assert run(tmp_path, first) == (20, 0)
    (count, _), code = run(tmp_path, second)
    assert (count, code) == (20, 0)


def test_what_is_needed_some_day_is_made_ready_while_the_node_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Not before: a node that starts is awaited. And in a thread: no turn pays for it.
    """
    made: list[threading.Thread] = []
    monkeypatch.setattr(node_module, "PREPARE_SECONDS", 0.0)
    monkeypatch.setattr(node_module, "prepare", lambda: made.append(threading.current_thread()))

    async def work(node: Node) -> list[threading.Thread]:
        await wait_until(lambda: bool(made), node.clock, node.clock.monotonic() + WAIT_SECONDS)
        return made

    found, code = run(tmp_path, work)
    assert [it is threading.main_thread() for it in found] == [False]
    assert code == 0


def test_a_failure_ends_the_process_with_a_code(tmp_path) -> None:
    """
    After a failed write nothing more may be claimed, and whoever supervises must see it.
    """

    async def work(node: Node) -> None:
        node.fail(StoreLockedError("made up"))

    assert run(tmp_path, work) == (None, 1)


def test_a_disk_that_hangs_does_not_keep_a_node_from_ending(tmp_path) -> None:
    """
    It waits a bounded time, says so, and leaves the rest to the next start's recovery.
    """
    released = threading.Event()
    node = Node(config(tmp_path))
    settings = node.conductor.settings
    node.conductor.settings = replace(settings, close_seconds_max=0.05)
    write = node.parts.writer._write

    def hang(*job: Any) -> None:
        released.wait(WAIT_SECONDS)
        write(*job)

    async def work(node: Node) -> None:
        node.parts.writer._write = hang  # type: ignore[method-assign]
        node.driver.repropose_config()
        node.conductor.schedule()
        await asyncio.sleep(0)

    async def scenario() -> tuple[None, int]:
        try:
            return await within(node, work)
        finally:
            released.set()

    assert (None, 1) == asyncio.run(scenario())
    assert node.is_disk_abandoned
    node.parts.journal.close()


def test_a_directory_has_one_owner(tmp_path) -> None:
    """
    A second node on the same data is refused before it touches anything.
    """

    async def work(node: Node) -> None:
        with pytest.raises(StoreLockedError):
            Node(config(tmp_path))

    assert run(tmp_path, work) == (None, 0)


def test_a_port_that_is_taken_ends_the_node(tmp_path) -> None:
    """
    Serving is its purpose; it does not go on without its client port.
    """
    settings = config(tmp_path)

    async def scenario() -> int:
        taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", settings.stomp.port)
        async with taken, asyncio.timeout(WAIT_SECONDS):
            return await Node(settings).run()

    assert asyncio.run(scenario()) == 1


def test_no_thread_outlives_a_node(tmp_path) -> None:
    """
    The writer's and the housekeeper's threads end with it.
    """

    async def work(node: Node) -> None:
        await store(node, 1)

    run(tmp_path, work)
    assert not [each for each in threading.enumerate() if "journal" in each.name]


@pytest.mark.parametrize(("host", "warnings"), [("127.0.0.1", 0), ("0.0.0.0", 1)])
def test_a_peer_port_that_others_reach_is_warned_of(
    tmp_path: Path, host: str, warnings: int
) -> None:
    """Links are not encrypted, and what they carry is not authenticated; the operator is told."""
    (port,) = free_ports(1)
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(65, 97)))
    flags = {
        "data": tmp_path / "data",
        "name": "a",
        "members": [f"a=127.0.0.1:{port}"],
        "peers": f"{host}:{port}",
        "secret_file": secret,
        "segment": 64 * KiB,
    }
    node = Node(NodeConfig.load(flags=flags, environment={}))
    with structlog.testing.capture_logs() as told:
        node._tell_places("")
    node.parts.journal.close()

    assert warnings == sum(line["log_level"] == "warning" for line in told)


def test_a_node_leaves_a_new_proof_for_its_own_user_at_each_start(tmp_path) -> None:
    """
    Readable by nobody else; the command line finds it, without a word from the operator.
    """

    async def ask(node: Node) -> tuple[str, dict[str, object]]:
        path = tmp_path / "data" / FILE_NAME
        assert path.stat().st_mode & 0o777 == 0o600
        remote = RemoteNode(str(node.config.admin))
        return path.read_text(), await asyncio.to_thread(remote.get, "/segments")

    (first, segments), _ = run(tmp_path, ask)
    (second, _), _ = run(tmp_path, ask)
    assert segments["segments"]
    assert first != second


def test_a_node_without_room_for_its_proof_serves_all_the_same(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A full disk stops producers, not the node; the operator needs the cluster's secret meanwhile.
    """

    def refuse(*_: object) -> None:
        raise OSError(28, "no space left")

    async def ask(node: Node) -> None:
        with pytest.raises(AuthenticationError, match="a proof is needed"):
            await asyncio.to_thread(RemoteNode(str(node.config.admin)).get, "/segments")

    monkeypatch.setattr("holdfast.server.left_token.write_token", refuse)
    assert run(tmp_path, ask) == (None, 0)


def test_a_node_that_ends_opens_its_client_port_no_more(tmp_path: Path) -> None:
    """It still leads while it finishes what is under way, and is told of roles."""

    async def work(node: Node) -> bool:
        node.conductor.role.drain()
        node.role_changed()
        for _ in range(10):
            await asyncio.sleep(0)
        assert node.conductor.role.is_serving
        return node.parts.listener.is_open

    assert run(tmp_path, work) == (False, 0)
