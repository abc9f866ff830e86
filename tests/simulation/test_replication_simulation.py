"""
Replication under trouble from a seed: delays, loss, partitions, pauses, kills, power cuts.

Every run has two phases: chaos, in which only safety is asked for, and healing, after which there
must be a leader and everybody must catch up. A failure names its seed; `run_seed(SEED)` repeats it.
The ablations switch one safeguard off and must be found out: a checker that finds nothing when
something is wrong proves nothing when all is well.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable

import pytest

from holdfast.errors import HoldfastError, LogDivergedError
from holdfast.journal.kept_log import give_up_older
from holdfast.replication import follower, leader, voting
from holdfast.replication.membership import Member
from holdfast.replication.outgoing import Outgoing
from holdfast.replication.settings import ReplicationSettings
from holdfast.replication.state import State
from trials.simulation.simulated_group import (
    DIRECTORY,
    SimulatedGroup,
    SimulatedNode,
    Trouble,
    ViolationError,
)

SEEDS = int(os.environ.get("HOLDFAST_SEEDS", "12"))
FIRST_SEED = int(os.environ.get("SEED", "1"))
CHAOS_STEPS = 60

THREE = [Member(name, f"{name}:1") for name in "abc"]
WITNESS = [Member("a", "a:1"), Member("b", "b:1"), Member("w", "w:1", "witness")]
TWO = [Member("a", "a:1"), Member("b", "b:1")]
FIVE = [
    Member("a", "a:1", site="east"),
    Member("b", "b:1", site="east"),
    Member("c", "c:1", site="west"),
    Member("d", "d:1", site="west"),
    Member("w", "w:1", "witness", site="north"),
]
TOPOLOGIES = {"three": THREE, "witness": WITNESS, "two": TWO, "five": FIVE}
BAD = {
    "delay_seconds_min": 0.0002,
    "delay_seconds_max": 0.02,
    "loss": 0.02,
    "doubled": 0.02,
    "late": 0.03,
    "sync_seconds_min": 0.0005,
    "sync_seconds_max": 0.03,
}


def hurt(group: SimulatedGroup, chance: random.Random, *, power: bool) -> None:
    """One misfortune, or one recovery from an earlier one."""
    name = chance.choice(list(group.nodes))
    node = group.nodes[name]
    what = chance.randrange(10)
    if what == 0 and node.is_alive:
        group.crash(name)
    elif what == 1 and node.is_alive and power:
        group.crash(name, power=True)
    elif what == 2 and node.is_alive and power:
        node.disk.cut_at = node.disk.operations + chance.randrange(1, 6)
    elif what == 3:
        names = list(group.nodes)
        chance.shuffle(names)
        group.partition(set(names[: chance.randrange(1, len(names))]))
    elif what == 4:
        group.heal()
    elif what == 5 and node.is_alive:
        group.pause(name)
    elif what == 6 and node.is_paused:
        group.resume(name)
    elif what == 7 and node.is_alive and not node.is_paused and node.driver.is_leader:
        with contextlib.suppress(HoldfastError):
            node.driver.transfer()
    else:
        for other in group.nodes:
            if not group.nodes[other].is_alive and chance.random() < 0.7:
                group.restart(other)


def chaos(group: SimulatedGroup, steps: int, *, power: bool = True) -> None:
    """Trouble, while every node that thinks it leads takes proposals."""
    chance = random.Random(group.seed * 7919)
    number = 0
    for _ in range(steps):
        if chance.random() < 0.35:
            hurt(group, chance, power=power)
        for name, node in group.nodes.items():
            if node.is_alive and not node.is_paused and node.driver.is_serving:
                for _ in range(chance.randrange(3)):
                    number += 1
                    group.propose(name, b"%d." % number + bytes(chance.randrange(2000)))
        group.run(chance.choice((0.002, 0.02, 0.2, 0.7)))


def lose_disk(group: SimulatedGroup) -> None:
    """One node comes back with an empty disk; it must be taken in again, as somebody new."""
    name = sorted(group.nodes)[group.seed % len(group.nodes)]
    group.crash(name)
    group.wipe(name)


def heal(group: SimulatedGroup) -> None:
    """End all trouble; a leader must come and everybody must catch up."""
    group.trouble = Trouble()
    for name, node in group.nodes.items():
        node.disk.cut_at = 0
        if node.is_alive and node.is_paused:
            group.resume(name)
        group.restart(name)
    group.heal()
    group.run_until(lambda: group.leader() is not None, 15)
    # What was late in the chaos may still arrive and depose a leader once more.
    group.run(2)
    group.run_until(lambda: group.leader() is not None, 15)
    found = group.leader()
    assert found is not None
    index = group.propose(found.name, b"last")
    group.run_until(lambda: index in group.checker.committed, 5)
    group.run(3)
    group.checker.check_end()


def run_seed(
    seed: int,
    members: list[Member] = THREE,
    steps: int = CHAOS_STEPS,
    settings: ReplicationSettings | None = None,
    *,
    is_disk_lost: bool = False,
    **trouble: float,
) -> SimulatedGroup:
    """Run one seed to its end; raises ViolationError, or any error a process would die of."""
    group = SimulatedGroup(members, seed=seed, settings=settings)
    group.start()
    group.run(0.6)
    group.trouble = Trouble(**{**BAD, **trouble})
    chaos(group, steps)
    if is_disk_lost:
        lose_disk(group)
        chaos(group, steps)
    if any(node.driver.status().damaged for node in group.nodes.values()):
        raise ViolationError("a power cut left what recovery takes for damage")
    heal(group)
    return group


@pytest.mark.slow
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_nothing_committed_is_lost(seed: int, topology: str) -> None:
    """Under any trouble of one seed, all safety checks hold, and after it the group recovers."""
    settings = ReplicationSettings(sites=2) if topology == "five" else None

    group = run_seed(seed, TOPOLOGIES[topology], settings=settings)

    assert group.checker.confirmed


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["three", "witness", "five"])
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_a_lost_disk_loses_nothing(seed: int, topology: str) -> None:
    """In the middle of the trouble one node loses its whole disk; nothing committed is lost."""
    group = run_seed(seed, TOPOLOGIES[topology], is_disk_lost=True)

    assert group.checker.confirmed


# Ablations: one safeguard off, and the checkers must notice. -------------------------------------


def is_found(seeds: range, play: Callable[[int], object] = run_seed) -> bool:
    """Whether any of the seeds breaks a promise, or makes a node halt over one."""
    for seed in seeds:
        try:
            play(seed)
        except (ViolationError, LogDivergedError, AssertionError):
            return True
    return False


@pytest.mark.slow
def test_acknowledging_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that answers for what is not yet durable is found out."""
    monkeypatch.setattr(follower, "durable_match", lambda state: state.matched_index)

    assert is_found(range(1, 10))


