"""
Whether what a node shows by TLS is what the other members will take, before any of them refuses it.

Each file by itself may be good, and be another machine's, of another authority, or over. Then links
that are there stay, and the cluster stands at the next failover. So it is said at the start, and by
`holdfast config check` of a file: by a handshake of the node with itself, as others judge by the
same files.

A start is not refused for it: files can be replaced and read again while a node runs, and a site
that is promoted by force must start with what it has.

Reads files; nothing here is changed.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from holdfast.config.shown import Shown
from holdfast.config.tls import PEERS_TABLE
from holdfast.errors import ConfigError
from holdfast.replication.link_certificates import refusal_of_own
from holdfast.transport.own_certificate import why_not_taken
from holdfast.transport.rehearsal import rehearse
from holdfast.transport.tls import ServerTls, TlsOptions


class Judged(NamedTuple):
    """What others will refuse, each with its file and what to do."""

    mistakes: list[str]
    """By which this node is linked with no member."""

    warnings: list[str]
    """By which the others cannot ask this node's admin port."""


def judge(shown: Shown) -> Judged:
    """Judge the certificates of a configuration, whose files can be used."""
    mistakes, warnings = [], []
    peers, admin = shown.tables.get(PEERS_TABLE), shown.tables.get(shown.admin_tls)
    if peers is not None and shown.links_by_tls:
        why = _of_links(peers, shown.name)
        if why:
            mistakes.append(_told(peers, f"links this node with no member: {why}"))
    if admin is not None and shown.is_member and (admin.ca or admin.client_ca):
        why = _of_operators(admin, shown.admin_host)
        if why:
            warnings.append(_told(admin, f"keeps other members from this admin port: {why}"))
    return Judged(mistakes, warnings)


def _told(options: TlsOptions, what: str) -> str:
    return f"tls.{options.name}.certificate: {options.certificate} {what}"


def _of_links(options: TlsOptions, name: str) -> str:
    try:
        return refusal_of_own(ServerTls(options, dials=True).used, options, name)
    except ConfigError as error:
        return "; ".join(error.problems)


def _of_operators(options: TlsOptions, host: str) -> str:
    try:
        made = ServerTls(options, dials=True).used
        assert made.dialing is not None, "it was read for dialing"
        made.dialing.check_hostname = bool(host)
        rehearse(made.accepting, made.dialing, host or None)
    except ssl.SSLError as error:
        return why_not_taken(error, options)
    except ConfigError as error:
        return "; ".join(error.problems)
    return ""
