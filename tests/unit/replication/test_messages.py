"""Tests of replication/messages.py: values, compared by what they say."""

from __future__ import annotations

from holdfast.replication.messages import AppendRequest, Hello


def test_an_encoded_request_is_the_same_request() -> None:
    """The kept frame is a cache: it does not count when two requests are compared."""
    one = AppendRequest(1, 0, 0, bytes(16), 0, 0, 1.0)
    other = AppendRequest(1, 0, 0, bytes(16), 0, 0, 1.0, encoded=[b"frame"])

    assert one == other


def test_a_fresh_node_says_so_by_an_empty_cluster() -> None:
    """A hello without a cluster identity is that of a node that belongs nowhere yet."""
    assert not Hello("a", "00").cluster_id
