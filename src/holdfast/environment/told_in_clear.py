"""
Whether a password or token may be told in clear to who has the other end on this machine.

Nobody reads it on the way there, but anybody can be who answers: any user can listen at a port of
loopback while the node is stopped, or at the other family's address of `localhost` while it runs.
So the kernel is asked who has the other end (`environment.listeners`). It may be root, the
system's and its services' users, our own user, or one of whom it is said that a node runs as him;
another of the people who have this machine may not.

Where that is not known it is told as to a node: in another namespace of networks (a
container's port that the kernel itself leads on), and on a system without such a table.
"""

from __future__ import annotations

from typing import Any

from holdfast.environment.listeners import answerers_users
from holdfast.environment.node_users import VARIABLE, name_of, ordinary_of


def why_not_told(there: tuple[Any, ...], here: tuple[Any, ...]) -> str:
    """Say why a secret is not told to who has the other end on this machine; empty: it may be."""
    found = answerers_users((there[0], there[1]), (here[0], here[1]))
    strangers = ordinary_of(found or frozenset())
    if not strangers:
        return ""
    name = name_of(min(strangers))
    return (
        f"who listens there is user {name} of this machine, who may be anybody: no password or"
        f" token is sent in clear. If the node runs as {name}, say so by {VARIABLE}={name}; or let"
        " it be spoken to by TLS"
    )
