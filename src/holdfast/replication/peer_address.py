"""
Where a member listens for the others, as `host:port`.

An IPv6 address stands in brackets.
"""

from __future__ import annotations


def host_of(address: str) -> str:
    """The host of `host:port`, or nothing."""
    return address.rpartition(":")[0].strip("[]")


def split_address(address: str) -> tuple[str, int]:
    """
    Host and port of `host:port` or `[ipv6]:port`.

    Raises:
        ValueError: There is no port.
    """
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
