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
