"""
Changes of members that are cut short: the leader that made one is cut off before it is committed.

Links are judged by the last committed members, so that whoever such a change took out still counts,
may lead, and may undo it; whom a committed change took out stays out, also after restarts.
"""

from __future__ import annotations

import pytest

from holdfast.replication.membership import Member, Membership
from holdfast.replication.message_codec import encode_message
from holdfast.replication.messages import Message
from holdfast.replication.progress import Progress
from holdfast.replication.settings import ReplicationSettings
from trials.simulation.simulated_group import SimulatedGroup, SimulatedNode

THREE = [Member(name, f"{name}:1") for name in "abc"]


def serving(seed: int) -> tuple[SimulatedGroup, SimulatedNode, list[str]]:
    """A group of three that serves, its leader, and the names of the others."""
    group = SimulatedGroup(THREE, seed=seed)
    group.start()
    group.run_until(lambda: group.leader() is not None, 5.0)
    leader = group.leader()
    assert leader is not None
    group.propose(leader.name, b"before")
    group.run(0.3)
    return group, leader, [name for name in group.nodes if name != leader.name]


def remove_cut_off(group: SimulatedGroup, leader: SimulatedNode, name: str) -> None:
    """Let the leader remove a voter, and nobody hear of it; another one leads then."""
    others = set(group.nodes) - {leader.name}
    group.partition({leader.name}, others)
    leader.driver.remove_member(name)
    group.turn(leader)
    group.run_until(lambda: group.leader() not in {None, leader}, 10.0)


def lead(group: SimulatedGroup, name: str) -> None:
    """Let this node lead, whoever does now."""
    present = group.leader()
    assert present is not None
    if present.name != name:
        present.driver.transfer(name)
        group.turn(present)
    node = group.nodes[name]
    group.run_until(lambda: group.leader() is node, 5.0)


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_removal_that_was_cut_shuts_nobody_out(seed: int) -> None:
    """
    The leader cuts its own uncommitted removal and lets the voter in that it was to shut out.
    """
    group, leader, (kept, removed) = serving(seed)
    remove_cut_off(group, leader, removed)
    lead(group, kept)
    group.heal()
    group.run(1.0)
    lead(group, leader.name)
    group.crash(removed)
    group.run(0.3)
    group.restart(removed)
    group.run(1.5)

    assert {""} == {node.fenced for node in group.nodes.values()}
    group.propose(leader.name, b"after")
    group.run(0.5)
    assert b"after" == group.nodes[removed].taken[-1]


@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_one_to_be_removed_may_lead_and_undo_it(seed: int, is_restarted: bool) -> None:
    """
    Two live voters that can reach each other go on, although one has written the other's removal.

    The third dies while the old leader is still cut off, and both may have been restarted since.
    """
    group, leader, (kept, removed) = serving(seed)
    remove_cut_off(group, leader, removed)
    lead(group, removed)
    group.crash(kept)
    if is_restarted:
        for name in (leader.name, removed):
            group.crash(name)
            group.restart(name)
    group.heal()

    group.run_until(lambda: group.leader() is not None, 10.0)

    present = group.leader()
    assert present is not None
    group.propose(present.name, b"after")
    group.run(1.0)
    assert {b"after"} == {group.nodes[name].taken[-1] for name in (leader.name, removed)}


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_committed_removal_holds_through_restarts(seed: int) -> None:
    """Nobody lets it in for good, nobody elects it, and it is told that it was shut out."""
    group, leader, (_, removed) = serving(seed)
    group.crash(removed)
    group.run(0.3)
    leader.driver.remove_member(removed)
    group.turn(leader)
    group.run(0.5)
    for node in group.nodes.values():
        if node.is_alive:
            group.crash(node.name)
    for name in group.nodes:
        group.restart(name)

    group.run_until(lambda: bool(group.nodes[removed].fenced), 10.0)

    assert "was removed or replaced" in group.nodes[removed].fenced
    assert group.leader() is not None
    assert group.leader() is not group.nodes[removed]


def test_who_is_removed_while_connected_is_told() -> None:
    """Its links last until the change is committed; then they are closed, and it hears why."""
    group, leader, (_, removed) = serving(1)
    leader.driver.remove_member(removed)
    group.turn(leader)

    group.run_until(lambda: bool(group.nodes[removed].fenced), 5.0)

    assert "was removed or replaced" in group.nodes[removed].fenced


