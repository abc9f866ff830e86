"""
What the two ends of an open connection say of each other.

Whoever is on this machine is trusted with more on every port: a secret may come in clear, and the
node's own user is told where his proof lies. So one place says who that is, by both ends.
"""

from __future__ import annotations

import asyncio

from holdfast.model.networks import is_same_machine


def is_within_machine(transport: asyncio.BaseTransport) -> bool:
    """Whether the other end is on this machine; false where the connection does not tell."""
    there, here = (transport.get_extra_info(it) for it in ("peername", "sockname"))
    return bool(there and here) and is_same_machine(str(there[0]), str(here[0]))
