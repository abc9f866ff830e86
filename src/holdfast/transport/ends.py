"""
What the two ends of an open connection say of each other.

Whoever is on this machine is trusted with more on every port: a secret may come in clear, and the
node's own user is told where his proof lies. So one place says who that is, by both ends.
"""

from __future__ import annotations

import asyncio

from holdfast.model.networks import is_same_machine


def address_of(transport: asyncio.BaseTransport, default: str = "") -> str:
    """Give the address of the other end, without a port; where it does not tell, another word."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else default


def is_within_machine(transport: asyncio.BaseTransport) -> bool:
    """Whether the other end is on this machine; false where the connection does not tell."""
    there, here = (transport.get_extra_info(it) for it in ("peername", "sockname"))
    return bool(there and here) and is_same_machine(str(there[0]), str(here[0]))
