"""What an address says of who has it."""

from __future__ import annotations

import pytest

from holdfast.model.networks import is_address, is_loopback, is_same_machine, network_of


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1:2", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("somewhere", "somewhere"),
    ],
)
def test_a_source_is_what_one_machine_has(host: str, source: str) -> None:
    """Whoever has one IPv6 address has its network; an IPv4 address has two spellings."""
    assert source == network_of(host)


@pytest.mark.parametrize(
    ("one", "other", "is_one"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:0:0:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("local socket", "", False),
    ],
)
def test_a_network_is_one_address_or_64_bits(one: str, other: str, is_one: bool) -> None:
    """A home has 2^64 addresses of IPv6: to take another one is no way out."""
    assert (network_of(one) == network_of(other)) is is_one


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10.0.0.1", True), ("::1", True), ("fe80::1%eth0", True), ("db1", False), ("", False)],
)
def test_an_address_is_no_name(text: str, expected: bool) -> None:
    """Also one of IPv6, with and without its zone."""
    assert is_address(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.9.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("::", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_loopback_is_told_by_the_address(text: str, expected: bool) -> None:
    """In the spelling of a port that takes both kinds, too; a name is looked up by nobody."""
    assert is_loopback(text) is expected


@pytest.mark.parametrize(
    ("there", "here", "expected"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.2", "10.0.0.1", False),
        ("127.0.0.2", "127.0.0.1", True),
        ("::1", "::1", True),
        ("127.0.0.1", None, True),
        ("::ffff:127.0.0.1", None, True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.2", "::ffff:10.0.0.1", False),
        ("fe80::1%eth0", "fe80::1%eth0", True),
        ("fe80::1%eth0", "fe80::2%eth0", False),
        ("2001:db8::1", "2001:db8::2", False),
        ("db1", "db1", False),
        ("10.0.0.1", None, False),
        ("", None, False),
    ],
)
def test_both_ends_may_be_on_one_machine(there: str, here: str | None, expected: bool) -> None:
    """By loopback, or as both have the same address."""
    assert is_same_machine(there, here) is expected
