"""
Blocks of sequences: which are named alike from every source.
"""

from __future__ import annotations

import tracemalloc

from holdfast.spark.pipelines.replay_numbers import BLOCK_SEQUENCES, Beginning, SeenSequences


def test_a_whole_source_names_every_block_alike() -> None:
    """By queue and sequences alone."""
    assert "3-0" == Beginning().block(3, 1)
    assert "3-0" == Beginning().block(3, BLOCK_SEQUENCES - 1)
    assert "3-1" == Beginning().block(3, BLOCK_SEQUENCES)


def test_only_the_blocks_that_are_cut_are_named_by_the_beginning() -> None:
    """The first block that lies wholly behind it has its common name, as has a whole queue."""
    late = Beginning(500, {3: BLOCK_SEQUENCES + 7, 4: 1})
    assert "3-0-from-500" == late.block(3, 5)
    assert "3-1-from-500" == late.block(3, 2 * BLOCK_SEQUENCES - 1)
    assert "3-2" == late.block(3, 2 * BLOCK_SEQUENCES)
    assert "4-0" == late.block(4, 1)
    assert "5-9-from-500" == late.block(5, 9 * BLOCK_SEQUENCES)


def test_a_cut_block_is_named_by_all_that_is_missing_before_it() -> None:
    """A hole that is mended moves the places of what is behind it: other numbers, other names."""
    kinds = [
        Beginning(500, {3: 700}, lacking)
        for lacking in [((100, 199), (400, 499)), ((150, 199), (400, 499)), ((400, 499),), ()]
    ]
    names = [it.block(3, 5) for it in kinds]

    assert len(set(names)) == 4
    assert all(name.startswith("3-0-from-500") for name in names)
    assert names == [it.block(3, 5) for it in kinds]
    assert {"3-1"} == {it.block(3, BLOCK_SEQUENCES) for it in kinds}


def test_from_where_on_a_source_has_all_of_a_queue() -> None:
    """A queue of which it has copies alone it has not."""
    late = Beginning(500, {3: 7})
    assert [False, True, False] == [
        late.has_all_from(3, 6),
        late.has_all_from(3, 7),
        late.has_all_from(4, 7),
    ]
    assert Beginning().has_all_from(4, 1)


def test_what_came_already_is_known_and_takes_a_bit() -> None:
    """Queues and stretches of sequences do not meet; a hundred thousand take little."""
    seen = SeenSequences()
    places = [(queue, n) for queue in (1, 2) for n in (1, 7, 8, 9_999, 10_000, 10_001, 2**40 + 1)]

    assert all(seen.is_first(*place) for place in places)
    assert not any(seen.is_first(*place) for place in places)

    tracemalloc.start()
    try:
        assert all(seen.is_first(3, n) for n in range(1, 100_001))
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()
