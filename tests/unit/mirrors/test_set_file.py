"""The file `mirror-set`: two slots, of which the newer good one counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import MirrorError
from holdfast.mirrors.mirror_set import Acceptance, MirrorSet, Number
from holdfast.mirrors.set_file import (
    FILE_NAME,
    SLOT_BYTES,
    WrittenSet,
    decode_slot,
    encode_slot,
    read_set,
    write_set,
)
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

HERE = Path("/a")

KNOWN = MirrorSet(
    "5e7",
    (("a", "active"), ("b", "failed")),
    Number(3, 7),
    (frozenset("ab"), frozenset("abc")),
    4,
    (Acceptance("m", Number(1, 2)),),
)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(HERE)
    return disk


def test_what_is_written_is_read() -> None:
    """Every field comes back, places too."""
    written = WrittenSet("a", KNOWN, {"b": "/mnt/b"}, 9)
    assert decode_slot(encode_slot(written)) == written


def test_damaged_slot_is_none() -> None:
    """One bit is enough; so is a slot that is cut short."""
    slot = bytearray(encode_slot(WrittenSet("a", KNOWN)))
    slot[200] ^= 1
    assert decode_slot(bytes(slot)) is None
    assert decode_slot(b"") is None


def test_power_cut_leaves_the_one_before(disk: SimulatedDisk) -> None:
    """Whatever of the second write is lost, the first one is there."""
    for cut in (1, 2):
        write_set(HERE, disk, WrittenSet("a", KNOWN, {}, 2))
        disk.cut_at = disk.operations + cut
        with pytest.raises(PowerCut):
            write_set(HERE, disk, WrittenSet("a", KNOWN, {}, 3))
        disk.power_cut()
        found = read_set(HERE, disk)
        assert found is not None
        assert found.sequence in (2, 3)
        assert found.known == KNOWN


def test_directory_without_the_file_is_no_mirror(disk: SimulatedDisk) -> None:
    """An ordinary data directory has none."""
    assert read_set(HERE, disk) is None


def test_both_slots_bad_is_told(disk: SimulatedDisk) -> None:
    """Nobody knows then whether this mirror has everything."""
    write_set(HERE, disk, WrittenSet("a", KNOWN, {}, 2))
    disk.replace_content(HERE / FILE_NAME, b"\xff" * 2 * SLOT_BYTES)
    with pytest.raises(MirrorError, match="both slots of /a/mirror-set are unreadable"):
        read_set(HERE, disk)


def test_file_of_zeros_was_never_written(disk: SimulatedDisk) -> None:
    """The process ended before the first slot was durable."""
    disk.open(HERE / FILE_NAME, create=True)
    assert read_set(HERE, disk) is None


def test_set_that_is_too_large_is_refused() -> None:
    """A slot has room for a history of some length, and says so at its end."""
    many = tuple(Acceptance("m" * 16, Number(n, 1)) for n in range(200))
    with pytest.raises(MirrorError, match="no room for"):
        encode_slot(WrittenSet("a", MirrorSet("s", (("a", "active"),), accepted=many)))
