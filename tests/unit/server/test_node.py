"""
One node put together and run in this process: real files, real loopback ports, one loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import structlog.testing

from holdfast.admin.metrics import Metrics
from holdfast.admin.operations import Operations
from holdfast.admin.remote import RemoteNode
from holdfast.admin.slices import Slices
from holdfast.admin.token_file import FILE_NAME
from holdfast.config.node import NodeConfig
from holdfast.errors import (
    AuthenticationError,
    DestinationError,
    HoldfastError,
    MembershipError,
    NotLeaderError,
    StoreLockedError,
)
from holdfast.model.limits import KiB
from holdfast.server.node import Node
from holdfast.server.role import Role
from holdfast.testing.free_ports import free_ports

Answer = TypeVar("Answer")
_WAIT_SECONDS = 10.0


def config(directory: Path) -> NodeConfig:
    stomp, admin = free_ports(2)
    flags = {
        "data": directory / "data",
        "stomp": f"127.0.0.1:{stomp}",
        "admin": f"127.0.0.1:{admin}",
        "segment": 64 * KiB,
    }
    return NodeConfig.load(flags=flags, environment={})


async def within(node: Node, work: Callable[[Node], Awaitable[Answer]]) -> tuple[Answer, int]:
    """Run a node, do the work once it serves, stop it; gives the answer and the exit code."""
    running = asyncio.create_task(node.run())
    async with asyncio.timeout(_WAIT_SECONDS):
        while not node.listener.is_open:
            assert not running.done(), "the node ended before it served"
            await asyncio.sleep(0)
        try:
            answer = await work(node)
        finally:
            node._stop()
        return answer, await running


def run(directory: Path, work: Callable[[Node], Awaitable[Answer]]) -> tuple[Answer, int]:
    return asyncio.run(within(Node(config(directory)), work))


async def store(node: Node, count: int) -> None:
    """Store messages on the queue `a` as a real client does."""
    address = node.config.stomp
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    await reader.readuntil(b"\0")
    for number in range(count):
        writer.write(
            b"SEND\ndestination:/queue/a\npersistent:true\nreceipt:%d\n\n%b\0"
            % (number, b"x" * KiB)
        )
    for _ in range(count):
        await reader.readuntil(b"\0")
    writer.close()
    await writer.wait_closed()


def test_a_node_serves_and_stops_cleanly(tmp_path) -> None:
    """
    Exit code 0, and what was stored is there at the next start without replaying the log.
    """

    async def first(node: Node) -> int:
        await store(node, 20)
        return node.status().store.live_messages

    async def second(node: Node) -> tuple[int, int]:
        return node.status().store.live_messages, node.checkpoints.saved_index

    assert run(tmp_path, first) == (20, 0)
    (count, _), code = run(tmp_path, second)
    assert (count, code) == (20, 0)


def test_the_status_says_who_it_is(tmp_path) -> None:
    """
    Role, leader, term, indexes, members, store: what scripts rely on.
    """

    async def look(node: Node) -> dict[str, object]:
        await store(node, 3)
        status = node.status()
        names = node.queue_names()
        queues = {it.name: it.messages for it in node.queues(names) if it is not None}
        depths = {it.name: it.messages for it in node.queue_depths() if it is not None}
        assert depths == queues
        return {"status": status, "queues": queues, "segments": (await node.segments())[0]}

    found, _ = run(tmp_path, look)
    status = found["status"]
    assert (status.role, status.leader, status.serving) == ("leader", status.name, True)
    assert status.commit_index == status.applied_index > 0
    assert [member.name for member in status.members] == [status.name]
    assert status.store.live_messages == 3
    assert found["queues"] == {"a": 3}
    assert not found["segments"][-1].sealed


def test_an_operator_purges_and_deletes(tmp_path) -> None:
    """
    Both return once they are stored; a queue that does not exist is an error.
    """

    async def work(node: Node) -> tuple[int, int]:
        await store(node, 5)
        purged = await node.purge("a")
        deleted = await node.delete("a")
        with pytest.raises(DestinationError):
            await node.purge("a")
        return purged, deleted

    assert run(tmp_path, work) == ((5, 0), 0)


async def ask(node: Node, requests: bytes) -> bytes:
    """Let a client say all of this at once; gives all that it is told until it is closed."""
    address = node.config.stomp
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0" + requests)
    told = await reader.read()
    writer.close()
    await writer.wait_closed()
    return told


def frame(command: str, body: bytes = b"", **headers: object) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    return f"{command}\n{lines}\n".encode() + body + b"\0"


def test_what_happens_to_messages_stands_in_the_metrics(tmp_path) -> None:
    """
    Each counter of messages, by the broker itself and as Prometheus reads it.

    Also receipts that wait for nothing, and messages to topics: both were left out, and messages
    dead-lettered and sent again were always 0.
    """
    stored = {"destination": "/queue/a", "persistent": "true", "producer_id": "p"}
    sending = b"".join(
        (
            frame("SEND", b"1", producer_sequence=1, receipt=1, **stored),
            frame("SEND", b"1", producer_sequence=1, receipt=2, **stored),
            frame("SEND", b"to a topic", destination="/topic/t", receipt=3),
            frame("SUBSCRIBE", id="x", destination="/queue/x", receipt=4),
            frame("SEND", b"1", producer_sequence=3, receipt=5, **stored),
            frame("DISCONNECT", receipt=6),
        )
    )

    async def work(node: Node) -> list[str]:
        told = await ask(node, sending)
        assert (told.count(b"RECEIPT\n"), told.count(b"ERROR\n")) == (5, 1)
        address = node.config.stomp
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(frame("CONNECT", accept_version="1.2", host="h"))
        writer.write(frame("SUBSCRIBE", id="a", destination="/queue/a", ack="client"))
        await reader.readuntil(b"\0")
        delivery = (await reader.readuntil(b"\0")).decode()
        (name,) = (line[4:] for line in delivery.splitlines() if line.startswith("ack:"))
        writer.write(frame("NACK", id=name, receipt="r"))
        assert b"RECEIPT" in await reader.readuntil(b"\0")
        writer.close()
        await writer.wait_closed()
        return b"".join(await Metrics(Operations(node)).pieces(Slices())).decode().splitlines()

    lines, _ = run(tmp_path, work)
    found = dict(line.rsplit(" ", 1) for line in lines if line.startswith("holdfast_messages_"))
    assert {name[18:-6]: int(float(value)) for name, value in found.items()} == {
        "enqueued": 3,
        "delivered": 1,
        "acknowledged": 1,
        "redelivered": 0,
        "receipts": 6,
        "refused": 1,
        "dead_lettered": 1,
        "duplicates": 1,
    }


def test_a_single_node_has_nobody_to_hand_over_to(tmp_path) -> None:
    """
    Asked to transfer, it says so and goes on.
    """

    async def work(node: Node) -> bool:
        with pytest.raises((MembershipError, HoldfastError)):
            await node.transfer(None)
        return node.conductor.is_serving

    assert run(tmp_path, work) == (True, 0)


def test_sealed_segments_have_digests(tmp_path) -> None:
    """
    By which replicas can be compared.
    """

    async def work(node: Node) -> list[bool]:
        await store(node, 200)
        return [bool(segment.digest) == segment.sealed for segment in (await node.segments())[0]]

    found, _ = run(tmp_path, work)
    assert len(found) > 1
    assert all(found)


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
    write = node.writer._write

    def hang(*job: Any) -> None:
        released.wait(_WAIT_SECONDS)
        write(*job)

    async def work(node: Node) -> None:
        node.writer._write = hang  # type: ignore[method-assign]
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
    node.journal.close()


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
        async with taken, asyncio.timeout(_WAIT_SECONDS):
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
    node.journal.close()

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

    monkeypatch.setattr("holdfast.server.node.write_token", refuse)
    assert run(tmp_path, ask) == (None, 0)


def test_few_open_files_are_told_with_what_to_do(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    One line: how many clients fit, and which limit is too low.
    """
    monkeypatch.setattr("holdfast.server.node.raise_limit", lambda: 256)
    with structlog.testing.capture_logs() as lines:
        node = Node(config(tmp_path))
    node.journal.close()
    assert node.conductor.settings.connection_count_max == node.shares.clients < 100
    told = [line for line in lines if "too few files may be open" in line["event"]]
    assert [line["clients"] for line in told] == [node.shares.clients]
    assert "LimitNOFILE" in told[0]["remedy"]


