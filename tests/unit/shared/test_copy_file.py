"""A copy in the making in a directory: its own page in `store`, and one rename at the end."""

from __future__ import annotations

from contextlib import suppress

import pytest

from holdfast.errors import StoreError
from holdfast.shared import copy_file
from holdfast.shared.store_file import Origin, find_or_lay_out
from tests.stores.copied_log_suite import ANCHOR, entries_behind, plan_of
from trials.simulation.local_share import PLACES
from trials.simulation.simulated_disk import PowerCut
from trials.simulation.simulated_share import SimulatedSharedDisk

PLAN = plan_of(entries_behind(ANCHOR))
STEPS = range(1, 20)


def draw(seed: int) -> object:
    return lambda size: bytes([seed]) * size


def begin(disk: SimulatedSharedDisk, seed: int = 1) -> tuple[Origin, bool]:
    return copy_file.begin(disk, PLACES, PLAN, draw(seed))


def find(disk: SimulatedSharedDisk, seed: int = 7) -> Origin:
    return find_or_lay_out(disk, PLACES, draw(seed))


def test_it_says_where_it_begins_and_is_no_log() -> None:
    """Who copies finds its beginning as often as it asks, also after the power failed."""
    disk = SimulatedSharedDisk()
    origin, is_half = begin(disk)
    assert is_half
    assert (origin.identity, origin.epoch_before) == (PLAN.identity, PLAN.epoch_before)
    assert (origin.place, origin.term, origin.first_index) == (PLAN.begins_behind, 3, ANCHOR.index)
    disk.power_cut()
    assert begin(disk, 2) == (origin, True)
    with pytest.raises(StoreError, match="/share has a copy that is not whole"):
        find(disk)

    copy_file.finish(disk, PLACES, origin, draw(3))
    copy_file.finish(disk, PLACES, origin, draw(4))
    disk.power_cut()
    assert find(disk) == origin
    assert begin(disk) == (origin, False)


def test_a_beginning_that_is_cut_off_can_be_begun_again() -> None:
    """Whatever step the power fails in: the same command goes on."""
    for stop in STEPS:
        disk = SimulatedSharedDisk(seed=stop)
        disk.cut_at = stop
        try:
            begin(disk)
        except PowerCut:
            disk.power_cut()
        disk.cut_at = 0

        origin, is_half = begin(disk, 2)
        assert is_half
        assert origin.identity == PLAN.identity


def test_an_end_that_is_cut_off_can_be_ended_again() -> None:
    """Whatever step the power fails in, it is a copy to be finished, or a log."""
    for stop in STEPS:
        disk = SimulatedSharedDisk(seed=stop)
        origin, _ = begin(disk)
        disk.sync_directory(PLACES.root)
        disk.cut_at = disk.operations + stop
        try:
            copy_file.finish(disk, PLACES, origin, draw(3))
        except PowerCut:
            disk.power_cut()
        disk.cut_at = 0

        found, is_half = begin(disk, 2)
        assert found == origin
        if is_half:
            copy_file.finish(disk, PLACES, origin, draw(4))
        assert find(disk) == origin


def test_a_broker_between_any_two_steps_is_never_let_into_a_copy() -> None:
    """Of a copy that begins and a broker that starts one is refused at least, whoever was first."""
    outcomes = set()
    for stop in STEPS:
        disk = SimulatedSharedDisk()
        told: list[Origin | StoreError] = []

        def interfere(
            disk: SimulatedSharedDisk = disk,
            stop: int = stop,
            told: list[Origin | StoreError] = told,
        ) -> None:
            if disk.operations == stop:
                disk.before_step = lambda: None
                try:
                    told.append(find(disk))
                except StoreError as error:
                    told.append(error)

        disk.before_step = interfere
        is_begun = False
        with suppress(StoreError):
            is_begun = begin(disk)[1]
        is_served = bool(told) and isinstance(told[0], Origin)

        assert not (is_begun and is_served), stop
        outcomes.add((is_begun, is_served))
    assert outcomes == {(True, False), (False, True)}


def test_a_copy_between_any_two_steps_of_a_broker_is_not_let_into_its_log() -> None:
    """The same the other way round."""
    outcomes = set()
    for stop in STEPS:
        disk = SimulatedSharedDisk()
        begun: list[bool] = []

        def interfere(
            disk: SimulatedSharedDisk = disk, stop: int = stop, begun: list[bool] = begun
        ) -> None:
            if disk.operations == stop:
                disk.before_step = lambda: None
                with suppress(StoreError):
                    begun.append(begin(disk)[1])

        disk.before_step = interfere
        is_served = False
        with suppress(StoreError):
            find(disk)
            is_served = True

        assert not (begun == [True] and is_served), stop
        outcomes.add((begun == [True], is_served))
    assert outcomes == {(True, False), (False, True)}
