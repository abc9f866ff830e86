"""Manifests and what they add up to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import ArchiveError, LaterArchiveError
from holdfast.spark.archive.manifests import (
    FORMAT,
    ArchivedFile,
    Break,
    Manifest,
    decode_manifest,
    encode_manifest,
    range_of_name,
    resolve,
)


def manifest(first: int, last: int, **changes) -> Manifest:
    file = ArchivedFile(
        path=f"records/{first}",
        day="2026-11-20",
        first_index=first,
        last_index=last,
        rows=1,
        messages=1,
        bytes=10,
        digest="00",
        chain_before=f"{first - 1:032x}",
        chain_after=f"{last:032x}",
    )
    made = Manifest(
        cluster_id="c" * 32,
        first_index=first,
        last_index=last,
        chain_before=f"{first - 1:032x}",
        chain_after=f"{last:032x}",
        last_term=1,
        first_record=first,
        next_record=last + 1,
        first_timestamp=first,
        last_timestamp=last,
        messages=1,
        log_bytes=10,
        files=(file,),
        queues={first: f"queue-{first}"},
    )
    return replace(made, **changes)


def ranges(*manifests: Manifest) -> list[tuple[int, int]]:
    return [(each.first_index, each.last_index) for each in resolve(manifests).ranges]


def test_a_manifest_reads_back() -> None:
    """
    What is written is read, field by field.
    """
    made = manifest(1, 9)

    assert made == decode_manifest(encode_manifest(made), made.name)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b'"messages": 1', b'"messages": 2', "was changed"),
        (b'"format": 2', b'"format": 9', "changed .* says format 9"),
        (b"{", b"", "cannot be read"),
    ],
)
def test_a_changed_manifest_is_refused(old: bytes, new: bytes, told: str) -> None:
    """
    A manifest carries its own digest, and says of which format it is.
    """
    made = manifest(1, 9)

    with pytest.raises(ArchiveError, match=told):
        decode_manifest(encode_manifest(made).replace(old, new, 1), made.name)


def test_a_manifest_of_a_later_program_is_told_of_as_such() -> None:
    """
    Its digest fits, so nothing is damaged; the sentence says what to do.
    """
    made = manifest(1, 9, format=FORMAT + 1)

    with pytest.raises(LaterArchiveError, match=r"has format 3, .* up to 2. Use that version"):
        decode_manifest(encode_manifest(made), made.name)


def test_a_renamed_manifest_is_refused() -> None:
    """
    The name says the range, and must say the same.
    """
    with pytest.raises(ArchiveError, match="not the one of that name"):
        decode_manifest(encode_manifest(manifest(1, 9)), manifest(1, 8).name)


def test_names() -> None:
    """
    A name gives its range back; anything else is no manifest.
    """
    assert (3, 14) == range_of_name(manifest(3, 14).name)
    assert (3, 14) == range_of_name(manifest(3, 14, format=1).name)
    assert None is range_of_name("notes.json")


def test_no_two_manifests_have_one_name() -> None:
    """
    Neither is then written over the other, whoever writes them, and whatever of them differs.
    """
    names = {
        manifest(1, 9).name,
        manifest(1, 9, cluster_id="d" * 32).name,
        manifest(1, 9, written_by="another").name,
        manifest(1, 9, files=(replace(manifest(1, 9).files[0], path="records/another"),)).name,
    }

    assert 4 == len(names)


def test_a_manifest_of_the_first_format_reads_back() -> None:
    """
    Its name is its range alone.
    """
    made = manifest(1, 9, format=1)

    assert f"{1:020d}-{9:020d}.json" == made.name
    assert made == decode_manifest(encode_manifest(made), made.name)


def test_of_two_of_one_range_each_reader_chooses_the_same() -> None:
    """
    Else each of two archivers could take away what the other one relies on.
    """
    one, other = manifest(1, 9, written_by="one"), manifest(1, 9, written_by="other")

    assert resolve([one, other]).ranges == resolve([other, one]).ranges
    assert () == resolve([one, other]).breaks


def test_ranges_in_order() -> None:
    """
    Ranges that follow each other count, in order.
    """
    catalogue = resolve([manifest(5, 9), manifest(1, 4)])

    assert (1, 9, ()) == (catalogue.first_index, catalogue.last_index, catalogue.breaks)
    assert ["records/1", "records/5"] == [file.path for file in catalogue.files()]
    assert ["records/5"] == [file.path for file in catalogue.files(6)]
    assert ["records/1"] == [file.path for file in catalogue.files(0, 4)]
    assert {1: "queue-1", 5: "queue-5"} == catalogue.queues


def test_a_merged_range_rules() -> None:
    """
    Of two ways that reach as far the shorter one counts; the other is superseded.
    """
    parts = [manifest(1, 4), manifest(5, 9)]

    catalogue = resolve([*parts, manifest(1, 9)])

    assert [(1, 9)] == [(each.first_index, each.last_index) for each in catalogue.ranges]
    assert parts == sorted(catalogue.superseded, key=lambda each: each.first_index)


def test_the_way_that_reaches_further_rules() -> None:
    """
    A longer range that leads nowhere does not hide a chain that goes on.
    """
    assert [(1, 4), (5, 9), (10, 12)] == ranges(
        manifest(1, 4), manifest(5, 9), manifest(10, 12), manifest(1, 7)
    )


@pytest.mark.parametrize(
    ("rest", "kind"),
    [
        ([manifest(1, 2), manifest(3, 9), manifest(6, 12)], "overlap"),
        ([manifest(1, 9), manifest(1, 4, cluster_id="d" * 32)], "cluster"),
        ([manifest(1, 9), manifest(5, 9, chain_after="ff" * 16)], "chain"),
    ],
)
def test_a_range_that_others_do_not_replace_is_told(rest: list[Manifest], kind: str) -> None:
    """
    What does not count is removed one day: it must be in the ranges that count, and the same.
    """
    assert [kind] == [each.kind for each in resolve(rest).breaks]


def test_a_gap_is_told() -> None:
    """
    Entries that no range covers.
    """
    catalogue = resolve([manifest(1, 4), manifest(8, 9)])

    (found,) = catalogue.breaks
    assert ("gap", 5, 7) == (found.kind, found.first_index, found.last_index)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [({"chain_before": "ff" * 16}, "chain"), ({"cluster_id": "d" * 32}, "cluster")],
)
def test_a_seam_that_does_not_fit_is_told(changes: dict[str, str], kind: str) -> None:
    """
    Neighbours of two logs, or with a chain that breaks between them.
    """
    catalogue = resolve([manifest(1, 4), manifest(5, 9, **changes)])

    assert [kind] == [each.kind for each in catalogue.breaks]


def test_an_unreadable_manifest_is_told() -> None:
    """
    It is not passed over in silence.
    """
    assert ["manifest"] == [
        each.kind for each in resolve([], [Break("manifest", 1, 9, "x cannot be read")]).breaks
    ]


def test_a_log_cleaned_before_is_complete_once_it_says_so() -> None:
    """
    The state is known from where everything older was written again.
    """
    begins_late = manifest(50, 60)
    says_so = manifest(61, 90, cleaned_through=49, complete_from=77)

    assert 0 == resolve([]).complete_from
    assert 0 == resolve([manifest(1, 9)]).complete_from
    assert 0 == resolve([begins_late]).complete_from
    assert 77 == resolve([begins_late, says_so]).complete_from
