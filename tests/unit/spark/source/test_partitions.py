"""
A range of the log in parts: each entry in exactly one.
"""

from __future__ import annotations

import pickle

import pytest

from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.source import PART_BYTES
from holdfast.spark.source.partitions import (
    NAMES_MAX,
    BacklogPartition,
    LogPartition,
    at_least,
    carried,
    split,
    tasks_for,
)


def data_file(size: int) -> ArchivedFile:
    """Make what a manifest says of a file of this size."""
    return ArchivedFile(
        path="",
        day="",
        first_index=1,
        last_index=1,
        rows=1,
        messages=1,
        bytes=size,
        digest="",
        chain_before="",
        chain_after="",
    )


@pytest.mark.parametrize(
    ("first", "last", "wanted"),
    [
        (1, 30, [(1, 9), (10, 19), (20, 30)]),
        (10, 19, [(10, 19)]),
        (5, 10, [(5, 9), (10, 10)]),
        (25, 99, [(25, 99)]),
        (7, 7, [(7, 7)]),
        (8, 7, []),
    ],
)
def test_a_range_is_cut_where_segments_begin(
    first: int, last: int, wanted: list[tuple[int, int]]
) -> None:
    """Both ends included."""
    assert wanted == split(first, last, (1, 10, 20))


@pytest.mark.parametrize(
    ("ranges", "count", "wanted"),
    [
        ([], 5, []),
        ([(1, 4), (5, 5)], 1, [(1, 4), (5, 5)]),
        ([(1, 4), (5, 5)], 3, [(1, 2), (3, 4), (5, 5)]),
        ([(1, 3), (4, 9)], 4, [(1, 2), (3, 3), (4, 6), (7, 9)]),
        ([(1, 3)], 100, [(1, 1), (2, 2), (3, 3)]),
    ],
)
def test_the_longest_parts_are_halved_until_there_are_enough(
    ranges: list[tuple[int, int]], count: int, wanted: list[tuple[int, int]]
) -> None:
    """Down to single entries."""
    found = at_least(ranges, count)
    assert len(found) == len(wanted)
    covered = [n for first, last in found for n in range(first, last + 1)]
    assert covered == [n for first, last in ranges for n in range(first, last + 1)]
    assert sorted(last - first for first, last in found) == sorted(
        last - first for first, last in wanted
    )


def test_partitions_travel_to_executors() -> None:
    """Spark pickles them."""
    for partition in (LogPartition(1, 2, {1: "a"}, "c"), BacklogPartition(1, 2, places=b"x")):
        assert partition == pickle.loads(pickle.dumps(partition))


def test_very_many_names_do_not_travel_with_every_part() -> None:
    """A hundred thousand queues and as many parts would be more than a driver can hold."""
    few = {number: str(number) for number in range(NAMES_MAX)}
    assert few == carried(few)
    assert {} == carried(few | {NAMES_MAX: "one more"})


@pytest.mark.parametrize(
    ("sizes", "cores", "wanted"),
    [
        ([], 4, 1),
        ([1000], 4, 1),
        ([1000] * 60, 4, 4),
        ([PART_BYTES] * 10, 4, 10),
        ([PART_BYTES // 10] * 100, 4, 10),
        ([PART_BYTES * 8] * 3, 4, 3),
    ],
)
def test_small_files_share_a_task_and_every_core_has_one(
    sizes: list[int], cores: int, wanted: int
) -> None:
    """An archive that is written as the log grows has very many small files."""
    assert wanted == tasks_for([data_file(size) for size in sizes], cores)
