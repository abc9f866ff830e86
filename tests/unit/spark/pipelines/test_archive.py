"""What is archived next, and how written ranges become one manifest: without Spark."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ArchiveError
from holdfast.spark.archive.manifests import Catalogue, Manifest, resolve
from holdfast.spark.log.source import LogPosition
from holdfast.spark.pipelines.archive import (
    RANGE_ENTRIES_MAX,
    ArchiveSettings,
    MiB,
    mergeable,
    plan,
)
from holdfast.spark.pipelines.written_ranges import LogRange, WrittenRange, joined

CHAIN = "aa" * 16


def position(first: int, last: int, *bases: int) -> LogPosition:
    return LogPosition(first_index=first, last_index=last, cluster_id="c", bases=bases)


def written(first: int, last: int, **changes) -> WrittenRange:
    made = WrittenRange(
        first_index=first,
        last_index=last,
        chain_before=f"{first - 1:032x}",
        chain_after=f"{last:032x}",
        last_term=1,
        first_record=first,
        next_record=last + 1,
        first_timestamp=first,
        last_timestamp=last,
        messages=2,
        log_bytes=10,
        files=(),
        queues={first: "q"},
        unknown=frozenset(),
        cleaned_through=0,
        complete_from=0,
    )
    return replace(made, **changes)


def archived(*ranges: tuple[int, int]) -> Catalogue:
    return Catalogue(tuple(joined([written(*each)], "c") for each in ranges))


def spans(ranges: list[LogRange]) -> list[tuple[int, int]]:
    return [(each.first_index, each.last_index) for each in ranges]


def test_the_first_commit_is_one_segment() -> None:
    """
    Most queues are declared there, and tasks side by side do not know what the others find.
    """
    (only,) = plan(Catalogue(), position(1, 30, 1, 11, 21), 16, CHAIN)

    assert LogRange(1, 10, CHAIN) == only


def test_later_commits_take_a_segment_per_task() -> None:
    """
    Ranges begin where the archive ends and are cut where segments begin; the first chain is known.
    """
    ranges = plan(archived((1, 14)), position(1, 30, 1, 11, 21), 16, CHAIN)

    assert [(15, 20), (21, 30)] == spans(ranges)
    assert [f"{14:032x}", None] == [each.chain_before for each in ranges]


def test_no_more_tasks_than_asked_for() -> None:
    """
    The rest is the next commit's.
    """
    assert [(15, 20)] == spans(plan(archived((1, 14)), position(1, 30, 1, 11, 21), 1, CHAIN))


def test_nothing_new_nothing_to_do() -> None:
    """
    An archive that is level with the log plans nothing; so does an empty log.
    """
    assert [] == plan(archived((1, 30)), position(1, 30, 1), 16, CHAIN)
    assert [] == plan(Catalogue(), position(1, 0), 16, CHAIN)


def test_behind_a_gap_the_log_begins_anew() -> None:
    """
    What was cleaned away is passed over (if that was accepted), with the chain before the log.
    """
    (only,) = plan(archived((1, 5)), position(20, 30, 20), 16, CHAIN)

    assert LogRange(20, 30, CHAIN) == only


def test_a_segment_of_tiny_entries_is_many_ranges() -> None:
    """
    No task is handed more than it should hold.
    """
    ranges = plan(archived((1, 1)), position(1, 2 * RANGE_ENTRIES_MAX + 5, 1), 16, CHAIN)

    assert 3 == len(ranges)
    assert 2 * RANGE_ENTRIES_MAX + 5 == ranges[-1].last_index


def test_ranges_become_one_manifest() -> None:
    """
    Sums and ends are those of all ranges together.
    """
    late = written(5, 9, cleaned_through=3, complete_from=7)

    manifest = joined([written(1, 4), late], "c")

    assert (1, 9, 9, 4, 20) == (
        manifest.first_index,
        manifest.last_index,
        manifest.entries,
        manifest.messages,
        manifest.log_bytes,
    )
    assert {1: "q", 5: "q"} == manifest.queues
    assert (3, 7) == (manifest.cleaned_through, manifest.complete_from)


@pytest.mark.parametrize("changes", [{"chain_before": CHAIN}, {"first_index": 6}])
def test_ranges_that_do_not_fit_are_refused(changes: dict[str, object]) -> None:
    """
    A chain that breaks between two tasks is never published.
    """
    with pytest.raises(ArchiveError, match="does not fit"):
        joined([written(1, 4), written(5, 9, **changes)], "c")


def test_small_neighbours_are_merged() -> None:
    """
    Only runs of enough small ranges are merged, up to a good size; large ones are left alone.
    """

    def sized(first: int, size: int) -> Manifest:
        (made,) = archived((first, first)).ranges
        return replace(made, log_bytes=size)

    settings = ArchiveSettings(compact_bytes=100, compact_count_min=2)
    ranges = [sized(1, 40), sized(2, 40), sized(3, 40), sized(4, 500), sized(5, 10), sized(6, 10)]

    groups = mergeable(tuple(ranges), settings)

    assert [[1, 2, 3], [5, 6]] == [[each.first_index for each in group] for group in groups]
    assert [] == mergeable(tuple(ranges), replace(settings, compact_bytes=0))
    assert [] == mergeable((), settings)


@pytest.mark.parametrize("size", [1, 8, 16])
def test_where_no_more_can_come_fewer_are_merged(size: int) -> None:
    """
    A stretch of the log has few ranges of some MiB: they stayed small for ever, and were thousands.
    """
    (made,) = archived((1, 1)).ranges
    ranges = tuple(
        replace(made, first_index=first, last_index=first, log_bytes=size * MiB)
        for first in range(1, 1_000)
    )
    groups = mergeable(ranges, ArchiveSettings())
    per_stretch = 64 // size
    assert [len(each) for each in groups[:-1]] == [per_stretch] * (len(groups) - 1)
    assert len(ranges) - sum(map(len, groups)) < 32, "all that may still become more"


def test_few_that_are_large_are_left_alone() -> None:
    """
    To write them again costs more than it spares.
    """
    (made,) = archived((1, 1)).ranges
    ranges = tuple(
        replace(made, first_index=first, last_index=first, log_bytes=30 * MiB)
        for first in range(1, 100)
    )
    assert [] == mergeable(ranges, ArchiveSettings())


@given(
    counts=st.sampled_from((2, 4, 32)),
    sizes=st.lists(st.integers(1, 130), min_size=1, max_size=40),
    steps=st.lists(st.tuples(st.integers(1, 40), st.randoms(use_true_random=False)), max_size=8),
)
def test_of_two_merged_ranges_one_holds_the_other_or_nothing_of_it(
    counts: int, sizes: list[int], steps: list[tuple[int, Random]]
) -> None:
    """Whoever merged, whatever was there then, and whatever of it was merged already."""
    settings = ArchiveSettings(compact_bytes=100, compact_count_min=counts)
    (made,) = archived((1, 1)).ranges
    there = {
        (first, first): replace(made, first_index=first, last_index=first, log_bytes=size)
        for first, size in enumerate(sizes, 1)
    }
    for end, draw in steps:
        seen = [
            it
            for it in there.values()
            if it.last_index <= end and (it.first_index == it.last_index or draw.random() < 0.7)
        ]
        for group in mergeable(resolve(seen).ranges, settings):
            span = group[0].first_index, group[-1].last_index
            size = sum(it.log_bytes for it in group)
            there[span] = replace(made, first_index=span[0], last_index=span[1], log_bytes=size)
    for one, other in combinations(there, 2):
        assert (
            one[1] < other[0]
            or other[1] < one[0]
            or (
                (one[0] <= other[0] and other[1] <= one[1])
                or (other[0] <= one[0] and one[1] <= other[1])
            )
        )
