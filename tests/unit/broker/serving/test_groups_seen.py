"""
Of which groups a consumer got something: false alarms there may be, silence not.
"""

from __future__ import annotations

from holdfast.broker.serving import groups_seen
from holdfast.broker.serving.groups_seen import GroupsKnown, GroupsSeen


def test_each_group_is_the_first_once() -> None:
    """Also two in one bucket, or with the same checksum: they are known by their names."""
    seen = GroupsSeen(4)
    said = [(1, "a"), (5, "b"), (1, "c"), (1, "a"), (5, "b"), (1, "c")]
    assert [seen.is_first(*each, closes=False) for each in said] == [True] * 3 + [False] * 3


def test_after_the_last_of_a_group_the_next_is_a_first() -> None:
    """The last one says what it is itself, too: it may be the only one."""
    seen = GroupsSeen(4)
    assert seen.is_first(1, "a", closes=True)
    assert seen.is_first(1, "a", closes=False)
    assert not seen.is_first(1, "a", closes=True)
    assert seen.is_first(1, "a", closes=False)


def test_what_was_somebody_elses_meanwhile_is_a_first() -> None:
    """Of its own bucket, not of others."""
    seen = GroupsSeen(4)
    for group in ((1, "a"), (2, "b")):
        seen.is_first(*group, closes=False)
    seen.forget(1)
    seen.forget(3)
    assert seen.is_first(1, "a", closes=False)
    assert not seen.is_first(2, "b", closes=False)


def test_it_does_not_grow_beyond_its_bound(monkeypatch) -> None:
    """It begins anew: somebody is told of a first one that is none, and nobody misses one."""
    monkeypatch.setattr(groups_seen, "SEEN_COUNT_MAX", 3)
    seen = GroupsSeen(4)
    assert all(seen.is_first(number, f"{number}", closes=False) for number in range(4))
    assert not seen.is_first(3, "3", closes=False)
    assert seen.is_first(0, "0", closes=False)


def test_all_consumers_together_have_a_bound_too(monkeypatch) -> None:
    """One of many begins anew, however little it knows itself; who is gone counts no more."""
    monkeypatch.setattr(groups_seen, "KNOWN_COUNT_MAX", 3)
    known = GroupsKnown()
    much, little = (GroupsSeen(4, known=known) for _ in range(2))
    for number in range(3):
        much.is_first(number, f"{number}", closes=False)
    assert all(little.is_first(1, name, closes=False) for name in "aba")
    assert not little.is_first(1, "a", closes=False)
    assert known.count == 4
    much.forget(2)
    much.clear()
    assert known.count == 1
    assert little.is_first(1, "a", closes=True) is False
    assert known.count == 0
