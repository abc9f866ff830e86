"""
Links between members by TLS, put together from the configuration.

They have a line of their own for handshakes, as the admin port has: a crowd of clients that come
back after a failover must not keep the members apart that it needs. And where members are has one
apart from all others there: a stranger fills the others' at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from holdfast.config.node import NodeConfig
from holdfast.config.tls import PEERS_TABLE
from holdfast.replication.peer_tls import PeerTls
from holdfast.server.descriptors import Shares
from holdfast.server.port_lines import port_lines
from holdfast.transport.tls import ServerTls

_STRANGERS_MIN: Final = 16


def peer_tls(config: NodeConfig, shares: Shares, shown: Mapping[str, ServerTls]) -> PeerTls | None:
    """Give how links go by TLS; None: they are in clear."""
    if config.peer_tls == "off":
        return None
    ports = config.sections.ports
    ports = replace(
        ports,
        handshake_seconds_max=min(
            ports.handshake_seconds_max, config.sections.links.handshake_seconds
        ),
    )
    lines = port_lines(ports, common_count_max=max(shares.strangers, _STRANGERS_MIN))
    is_required = config.peer_tls == "require"
    return PeerTls(shown[PEERS_TABLE], lines.common, lines.apart, is_required=is_required)
