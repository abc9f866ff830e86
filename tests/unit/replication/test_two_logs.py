"""A kept log goes when it is superfluous, or when there is no room and others surely have it."""

from __future__ import annotations

import pytest

from holdfast.journal.filling import Target
from holdfast.replication.two_logs import settle

TARGET = Target(index=60, record=500, timestamp=7_000_000)


def begun_anew(member, *words, name="a", is_of_voter=False):
    """A member whose log was begun anew at 50, with an older one kept, on a full disk."""
    bench = member(*words, name=name, terms=[1, 1])
    bench.state.log.begin_anew(50, 1, b"c" * 16, 450, TARGET, is_of_voter=is_of_voter)
    bench.append([1])
    bench.disk.limit(0)
    return bench


def test_a_full_log_makes_the_older_one_superfluous(member) -> None:
    """Only what is committed and stored counts."""
    bench = begun_anew(member)
    bench.disk.limit(None)
    bench.append([1] * 10)
    bench.state.commit_index = 59
    settle(bench.state)
    assert bench.journal.filling is not None
    bench.state.commit_index = 60
    settle(bench.state)
    assert bench.journal.filling is None


def test_a_voter_without_room_gives_the_older_one_up(member) -> None:
    """A witness, too: a majority has all that was in it."""
    for words, name in ((("a", "b", "c"), "a"), (("a", "b", "w:witness"), "w")):
        bench = begun_anew(member, *words, name=name)
        settle(bench.state)
        assert bench.journal.filling is not None
        assert bench.journal.filling.kept is None


@pytest.mark.parametrize("is_of_voter", [False, True])
def test_before_the_members_are_known_the_note_tells_whose_it_was(member, is_of_voter) -> None:
    """A process restarted in the middle of it has a log that does not name them."""
    bench = begun_anew(member, is_of_voter=is_of_voter)
    bench.state.own, bench.state.is_voter = None, False
    settle(bench.state)
    assert bench.journal.filling is not None
    assert is_of_voter is (bench.journal.filling.kept is None)


def test_a_learner_without_room_waits_and_tells_once(member, caplog) -> None:
    """What it keeps may be the last whole log."""
    bench = begun_anew(member, "a", "b", "l:learner", name="l")
    settle(bench.state)
    assert not caplog.records
    bench.journal.is_out_of_room = True
    for _ in range(2):
        settle(bench.state)
    assert bench.journal.filling is not None
    assert bench.journal.filling.kept is not None
    assert 1 == caplog.text.count("holdfast store give-up-older")
