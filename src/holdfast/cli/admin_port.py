"""
The options of every command that asks a running node, and the way to ask it.

All of them take `--admin HOST:PORT` or an address by TLS (any node of the cluster, see
`admin.endpoint`) and, for changes by anybody but the node's own user on its own machine,
`--secret-file`. Both may stand in the environment, under the names that `holdfast serve` reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.admin.endpoint import Endpoint
from holdfast.admin.pages import all_pages
from holdfast.admin.remote import CHANGE_SECONDS_MAX, QUESTION_SECONDS_MAX, RemoteNode
from holdfast.admin.status import HoldStatus, NodeStatus, QueueStatus
from holdfast.authorities.token_files import read_secret
from holdfast.cli.login import login, secret, takes_earlier
from holdfast.cli.output import tell_own_view, write_error
from holdfast.config.plain_values import UnreadError, plain_value
from holdfast.errors import AuthenticationError, LinkLostError

ADMIN_DEFAULT = "127.0.0.1:8161"

AdminOption = Annotated[
    str,
    typer.Option(
        "--admin",
        envvar="HOLDFAST_ADMIN",
        metavar="HOST:PORT",
        help="Admin port of any node; by TLS https://HOST:PORT.",
    ),
]
SecretOption = Annotated[
    Path | None,
    typer.Option(
        "--secret-file",
        envvar="HOLDFAST_SECRET_FILE",
        metavar="FILE",
        help="The cluster's secret; not needed by the node's user on its machine.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON for programs.")]


def to_ask(admin: str) -> RemoteNode:
    """The node, for questions."""
    return _node(admin, secret(), QUESTION_SECONDS_MAX)


def to_change(admin: str, secret_file: Path | None) -> RemoteNode:
    """
    The node, for changes.

    Raises:
        ConfigError: The secret cannot be read.
    """
    known = b"" if secret_file is None else read_secret(secret_file)
    return _node(admin, known, CHANGE_SECONDS_MAX)


def _node(admin: str, known: bytes, seconds: float) -> RemoteNode:
    return RemoteNode(
        admin,
        secret=known,
        timeout_seconds=seconds,
        login=login(),
        takes_earlier=takes_earlier(),
    )


def read_status(node: RemoteNode) -> NodeStatus:
    """
    The node's status.

    Raises:
        LinkLostError: The node cannot be reached, or is no Holdfast node.
    """
    return parse_status(node, node.get("/status"))


def parse_status(node: RemoteNode, answer: dict[str, Any]) -> NodeStatus:
    """
    The node's status, from its answer.

    Raises:
        LinkLostError: The node is no Holdfast node.
    """
    status: NodeStatus = _read(node, NodeStatus, answer)
    return status


def read_queues(node: RemoteNode) -> list[QueueStatus]:
    """
    The queues, seen by the leader where it can be asked.

    Raises:
        LinkLostError: The node cannot be reached, or is no Holdfast node.
    """
    queues: list[QueueStatus] = _read(node, list[QueueStatus], read_queue_pages(node).get("queues"))
    return queues


def read_queue_pages(node: RemoteNode) -> dict[str, Any]:
    """
    All pages of the answer about queues, as if it were one.

    Raises:
        LinkLostError: The node cannot be reached, or its pages have no end.
    """
    answer = all_pages(node.get, "/queues", "queues", whose=node.address)
    tell_own_view(answer)
    return answer


def read_holds(node: RemoteNode) -> list[HoldStatus] | None:
    """
    The named readers of the log; None where a proof is asked for that cannot be given.

    Raises:
        LinkLostError: The node cannot be reached, or is no Holdfast node.
    """
    try:
        found = node.get("/holds").get("holds")
    except AuthenticationError:
        return None
    holds: list[HoldStatus] = _read(node, list[HoldStatus], found)
    return holds


def _read(node: RemoteNode, kind: Any, answer: object) -> Any:
    """
    Read what a node has answered.

    Raises:
        LinkLostError: It is not of this kind.
    """
    try:
        return plain_value(kind, answer)
    except UnreadError:
        from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_python(answer)
    except ValidationError as error:
        raise LinkLostError(f"{node.address} does not answer like a Holdfast node") from error


def tell_if_not_known(answer: dict[str, Any]) -> None:
    """Say beside what a node tells of users and grants that it cannot be sure of it yet."""
    if answer.get("is_known", True):
        return
    node = answer.get("node", "this node")
    why = f"who there is, is not known yet: since {node} was started no leader has told it how far"
    why += " its log is committed"
    if answer.get("role") == "witness":
        why = f"{node} is a witness, which knows no users, and there is no leader to be asked"
    write_error(f"note: {why}. This is what its own log has; ask again once there is a leader")


def beside(admin: str, other: str) -> str:
    """
    Give the address that a node tells of another, with the files that the first was asked by.

    Raises:
        ConfigError: One of them is no address.
    """
    return Endpoint.parse(admin).beside(other)


def leaders_status(status: NodeStatus, admin: str) -> NodeStatus:
    """The leader's status, which alone knows how far the others are; else the one given."""
    leader = status.member(status.leader)
    if status.role == "leader" or leader is None or not leader.admin:
        return status
    try:
        return read_status(to_ask(beside(admin, leader.admin)))
    except LinkLostError:
        return status
