"""
What operators may ask of a node, asked of one that runs in this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.admin.metrics import Metrics
from holdfast.admin.operations import Operations
from holdfast.admin.slices import Slices
from holdfast.admin.status import HoldRequest
from holdfast.errors import (
    DestinationError,
    HoldfastError,
    MembershipError,
    NotLeaderError,
)
from holdfast.journal.segment import Segment
from holdfast.journal.segment_table import SegmentTable
from holdfast.model.records import HoldRecord
from holdfast.server.node import Node
from holdfast.server.role import Role
from holdfast.server.waiting import wait_until
from tests.unit.server.whole_node import WAIT_SECONDS, run, store


def test_the_status_says_who_it_is(tmp_path) -> None:
    """
    Role, leader, term, indexes, members, store: what scripts rely on.
    """

    async def look(node: Node) -> dict[str, object]:
        await store(node, 3)
        status = node.administration.status()
        names = node.administration.queue_names()
        queues = {
            it.name: it.messages for it in node.administration.queues(names) if it is not None
        }
        depths = {
            it.name: it.messages for it in node.administration.queue_depths() if it is not None
        }
        assert depths == queues
        return {
            "status": status,
            "queues": queues,
            "segments": (await node.administration.segments())[0],
        }

    found, _ = run(tmp_path, look)
    status = found["status"]
    assert (status.role, status.leader, status.serving) == ("leader", status.name, True)
    assert status.commit_index == status.applied_index > 0
    assert [member.name for member in status.members] == [status.name]
    assert status.store.live_messages == 3
    assert found["queues"] == {"a": 3}
    assert not found["segments"][-1].sealed


def test_no_scrape_goes_through_all_segments(tmp_path, monkeypatch) -> None:
    """
    Of 160,000 files that was 90 ms of every turn in which somebody asked for the status.
    """

    def gone_through(_: SegmentTable) -> Iterator[Segment]:
        raise AssertionError("it goes through all segments")

    async def scrape(node: Node) -> bytes:
        await store(node, 3)
        node.parts.broker.state.holds["r"] = HoldRecord("r", 1, 1 << 30)
        monkeypatch.setattr(SegmentTable, "__iter__", gone_through)
        (hold,) = node.administration.status().holds
        assert hold.held_bytes > 0
        metrics = Metrics(Operations(node.administration))
        pieces = await metrics.pieces(Slices(), is_proven=True)
        cleaner = node.parts.conductor.cleaner
        cleaner.look_again_at = 0.0
        cleaner.step(node.parts.clock.monotonic(), lambda: False)
        monkeypatch.undo()
        del node.parts.broker.state.holds["r"]
        return b"".join(pieces)

    found, _ = run(tmp_path, scrape)
    assert b"\nholdfast_store_segments 1.0\n" in found


def test_an_operator_purges_and_deletes(tmp_path) -> None:
    """
    Both return once they are stored; a queue that does not exist is an error.
    """

    async def work(node: Node) -> tuple[int, int]:
        await store(node, 5)
        purged = await node.administration.purge("a")
        deleted = await node.administration.delete("a")
        with pytest.raises(DestinationError):
            await node.administration.purge("a")
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
        return (
            b"".join(await Metrics(Operations(node.administration)).pieces(Slices()))
            .decode()
            .splitlines()
        )

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
        "expired": 0,
        "fired": 0,
        "scheduled_refused": 0,
        "dropped": 0,
        "evicted": 0,
        "unmatched": 0,
        "advisories_missed": 0,
        "duplicates": 1,
        "answers_refused": 0,
    }


def test_a_single_node_has_nobody_to_hand_over_to(tmp_path) -> None:
    """
    Asked to transfer, it says so and goes on.
    """

    async def work(node: Node) -> bool:
        with pytest.raises((MembershipError, HoldfastError)):
            await node.administration.transfer(None)
        return node.conductor.is_serving

    assert run(tmp_path, work) == (True, 0)


def test_sealed_segments_have_digests(tmp_path) -> None:
    """
    By which replicas can be compared.
    """

    async def work(node: Node) -> list[bool]:
        await store(node, 200)
        return [
            bool(segment.digest) == segment.sealed
            for segment in (await node.administration.segments())[0]
        ]

    found, _ = run(tmp_path, work)
    assert len(found) > 1
    assert all(found)


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
        asking = asyncio.create_task(getattr(node.administration, change)("a"))
        turns = 0

        def turned() -> bool:
            nonlocal turns
            turns += 1
            return turns > 20

        await wait_until(turned, node.clock, node.clock.monotonic() + WAIT_SECONDS)
        before = asking.done(), node.parts.broker.state.live_count()
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
        asking = asyncio.create_task(node.administration.purge("a"))
        await asyncio.sleep(0)
        monkeypatch.setattr(Role, "follow", lambda role: False)  # Not at once again.
        node.conductor.role.end()
        with pytest.raises(NotLeaderError):
            await asking
        return node.parts.broker.state.live_count()

    assert run(tmp_path, work)[0] == 3


def test_who_reads_that_there_is_room_may_publish(tmp_path: Path) -> None:
    """The broker looks for room now and then; what the status tells holds at once."""

    async def work(node: Node) -> tuple[str, str | None]:
        conductor = node.conductor
        conductor.context.refusal = "the disk is almost full"
        conductor.refusal_at = float("inf")
        return node.administration.status().store.space, conductor.context.refusal

    assert run(tmp_path, work) == (("ok", None), 0)


def test_a_hold_that_ends_as_it_is_set_is_told_as_ended(tmp_path: Path) -> None:
    """Both are in one batch, and both are done before either asker hears of it."""
    wanted = HoldRequest(
        index=1, bytes_max=None, expiry_seconds=None, or_first=True, only_renews=False
    )

    async def work(node: Node) -> list[object]:
        administration = node.administration
        await administration.keep_log("r", wanted)
        both = administration.keep_log("r", wanted), administration.release_log("r")
        found = await asyncio.gather(*both, return_exceptions=True)
        assert administration.status().holds == ()
        return found

    (kept, released), _ = run(tmp_path, work)
    assert (type(kept), str(kept)[:18], released) == (DestinationError, "there is no hold r", None)
