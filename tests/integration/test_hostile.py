"""
Hostile clients against a real process: its memory stays within bounds, and others are served.

Each kind sends so much that a node without the bound that is named beside it grows past what is
allowed here: `benches/hostile.py --without` shows that, and the full size, fifty clients of a kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.hostile_clients import (
    HOSTILE,
    forget_maximum,
    resident_bytes,
    resident_bytes_max,
    wait_idle,
)
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

MiB = 1 << 20


@dataclass(frozen=True)
class Case:
    """So many clients send so much; by so much the node may grow, and what keeps it from more."""

    kind: str
    count: int
    sent_mib: int
    growth_mib: int
    bounds: str


SMALL = (
    Case("receipts", 4, 64, 40, "unsent_bytes_max,held_bytes_max"),
    Case("errors", 4, 64, 40, "unsent_bytes_max,held_bytes_max"),
    Case("headers", 4, 64, 30, "header_block_bytes_max,header_count_max,header_line_bytes_max"),
    Case("many heads", 2, 4, 30, "header_cache_bytes_max,header_cache_entries_max"),
    Case("unread answers", 8, 64, 40, ""),
)
"""They leave hardly anything behind: one node does for all."""

LARGE = (
    Case(
        "topic backlog",
        2,
        140,
        100,
        "topic_pending_bytes_max,connection_backlog_bytes_max,backlog_bytes_max,held_bytes_max",
    ),
    Case("queue messages", 4, 100, 60, "memory_bytes"),
    Case("bodies", 4, 220, 175, "unfinished_bytes_max,held_bytes_max"),
    Case(
        "transactions", 4, 220, 170, "transactions_bytes_max,transaction_bytes_max,held_bytes_max"
    ),
    Case("subscriptions", 1, 30, 45, "subscription_count_max"),
)
"""They fill what there is for them; freed, it might serve another kind unseen."""

ARGUMENTS = ("--memory", "16MiB", "--segment", "4MiB")


@pytest.fixture(scope="module")
def node(tmp_path_factory) -> Iterator[LocalNode]:
    """One node for several kinds."""
    with LocalCluster(tmp_path_factory.mktemp("hostile"), "single", ARGUMENTS) as cluster:
        node = cluster.start()
        yield node
    assert "Traceback" not in node.log_path.read_text(errors="replace")


def grown_by(node: LocalNode, case: Case) -> int:
    """Let a crowd press; give by how much the node grew at most, in MiB."""
    before = resident_bytes(node)
    forget_maximum(node)
    with HOSTILE[case.kind].crowd(node, case.count) as crowd:
        crowd.press(case.sent_mib * MiB)
        if case.kind != "half frames":
            serve_honest(node)
            wait_idle(node)
        return (resident_bytes_max(node) - before) // MiB


def serve_honest(node: LocalNode) -> None:
    """Let an honest client send, receive and acknowledge beside them."""
    with StompSocket(node.stomp_port, timeout_seconds=30.0) as client:
        client.connect()
        assert client.publish("/queue/honest", b"x").command == "RECEIPT"
        client.subscribe("/queue/honest")
        message = client.read_message()
        assert message.body == b"x"
        assert client.acknowledge(message).command == "RECEIPT"


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.kind)
def test_what_hostile_clients_do_not_read_or_end_takes_next_to_nothing(node, case: Case) -> None:
    """
    They are not read on, or closed; an honest client is served meanwhile.
    """
    assert grown_by(node, case) < case.growth_mib


@pytest.mark.parametrize("case", LARGE, ids=lambda case: case.kind)
def test_what_hostile_clients_let_a_node_keep_is_bounded(start_cluster, case: Case) -> None:
    """
    They wait, are refused more, or the worst are closed; an honest client is served meanwhile.
    """
    assert grown_by(start_cluster("single", *ARGUMENTS).leader(), case) < case.growth_mib


def test_hostile_strangers_at_the_peer_port_take_nothing(tmp_path) -> None:
    """
    Whoever has not proven that it is a member is believed no length of a frame.
    """
    node = LocalNode("a", tmp_path)
    others = ["--member", "b=127.0.0.1:1", "--member", "c=127.0.0.1:2"]
    (tmp_path / "secret").write_text("0123456789abcdef")
    node.arguments = ["--peers", node.peers, "--member", f"a={node.peers}", *others]
    node.arguments += ["--secret-file", str(tmp_path / "secret")]
    node.start()
    try:
        node.wait_until(lambda _: "peer port is open" in node.log_tail(), "open to its peers")
        assert grown_by(node, Case("half frames", 8, 64, 20, "")) < 20
        assert node.status() is not None
    finally:
        node.kill()
