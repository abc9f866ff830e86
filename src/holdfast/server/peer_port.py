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
from holdfast.server.admin_port import SLICE_SHARE
from holdfast.server.descriptors import APART_COUNT_MAX, Shares
from holdfast.transport.handshakes import Handshakes
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
        handshake_slice_seconds=ports.handshake_slice_seconds / SLICE_SHARE,
    )
    strangers = max(shares.strangers, _STRANGERS_MIN)
    # Nobody waits at the door of a port where some have a line apart.
    handshakes = Handshakes(ports, count_max=strangers, has_door=False)
    members = Handshakes(ports, count_max=APART_COUNT_MAX, has_door=False)
    is_required = config.peer_tls == "require"
    return PeerTls(shown[PEERS_TABLE], handshakes, members, is_required=is_required)
