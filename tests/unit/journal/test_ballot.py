"""Term, vote and identity survive a power cut and rot, or are known to be lost."""

from __future__ import annotations

import errno
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from google_crc32c import value as crc32c

from holdfast.environment.disk import NoRoomError
from holdfast.errors import BallotLostError
from holdfast.journal.ballot import (
    SEEN_MAX,
    SLOT_BYTES,
    Ballot,
    BallotFile,
    decode_ballot,
    encode_ballot,
)
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk, SimulatedFile

PATH = Path("/node/ballot")
BALLOT = Ballot(
    node_id=bytes(range(16)),
    term=7,
    voted_for="node-ü",
    generation=2,
    durable_floor=55,
    sequence=9,
    cluster_id=b"cluster",
    edition=12,
    seen=((bytes(16), 3), (bytes(range(1, 17)), 1 << 40)),
    floor_chain=bytes(range(1, 17)),
    first_index=40,
    large_index=56,
)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(PATH.parent)
    return disk


def vote(term: int, name: str | None) -> Ballot:
    return replace(BALLOT, term=term, voted_for=name)


@pytest.mark.parametrize("name", ["node-ü", "", None])
def test_a_slot_reads_back(name: str | None) -> None:
    """Every field survives; no vote is not the same as a vote for an empty name."""
    ballot = replace(BALLOT, voted_for=name, is_shut_out=name is None)
    slot = encode_ballot(ballot)
    assert len(slot) == SLOT_BYTES
    assert decode_ballot(slot) == ballot


def test_a_damaged_slot_is_no_ballot() -> None:
    """A flipped bit or a slot cut short gives nothing."""
    slot = encode_ballot(BALLOT)
    for bit in range(0, SLOT_BYTES * 8, 37):
        damaged = bytearray(slot)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_ballot(bytes(damaged)) is None
    assert decode_ballot(slot[:100]) is None


@pytest.mark.parametrize(
    ("byte", "value"),
    [
        (60, b"\xfe\xff"),  # a vote of less than no bytes
        (60, b"\xff\x7f"),  # more than there is room for
        (62, b"\xff\xff"),
        (72, b"\xff\xff"),
        (106, b"\xff"),  # a name that is no text
    ],
)
def test_what_cannot_be_is_no_ballot(byte: int, value: bytes) -> None:
    """Whatever its checksum says: the other slot is asked, and no trace ends the start."""
    slot = bytearray(encode_ballot(BALLOT))
    slot[byte : byte + len(value)] = value
    slot[8:12] = bytes(4)
    slot[8:12] = crc32c(bytes(slot)).to_bytes(4, "little")
    assert decode_ballot(bytes(slot)) is None


def test_a_directory_without_a_ballot_never_had_one(disk: SimulatedDisk) -> None:
    """No file is not amnesia: the node is new."""
    assert BallotFile(PATH, disk).load() is None


def test_what_is_saved_is_loaded(disk: SimulatedDisk) -> None:
    """The last save rules, and the file keeps floor and sequence itself."""
    file = BallotFile(PATH, disk)
    file.save(vote(1, "a"))
    file.save_floor(10)
    file.save(vote(2, "b"))
    loaded = BallotFile(PATH, disk).load()
    assert loaded is not None
    assert (loaded.term, loaded.voted_for, loaded.durable_floor) == (2, "b", 10)
    assert loaded == file.current


def test_the_floor_rises_lazily_and_is_lowered_in_both_slots(disk: SimulatedDisk) -> None:
    """A floor never falls by itself; once lowered no slot remembers the higher one."""
    file = BallotFile(PATH, disk)
    file.save_floor(5)
    file.lower_floor(1)
    assert file.current is None
    file.save(vote(1, None))
    file.save_floor(10)
    file.save_floor(4)
    file.lower_floor(20)
    assert file.current is not None
    assert file.current.durable_floor == 10
    file.lower_floor(3)
    for place in (0, 1):
        slot = decode_ballot(disk.content(PATH)[place * SLOT_BYTES :][:SLOT_BYTES])
        assert slot is not None
        assert slot.durable_floor == 3


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.promise("F19")
def test_rot_in_one_slot_does_not_bring_back_an_older_vote(disk: SimulatedDisk, slot: int) -> None:
    """A vote stands in both slots, so losing either loses no vote; the next save mends it."""
    file = BallotFile(PATH, disk)
    file.save(vote(1, "a"))
    file.save(vote(2, "b"))
    disk.flip_bit(PATH, slot * SLOT_BYTES * 8 + 300)
    again = BallotFile(PATH, disk)
    loaded = again.load()
    assert loaded is not None
    assert (loaded.term, loaded.voted_for) == (2, "b")
    assert again.damaged_slots == [slot]
    again.save(vote(3, "c"))
    again.close()
    last = BallotFile(PATH, disk)
    loaded = last.load()
    assert loaded is not None
    assert loaded.term == 3
    assert last.damaged_slots == []


