"""When the disk counts as almost full."""

from __future__ import annotations

from holdfast.journal.settings import JournalSettings, KiB
from holdfast.journal.space import SpaceWatch


def test_it_is_low_under_the_reserve_and_ok_a_segment_above_it() -> None:
    """Between the two it stays what it was."""
    settings = JournalSettings(
        segment_bytes=16 * KiB, reserve_bytes=64 * KiB, space_check_seconds=0.0
    )
    told = iter([100 * KiB, 63 * KiB, 70 * KiB, 81 * KiB, 70 * KiB])
    watch = SpaceWatch(settings, lambda: next(told))

    states = [watch.state(float(now), is_out_of_space=False) for now in range(5)]

    assert states == ["ok", "low", "low", "ok", "ok"]


def test_it_is_looked_up_now_and_then() -> None:
    """The question to the file system costs something."""
    told = iter([1 << 40] * 2)
    settings = JournalSettings(segment_bytes=16 * KiB, space_check_seconds=1.0)
    watch = SpaceWatch(settings, lambda: next(told))

    for tenth in range(20):
        watch.state(tenth / 10, is_out_of_space=False)

    assert next(told, None) is None


def test_a_file_that_could_not_be_made_is_enough() -> None:
    """Whatever the file system says is free."""
    watch = SpaceWatch(JournalSettings(segment_bytes=16 * KiB), lambda: 1 << 40)

    assert watch.state(0.0, is_out_of_space=True) == "low"


def test_it_is_low_where_the_log_has_more_than_it_may() -> None:
    """Until there is a segment less; a disk without room is told apart."""
    settings = JournalSettings(
        segment_bytes=16 * KiB, log_bytes_max=128 * KiB, space_check_seconds=0.0
    )
    log = iter([128 * KiB, 129 * KiB, 120 * KiB, 112 * KiB, 128 * KiB, 200 * KiB])
    free = [1 << 40] * 5 + [0]
    watch = SpaceWatch(settings, lambda: free.pop(0), lambda: next(log))

    found = [
        (watch.state(float(now), is_out_of_space=False), watch.is_over_limit) for now in range(6)
    ]

    low, ok = ("low", True), ("ok", False)
    assert found == [ok, low, low, ok, ok, ("low", False)]
