"""
Whose connection is closed where all hold too much.
"""

from __future__ import annotations

from holdfast.server.greediest import greediest


def test_the_largest_of_who_holds_the_most_goes_first() -> None:
    """
    Until somebody else holds more.
    """
    sizes = {"eve 1": 3, "ann": 8, "eve 2": 4, "eve 3": 3, "ben": 1}
    found = list(greediest(sizes, lambda item: item[:3]))
    assert found[:3] == [("eve 2", 4), ("ann", 8), ("eve 1", 3)]
    assert dict(found) == sizes


def test_where_nobody_is_somebody_the_largest_goes_first() -> None:
    """
    As all are one; of equal ones whoever came first.
    """
    sizes = {"a": 1, "b": 5, "c": 5, "d": 2}
    assert [item for item, _ in greediest(sizes, lambda _: None)] == ["b", "c", "d", "a"]
