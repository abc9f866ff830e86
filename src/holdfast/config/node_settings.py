"""
What only the node itself is told: who it is, where it listens, who the others are.

These keys stand at the top of the file. The settings of every package stand in its own class, see
`sections`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from holdfast.config.address import Address, read_address, read_host_names
from holdfast.config.listening import ListenConfig, read_ports
from holdfast.config.members import MemberConfig, check_name, check_site, read_members
from holdfast.config.paths import read_path
from holdfast.config.read_with import ReadWith
from holdfast.config.store_url import StoreUrl, read_store_urls
from holdfast.electors.url import ElectorUrl, read_elector

LogLevel = Literal["debug", "info", "warning", "error"]
PeerTlsMode = Literal["off", "accept", "require"]
LogFormat = Literal["human", "json"]

_CLIENTS: Final = Address("127.0.0.1", 61613)
_OPERATORS: Final = Address("127.0.0.1", 8161)
"""ActiveMQ's usual ports, on this machine only."""

_Name = Annotated[str, ReadWith(check_name)]
_Site = Annotated[str, ReadWith(check_site)]
_TlsName = Annotated[str, ReadWith(check_site)]
_Path = Annotated[Path, ReadWith(read_path)]
_Address = Annotated[Address, ReadWith(read_address)]
_Ports = Annotated[tuple[ListenConfig, ...], ReadWith(read_ports)]
_Names = Annotated[tuple[str, ...], ReadWith(read_host_names)]
_Stores = Annotated[tuple[StoreUrl, ...], ReadWith(read_store_urls)]
_Elector = Annotated[ElectorUrl | None, ReadWith(read_elector)]
_Members = Annotated[tuple[MemberConfig, ...], ReadWith(read_members)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """The node's own settings, as they are read or as they are worked out."""

    data: _Path = Path()
    """The directory that holds all that must survive."""

    store: _Stores = ()
    """The databases that keep the log; with it, and with `shared`, `data` has only what this broker
    saw last and a cache."""

    shared: _Path | None = None
    """The directory, reached by several brokers, that keeps the log."""

    elector: _Elector = None
    """The place at ZooKeeper or etcd that elects who of the brokers over one log takes its lease;
    only with `store` or `shared`, whose own lease it does not replace."""

    name: _Name = "holdfast"
    """This node's name among the members."""

    stomp: _Address = _CLIENTS
    """Where clients connect."""

    listen: _Ports = ()
    """Where clients connect beside that, in clear or by TLS."""

    admin: _Address = _OPERATORS
    """Where operators connect."""

    admin_names: _Names = ()
    """Names under which the admin port may be asked, beside those it knows by itself."""

    admin_tls: _TlsName = ""
    """The table `[tls.NAME]` that the admin port goes by; empty: it is in clear."""

    peers: _Address | None = None
    """Where peers connect; None on a single node, which listens for none."""

    peer_tls: PeerTlsMode = "off"
    """Whether links between members go by TLS, by the table `[tls.peers]`: never, where both sides
    can, or always."""

    members: _Members = ()
    """All members, this node among them; empty on a single node."""

    secret_file: _Path | None = None
    """The file of what the members of a cluster know of each other."""

    audit_file: _Path | None = None
    """The file of who did what and who was refused what; changes stand in the log as well."""

    site: _Site = ""
    """Where this node stands."""

    default_persistent: bool = False
    """Whether a message without a `persistent` header is kept; False, as ActiveMQ has it."""

    log_level: LogLevel = "info"
    """From which level on the log tells."""

    log_format: LogFormat = "human"
    """Whether the log is for people or for programs."""
