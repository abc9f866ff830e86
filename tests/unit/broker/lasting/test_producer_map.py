"""
Producers in small mappings: nothing takes time for all of them at once.
"""

from __future__ import annotations

import sys

from holdfast.broker.lasting.producer_map import ProducerMap


def filled(count: int) -> ProducerMap:
    found = ProducerMap()
    for number in range(count):
        assert found.put(f"p{number}", b"%d" % number)
    return found


def test_it_keeps_a_value_for_each_id() -> None:
    """
    As one mapping would.
    """
    found = filled(3)
    assert not found.put("p1", b"new")
    assert found.remove("p0")
    assert not found.remove("p0")
    assert (len(found), sorted(found)) == (2, ["p1", "p2"])
    assert [found.get(name) for name in ("p0", "p1", "p2")] == [None, b"new", b"2"]
    assert "p1" in found
    assert "p0" not in found


def test_who_asked_for_all_has_them_as_they_were() -> None:
    """
    Whoever asked when: a checkpoint and a search for the least used may go on at once.
    """
    found = filled(500)
    first = found.as_they_are()
    found.put("p0", b"other")
    found.remove("p1")
    second = found.as_they_are()
    found.put("p0", b"third")
    found.put("p500", b"500")
    assert sorted(first) == sorted((f"p{n}", b"%d" % n) for n in range(500))
    was = dict(second)
    assert (len(was), was["p0"], "p1" in was, "p500" in was) == (499, b"other", False, False)


def test_a_change_copies_a_small_part_and_each_part_once() -> None:
    """
    All of them together are copied over as many changes.
    """
    found = filled(20_000)
    parts = list(found.piles())
    assert max(map(len, parts)) < 30
    found.as_they_are()
    for _ in range(2):
        for number in range(100):
            found.put(f"p{number}", b"new")
        assert 0 < found.copied_count <= 100


def test_what_is_emptied_is_not_what_somebody_reads() -> None:
    """
    A log that is begun anew lets go of its producers in steps.
    """
    found = filled(10)
    seen = found.as_they_are()
    for pile in found.piles():
        pile.clear()
    assert len(list(seen)) == 10


def test_the_order_is_the_same_in_every_process() -> None:
    """
    A simulation from a seed writes the same log each time.
    """
    assert list(filled(5)) == ["p3", "p2", "p1", "p0", "p4"]


def test_what_was_passed_is_held_no_longer() -> None:
    """
    Else 200,000 producers of before would be freed at once in the end, in 10 ms.
    """
    known = filled(20_000)
    parts = known._parts
    alone = sys.getrefcount(parts[0])
    given = known.as_they_are()
    held = [sum(sys.getrefcount(part) > alone + 1 for part in parts)]
    assert held == [len(parts)]
    for count, _ in enumerate(given):
        if not count % 1_000:
            held.append(sum(sys.getrefcount(part) > alone + 1 for part in parts))
    assert held == sorted(held, reverse=True)
    assert held[10] < 0.6 * len(parts)
    assert held[-1] < 0.1 * len(parts)
