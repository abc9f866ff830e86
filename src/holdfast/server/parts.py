"""
What one node is made of, each part by its name.

Made by `assembly`, run by `node`, looked into by those who tell operators of it. It knows nothing
and does nothing: so whoever needs many parts of a node need not import the node itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.broker.broker import Broker
from holdfast.config.node import NodeConfig
from holdfast.environment.clock import Clock
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.journal import Journal
from holdfast.journal.writer import JournalWriter
from holdfast.mirrors.caretaker import Caretaker
from holdfast.replication.driver import Driver
from holdfast.replication.peer_links import PeerLinks
from holdfast.server.access import NodeAccess
from holdfast.server.address_key import AddressKey
from holdfast.server.descriptors import Shares
from holdfast.server.lease_runner import LeaseRunner
from holdfast.server.leased_group import LeasedGroup
from holdfast.server.listener import Listener
from holdfast.server.loop import Conductor
from holdfast.sessions.context import SessionContext
from holdfast.store.contract import LogStore
from holdfast.transport.tls import ServerTls


@dataclass(slots=True, kw_only=True)
class Parts:
    """One node, put together."""

    config: NodeConfig
    clock: Clock
    started_at: float
    """When the process began, by that clock."""

    metadata: dict[str, str]
    """What this node tells the other members of itself."""

    shares: Shares
    """How many connections each port may have."""

    journal: Journal
    checkpoint_files: CheckpointStore
    writer: JournalWriter
    links: PeerLinks | LeaseRunner
    driver: Driver | LeasedGroup
    store: LogStore
    broker: Broker
    context: SessionContext
    address_key: AddressKey
    conductor: Conductor
    access: NodeAccess
    """Who may come in."""

    listener: Listener

    shown: Mapping[str, ServerTls]
    """What its ports show by TLS, by name."""
    caretaker: Caretaker | None = None
    """Who looks after the mirrors, where there are several directories."""

    fleeting: tuple[str, ...] = ()
    """Of which directories what is stored goes with the machine's start, or with a container."""
