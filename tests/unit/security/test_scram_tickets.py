"""What a login has come to, for its client to keep."""

from __future__ import annotations

import re

import pytest

from holdfast.security.scram_tickets import Ticket, Tickets, read_ticket

CHANCE = b"c" * 18
BOUND = (b"192.0.2.1", b"r=abc,s=,i=1")


@pytest.fixture
def tickets() -> Tickets:
    return Tickets(b"k" * 32)


def test_what_is_made_is_read_and_known_again(tickets) -> None:
    """It can stand in a header of HTTP as it is, however long the message is."""
    for length in range(2_049):
        text = tickets.make(1_000, CHANCE, b"m" * length, BOUND)
        found = read_ticket(text)
        assert isinstance(found, Ticket)
        assert (found.until_ms, found.chance, found.message) == (1_000, CHANCE, b"m" * length)
    assert re.fullmatch("[A-Za-z0-9_-]{2787}", text)
    assert tickets.is_own(found, BOUND)


def test_each_bit_of_it_counts_and_what_it_is_bound_to(tickets) -> None:
    """Also where one part of that ends and the next one begins."""
    found = read_ticket(tickets.make(1_000, CHANCE, b"n,,n=ann,r=x", BOUND))
    for other in (
        found._replace(until_ms=1_001),
        found._replace(chance=b"d" + CHANCE[1:]),
        found._replace(message=b"n,,n=ben,r=x"),
        found._replace(mark=bytes(16)),
        found._replace(mark=b""),
    ):
        assert not tickets.is_own(other, BOUND)
    assert not tickets.is_own(found, (b"192.0.2.1r", b"=abc,s=,i=1"))
    assert not tickets.is_own(found, (*BOUND, b""))
    assert not Tickets(b"l" * 32).is_own(found, BOUND)
    assert tickets.is_own(found, BOUND)


@pytest.mark.parametrize("text", ["", "a", "nowhere", "A" * 53, "\xe9" * 60, "=" * 60])
def test_what_is_none_is_none(text: str) -> None:
    """Too short, of other letters, or of no length that there is."""
    assert read_ticket(text) is None
