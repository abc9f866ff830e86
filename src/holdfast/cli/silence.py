"""
Are the others dead? What the command of a promotion by force can find out for itself.

Nobody can prove from here that a machine is dead. But one that answers is not: neither on its admin
port, nor on the port for peers, whose address the members know even of those whom they never met.
A process that is only stopped, or hangs, answers there too: its system takes the connection.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable
from typing import Final

from holdfast.admin.promotion import require_strangers_dead
from holdfast.admin.status import MemberStatus, NodeStatus
from holdfast.cli.admin_port import beside, read_status, to_ask
from holdfast.errors import LinkLostError, MembershipError
from holdfast.replication.peer_address import split_address

CONNECT_SECONDS_MAX: Final = 2.0
"""So long each peer port is waited for."""


def require_silence(
    statuses: Iterable[NodeStatus], names: Collection[str], admin: str = ""
) -> None:
    """
    Make sure that nobody answers who is not among those that go on.

    Args:
        admin: The address by which the first node was asked: others are by the same files.

    Raises:
        MembershipError: Somebody does, so it is not dead.
    """
    asked: set[tuple[str, str]] = set()
    for status in statuses:
        for member in status.members:
            place = member.admin, member.address
            if member.name in names or place in asked:
                continue
            asked.add(place)
            _require_silence_of(member, names, admin)


def _require_silence_of(member: MemberStatus, names: Collection[str], admin: str) -> None:
    if member.admin:
        try:
            alive = read_status(to_ask(beside(admin, member.admin)))
        except LinkLostError:
            pass
        else:
            require_strangers_dead(names, alive, member.admin)
            # One that goes on answers there, as on each machine whose admin port is at loopback:
            # that says nothing of this member.
    if member.address and _takes_connections(member.address):
        raise MembershipError(
            f"{member.name} takes connections at {member.address}, its port for peers: it is not"
            f" dead, though it may hang or be cut off from the others; stop it first"
        )


def _takes_connections(address: str) -> bool:
    try:
        place = split_address(address)
        with socket.create_connection(place, timeout=CONNECT_SECONDS_MAX):
            return True
    except (OSError, ValueError, UnicodeError):
        return False
