"""A witness keeps what a data voter may need, and says when its disk is almost full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.journal.journal import Journal
from holdfast.replication.messages import Hello
from holdfast.replication.trimming import trim, with_space


@pytest.fixture
def witness(member, entry_after):
    """A witness that follows, with a log of some segments, all of it committed."""
    bench = member("a", "b", "w:witness", name="w")
    for _ in range(6):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    bench.store()
    bench.state.commit_index = bench.state.config_index = bench.journal.last_index
    return bench


def test_what_the_leader_says_nobody_needs_goes(witness) -> None:
    """By whole segments."""
    second = witness.journal.segments()[1].base_index
    witness.state.data_match = second + 1

    trim(witness.state, witness.journal)

    assert second == witness.journal.first_index


@pytest.mark.parametrize("bound", ["commit_index", "config_index"])
def test_what_is_not_committed_or_names_the_members_stays(witness, bound: str) -> None:
    """Whatever the leader says."""
    witness.state.data_match = witness.journal.last_index
    setattr(witness.state, bound, 1)

    trim(witness.state, witness.journal)

    assert 1 == witness.journal.first_index


def test_who_may_yet_be_no_witness_drops_nothing(witness) -> None:
    """Another leader cuts the change and takes the same node in as a voter, with this log."""
    state = witness.state
    members = tuple(it for it in state.membership.members if it.name != "w")
    before = replace(state.membership, members=members)
    last = witness.journal.last_index
    state.adopt(before.changed(state.membership.members, 1), last)
    state.commit_index = state.data_match = last - 1

    trim(state, witness.journal)
    assert 1 == witness.journal.first_index

    state.commit_index = last
    trim(state, witness.journal)
    assert 1 < witness.journal.first_index


def test_a_disk_that_is_almost_full_is_told_once_and_taken_back(
    witness, monkeypatch, caplog
) -> None:
    """The leader must know before it is full, and the operator too."""
    state, hello = witness.state, Hello("w", "00" * 16)
    space = ["ok", "low", "low", "ok"]
    monkeypatch.setattr(Journal, "space_state", lambda *_: space.pop(0))

    told = []
    for _ in range(4):
        renewed = with_space(state, witness.journal, hello)
        told.append((renewed.space_low, renewed is hello))
        hello = renewed

    assert [(False, True), (True, False), (True, True), (False, False)] == told
    assert 1 == caplog.text.count("almost full")
