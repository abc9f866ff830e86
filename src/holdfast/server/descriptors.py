"""
How many connections each port may have, so that files always find a descriptor.

Sockets and files share the process's limit of open files. The log's files come first, then the
links to the members and the ports of strangers and operators, each within its bound; clients get
the rest, at most as many as are configured.

Connections that wait to be taken have no descriptor. Those of clients are taken a few a turn and
turned away some turns later, so these few are counted beside the bound; the admin port in clear
takes all that wait at once, so its backlog is.

Pure: numbers in, numbers out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.admin.http_server import BACKLOG
from holdfast.admin.places import guest_count_max
from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError
from holdfast.model.limits import MEMBERS_MAX

SET_ASIDE: Final = 16
"""Descriptors held back in the process for files, see `environment.descriptors`."""

CLIENTS_MIN: Final = 16
"""With fewer client connections a node is of no use and does not start."""

_OTHER_FILES: Final = 32
"""The log being written, its next file, ballot, checkpoint, lock, standard streams, the loop's."""

_LINKS_PER_MEMBER: Final = 2
CLIENT_BACKLOG: Final = 4096
"""So many clients wait at each port to be taken, if the kernel lets them (Linux:
`net.core.somaxconn`, 4,096). Who finds no place there asks again after a second or more."""

_TURNS_TO_TURN_AWAY: Final = 4
"""Taken, a connection, told that it is closed, closed: each a turn of the loop."""

_PASSING_MIN: Final = 8
_STEP: Final = 64
APART_COUNT_MAX: Final = 64
"""Handshakes by TLS of those who have a line apart: members on their port, this machine on that of
operators. Who floods it from there has to open as many in the time that a handshake takes."""

_ADMIN_COST: Final = 2
"""A connection to the admin port may read a file of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What each part may open."""

    open_files: int
    """The limit that is shared out."""

    wanted: int
    """The limit at which everything configured fits."""

    read_files: int
    """Files of the log kept open for reading."""

    clients: int
    passing: int
    """Of clients beyond that, taken to be turned away."""

    admin: int
    strangers: int
    """On the peer port, from sources that are no member's."""

    strangers_per_source: int
    tls_strangers: int
    """On ports of clients by TLS, with their handshakes not done."""

    admin_strangers: int
    """The same of the admin port."""


def share_out(open_files: int, config: NodeConfig) -> Shares:
    """
    Share the limit of open files out.

    Raises:
        ConfigError: It is too small to serve anybody.
    """
    shares = _shares(open_files, config)
    if shares.clients < CLIENTS_MIN:
        least = _round_up(open_files)
        while _shares(least, config).clients < CLIENTS_MIN:
            least += _STEP
        sentence = (
            f"open files: this process may have {open_files:,}, which leaves no room for clients;"
            f" allow it {least:,} or more, better {shares.wanted:,} (ulimit -Hn, or LimitNOFILE= of"
            f" its service)"
        )
        raise ConfigError([sentence])
    return shares


def _shares(open_files: int, config: NodeConfig) -> Shares:
    sections = config.sections
    clients = sections.server.connection_count_max
    admin_max = sections.admin.connection_count_max
    read_files_max, strangers_max = sections.journal.open_files_max, sections.links.strangers_max
    speaks_tls = any(it.tls for it in config.listen)
    tls_strangers_max = sections.ports.stranger_count_max if speaks_tls else 0
    admin_strangers_max = min(sections.ports.stranger_count_max, admin_max)
    admin_strangers_max = admin_strangers_max if config.admin_tls else 0
    apart = (APART_COUNT_MAX if config.admin_tls else 0) + _members_apart(config)
    wanted = _fixed(config, read_files_max, admin_max, strangers_max) + tls_strangers_max
    wanted += admin_strangers_max + _peer_strangers(config, strangers_max) + apart
    ports = 1 + len(config.listen)
    passing_max = ports * _TURNS_TO_TURN_AWAY * sections.ports.accept_count_max
    wanted += clients + passing_max
    read_files = max(8, min(read_files_max, open_files // 8))
    per_port = max(8, open_files // 12)
    admin = min(admin_max, max(8, per_port // 2))  # It has guests beside them.
    strangers = min(strangers_max, per_port)
    tls_strangers = min(tls_strangers_max, per_port)
    admin_strangers = min(admin_strangers_max, per_port)
    rest = open_files - _fixed(config, read_files, admin, strangers) - tls_strangers
    rest -= admin_strangers + _peer_strangers(config, strangers) + apart
    passing = max(_PASSING_MIN, min(passing_max, rest // 4))
    return Shares(
        open_files=open_files,
        wanted=wanted,
        read_files=read_files,
        clients=min(clients, rest - passing),
        passing=passing,
        admin=admin,
        strangers=strangers,
        strangers_per_source=min(sections.links.strangers_per_source_max, strangers),
        tls_strangers=tls_strangers,
        admin_strangers=admin_strangers,
    )


def _peer_strangers(config: NodeConfig, strangers: int) -> int:
    """By TLS as many handshakes may not be done; who has not begun takes two descriptors."""
    return 2 * strangers if _are_links_by_tls(config) else 0


def _members_apart(config: NodeConfig) -> int:
    return 2 * APART_COUNT_MAX if _are_links_by_tls(config) else 0


def _are_links_by_tls(config: NodeConfig) -> bool:
    return bool(config.members) and config.peer_tls != "off"


def _fixed(config: NodeConfig, read_files: int, admin: int, strangers: int) -> int:
    """Descriptors for all but the clients."""
    files = SET_ASIDE + _OTHER_FILES + read_files
    admin_port = _ADMIN_COST * admin + guest_count_max(admin) + BACKLOG
    if not config.members:
        return files + admin_port
    per_source = min(config.sections.links.strangers_per_source_max, strangers)
    members = max(len(config.members), 3)
    links = _LINKS_PER_MEMBER * min(MEMBERS_MAX, members + 2)
    return files + admin_port + links + 2 * strangers + per_source


def _round_up(count: int) -> int:
    return -(-count // _STEP) * _STEP
