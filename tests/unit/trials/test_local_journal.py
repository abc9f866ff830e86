"""The journal for tests keeps an honest account of what was reported stored."""

from __future__ import annotations

from trials.simulation.local_journal import LocalJournal


def test_only_what_was_reported_counts_as_stored() -> None:
    """A staged entry is no stored one until the writer says so."""
    log = LocalJournal()
    job = log.stage(b"x")
    assert log.stored == {}
    log.perform(job)
    assert list(log.stored) == [1]


def test_what_is_cut_off_does_not_count_any_more() -> None:
    """After a truncation nobody may hold the journal to what it cut."""
    log = LocalJournal()
    for _ in range(3):
        log.append(b"x")
    log.truncate(1)
    assert list(log.stored) == [1]


def test_it_lives_through_stops_and_power_cuts() -> None:
    """Reopened in either way, it goes on where it was."""
    log = LocalJournal()
    entry = log.append(b"x", term=3)
    assert log.reopen().entry(1) == entry
    assert log.reopen_after_power_cut().entry(1) == entry
    assert log.append(b"y").term == 3
    assert log.segment_path().name.endswith(".segment")
