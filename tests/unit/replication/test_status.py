"""Tests of replication/status.py: what is told, and what is not guessed."""

from __future__ import annotations

import tracemalloc

import pytest

from holdfast.errors import CorruptEntryError
from holdfast.journal.journal import Journal
from holdfast.replication import leader
from holdfast.replication.state import Role
from holdfast.replication.status import (
    LEDGER_ENTRIES_MAX,
    LagLedger,
    contact_seconds,
    far_lag,
    role_name,
    view_members,
)


def test_the_lag_is_told_in_seconds_records_and_bytes() -> None:
    """Since the oldest entry that the peer lacks was appended."""
    ledger = LagLedger()
    for index, now in ((5, 10.0), (6, 11.0), (7, 12.0)):
        ledger.note(index, now, 100, first_record=index * 10)

    assert (3.0, 20, 200) == ledger.lag(5, 14.0, 80)
    assert (0.0, 0, 0) == ledger.lag(7, 14.0, 80)


def test_what_the_ledger_does_not_know_is_not_guessed() -> None:
    """A peer behind its beginning: unknown."""
    ledger = LagLedger()
    ledger.note(5, 10.0, 100, 50)

    assert (None, None, None) == ledger.lag(2, 14.0, 80)


def test_the_ledger_is_bounded() -> None:
    """The oldest lines are forgotten."""
    ledger = LagLedger()
    for index in range(1, 3 * LEDGER_ENTRIES_MAX):
        ledger.note(index, 0.0, 1, index)

    assert (None, None, None) == ledger.lag(1, 0.0, 0)
    assert 1 == ledger.lag(3 * LEDGER_ENTRIES_MAX - 2, 0.0, 3 * LEDGER_ENTRIES_MAX)[2]
    ledger.clear()
    assert (0.0, 0, 0) == ledger.lag(1, 0.0, 0)


def test_a_line_of_the_ledger_takes_few_bytes() -> None:
    """A leader of many small entries fills it within minutes: that must not look like a leak."""
    ledger = LagLedger()
    tracemalloc.start()
    for index in range(1 << 33, (1 << 33) + 10_000):
        ledger.note(index, index / 7, 1 << 32, index * 3)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 10_000 * 40


@pytest.mark.parametrize(
    ("words", "name", "expected"),
    [
        (("a", "b"), "a", "candidate"),
        (("a", "b", "w:witness"), "w", "witness"),
        (("a", "b", "d:learner"), "d", "learner"),
    ],
)
def test_roles_are_told_in_the_operators_words(member, words, name, expected) -> None:
    """A voter that knows no leader is a candidate, whatever it does inside."""
    state = member(*words, name=name).state

    assert expected == role_name(state)
    state.leader = "b"
    assert expected.replace("candidate", "follower") == role_name(state)


def test_only_the_leader_tells_lags(leading, member) -> None:
    """Everybody else says None."""
    bench = leading()
    leader.propose(bench.state, [b"x"], 1, 0)

    views = {view.name: view for view in view_members(bench.state, LagLedger())}
    assert (2, 1) == (views["b"].match_index, views["b"].lag_entries)
    followers = view_members(member().state, LagLedger())
    assert {None} == {view.match_index for view in followers}


def test_the_leaders_age_is_told(member) -> None:
    """None before it was heard, 0 on the leader itself."""
    state = member().state
    assert None is contact_seconds(state)

    state.heard_at = state.now - 2.5
    assert 2.5 == contact_seconds(state)

    state.role = Role.LEADER
    assert 0.0 == contact_seconds(state)


def test_a_lag_beyond_the_ledger_is_told_by_the_log(leading, entry_after) -> None:
    """A new leader has an empty ledger, and a learner may be hours behind: still a number each."""
    bench = leading("a", "b", "c", "d:learner")
    state = bench.state
    for _ in range(6):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    bench.store()
    last = bench.journal.last_index
    state.now = state.leader_since + 50.0

    lag = far_lag(state, LagLedger(), 3)

    seconds, records, size = lag
    assert records == last - 3
    assert size is not None
    assert (last - 3) * 6000 < size < (last - 3) * 6000 + 3 * 16384
    assert seconds == pytest.approx(50.0 + (last - 4) / 1e6)
    state.progress["d"].match_index = 3
    told = {view.name: view for view in view_members(state, LagLedger())}["d"]
    assert lag == (told.lag_seconds, told.lag_records, told.lag_bytes)


def test_a_lag_behind_the_log_is_told_from_its_beginning(leading, entry_after) -> None:
    """What is before is gone: at least so much."""
    bench = leading()
    for _ in range(6):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    bench.store()
    bench.journal.drop_before(bench.journal.segments()[2].base_index)
    first, last = bench.journal.first_index, bench.journal.last_index

    _, records, _ = far_lag(bench.state, LagLedger(), 1)

    assert records == last - first + 1


def test_a_lag_from_a_damaged_entry_on_is_not_guessed(leading, monkeypatch) -> None:
    """Until it is mended, only entries are counted."""
    bench = leading()

    def damaged(_journal, index):
        raise CorruptEntryError("rot", index=index)

    monkeypatch.setattr(Journal, "entry", damaged)
    assert (None, None, None) == far_lag(bench.state, LagLedger(), 1)
