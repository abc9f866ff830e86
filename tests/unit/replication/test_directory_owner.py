"""Tests of replication/directory_owner.py: whose a data directory is, and what that forbids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import ForeignDirectoryError
from holdfast.replication.directory_owner import borrowed_identity, require_own_directory
from holdfast.replication.membership import Membership, with_identity


def test_a_directory_of_another_node_is_refused(member) -> None:
    """One sentence that names both, where the owner was, and what to do."""
    state = member().state
    require_own_directory(state, "/data")
    state.name = "b"

    with pytest.raises(ForeignDirectoryError) as caught:
        require_own_directory(state, "/data")

    sentence = str(caught.value)
    assert sentence.startswith("/data is the data directory of a at a:1 (identity 61000000 of")
    assert "and this node is b: start a with it, and b with its own" in sentence


def test_a_directory_that_names_nobody_is_the_nodes_own(member) -> None:
    """Before a cluster is formed, and where a new identity took the place of this one."""
    state = member().state
    replaced = with_identity(state.membership, "a", "99" * 16, "a:2")
    state.adopt(replace(state.membership, members=replaced), 1)
    state.name = "b"

    require_own_directory(state, "/data")
    state.membership = None
    require_own_directory(state, "/data")


def test_an_address_may_change(member) -> None:
    """A node that moved, under its name, is the owner of what it brought along."""
    state = member().state
    moved = tuple(replace(it, address="elsewhere:9") for it in state.membership.members)
    state.adopt(Membership(moved, state.cluster_id), 1)

    require_own_directory(state, "/data")


def test_an_identity_is_told_by_its_name(member) -> None:
    """A peer under another's identity, or under ours, is named; its own, or a new one, is fine."""
    state = member().state
    hello = state.connected["b"]

    assert "" == borrowed_identity(state, hello)
    assert "" == borrowed_identity(state, replace(hello, node_id="99" * 16))
    swapped = borrowed_identity(state, replace(hello, node_id=state.connected["c"].node_id))
    assert swapped.startswith("b shows the identity of c: it runs on c's data directory")
    copied = borrowed_identity(state, replace(hello, node_id=state.node_id))
    assert copied.startswith("b shows the identity of a: one of them runs on a copy")
