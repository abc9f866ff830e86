"""
What a configuration shows by TLS, and as whose: enough to judge its certificates by.

Immutable values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.config.address import Address
from holdfast.config.node_settings import NodeSettings
from holdfast.transport.tls import TlsOptions

WILDCARD_HOSTS = {"0.0.0.0", "::", ""}  # noqa: S104 - compared with, not bound to


class Shown(NamedTuple):
    """Tables `[tls.NAME]`, and what they are used for."""

    tables: Mapping[str, TlsOptions]
    name: str
    """The member that shows them; empty: that is not known."""

    is_member: bool
    links_by_tls: bool
    admin_tls: str
    admin_host: str
    """Where other members ask this one; empty: that is not known, or they do not."""


def shown_of(settings: NodeSettings, tables: Mapping[str, TlsOptions], *, name: str) -> Shown:
    """Give what these settings show; `name` may be empty where they may be of any member."""
    is_member = bool(settings.members)
    return Shown(
        tables,
        name,
        is_member,
        is_member and settings.peer_tls != "off",
        settings.admin_tls,
        _told_host(settings, name),
    )


def _told_host(settings: NodeSettings, name: str) -> str:
    """The host by which other members are told to ask this one."""
    own = next((it for it in settings.members if it.name == name), None)
    found = reachable(settings.admin, own.address if own else None)
    return "" if found.host in WILDCARD_HOSTS or found.is_loopback else found.host


def reachable(address: Address, own: Address | None) -> Address:
    """A wildcard host replaced by the one that the other members use for this node."""
    if address.host not in WILDCARD_HOSTS or own is None:
        return address
    return Address(own.host, address.port)
