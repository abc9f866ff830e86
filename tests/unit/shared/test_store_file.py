"""What a directory is: laid out once, and refused if it is something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.shared.page import STORE
from holdfast.shared.store_file import find_or_lay_out
from trials.simulation.local_share import PLACES
from trials.simulation.simulated_disk import PowerCut
from trials.simulation.simulated_share import SimulatedSharedDisk


@pytest.fixture
def disk() -> SimulatedSharedDisk:
    return SimulatedSharedDisk()


def find(disk: SimulatedSharedDisk, seed: int = 1) -> str:
    return find_or_lay_out(disk, PLACES, lambda size: bytes([seed]) * size).identity


def test_who_comes_later_finds_the_same(disk: SimulatedSharedDisk) -> None:
    """The first one chooses the id; all others read it, also after the power failed."""
    assert find(disk, 1) == "01" * 16
    assert find(disk, 2) == "01" * 16
    disk.power_cut()
    assert find(disk, 3) == "01" * 16


def test_two_that_start_at_once_find_the_same(disk: SimulatedSharedDisk) -> None:
    """Between any two steps of the first one a second one may lay it out: one id remains."""
    for stop in range(1, 12):
        disk = SimulatedSharedDisk()
        others: list[str] = []

        def interfere(
            disk: SimulatedSharedDisk = disk, stop: int = stop, others: list[str] = others
        ) -> None:
            if disk.operations == stop:
                disk.before_step = lambda: None
                others.append(find(disk, 2))

        disk.before_step = interfere
        found = find(disk, 1)

        assert others in ([], [found])
        assert find(disk, 3) == found


def test_a_start_that_is_cut_off_can_be_done_again(disk: SimulatedSharedDisk) -> None:
    """Whatever step the power fails in, the next start lays it out, or finds it laid out."""
    for stop in range(1, 12):
        disk = SimulatedSharedDisk(seed=stop)
        disk.cut_at = stop
        try:
            find(disk, 1)
        except PowerCut:
            disk.power_cut()

        assert find(disk, 2) in {"01" * 16, "02" * 16}


def test_a_directory_with_something_else_is_left_alone(disk: SimulatedSharedDisk) -> None:
    """A journal, or anything, is named and not touched."""
    disk.make_directory(PLACES.root)
    disk.open(PLACES.root / "ballot", create=True)

    with pytest.raises(StoreError, match=r"/share is no shared log and is not empty .'ballot'"):
        find(disk)

    assert disk.list_directory(PLACES.root) == ["ballot"]


def test_a_store_file_that_went_is_not_made_anew(disk: SimulatedSharedDisk) -> None:
    """Where a log was, nobody begins another one beside what is left of it."""
    find(disk)
    disk.open(PLACES.lease / "claim-1", create=True)
    disk.unlink(PLACES.store)

    with pytest.raises(UnreachableError, match=r"store cannot be seen, and 'lease/claim-1'"):
        find(disk)


def test_damage_and_other_formats_are_refused_by_name(disk: SimulatedSharedDisk) -> None:
    """The sentence says which file it is and what to do."""
    find(disk)
    disk.replace_content(PLACES.store, STORE.encode({"format": 7, "log": "0" * 32}))
    with pytest.raises(StoreError, match="/share has format 7, and this program knows 1"):
        find(disk)

    disk.flip_bit(PLACES.store, 800)
    with pytest.raises(StoreError, match="/share/store is damaged, or is not of Holdfast"):
        find(disk)


def test_a_missing_directory_is_made(disk: SimulatedSharedDisk) -> None:
    """The folder itself need not be there."""
    assert find(disk)
    assert disk.exists(Path("/share/journal"))
