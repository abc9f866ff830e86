"""
Further ports of clients, as they are written on the command line and in a file.
"""

from __future__ import annotations

import pytest

from holdfast.config.address import Address
from holdfast.config.listening import PORTS_MAX, ListenConfig, read_ports

SECURE = ListenConfig(Address("0.0.0.0", 61614), ("stomp",), "outside")


@pytest.mark.parametrize(
    "written",
    [
        "0.0.0.0:61614,tls=outside",
        ["0.0.0.0:61614,stomp,tls=outside"],
        [{"address": "0.0.0.0:61614", "protocols": ["stomp", "stomp"], "tls": "outside"}],
        [{"address": "0.0.0.0:61614", "tls": "outside"}],
        [SECURE],
    ],
)
def test_one_port_has_many_spellings(written: object) -> None:
    """A variable's text, a flag's list, a file's tables; what is shown can be read again."""
    assert read_ports(written) == (SECURE,)
    assert read_ports(str(SECURE)) == (SECURE,)


def test_a_port_without_tls_is_in_clear() -> None:
    """Several stand in one variable with spaces between."""
    found = read_ports("h:1 [::1]:2")
    assert found == (ListenConfig(Address("h", 1)), ListenConfig(Address("::1", 2)))
    assert [it.tls for it in found] == ["", ""]


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("h:1,amqp", r"'amqp' in 'h:1,amqp': a port is written HOST:PORT\[,stomp\]\[,tls=NAME\]"),
        ("h", "'h' is not HOST:PORT"),
        ("h:1,tls=a b", "'b' is not HOST:PORT"),
        ([{"tls": "x"}], "a port without an address"),
        ([{"address": "h:1", "port": 2}], "unknown key 'port': a port has address, protocols"),
        ([{"address": "h:1", "protocols": []}], "give a list of stomp"),
        ([{"address": "h:1", "protocols": ["mqtt"]}], "protocol 'mqtt': allowed are stomp"),
        ([{"address": "h:1", "tls": 3}], "3 is not a text"),
        ([{"address": "h:1", "tls": "a/b"}], "'a/b': a name has 1 to 63 letters"),
        ({"address": "h:1"}, r"is a list: write \[\[listen\]\]"),
        (7, "is a list"),
        (["h:1"] * (PORTS_MAX + 1), f"{PORTS_MAX + 1} ports; allowed: at most {PORTS_MAX}"),
    ],
)
def test_what_is_no_port_is_told(written: object, why: str) -> None:
    """One sentence each, with what may stand there."""
    with pytest.raises(ValueError, match=why):
        read_ports(written)
