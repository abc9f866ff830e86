"""What the two ends of a connection say of each other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.transport.ends import address_of, is_within_machine


class Told(asyncio.BaseTransport):
    """A connection that tells this of its ends."""

    def __init__(self, there: Any, here: Any) -> None:
        super().__init__({"peername": there, "sockname": here})


@pytest.mark.parametrize(
    ("there", "here", "is_within"),
    [
        (("127.0.0.1", 1), ("127.0.0.1", 2), True),
        (("::ffff:192.0.2.7", 1, 0, 0), ("192.0.2.7", 2), True),
        (("192.0.2.7", 1), ("192.0.2.7", 2), True),
        (("192.0.2.8", 1), ("192.0.2.7", 2), False),
        (None, ("127.0.0.1", 2), False),
        (("127.0.0.1", 1), None, False),
        ("", "", False),
    ],
    ids=range(7),
)
def test_who_is_on_this_machine_is_known_by_both_ends(
    there: Any, here: Any, is_within: bool
) -> None:
    """A connection that is gone tells of neither, and is nobody's of here."""
    assert is_within_machine(Told(there, here)) is is_within


def test_the_address_of_the_other_end_has_no_port() -> None:
    """A connection that is gone tells none, and one by a path has none."""
    assert address_of(Told(("192.0.2.7", 1), None)) == "192.0.2.7"
    assert address_of(Told(("2001:db8::1", 1, 0, 0), None), "?") == "2001:db8::1"
    assert address_of(Told(None, None)) == ""
    assert address_of(Told("", None), "?") == "?"
