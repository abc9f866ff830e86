"""Tests of replication/status.py: what is told, and what is not guessed."""

from __future__ import annotations

import tracemalloc

import pytest

from holdfast.replication import leader
from holdfast.replication.state import Role
from holdfast.replication.status import (
    LEDGER_ENTRIES_MAX,
    LagLedger,
    contact_seconds,
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

    state.leader, state.leader_contact_at = "b", state.now - 2.5
    assert 2.5 == contact_seconds(state)

    state.role = Role.LEADER
    assert 0.0 == contact_seconds(state)