def step_until(group: SimulatedGroup, condition: Callable[[], bool]) -> None:
    """Go on in small steps until something holds, for a second at most."""
    for _ in range(5000):
        if condition():
            return
        group.run(0.0002)


def let_stand(group: SimulatedGroup, name: str) -> None:
    """Let this node be the next to stand for election."""
    group.run(0.01)
    for other in group.nodes.values():
        other.driver._state.await_leader()
    group.nodes[name].driver._state.election_deadline = group.now


def storm(seed: int) -> None:
    """
    Election after election among two that cannot hear each other, and a third that votes.

    The power of the third fails as soon as it made somebody leader; what it remembers of its vote
    decides whether the other can be elected in the same term.
    """
    trouble = Trouble(sync_seconds_min=0.005, sync_seconds_max=0.04)
    group = SimulatedGroup(THREE, seed=seed, trouble=trouble)
    group.start()
    group.run(1)
    chance = random.Random(seed)
    for _ in range(6):
        swing, one, other = chance.sample("abc", 3)
        for name in (swing, one, other):
            group.crash(name)
            group.restart(name)
        group.cut = {(one, other), (other, one)}
        let_stand(group, one)
        term = max(group.checker.leaders, default=0)
        step_until(group, lambda t=term: max(group.checker.leaders, default=0) > t)
        group.partition({one}, {other, swing})
        group.crash(swing, power=True)
        group.restart(swing)
        group.run(3)
        group.heal()
        group.run(0.5)
    heal(group)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_a_storm_of_elections_breaks_nothing(seed: int) -> None:
    """Votes and terms survive power cuts between a ballot and its answer."""
    storm(seed)


