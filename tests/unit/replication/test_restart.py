"""
Tests of replication/restart.py: what a member knows when its process begins.

Over a whole driver, so that what is known is seen by what the member then says and does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from desk import NAMED, Desk, alone

from holdfast.errors import BallotLostError, StoreError
from holdfast.journal.ballot import Ballot
from holdfast.journal.entry import FIRST_CHAIN, KIND_CONFIG, seal_entry
from holdfast.replication.formation import Refusal
from holdfast.replication.membership import Member, Membership, encode_membership
from holdfast.replication.messages import AppendRequest, AppendResponse, PreVoteRequest
from trials.simulation.simulated_disk import SimulatedDisk
from trials.simulation.simulated_group import SeededRandomness


def test_a_restarted_node_knows_who_it_is() -> None:
    """Identity, cluster and term come from the disk; a term is never used twice."""
    first = alone()
    before = first.driver.status()
    first.disk.locks.clear()

    again = Desk(Membership(()), first.disk)
    again.store()
    after = again.driver.status()

    assert (before.node_id, before.cluster_id) == (after.node_id, after.cluster_id)
    assert after.term > before.term


def test_a_single_node_without_its_ballot_says_so(monkeypatch) -> None:
    """
    It got another identity, which the log does not name: it waited for ever, and told nobody.
    """
    first = alone()
    first.disk.locks.clear()
    first.disk.unlink(Path("/data/ballot"))
    monkeypatch.setattr(SeededRandomness, "bytes", lambda _self, count: bytes([7] * count))

    for _ in range(2):  # The first one has written a new ballot.
        with pytest.raises(BallotLostError, match="restore the file `ballot`, or make a new data"):
            Desk(Membership(()), first.disk)
        first.disk.locks.clear()


def test_who_replaces_a_single_node_under_its_name_starts_while_it_is_being_filled(
    monkeypatch,
) -> None:
    """
    What it has of the log names that node alone, under the identity it had before its disk was
    emptied: it was told that its ballot was lost, at every start, and never came to be filled.
    """
    first = alone()
    entries = first.journal.entries(1, 1 << 20)
    monkeypatch.setattr(SeededRandomness, "bytes", lambda _self, count: bytes([7] * count))
    named = Membership((Member("a", "a:1"), Member("far", "far:1")))
    cluster_id = first.driver.status().cluster_id
    filled = Desk(named)
    filled.link("far", cluster_id=cluster_id)
    filled.driver.receive("far", AppendRequest(9, 0, 0, FIRST_CHAIN, 0, 0, 0.0, entries))
    filled.turn()
    filled.store()
    filled.disk.power_cut()

    again = Desk(named, filled.disk)
    again.link("far", cluster_id=cluster_id)
    own = Member("a", "a:1", "learner", node_id=again.driver.status().node_id)
    taken_in = Membership((own, Member("far", "far:1")), cluster_id)
    last = entries[-1]
    entry = seal_entry(
        index=last.index + 1,
        term=9,
        kind=KIND_CONFIG,
        timestamp=last.timestamp,
        first_record=again.journal.next_record_number,
        record_count=0,
        parts=[encode_membership(taken_in)],
        previous_chain=last.chain,
    )
    follows = AppendRequest(9, last.index, last.term, last.chain, 0, 0, 0.0, [entry])
    again.driver.receive("far", follows)
    again.turn()
    again.store()

    answer = again.take_sent(AppendResponse)[-1]
    assert (entry.index, entry.chain) == (answer.match_index, answer.match_chain)
    assert ["a", "far"] == [it.name for it in again.driver.status().members]


def test_a_node_that_cannot_keep_who_it_is_says_where() -> None:
    """
    On a full disk a first start ended with nothing but the system's own word for it.
    """
    disk = SimulatedDisk(1)
    disk.limit(0)
    with pytest.raises(StoreError, match="/data/ballot cannot be written"):
        Desk(Membership(()), disk)


@pytest.mark.parametrize("is_refused", [False, True], ids=["told", "refused"])
def test_a_node_that_was_shut_out_knows_that_when_it_is_started_again(is_refused: bool) -> None:
    """
    Others of before may be started again with it, while those that go on are down: together they
    were a majority once. Whoever promotes it after all begins a later generation.
    """
    first = Desk().form()
    if is_refused:
        refusal = Refusal("generation 5 rules", is_fenced=True, generation=5)
        first.driver.refused("b", refusal)
    else:
        cluster_id = first.driver.status().cluster_id
        hello = first.link("b", cluster_id=cluster_id, generation=5, kept=("bb" * 16,))
        first.driver.receive("b", hello)
    first.turn()
    first.store()
    assert first.fenced
    first.disk.locks.clear()

    again = Desk(disk=first.disk)
    for name in "bc":
        again.link(name, cluster_id=again.driver.status().cluster_id)
    again.turn(after=60)
    again.store()

    assert [] == again.take_sent(PreVoteRequest)
    assert again.driver.status().is_cut_short
    again.driver.promote_force()
    again.turn()
    again.store()
    assert (6, True) == (again.driver.generation, again.driver.is_leader)


def test_who_was_shut_out_before_it_had_any_members_in_its_log_says_so(caplog) -> None:
    """A member that was still being filled: else it would seem to wait for a cluster to form."""
    first = Desk()
    ballot = first.journal.ballot_file.current
    shut_out = replace(ballot, cluster_id=bytes(16), generation=1, is_shut_out=True)
    first.journal.ballot_file.save(shut_out)
    first.disk.locks.clear()

    again = Desk(disk=first.disk)

    assert again.driver.status().members == ()
    assert again.driver.status().is_cut_short
    assert "it was shut out, or ended as an older copy" in caplog.text


def test_it_says_from_the_first_moment_that_it_was_shut_out(monkeypatch) -> None:
    """A link may be made before the first turn; as a new member it would be taken in, and cut."""
    first = Desk().form()
    first.driver.refused("b", Refusal("generation 5 rules", is_fenced=True, generation=5))
    first.turn()
    first.store()
    first.disk.locks.clear()

    monkeypatch.setattr(Desk, "turn", lambda *_: None)
    hello = Desk(disk=first.disk).driver.hello

    assert (True, 5) == (hello.shut_out, hello.generation)
    assert hello.voters and hello.members


def test_a_term_in_the_log_is_never_forgotten() -> None:
    """Even if the ballot is older than the log, the term goes on from the higher of the two."""
    desk = alone()
    disk, term = desk.disk, desk.driver.term
    ballot = desk.journal.ballot_file.current
    desk.journal.ballot_file.save(Ballot(node_id=ballot.node_id, cluster_id=ballot.cluster_id))
    disk.locks.clear()

    again = Desk(Membership(()), disk)

    assert again.driver.term >= term


@pytest.mark.promise("F23")
def test_a_ballot_older_than_the_log_is_not_believed() -> None:
    """The ballot alone was replaced; alone there is nobody whose votes could be contradicted."""
    for bootstrap, is_refused in ((NAMED, True), (Membership(()), False)):
        desk = alone()
        old = desk.journal.ballot_file.current
        desk.journal.ballot_file.save(replace(old, term=desk.journal.last_term - 1))
        desk.disk.locks.clear()

        if is_refused:
            with pytest.raises(BallotLostError, match="an older copy of itself"):
                Desk(bootstrap, desk.disk)
        else:
            Desk(bootstrap, desk.disk)


def test_a_new_identity_on_an_old_log_knows_its_term() -> None:
    """The ballot was lost, the log was not: the new ballot is not older than the log."""
    desk = alone()
    desk.disk.locks.clear()
    desk.disk.unlink(Path("/data/ballot"))

    again = Desk(disk=desk.disk)

    assert again.journal.last_term == again.journal.ballot_file.current.term


def test_a_promotion_that_was_cut_short_is_told(caplog) -> None:
    """Its generation is on disk, its members are not: the node stands for nothing, and says why."""
    first = Desk().form()
    first.turn(after=5)
    first.driver.promote_force()
    ballot_only = first.jobs
    first.turn()
    first.writer.turn(ballot_only)
    first.disk.locks.clear()

    again = Desk(disk=first.disk)
    again.take_sent()
    again.turn(after=60)
    again.store()

    assert again.driver.status().is_cut_short
    assert (1, False) == (again.driver.generation, again.driver.is_leader)
    assert (
        "a promotion was cut short here. It waits for whoever leads that generation" in caplog.text
    )
    assert () == again.driver.hello.kept
