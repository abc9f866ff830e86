"""
Nodes that were started wrongly: with each other's directories, with lists that differ, with another
secret. Each mistake is named where it can be mended, and mending it is enough.
"""

from __future__ import annotations

import pytest

from holdfast.testing.local_cluster import LocalNode

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def swap_directories(one: LocalNode, other: LocalNode) -> None:
    aside = one.directory / "aside"
    one.data.rename(aside)
    other.data.rename(one.data)
    aside.rename(other.data)


def told(node: LocalNode, text: str) -> list[str]:
    """The lines of a node's log with this text."""
    return [line for line in node.log_path.read_text().splitlines() if text in line]


def test_swapped_directories_are_refused_at_start(start_cluster) -> None:
    """
    Each of the two ends at once, with one sentence that names both; with the directories put back
    the cluster goes on.
    """
    cluster = start_cluster("pair")
    one, other = cluster.nodes.values()
    for node in (one, other):
        node.kill()
    swap_directories(one, other)
    for node in (one, other):
        node.start()

    for node, owner in ((one, other), (other, one)):
        assert node.wait() == 1
        (line,) = told(node, "is the data directory of")
        whose = f"{node.data} is the data directory of {owner.name} at {owner.peers} (identity"
        assert line.startswith(f"holdfast: {whose}")
        assert f"and this node is {node.name}: start {owner.name} with it" in line
    swap_directories(one, other)
    for node in (one, other):
        node.start()
    cluster.leader()