@pytest.mark.slow
def test_voting_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote that leaves before the ballot is durable elects two leaders in one term."""
    send = Outgoing.send

    def send_at_once(self: Outgoing) -> None:
        ballot = self._ballot
        job, ballot.job = ballot.job, None
        send(self)
        ballot.job = job

    monkeypatch.setattr(Outgoing, "send", send_at_once)

    assert is_found(range(1, 200), storm)


def figure_eight(seed: int) -> None:
    """
    Raft's figure 8: an entry of an old term reaches a majority and is overwritten all the same.

    One entry travels at a time, so that the old one is on two of three while the new one is not.
    """
    settings = ReplicationSettings(append_bytes_max=1, window_bytes=1, window_requests=1)
    group = SimulatedGroup(THREE, seed=seed, settings=settings)
    nodes = group.nodes
    group.start()
    group.run_until(lambda: group.leader() is not None, 5)
    found = group.leader()
    assert found is not None
    one, two, three = found.name, *sorted(set(nodes) - {found.name})
    group.run(0.3)

    group.partition({one}, {two, three})
    old = group.propose(one, b"of an old term")
    group.run(0.05)
    group.crash(one)
    let_stand(group, two)
    step_until(group, lambda: nodes[two].driver.is_leader)
    group.partition({two}, {one, three})
    group.run(0.05)
    group.crash(two)

    group.heal()
    group.restart(one)
    let_stand(group, one)  # and learn the term that it missed
    let_stand(group, one)
    step_until(group, lambda: nodes[three].journal.durable_index >= old)
    group.run(0.0007)
    group.partition({one}, {two, three})
    group.run(0.05)
    if nodes[three].journal.last_index != old:
        pytest.fail("the story went another way")
    group.crash(one)
    group.restart(two)
    let_stand(group, two)
    step_until(group, lambda: nodes[two].driver.is_leader)
    group.run(0.5)
    heal(group)


def test_an_old_terms_entry_is_not_committed_by_counting() -> None:
    """The story of figure 8 ends well, because its entry was never called committed."""
    figure_eight(1)


def test_counting_an_old_terms_entry_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that commits old entries by counting copies sees one of them overwritten."""

    def advance_commit(state: State) -> None:
        state.commit_index = max(state.commit_index, leader.committable(state))

    monkeypatch.setattr(leader, "advance_commit", advance_commit)

    assert is_found(range(1, 3), figure_eight)


@pytest.mark.slow
def test_voting_for_a_shorter_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that does not compare logs helps to overwrite what is committed."""
    monkeypatch.setattr(voting, "_is_complete", lambda *_arguments: True)

    assert is_found(range(1, 60))


@pytest.mark.slow
def test_committing_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that counts only itself is found out at its first commit."""
    monkeypatch.setattr(leader, "committable", lambda state: state.log.journal.stored_index)

    assert is_found(range(1, 5))


def left_behind(
    *, is_learner: bool = False, **settings: int
) -> tuple[SimulatedGroup, SimulatedNode, SimulatedNode]:
    """
    Return a group, its leader, and a node that was down while the log turned over.

    The new log will take 450 KiB, the old one takes 500; there is room for 300.
    """
    members = [Member(name, f"{name}:1") for name in "abc"]
    if is_learner:
        members.append(Member("l", "l:1", "learner"))
    group = SimulatedGroup(members, seed=3, settings=ReplicationSettings(**settings))
    group.start()
    group.run_until(lambda: group.leader() is not None, 10)
    leading = group.leader()
    assert leading is not None
    others = [node for name, node in group.nodes.items() if name != leading.name]
    behind = others[-1] if is_learner else others[0]
    for count in range(160):
        if count == 80:
            group.crash(behind.name)
        group.propose(leading.name, bytes([count]) * 6000)
        group.run(0.02)
    leading.driver.repropose_config()
    group.turn(leading)
    group.run(1)
    for node in group.nodes.values():
        if node is not behind:
            node.journal.drop_before(112)
    behind.disk.limit(300 * 1024)
    return group, leading, behind


def test_a_voter_without_room_for_two_logs_begins_anew() -> None:
    """It was down for so long that it must, and its disk is almost full of its old log."""
    group, leading, behind = left_behind()

    group.restart(behind.name)
    group.run(10)

    assert behind.journal.failure is None
    assert leading.journal.last_index == behind.journal.stored_index
    assert behind.journal.filling is None


def test_a_voter_knows_after_a_restart_that_it_may_give_its_old_log_up() -> None:
    """What it has of the new log does not name the members yet, and there is no room for more."""
    group, leading, behind = left_behind(window_bytes=20_000, append_bytes_max=10_000)
    behind.disk.limit(None)

    def is_begun() -> bool:
        journal = behind.journal
        return journal.filling is not None and 112 <= journal.durable_index < 160

    group.restart(behind.name)
    group.run_until(is_begun, 10)
    assert is_begun()
    group.crash(behind.name)
    behind.disk.limit(0)
    group.restart(behind.name)
    assert behind.driver.config_index == 0
    group.run(10)

    assert leading.journal.last_index == behind.journal.stored_index
    assert behind.journal.filling is None


