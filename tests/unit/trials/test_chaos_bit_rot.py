"""
Rot is where it says it is, in the place that was asked for, and can be seen to be mended.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.journal.ballot import Ballot, BallotFile, decode_ballot, encode_ballot
from holdfast.journal.entry import KIND_RECORDS, seal_entry
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, SegmentHeader, segment_name
from trials.chaos.bit_rot import (
    Rot,
    cut_tail,
    flip_body,
    is_mended,
    older_copy,
    roll_back,
    rot_ballot,
    rot_checkpoint,
    rot_segment,
    wipe,
)

ENTRIES = 5
CAPACITY = 16384


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data folder of a node with three segments of five entries, a ballot and checkpoints."""
    folder = tmp_path / "a"
    (folder / "journal").mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    chain, index = bytes(16), 1
    for _ in range(3):
        header = SegmentHeader(index, index, 1, chain, CAPACITY)
        found = header.encode()
        for _ in range(ENTRIES):
            entry = seal_entry(
                index=index,
                term=1,
                kind=KIND_RECORDS,
                timestamp=index,
                first_record=index,
                record_count=1,
                parts=[b"body of %d" % index * 50],
                previous_chain=chain,
            )
            found += entry.raw
            chain, index = entry.chain, index + 1
        path = folder / "journal" / segment_name(header.base_index)
        path.write_bytes(found.ljust(CAPACITY, b"\0"))
    ballots = BallotFile(folder / "ballot", RealDisk())
    ballots.save(Ballot(node_id=b"n" * 16, term=3))
    ballots.save(Ballot(node_id=b"n" * 16, term=4))
    ballots.close()
    for number in (3, 12):
        (folder / "checkpoints" / f"{number:020d}.checkpoint").write_bytes(b"state" * 100)
    return folder


def snapshot(data: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {
        str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()
    }


def difference(before: dict[str, bytes], after: dict[str, bytes]) -> list[tuple[str, int, int]]:
    """File, byte and changed bits of everything that is not the same."""
    return [
        (name, place, one ^ other)
        for name in before
        for place, (one, other) in enumerate(zip(before[name], after[name], strict=True))
        if one != other
    ]


def check_one_bit(data: Path, before: dict[str, bytes], rot: Rot) -> None:
    """Exactly one bit differs, where the rot says; written back it counts as mended."""
    found = difference(before, snapshot(data))

    assert len(found) == 1
    name, place, bits = found[0]
    assert (data / name, place) == (rot.path, rot.byte)
    assert bits.bit_count() == 1
    assert not is_mended(rot)
    (data / name).write_bytes(before[name])
    assert is_mended(rot)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("where", ["body", "header", "block"])
def test_one_bit_rots_in_a_sealed_segment(data, where, seed):
    """
    In the part that was asked for, and the scan of the log says: damaged, never torn.
    """
    before = snapshot(data)
    rot = rot_segment(data, random.Random(seed), where=where)
    scan = scan_log(data / "journal", RealDisk())

    assert scan.tail.state == "clean"
    assert scan.last_index == 3 * ENTRIES
    assert len(scan.damage) == 1
    assert (rot.byte < SEGMENT_HEADER_BYTES) == (where == "block")
    assert rot.path.name != segment_name(11)
    check_one_bit(data, before, rot)


def test_one_bit_rots_in_the_last_entry(data):
    """
    The scan cannot tell whether it was ever stored: the tail is unknown.
    """
    before = snapshot(data)
    rot = rot_segment(data, random.Random(1), where="tail")
    scan = scan_log(data / "journal", RealDisk())

    assert (scan.tail.state, scan.last_index) == ("unknown", 3 * ENTRIES - 1)
    assert "entry 15" in str(rot)
    check_one_bit(data, before, rot)


def test_one_bit_rots_in_a_body_of_a_given_segment(data):
    """
    The caller names the segment, for damage that differs from node to node.
    """
    before = snapshot(data)
    rot = flip_body(data / "journal" / segment_name(6), random.Random(2))

    assert rot.path.name == segment_name(6)
    check_one_bit(data, before, rot)


def test_a_log_without_a_sealed_segment_cannot_rot_there(data):
    """
    Nothing is changed, and the caller is told that there is no such place.
    """
    for path in sorted((data / "journal").iterdir())[1:]:
        path.unlink()

    with pytest.raises(LookupError, match="no sealed segment"):
        rot_segment(data, random.Random(0))


def test_the_newer_slot_of_the_ballot_rots_or_both(data):
    """
    With one slot bad the older one is left; with both there is no ballot at all.
    """
    before = snapshot(data)
    rot = rot_ballot(data, random.Random(0))
    found = (data / "ballot").read_bytes()
    left = [decode_ballot(found[at : at + 4096]) for at in (0, 4096)]
    check_one_bit(data, before, rot)
    rot_ballot(data, random.Random(0), is_total=True)
    found = (data / "ballot").read_bytes()

    assert [slot.term for slot in left if slot] == [4]
    assert [decode_ballot(found[at : at + 4096]) for at in (0, 4096)] == [None, None]
    assert len(found) == 2 * len(encode_ballot(Ballot(node_id=b"n" * 16)))


def test_the_newest_checkpoint_rots(data):
    """
    The one that would be used.
    """
    before = snapshot(data)
    rot = rot_checkpoint(data, random.Random(3))

    assert rot.path.name.endswith("12.checkpoint")
    check_one_bit(data, before, rot)


@pytest.mark.parametrize(("count", "last"), [(1, 14), (700, 13), (1 << 20, 10)])
def test_the_end_of_the_log_is_cut_off(data, count, last):
    """
    So many bytes before the end of the last entry; the header block stays.
    """
    rot = cut_tail(data, count)
    scan = scan_log(data / "journal", RealDisk())

    assert scan.last_index == last
    assert f"entries {last + 1:,} to 15" in str(rot)
    assert not is_mended(rot)


def test_a_folder_is_rolled_back_to_an_older_copy(data, tmp_path):
    """
    Everything is as it was; what came later is gone.
    """
    before = snapshot(data)
    older_copy(data, tmp_path / "copy")
    (data / "later").mkdir()
    (data / "later" / "file").write_bytes(b"new")
    (data / "ballot").write_bytes(b"newer")
    roll_back(tmp_path / "copy", data)

    assert snapshot(data) == before
    assert not (data / "later").exists()


def test_a_wiped_folder_is_empty_and_rot_in_it_does_not_count(data):
    """
    What is gone need not be mended.
    """
    rot = rot_checkpoint(data, random.Random(0))
    wipe(data)

    assert list(data.iterdir()) == []
    assert is_mended(rot)