@pytest.mark.parametrize("change", ["purge", "delete"])
def test_what_an_operator_removes_waits_for_the_lease_before(tmp_path: Path, change: str) -> None:
    """
    A leader before this one could deliver it after that is confirmed; acknowledgements wait too.
    """

    async def work(node: Node) -> tuple[bool, int, int]:
        await store(node, 3)
        is_awaited = True
        node.driver.is_lease_awaited = lambda now: is_awaited  # type: ignore[method-assign]
        node.conductor.context.is_lease_awaited = True
        asking = asyncio.create_task(getattr(node, change)("a"))
        turns = 0

        def turned() -> bool:
            nonlocal turns
            turns += 1
            return turns > 20

        await node._wait_for(turned, node.clock.monotonic() + _WAIT_SECONDS)
        before = asking.done(), node.broker.state.live_count()
        is_awaited = False
        return *before, await asking

    answer, _ = run(tmp_path, work)
    assert answer == (False, 3, 3)


def test_what_waits_for_a_lease_ends_with_the_leadership(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whoever leads then may be asked again; here nothing was removed.
    """

    async def work(node: Node) -> int:
        await store(node, 3)
        node.driver.is_lease_awaited = lambda now: True  # type: ignore[method-assign]
        node.conductor.context.is_lease_awaited = True
        asking = asyncio.create_task(node.purge("a"))
        await asyncio.sleep(0)
        monkeypatch.setattr(Role, "follow", lambda role: False)  # Not at once again.
        node.conductor.role.end()
        with pytest.raises(NotLeaderError):
            await asking
        return node.broker.state.live_count()

    assert run(tmp_path, work)[0] == 3


def test_who_reads_that_there_is_room_may_publish(tmp_path: Path) -> None:
    """The broker looks for room now and then; what the status tells holds at once."""

    async def work(node: Node) -> tuple[str, str | None]:
        conductor = node.conductor
        conductor.context.refusal = "the disk is almost full"
        conductor.refusal_at = float("inf")
        return node.status().store.space, conductor.context.refusal

    assert run(tmp_path, work) == (("ok", None), 0)


def test_a_node_that_ends_opens_its_client_port_no_more(tmp_path: Path) -> None:
    """It still leads while it finishes what is under way, and is told of roles."""

    async def work(node: Node) -> bool:
        node.conductor.role.drain()
        node._on_role_change()
        for _ in range(10):
            await asyncio.sleep(0)
        assert node.conductor.role.is_serving
        return node.listener.is_open

    assert run(tmp_path, work) == (False, 0)
