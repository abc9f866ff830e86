"""Tests of replication/peer_address.py."""

from __future__ import annotations

import pytest

from holdfast.replication.peer_address import split_address


@pytest.mark.parametrize(
    ("text", "expected"), [("h:1", ("h", 1)), ("[::1]:22", ("::1", 22)), (":5", ("", 5))]
)
def test_addresses_are_split(text, expected) -> None:
    """Names, IPv6 in brackets, and every interface."""
    assert expected == split_address(text)


@pytest.mark.parametrize(
    "text", ["", "h", "h:", "h:x", "h:+1", "h: 1", "h:1_0", "h:\u0663", "h:65536", "h:-1", "h:1 "]
)
def test_what_no_port_can_be_is_refused(text) -> None:
    """A dialer that is given such a one would end, and never dial again."""
    with pytest.raises(ValueError, match=r"is not HOST:PORT"):
        split_address(text)
