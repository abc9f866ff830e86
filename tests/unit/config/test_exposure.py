"""
What a configuration lets others on the network read or do.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.address import Address
from holdfast.config.exposure import exposures
from holdfast.config.listening import ListenConfig
from holdfast.config.members import MemberConfig
from holdfast.config.node import NodeConfig, exposures_in
from holdfast.config.node_settings import NodeSettings

OUTSIDE = Address("10.0.0.1", 1)


def told(settings: NodeSettings, *, takes_clear: bool = False, anonymous_role: str = "") -> list:
    found = exposures(settings, takes_clear=takes_clear, anonymous_role=anonymous_role)
    return [(it.setting, it.value) for it in found]


def test_what_only_this_machine_reaches_exposes_nothing() -> None:
    """Whatever else is set: nobody can listen there."""
    own = NodeSettings(listen=(ListenConfig(Address("::ffff:127.0.0.1", 3)),))
    assert told(own, takes_clear=True, anonymous_role="guest") == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"stomp": OUTSIDE}, [("stomp", "10.0.0.1:1")]),
        ({"listen": (ListenConfig(OUTSIDE),)}, [("listen", "10.0.0.1:1")]),
        ({"listen": (ListenConfig(OUTSIDE, tls="x"),)}, []),
        ({"admin": OUTSIDE}, [("admin", "10.0.0.1:1")]),
        ({"admin": OUTSIDE, "admin_tls": "x"}, []),
        ({"peers": OUTSIDE}, [("peers", "10.0.0.1:1")]),
        ({"peers": OUTSIDE, "peer_tls": "accept"}, [("peers", "10.0.0.1:1")]),
        ({"peers": OUTSIDE, "peer_tls": "require"}, []),
    ],
)
def test_a_port_in_clear_that_others_reach_is_told(settings, expected) -> None:
    """Of clients, operators and members; by TLS none is."""
    assert told(NodeSettings(**settings)) == expected


def test_passwords_in_clear_are_told_for_each_port_that_takes_them() -> None:
    """Where it is the operator's wish, too: it is what he may have forgotten."""
    settings = NodeSettings(stomp=OUTSIDE, admin=Address("10.0.0.1", 2))
    assert [name for name, _ in told(settings, takes_clear=True)] == [
        "stomp",
        "plain_without_tls",
        "admin",
        "plain_without_tls",
    ]


def test_a_role_of_everybody_is_told_where_everybody_comes() -> None:
    """By TLS as well: that asks for nobody's name."""
    settings = NodeSettings(listen=(ListenConfig(OUTSIDE, tls="x"),))
    assert told(settings, anonymous_role="guest") == [("anonymous_role", "guest")]


def test_of_members_the_one_that_this_node_is_counts() -> None:
    """A file that does not say who reads it is judged by all of them."""
    members = tuple(
        MemberConfig(name, Address(host, 1), "voter", "")
        for name, host in (("a", "127.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3"))
    )
    assert told(NodeSettings(name="a", members=members)) == []
    assert told(NodeSettings(name="b", members=members)) == [("peers", "10.0.0.2:1")]
    assert told(NodeSettings(name="x", members=members)) == [("peers", "10.0.0.2:1")]


def test_a_file_and_a_node_are_judged_alike(tmp_path: Path) -> None:
    """Short names and sections alike; each sentence says what to do."""
    file = tmp_path / "node.toml"
    file.write_text(
        'data = "x"\nadmin = "0.0.0.0:8161"\nplain_without_tls = true\nanonymous_role = "guest"\n'
    )
    found = exposures_in(file)
    assert NodeConfig.load(flags={}, environment={}, file=file).exposures() == found
    assert [it.setting for it in found] == ["admin", "plain_without_tls"]
    assert str(found[0]) == (
        "admin: 0.0.0.0:8161: other machines reach the admin port in clear: what is asked and"
        " answered can be read and changed on the way; let it go by TLS (admin_tls), or keep it on"
        " this machine"
    )
