"""
Shares of users: how far one may go, and what is left for the others.
"""

from __future__ import annotations

import pytest

from holdfast.model.shares import Shares


def fill(shares: Shares, user: str, bound: int, taken: int) -> int:
    """Let a user take as much as he may, one by one; give how much that is."""
    count = 0
    while taken + count < bound and shares.has_room(user, 1, bound - taken - count - 1):
        shares.add(user, 1)
        count += 1
    return count


@pytest.mark.parametrize("users", range(1, 6))
def test_whoever_comes_finds_something_left(users: int) -> None:
    """
    One alone has three quarters at most.
    """
    shares, taken = Shares(), 0
    for number in range(users):
        got = fill(shares, f"u{number}", 1000, taken)
        assert got > 0
        taken += got
        assert shares.of(f"u{number}") <= 751
    assert taken < 1000


def test_nothing_is_counted_where_nobody_is_somebody() -> None:
    """
    The bound of all counts there.
    """
    shares = Shares()
    shares.add(None, 7)
    assert (shares.of(None), shares.has_room(None, 9, 0)) == (0, True)


def test_what_is_given_back_counts_no_more() -> None:
    """
    Nor is a user kept who has nothing.
    """
    shares = Shares()
    shares.add("ann", 7)
    assert not shares.has_room("ann", 1, 2)
    shares.add("ann", -7)
    assert shares.has_room("ann", 1, 2)
    assert not shares._by_user
