"""
Shares of users: how far one may go, and what is left for the others.
"""

from __future__ import annotations

import pytest

from holdfast.model.shares import STRANGERS, Shares, part_of, refusal_of


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


def test_who_comes_late_has_as_much_as_each_would_have_if_all_had_the_same() -> None:
    """
    Where he does not find that, what is left but for a sixteenth.
    """
    shares = Shares()
    shares.add("ann", 390)
    assert not shares.has_room("bob", 460, 150)
    assert shares.has_room("bob", 460, 150, 1000)
    assert shares.has_room("bob", 468, 142, 1000)
    assert not shares.has_room("bob", 469, 141, 1000)
    shares.add("ann", 100)
    assert shares.has_room("bob", 447, 63, 1000)
    assert not shares.has_room("bob", 448, 62, 1000)
    assert not Shares().has_room("bob", 900, 100, 1000), "one alone has three quarters"


def test_all_to_whom_nothing_is_granted_have_a_tenth_together() -> None:
    """
    One at least, where there are few; and nobody has a smaller share because of them.
    """
    shares = Shares()
    assert fill(shares, STRANGERS, 1000, 0) == 100
    shares.add("ann", 390)
    assert shares.has_room("bob", 440, 70, 1000)
    assert shares.has_room("bob", 468, 70, 1000)
    few = Shares()
    assert fill(few, STRANGERS, 4, 0) == 1
    few.add(STRANGERS, -1)
    assert fill(few, STRANGERS, 4, 3) == 0, "nor the last one"


def test_what_runs_has_as_much_as_one_alone_whatever_others_have() -> None:
    """
    Nobody has it all by what he has running; where nobody is somebody the bound is for all.
    """
    shares = Shares()
    shares.add("ann", 600)
    shares.add("bob", 300)
    shares.add(STRANGERS, 90)
    assert not shares.has_room("bob", 1, 9, 1000), "what is left is not asked here"
    for user, most in (("ann", 750), ("bob", 750), ("new", 750), (STRANGERS, 100)):
        more = most - shares.of(user)
        assert shares.has_room_whoever_else(user, more, 1000), user
        assert not shares.has_room_whoever_else(user, more + 1, 1000), user
    assert shares.has_room_whoever_else(None, 5000, 1000)


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("ann", "this user has 7 queues, at most 3 times what is left of 9"),
        (
            STRANGERS,
            "users to whom nothing is granted have 7 queues together, at most a tenth of 9",
        ),
    ],
)
def test_a_refusal_says_whose_share_is_used_up(user: str, said: str) -> None:
    """
    What one may have is not what all may.
    """
    assert refusal_of(user, "7 queues", "9") == said


def test_a_refusal_of_what_runs_does_not_speak_of_what_is_left() -> None:
    """
    That was not asked.
    """
    said = refusal_of("ann", "7 queues", "9", whoever_else=True)
    assert said == "this user has 7 queues, at most three quarters of 9"


@pytest.mark.parametrize("user", ["ann", STRANGERS])
@pytest.mark.parametrize("others", [(), (10,), (700,), (300, 300), (100, 100, 100, 100)])
def test_what_one_may_have_at_most_is_where_there_is_no_room_for_more(
    user: str, others: tuple[int, ...]
) -> None:
    """
    Whatever he has by now: he who has it may have no more.
    """
    bound, shares = 1000, Shares()
    for number, had in enumerate(others):
        shares.add(f"u{number}", had)
    left = bound - sum(others)
    most = shares.most(user, left, bound)
    assert shares.has_room(user, most, left - most, bound)
    assert not shares.has_room(user, most + 2, left - most - 2, bound)
    shares.add(user, 7)
    assert shares.most(user, left - 7, bound) == most


def test_of_what_is_left_strangers_may_have_little() -> None:
    """
    And others three times as much as that.
    """
    assert (part_of("ann", 90), part_of(STRANGERS, 90)) == (270, 10)