@pytest.mark.promise("F19")
def test_both_slots_bad_is_amnesia(disk: SimulatedDisk) -> None:
    """A node that cannot read its vote is told never to vote again under this identity."""
    BallotFile(PATH, disk).save(vote(1, "a"))
    disk.flip_bit(PATH, 100)
    disk.flip_bit(PATH, SLOT_BYTES * 8 + 100)
    with pytest.raises(BallotLostError, match="must not vote"):
        BallotFile(PATH, disk).load()


@pytest.mark.parametrize("operation", range(1, 7))
@pytest.mark.promise("F29")
def test_a_power_cut_keeps_the_old_or_the_new_ballot(operation: int) -> None:
    """Whichever step of a save is interrupted, one of the two ballots is read, never nothing."""
    for seed in range(20):
        disk = SimulatedDisk(seed)
        disk.make_directory(PATH.parent)
        file = BallotFile(PATH, disk)
        file.save(vote(1, "a"))
        disk.cut_at = disk.operations + operation
        try:
            file.save(vote(2, "b"))
            file.save(vote(2, "b"))
        except PowerCut:
            disk.power_cut()
        loaded = BallotFile(PATH, disk).load()
        assert loaded is not None
        assert (loaded.term, loaded.voted_for) in [(1, "a"), (2, "b")]


@pytest.mark.parametrize("operation", range(1, 7))
def test_a_power_cut_at_the_first_save_is_no_amnesia(operation: int) -> None:
    """A node that never finished its first save is new: it has promised nothing yet."""
    for seed in range(20):
        disk = SimulatedDisk(seed)
        disk.make_directory(PATH.parent)
        disk.cut_at = operation
        try:
            BallotFile(PATH, disk).save(vote(1, "a"))
        except PowerCut:
            disk.power_cut()
        loaded = BallotFile(PATH, disk).load()
        assert loaded is None or loaded.term == 1


def test_a_ballot_that_a_failed_sync_left_in_the_cache_is_written_again(
    disk: SimulatedDisk,
) -> None:
    """Started on it, the node would vote by what the next power cut takes away."""
    file = BallotFile(PATH, disk)
    file.save(vote(1, "a"))
    disk.fail_next["sync"] = 5
    with pytest.raises(OSError, match="simulated"):
        file.save(vote(2, "b"))

    again = BallotFile(PATH, disk)
    again.load()
    again.write_again(3)
    disk.power_cut()

    found = BallotFile(PATH, disk).load()
    assert found is not None
    assert (found.term, found.voted_for, found.durable_floor) == (2, "b", 3)


def test_the_edition_rises_with_whatever_the_ballot_says(disk: SimulatedDisk) -> None:
    """Votes and floors count, a mere rewriting does not: a restart shows what was told before."""
    file = BallotFile(PATH, disk)
    shown = []
    for change in (
        lambda: file.save(vote(1, "a")),
        lambda: file.save(vote(2, "b")),
        lambda: file.save_floor(10),
        lambda: file.save_floor(4),
        lambda: file.write_again(20),
        lambda: file.lower_floor(3),
    ):
        change()
        assert file.current is not None
        shown.append(file.current.edition)
    assert shown == [1, 2, 3, 3, 3, 4]
    loaded = BallotFile(PATH, disk).load()
    assert loaded is not None
    assert loaded.edition == 4


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("is_floor_last", [False, True])
def test_rot_in_one_slot_does_not_look_like_an_older_copy(
    disk: SimulatedDisk, slot: int, is_floor_last: bool
) -> None:
    """The lost slot may have held an edition that was told: it is never undercut."""
    file = BallotFile(PATH, disk)
    file.save(vote(1, "a"))
    file.save(vote(2, "b"))
    if is_floor_last:
        file.save_floor(9)
    assert file.current is not None
    told = file.current.edition
    disk.flip_bit(PATH, slot * SLOT_BYTES * 8 + 300)

    again = BallotFile(PATH, disk)
    loaded = again.load()
    again.write_again(9)

    assert loaded is not None
    assert told <= loaded.edition <= told + 1
    found = BallotFile(PATH, disk).load()
    assert found is not None
    assert found.edition == loaded.edition