def test_a_removed_name_that_is_added_again_needs_a_new_identity() -> None:
    """Although the name is a member's again, the identity that was removed is not taken in."""
    group, leader, (_, removed) = serving(1)
    index = leader.driver.remove_member(removed)
    group.run_until(lambda: leader.driver.commit_index >= index, 5.0)
    leader.driver.add_member(Member(removed, f"{removed}:1"))

    group.run_until(lambda: bool(group.nodes[removed].fenced), 5.0)

    views = {view.name: view for view in leader.driver.status().members}
    assert views[removed].kind == "learner"


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_voter_that_lacks_the_entry_that_names_it_votes(seed: int) -> None:
    """
    A node with an empty disk is made a voter while it is still being sent the log.

    What it has of it names the identity of the disk that was lost. Did it refuse its vote for that,
    a leader that lost its lead in this moment would need the vote for ever: it alone could send
    the rest.
    """
    settings = ReplicationSettings(append_bytes_max=1, window_bytes=1, window_requests=1)
    group = SimulatedGroup(THREE, seed=seed, settings=settings)
    group.start()
    group.run_until(lambda: group.leader() is not None, 5.0)
    leader = group.leader()
    assert leader is not None
    for number in range(100):
        group.propose(leader.name, b"%d" % number)
        group.run(0.01)
    lost, dead = (name for name in group.nodes if name != leader.name)
    group.crash(lost)
    group.wipe(lost)
    group.restart(lost)
    wiped = group.nodes[lost]
    group.run_until(lambda: kind_of(leader, lost) == "learner", 5.0)
    group.crash(dead)
    group.run_until(lambda: kind_of(leader, lost) == "voter", 5.0)
    assert wiped.journal.last_index < 90

    group.partition({leader.name}, {lost})
    group.run_until(lambda: not leader.driver.is_leader, 10.0)
    group.heal()

    group.run_until(lambda: group.leader() is leader, 20.0)
    group.run(1.0)
    assert len(wiped.taken) == 100


class SlowLink(SimulatedGroup):
    """A group of which one node is reached over a link that carries so many bytes in a second."""

    slow = "d"
    bytes_per_second = 1e6
    busy_until = 0.0

    def carry(self, source: str, target: str, message: Message) -> None:
        """Let it wait until all before it have passed."""
        if target != self.slow:
            super().carry(source, target, message)
            return
        size = sum(map(len, encode_message(message)))
        self.busy_until = max(self.busy_until, self.now) + size / self.bytes_per_second
        carry = super().carry
        self.after(self.busy_until - self.now, lambda: carry(source, target, message))


def slowest_confirm(voters: str, *, with_one_dead: bool) -> float:
    """How long commits take at worst while one more voter is added over a slow link."""
    members = [Member(name, f"{name}:1") for name in voters]
    group = SlowLink(members, seed=3, segment_bytes=1 << 21)
    group.start()
    group.run_until(lambda: group.leader() is not None, 5.0)
    leader = group.leader()
    assert leader is not None
    if with_one_dead:
        group.crash(next(name for name in voters if name != leader.name))
    for _ in range(60):
        group.propose(leader.name, bytes(100_000))
        group.run(0.02)
    added = Member("d", "d:1")
    group.nodes["d"] = SimulatedNode(group, "d", Membership((*members, added)))
    leader.driver.add_member(added)
    group.turn(leader)
    group.nodes["d"].start()
    slowest = 0.0
    while kind_of(leader, "d") != "voter" or slowest == 0.0 or group.now < 20:
        index = group.propose(leader.name, b"while it is filled")
        is_done = lambda index=index: leader.driver.commit_index >= index  # noqa: E731
        slowest = max(slowest, group.run_until(is_done, 30.0))
        group.run(0.1)
    group.checker.check_end()
    return slowest


@pytest.mark.parametrize(("voters", "with_one_dead"), [("a", False), ("abc", True)])
def test_commits_do_not_wait_for_a_new_voter_to_be_filled(voters, with_one_dead) -> None:
    """All that are there are needed once it counts: it becomes a voter when it keeps up."""
    assert slowest_confirm(voters, with_one_dead=with_one_dead) < 0.5


def test_counting_entries_alone_they_wait(monkeypatch) -> None:
    """The safeguard's ablation: sixty entries are few, and take six seconds."""
    monkeypatch.setattr(Progress, "keeps_up", property(lambda _: True, lambda *_: None))
    assert slowest_confirm("a", with_one_dead=False) > 2.0


def kind_of(leader: SimulatedNode, name: str) -> str:
    """What the leader has written that a member is."""
    views = leader.driver.status().members
    return next(view.kind for view in views if view.name == name)
