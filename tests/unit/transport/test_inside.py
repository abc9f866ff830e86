"""
Connections by their groups, and how often something is told of.
"""

from __future__ import annotations

from holdfast.transport.inside import TELL_SECONDS, Inside, NowAndThen


def test_a_group_is_there_as_long_as_it_has_one() -> None:
    """
    Whoever is gone may be said to be gone once more.
    """
    inside = Inside[int]()
    for connection, group in ((1, "a"), (2, "b"), (3, "a")):
        inside.put(connection, group)
    assert (len(inside), inside.count("a"), inside.count("c")) == (3, 2, 0)
    assert list(inside.by_group["a"]) == [1, 3]
    for _ in range(2):
        inside.leave(1)
    inside.leave(2)
    assert (inside.by_group, inside.group_of(1), inside.group_of(3)) == (
        {"a": {3: None}},
        None,
        "a",
    )
    inside.clear()
    assert (len(inside), inside.by_group) == (0, {})


def test_it_is_told_at_once_and_then_once_in_a_while() -> None:
    """
    Also where the clock begins with nothing.
    """
    telling = NowAndThen()
    times = [0.0, 0.1, TELL_SECONDS - 0.1, TELL_SECONDS, TELL_SECONDS + 0.1, 3 * TELL_SECONDS]
    assert [telling.is_due(now) for now in times] == [True, False, False, True, False, True]
