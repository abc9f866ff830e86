"""What a log that was begun anew has to reach."""

from __future__ import annotations

from holdfast.journal.filling import Target, begin_filling, utc

KEPT = Target(index=90, record=500, timestamp=1_000_000)
TARGET = Target(index=200, record=900, timestamp=2_000_000)


def test_a_new_log_is_full_when_it_reaches_the_leaders_end() -> None:
    """And not when it is as long as the old one: its beginning is further on."""
    filling = begin_filling(None, 120, TARGET, KEPT, ("a.segment",), 121)

    assert (KEPT, ("a.segment",)) == (filling.kept, filling.kept_files)
    assert [False, True] == [filling.is_reached(index) for index in (199, 200)]
    assert [400, 0] == [filling.missing_records(record) for record in (500, 950)]


def test_an_empty_log_leaves_nothing_to_keep() -> None:
    """A new replica; that its log is not full is noted all the same."""
    assert begin_filling(None, 120, TARGET, KEPT, (), 120).kept is None


def test_begun_anew_once_more_it_keeps_the_first_log() -> None:
    """The second was never full."""
    first = begin_filling(None, 120, TARGET, KEPT, ("a.segment",), 121)
    later = Target(index=300, record=990, timestamp=3_000_000)
    end = Target(index=150, record=700, timestamp=9)

    again = begin_filling(first, 250, later, end, ("b",), 251)

    assert (250, later, KEPT, ("a.segment",)) == (
        again.base_index,
        again.target,
        again.kept,
        again.kept_files,
    )
    assert 121 == first.origin == again.origin


def test_times_are_told_for_people() -> None:
    """In UTC, by the second."""
    assert "1970-01-01 00:00:02 UTC" == utc(2_500_000)


def test_a_time_that_no_calendar_knows_is_told_as_it_is() -> None:
    """Status and promotion tell it; it is what some leader's clock, or a peer, has said."""
    assert "9,223,372,036,854,775,807 microseconds after 1970" == utc((1 << 63) - 1)
