"""
Whether a node's ports can be opened, found out before it starts.

A node opens its client port only when it comes to lead, which may be months later and in the middle
of a failover: a port that somebody else has is found here. The admin port and the peer port are
looked at in the same way, so that all that is wrong is told at once.
"""

from __future__ import annotations

import socket

from holdfast.config.address import Address
from holdfast.config.node import NodeConfig


def taken_ports(settings: NodeConfig) -> list[str]:
    """Name each port that cannot be opened now, in a sentence: why, and who is to listen there."""
    clients = "clients are to connect there"
    if settings.members:
        clients += f" whenever {settings.name} leads"
    wanted = [
        ("stomp", settings.stomp, clients),
        *(("listen", it.address, clients) for it in settings.listen),
        ("admin", settings.admin, "operators are to connect there"),
        ("peers", settings.peers, "the other members are to connect there"),
    ]
    return [
        f"{key}: {address} cannot be opened: {reason}; {purpose}: end what has it, or give another"
        f" --{key}"
        for key, address, purpose in wanted
        if address is not None and (reason := _reason(address))
    ]


def _reason(address: Address) -> str:
    """Why it cannot be opened, as the system says it; empty if it can."""
    try:
        places = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, place in places:
            _bind(family, kind, protocol, place)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    except UnicodeError:
        return "that is no name of a host"
    return ""


def _bind(family: int, kind: int, protocol: int, place: tuple[object, ...]) -> None:
    """Take it and give it back, in the way of the servers: what only lingers is in nobody's way."""
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind(place)
