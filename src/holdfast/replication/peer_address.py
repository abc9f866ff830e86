"""
Where a member listens for the others, as `host:port`.

An IPv6 address stands in brackets.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.digits import read_digits

PORT_MAX: Final = 65_535


def host_of(address: str) -> str:
    """The host of `host:port`, or nothing."""
    return address.rpartition(":")[0].strip("[]")


def split_address(address: str) -> tuple[str, int]:
    """
    Host and port of `host:port` or `[ipv6]:port`.

    Raises:
        ValueError: There is no port, or none that can be.
    """
    host, colon, digits = address.rpartition(":")
    port = read_digits(digits, 5)
    if not colon or port is None or port > PORT_MAX:
        raise ValueError(f"{address!r} is not HOST:PORT with a port from 0 to {PORT_MAX}")
    return host.strip("[]"), port
