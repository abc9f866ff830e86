"""
Indexes in order, of which the first few are asked for in every turn.
"""

from __future__ import annotations

from random import Random

from holdfast.replication.index_set import IndexSet


def test_it_is_a_set_in_order() -> None:
    """
    Whatever is put in and taken out, it knows the same as an ordinary set.
    """
    random = Random(8)
    found, known = IndexSet(range(500, 3_000)), set(range(500, 3_000))
    for step in range(20_000):
        index = random.randrange(1, 4_000) if step % 3 else random.randrange(1, 60) + step // 8
        if random.random() < 0.4:
            found.add(index)
            known.add(index)
        else:
            found.discard(index)
            known.discard(index)
        if step % 100 == 0:
            ordered = sorted(known)
            assert found == known
            assert list(found) == ordered
            assert found.smallest(3) == ordered[:3]
            assert (found.first, found.last) == (ordered[0], ordered[-1])
            after = [each for each in ordered if each > 2_000]
            assert found.first_after(2_000) == (after[0] if after else 0)


def test_a_range_of_it_can_be_kept() -> None:
    """
    A log is cut at its end, and cleaned from its beginning.
    """
    found = IndexSet([5, 1, 9])
    found.discard(5)
    found.keep(2, 9)
    assert (list(found), found.last) == ([9], 9)
    found.update([3, 3, 7])
    found.discard(9)
    assert (list(found), found.last) == ([3, 7], 7)
    found.clear()
    assert (len(found), found.first, found.last, found.smallest(8)) == (0, 0, 0, [])
    assert found.first_after(0) == 0
    assert 3 not in found


def test_asking_for_the_first_ones_looks_at_no_others() -> None:
    """
    A hundred thousand that are mended in order cost as many looks, however often it is asked.
    """
    count = 100_000
    found = IndexSet(range(1, count + 1))
    for index in range(1, 5_000):
        for _ in range(3):
            assert found.smallest(8)[0] == found.first == index
            assert found.last == count
        found.discard(index)
    assert found.first == 5_000
    assert found.passed_count == 4_999