def test_a_learner_without_room_for_two_logs_waits_and_tells() -> None:
    """Its old log may be the last whole one: it goes when somebody says so, and not before."""
    group, leading, behind = left_behind(is_learner=True)
    group.restart(behind.name)
    group.run(10)

    assert behind.is_alive
    assert behind.journal.failure is None
    assert behind.journal.is_out_of_room
    filling = behind.journal.filling
    assert filling is not None
    assert filling.kept is not None
    assert "no room for both" in behind.driver.status().incomplete
    group.crash(behind.name)
    group.restart(behind.name)
    group.run(5)
    assert behind.is_alive
    assert behind.journal.filling == filling

    group.crash(behind.name)
    give_up_older(DIRECTORY, behind.disk)
    group.restart(behind.name)
    group.run(10)
    assert leading.journal.last_index == behind.journal.stored_index
    assert behind.journal.filling is None


@pytest.mark.parametrize("is_held", [False, True])
def test_the_only_voter_learns_its_lost_end_from_its_learner(*, is_held: bool) -> None:
    """
    Its last entry is damaged, before it was noted as durable. Who led alone goes on leading.

    Where the learner holds the entry it comes back; where it does not, nobody knows of it.
    """
    members = [Member("a", "a:1"), Member("l", "l:1", "learner")]
    group = SimulatedGroup(members, seed=5)
    group.start()
    group.run_until(lambda: group.leader() is not None, 10)
    alone, learner = group.nodes["a"], group.nodes["l"]
    group.propose("a", b"first")
    group.run(1)
    if not is_held:
        group.crash("l")
    group.propose("a", b"last" * 100)
    group.run_until(lambda: alone.journal.stored_index == alone.journal.last_index, 5)
    if is_held:
        group.run_until(lambda: learner.journal.last_index == alone.journal.last_index, 5)
    last = alone.journal.last_index
    place = alone.journal.place_of(last)
    group.crash("a")
    alone.disk.flip_bit(place.path, (place.byte + place.size - 200) * 8)
    group.restart("a")
    assert alone.journal.unknown_through >= last
    group.run(5)
    if not is_held:
        assert group.leader() is None
        assert "not reached: l" in alone.driver.status().unknown_end
        del group.checker.committed[last]  # Rot in the only copy: no promise covers it.
        group.restart("l")
        group.run(10)

    assert group.leader() is alone
    assert "" == alone.driver.status().unknown_end
    assert is_held is (b"last" * 100 in alone.taken)
    group.propose("a", b"more")
    group.run(3)
    assert alone.journal.last_index == learner.journal.last_index
    assert alone.journal.last_chain == learner.journal.last_chain


def test_the_only_voter_with_a_lost_header_goes_on_by_the_command_that_it_names() -> None:
    """What stands behind its members may be newer ones; its learner never had that, and is gone."""
    members = [Member("a", "a:1"), Member("l", "l:1", "learner")]
    group = SimulatedGroup(members, seed=6)
    group.start()
    group.run_until(lambda: group.leader() is not None, 10)
    alone = group.nodes["a"]
    group.run(1)
    group.crash("l")
    lost, kept = group.propose("a", b"lost"), group.propose("a", b"kept")
    group.run_until(lambda: alone.driver.commit_index == kept, 5)
    place = alone.journal.place_of(lost)
    group.crash("a")
    alone.disk.flip_bit(place.path, (place.byte + 12) * 8)
    group.restart("a")
    group.run(5)

    said = alone.driver.status().unknown_end
    assert f"entry {lost} of this log is damaged" in said
    assert "not reached: l" in said
    # It has yet to apply the entry, so that to go on here would be of no use.
    assert "'holdfast cluster promote l --force' at l" in said
    assert group.leader() is None
    learner = group.nodes["l"]
    del group.checker.committed[lost], group.checker.committed[kept]  # Given up by the operator.
    group.restart("l")
    group.run(2)
    learner.driver.promote_force()
    group.turn(learner)
    group.run_until(lambda: group.leader() is learner, 5)
    assert group.propose("l", b"more") >= lost
