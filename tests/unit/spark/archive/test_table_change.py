"""What a table is told, by the manifests and by what it names already: values only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import ArchiveError
from holdfast.spark.archive.manifests import ArchivedFile, Break, Catalogue, Manifest, resolve
from holdfast.spark.archive.table_change import NamedFile, change_of


def manifest(*spans: tuple[int, int], cluster: str = "c" * 32) -> Manifest:
    """One range, a file for each span; the chain fits whatever is before and behind."""
    files = [
        ArchivedFile(
            path=path_of(span),
            day="2020-01-01",
            first_index=span[0],
            last_index=span[1],
            rows=1,
            messages=1,
            bytes=1,
            digest="d",
            chain_before=f"{span[0] - 1:032x}",
            chain_after=f"{span[1]:032x}",
        )
        for span in spans
    ]
    first, last = files[0], files[-1]
    fields: dict[str, Any] = dict.fromkeys(
        ("last_term", "first_record", "next_record", "first_timestamp", "last_timestamp"), 1
    )
    return Manifest(
        cluster_id=cluster,
        first_index=first.first_index,
        last_index=last.last_index,
        chain_before=first.chain_before,
        chain_after=last.chain_after,
        messages=len(files),
        log_bytes=1,
        files=tuple(files),
        **fields,
    )


def path_of(span: tuple[int, int]) -> str:
    return f"records/day=2020-01-01/{span[0]:020d}-{span[1]}.parquet"


def catalogue(*manifests: Manifest) -> Catalogue:
    return resolve(manifests)


def named(*spans: tuple[int, int]) -> dict[str, NamedFile]:
    """What the table names."""
    return {
        path_of(span): NamedFile(day="2020-01-01", bytes=1, rows=1, span=span) for span in spans
    }


def test_an_empty_table_gets_all() -> None:
    """In the order of the log, as something new."""
    change = change_of(catalogue(manifest((1, 4), (5, 6)), manifest((7, 9))), {})
    assert [it.first_index for it in change.added] == [1, 5, 7]
    assert (change.removed, change.rewritten) == ((), frozenset())


def test_what_the_table_names_is_not_named_again() -> None:
    """Only what is new comes; and nothing does where there is nothing new."""
    ranges = catalogue(manifest((1, 4), (5, 6)), manifest((7, 9)))
    assert [it.first_index for it in change_of(ranges, named((1, 4), (5, 6))).added] == [7]
    assert change_of(ranges, named((1, 4), (5, 6), (7, 9))).is_empty


def test_a_merged_range_takes_the_place_of_what_it_replaces() -> None:
    """
    Both in one change, and as no change of the rows; what is new beside it is one.
    """
    merged = catalogue(manifest((1, 6)), manifest((1, 4), (5, 6)), manifest((7, 9)))
    change = change_of(merged, named((1, 4), (5, 6)))
    assert [it.first_index for it in change.added] == [1, 7]
    assert set(change.removed) == {path_of((1, 4)), path_of((5, 6))}
    assert change.rewritten == {path_of((1, 6)), *change.removed}


def test_a_range_that_was_merged_with_new_ones_counts_as_changed() -> None:
    """
    Who follows the table is told of it, rather than that rows are given to him twice.
    """
    change = change_of(catalogue(manifest((1, 9))), named((1, 4)))
    assert change.removed == (path_of((1, 4)),)
    assert change.rewritten == frozenset()


def test_files_of_others_leave_the_table() -> None:
    """What somebody else's OPTIMIZE wrote is not what is archived; that counts as a change."""
    others = {"part-0001.parquet": NamedFile(day="2020-01-01", bytes=1, rows=1, span=None)}
    change = change_of(catalogue(manifest((1, 4))), others)
    assert [it.first_index for it in change.added] == [1]
    assert change.removed == ("part-0001.parquet",)
    assert change.rewritten == frozenset()


@pytest.mark.parametrize(
    "untrue",
    [
        {"day": "2021-01-01"},
        {"bytes": 2},
        {"rows": 2},
        {"rows": None},
        {"span": (1, 3)},
        {"span": (2, 4)},
        {"span": None},
        {"has_all": False},
    ],
    ids=str,
)
def test_what_is_not_true_of_a_file_is_said_again(untrue: dict[str, Any]) -> None:
    """Engines count and skip by it without a look at the file; its rows are no new ones."""
    given = named((1, 4), (5, 6))
    given[path_of((1, 4))] = replace(given[path_of((1, 4))], **untrue)
    change = change_of(catalogue(manifest((1, 4), (5, 6))), given)
    assert [it.path for it in change.added] == [path_of((1, 4))]
    assert (change.removed, change.corrected) == ((), 1)
    assert change.rewritten == {path_of((1, 4))}


def test_what_cannot_be_taken_out_of_the_table_is_told() -> None:
    """Delta would write the path otherwise, so the removal would miss it, each time anew."""
    odd = {"rec`rds/x.parquet": NamedFile(day="2020-01-01", bytes=1, rows=1, span=(1, 4))}
    with pytest.raises(ArchiveError, match=r"names 'rec`rds/x\.parquet'.*have it made anew"):
        change_of(catalogue(manifest((1, 4))), odd)


@pytest.mark.parametrize(
    "left",
    [
        catalogue(manifest((1, 4))),
        catalogue(manifest((5, 9))),
        catalogue(manifest((1, 2)), manifest((5, 9))),
        catalogue(),
    ],
    ids=["at the end", "at the beginning", "in the middle", "everything"],
)
def test_a_manifest_that_is_lost_takes_nothing_from_the_table(left: Catalogue) -> None:
    """At the archive's end nothing else shows that something is missing."""
    with pytest.raises(ArchiveError, match="which the manifests do not name any more"):
        change_of(left, named((1, 2), (3, 4), (5, 9)))


def test_an_archive_that_does_not_hold_together_changes_no_table() -> None:
    """A manifest that cannot be read, two clusters in one archive; it is said which."""
    broken = resolve([manifest((1, 4))], [Break("manifest", 5, 9, "manifest 5-9 cannot be read")])
    with pytest.raises(ArchiveError, match=r"its table stays as it is: manifest 5-9 cannot"):
        change_of(broken, named((1, 4)))
    mixed = catalogue(manifest((1, 4)), manifest((5, 9), cluster="d" * 32))
    with pytest.raises(ArchiveError, match="is of cluster dddddddd"):
        change_of(mixed, named((1, 4)))


def test_a_gap_that_was_accepted_is_one_in_the_table() -> None:
    """`archive --accept-gap` goes on behind it for good, and so does the table."""
    change = change_of(catalogue(manifest((1, 4)), manifest((8, 9))), named((1, 4)))
    assert [it.first_index for it in change.added] == [8]
