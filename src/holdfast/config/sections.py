"""
The settings of every package, put together: one section of the file for each.

A setting is written once, in the class that stands beside the code it governs; here is only which
classes there are, and which of their fields have a short name at the top of the file, with a flag
and an environment variable. Both spellings mean the same, and may not be given together.

What is to come has its place: `[security]` and `[networks]` will compose the settings of those
packages, each by one line here.
`[policies]` is no such section: it holds no settings of the node, see `policies`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from holdfast.admin.settings import AdminPortSettings
from holdfast.broker.settings import BrokerSettings
from holdfast.journal.settings import JournalSettings
from holdfast.leases.settings import LeaseSettings
from holdfast.mirrors.settings import MirrorSettings
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.raidb.settings import RaidbSettings
from holdfast.replication.settings import LinkSettings, ReplicationSettings
from holdfast.server.settings import ServerSettings
from holdfast.shared.settings import SharedSettings
from holdfast.transport.settings import PortSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Sections:
    """Each package's settings, by the name of its section."""

    stomp: StompSettings = field(default_factory=StompSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    journal: JournalSettings = field(default_factory=lambda: JournalSettings(spare_segments=2))
    replication: ReplicationSettings = field(default_factory=ReplicationSettings)
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    share: SharedSettings = field(default_factory=SharedSettings)
    links: LinkSettings = field(default_factory=LinkSettings)
    ports: PortSettings = field(default_factory=PortSettings)
    admin: AdminPortSettings = field(default_factory=AdminPortSettings)
    mirrors: MirrorSettings = field(default_factory=MirrorSettings)
    databases: RaidbSettings = field(default_factory=RaidbSettings)


DEFAULTS: Final = Sections()

SHORT_NAMES: Final = {
    "connections": "server.connection_count_max",
    "admin_connections": "admin.connection_count_max",
    "copies": "replication.copies",
    "sites": "replication.sites",
    "memory": "broker.memory_bytes",
    "anonymous_role": "broker.anonymous_role",
    "plain_without_tls": "server.plain_without_tls",
    "scram": "server.scram",
    "learner_hold": "server.learner_hold_bytes_max",
    "reader_hold": "server.reader_hold_bytes_max",
    "stomp_strict": "stomp.is_strict",
    "segment": "journal.segment_bytes",
    "heartbeat_seconds": "replication.heartbeat_seconds",
    "election_seconds_min": "replication.election_seconds_min",
    "election_seconds_max": "replication.election_seconds_max",
    "lease_seconds": "lease.lease_seconds",
    "store_confirm": "databases.confirm",
    "sql_messages": "lease.sql_messages",
}
"""Settings that have a flag and a variable, by which most are called."""

OTHER_SPELLINGS: Final = {
    "stomp.address": "stomp",
    "stomp.strict": "stomp.is_strict",
    "admin.address": "admin",
    "admin.tls": "admin_tls",
    "lease.elector": "elector",
}
"""A table and a value of one name cannot stand in one file, so the address moves into the table."""
