"""By which names a node's admin port is asked."""

from __future__ import annotations

import pytest

from holdfast.admin.host_names import host_of, own_names


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("Broker-1.Example.org.:8161", "broker-1.example.org"),
        ("10.0.0.1", "10.0.0.1"),
        ("[::1]:8161", "::1"),
        ("a:b:c", "a:b:c"),
        ("a/b", "a/b"),
    ],
)
def test_a_host_is_told_from_its_port(header: str, host: str) -> None:
    """In small letters; what is neither a name nor an address stands for itself, and is nobody."""
    assert host_of(header) == host


def test_a_node_knows_its_names_and_the_first_label_of_each() -> None:
    """An address is none: it is always taken."""
    more = ["proxy:443", "::1", "[::1]:80"]
    found = own_names("Broker-1.Example.org.", "10.0.0.1", "", more=more)
    assert found == {"broker-1.example.org", "broker-1", "proxy"}
