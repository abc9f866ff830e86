"""
What a configuration shows by TLS, and as whose.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.config.address import Address
from holdfast.config.members import MemberConfig
from holdfast.config.node_settings import NodeSettings
from holdfast.config.shown import reachable, shown_of
from holdfast.transport.tls import TlsOptions

TABLES = {"peers": TlsOptions(name="peers", certificate=Path("a.pem"))}
MEMBERS = (MemberConfig("a", Address("10.0.0.1", 7001)), MemberConfig("b", Address("10.0.0.2", 1)))


def test_a_single_node_is_linked_with_nobody() -> None:
    """And asked by nobody by a name that it tells."""
    shown = shown_of(NodeSettings(), TABLES, name="a")
    assert (shown.is_member, shown.links_by_tls, shown.admin_host) == (False, False, "")
    assert shown.tables == TABLES


def test_a_member_is_asked_where_it_says() -> None:
    """At its address for operators, or where members link with it if that is any of its own."""
    given = NodeSettings(
        members=MEMBERS, peer_tls="accept", admin=Address("0.0.0.0", 8161), admin_tls="ops"
    )
    shown = shown_of(given, TABLES, name="a")
    assert (shown.is_member, shown.links_by_tls) == (True, True)
    assert (shown.admin_tls, shown.admin_host) == ("ops", "10.0.0.1")
    assert shown_of(given, TABLES, name="").admin_host == "", "whose it is, is not known"
    here = NodeSettings(members=MEMBERS, admin=Address("127.0.0.1", 8161))
    assert shown_of(here, TABLES, name="a").admin_host == ""
    assert not shown_of(here, TABLES, name="a").links_by_tls


def test_a_wildcard_is_reached_by_the_others_word() -> None:
    """All else is where it says."""
    own = Address("h", 1)
    assert reachable(Address("::", 2), own) == Address("h", 2)
    assert reachable(Address("::", 2), None) == Address("::", 2)
    assert reachable(Address("x", 2), own) == Address("x", 2)
