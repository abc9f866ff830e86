"""
What an address says of who has it: whether it is this machine's, and who else has others beside it.

Whoever has one address of IPv6 has a network of 64 bits of them, so another one is no other source.
One of IPv4 has two spellings where a port takes both kinds.

Pure: addresses are texts, and nothing is looked up.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

_IPV6_PREFIX_BITS: Final = 64
_KNOWN_MAX: Final = 4_096
"""So many are remembered: the same are asked for with each connection and each guess."""


@lru_cache(maxsize=_KNOWN_MAX)
def network_of(address: str) -> str:
    """
    Give what connections are counted by: an IPv4 address, or the network of an IPv6 address.

    What is no address stands for itself.
    """
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ip_network((found, _IPV6_PREFIX_BITS), strict=False))


def is_address(text: str) -> bool:
    """Whether this is an address, and not a name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_same_machine(there: str, here: str | None) -> bool:
    """Whether the other end of a connection is on this machine; None: our own is not known."""
    return there == here or (is_address(there) and ip_address(there).is_loopback)
