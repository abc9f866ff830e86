"""
Whose a data directory is, and whose identity a peer shows: the log tells it by naming the members.

A directory of another node, moved or mounted in the wrong place or copied from it, would let a node
vote and lead under an identity that the others know by another name. It is found where the node
starts, and where two nodes meet, as the other one may be of a version that does not look. Pure.

Invariants:
    An identity has one name for as long as it lives; its address may change.
    A directory of which the log does not tell whose it is, as before a cluster is formed, is the
    node's that was started on it.
"""

from __future__ import annotations

from holdfast.errors import ForeignDirectoryError
from holdfast.replication.membership import Member
from holdfast.replication.messages import Hello
from holdfast.replication.state import State


def require_own_directory(state: State, directory: object) -> None:
    """
    The log in this directory names the node that is started on it, or does not name it yet.

    Raises:
        ForeignDirectoryError: It names another one under the identity that the directory holds.
    """
    owner = _owner(state)
    if owner is None or owner.name == state.name:
        return
    where = f" at {owner.address}" if owner.address else ""
    raise ForeignDirectoryError(
        f"{directory} is the data directory of {owner.name}{where} (identity {state.node_id[:8]} of"
        f" cluster {state.cluster_id[:8]}), and this node is {state.name}: start {owner.name} with"
        f" it, and {state.name} with its own, or with an empty one"
    )


def _owner(state: State) -> Member | None:
    membership = state.membership
    if membership is None:
        return None
    members = (*membership.members, *membership.previous_members)
    return next((it for it in members if it.node_id == state.node_id), None)


def borrowed_identity(state: State, hello: Hello) -> str:
    """Why this node is not who it says, as its identity is another one's; empty if it is not."""
    if hello.node_id == state.node_id:
        return (
            f"{hello.name} shows the identity of {state.name}: one of them runs on a copy of the"
            f" other's data directory; start that one with its own, or with an empty one"
        )
    owner = state.possible_members.get(hello.node_id, hello.name)
    if owner == hello.name:
        return ""
    return (
        f"{hello.name} shows the identity of {owner}: it runs on {owner}'s data directory; start it"
        f" with its own, or with an empty one"
    )
