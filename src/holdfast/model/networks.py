"""
What an address says of who has it: whether it is this machine's, and who else has others beside it.

Whoever has one address of IPv6 has a network of 64 bits of them, so another one is no other source;
and whoever has a site has 65,536 such networks (RFC 6177: up to a prefix of 48 bits), which takes a
telephone call. One of IPv4 has two spellings where a port takes both kinds.

Pure: addresses are texts, and nothing is looked up.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

_IPV6_PREFIX_BITS: Final = 64
_SITE_PREFIX_BITS: Final = 48
_KNOWN_MAX: Final = 4_096
"""So many are remembered: the same are asked for with each connection and each guess."""


def network_of(address: str) -> str:
    """
    Give what connections are counted by: an IPv4 address, or the network of an IPv6 address.

    What is no address stands for itself.
    """
    return networks_of(address)[1]


@lru_cache(maxsize=_KNOWN_MAX)
def networks_of(address: str) -> tuple[str, str]:
    """Give the site that an address may be of, and its network; of IPv4 both are the address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address, address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        site, network = (
            str(ip_network((found, bits), strict=False))
            for bits in (_SITE_PREFIX_BITS, _IPV6_PREFIX_BITS)
        )
        return site, network
    alone = str(found.ipv4_mapped if isinstance(found, IPv6Address) else found)
    return alone, alone


def is_address(text: str) -> bool:
    """Whether this is an address, and not a name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=_KNOWN_MAX)
def is_loopback(address: str) -> bool:
    """Whether only this machine has it; what is no address is not."""
    try:
        return ip_address(one_spelling(address)).is_loopback
    except ValueError:
        return False


def is_same_machine(there: str, here: str | None) -> bool:
    """
    Whether the other end of a connection is on this machine; None: our own is not known.

    It is where it has our own address: from outside nothing comes by that, the system drops it.
    """
    if is_loopback(there):
        return True
    return here is not None and is_address(there) and one_spelling(there) == one_spelling(here)


def is_same_address(one: str, other: str) -> bool:
    """Whether two texts are one address, however they spell it, and whatever the scope."""
    one, other = (one_spelling(it.partition("%")[0]) for it in (one, other))
    return is_address(one) and one == other


def one_spelling(address: str) -> str:
    """An address of IPv4 as such, also where a port of both kinds tells it; others as they are."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(found if mapped is None else mapped)