def test_what_was_seen_of_others_goes_along_with_the_next_save(disk: SimulatedDisk) -> None:
    """No write of its own; a full table fits, with the longest names."""
    seen = tuple((bytes([number]) * 16, 1 << 60) for number in range(SEEN_MAX))
    file = BallotFile(PATH, disk)
    file.save(replace(vote(1, "n" * 1024), cluster_id=b"c" * 1024))
    file.seen = seen
    file.save_floor(1)

    again = BallotFile(PATH, disk)
    loaded = again.load()

    assert loaded is not None
    assert (loaded.seen, loaded.voted_for, loaded.cluster_id) == (seen, "n" * 1024, b"c" * 1024)
    assert again.seen == seen


def test_a_ballot_of_the_first_version_is_read() -> None:
    """It has no edition yet; the next save gives it one."""
    head = struct.pack("<4sHHI16sQQQQhH", b"HFBL", 1, 0, 0, bytes(16), 7, 2, 55, 9, 1, 7)
    slot = (head + b"acluster").ljust(SLOT_BYTES, b"\0")
    checksum: int = crc32c(slot)
    slot = slot[:8] + checksum.to_bytes(4, "little") + slot[12:]

    ballot = decode_ballot(slot)

    assert ballot == Ballot(
        node_id=bytes(16),
        term=7,
        voted_for="a",
        generation=2,
        durable_floor=55,
        sequence=9,
        cluster_id=b"cluster",
    )


def test_the_first_index_is_in_both_slots(disk: SimulatedDisk) -> None:
    """An older first index would make files missing that were dropped."""
    file = BallotFile(PATH, disk)
    file.save(vote(1, "a"))
    file.save_first(30)
    file.save_first(20)
    data = disk.content(PATH)
    slots = [decode_ballot(data[:SLOT_BYTES]), decode_ballot(data[SLOT_BYTES:])]
    assert [slot.first_index for slot in slots if slot is not None] == [30, 30]
    file.begin_log(10)
    file.save(vote(2, None))
    assert file.current is not None
    assert file.current.claim == (9, b"", 10, 0, 2)


def test_a_first_index_may_be_known_before_there_is_a_ballot(disk: SimulatedDisk) -> None:
    """A restored log begins where it begins; its first ballot says so."""
    file = BallotFile(PATH, disk)
    file.begin_log(77)
    file.save(vote(1, None))
    loaded = BallotFile(PATH, disk).load()
    assert loaded is not None
    assert loaded.first_index == 77


def test_a_large_entry_is_announced_until_the_floor_has_passed_it(disk: SimulatedDisk) -> None:
    """Then, or when it is cut, another entry may come in its place."""
    file = BallotFile(PATH, disk)
    file.save(vote(1, None))
    file.announce_large(9, 8, b"c" * 16)
    assert file.current is not None
    assert file.current.claim == (8, b"c" * 16, 1, 9, 1)
    file.save_floor(9, b"d" * 16)
    assert file.current.claim == (9, b"d" * 16, 1, 0, 1)
    file.announce_large(10, 9, b"")
    assert (file.current.floor_chain, file.current.large_index) == (b"d" * 16, 10)
    file.write_again(9, b"d" * 16, is_end_known=False)
    assert file.current.large_index == 10
    file.write_again(9, b"d" * 16)
    assert file.current.large_index == 0
    file.announce_large(11, 10, b"e" * 16)
    file.lower_floor(4, b"f" * 16)
    assert file.current.claim == (4, b"f" * 16, 1, 0, 1)
    file.announce_large(5, 4, b"")
    file.lower_floor(4)
    assert file.current.large_index == 0


def test_a_first_save_that_finds_no_room_leaves_no_file_open(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again twice a second: else the descriptors would soon be gone."""
    closed: list[SimulatedFile] = []
    monkeypatch.setattr(SimulatedFile, "close", lambda file: closed.append(file))  # noqa: PLW0108 - bound
    ballot_file = BallotFile(PATH, disk)
    for count in range(1, 4):
        disk.fail_next["write"] = errno.ENOSPC
        with pytest.raises(NoRoomError):
            ballot_file.save(vote(1, None))
        assert count == len(closed)
    ballot_file.save(vote(1, None))
    assert 3 == len(closed)
