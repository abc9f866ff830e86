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

import pytest

from holdfast.errors import HoldfastError, LogDivergedError
from holdfast.replication import driver, follower, leader, voting
from holdfast.replication.membership import Member
from holdfast.replication.settings import ReplicationSettings
from holdfast.testing.simulated_group import SimulatedGroup, Trouble, ViolationError

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
) -> SimulatedGroup:
    """Run one seed to its end; raises ViolationError, or any error a process would die of."""
    group = SimulatedGroup(members, seed=seed, settings=settings)
    group.start()
    group.run(0.6)
    group.trouble = Trouble(**BAD)
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


def is_found(seeds: range, members: list[Member] = THREE) -> bool:
    """Whether any of the seeds breaks a promise, or makes a node halt over one."""
    for seed in seeds:
        try:
            run_seed(seed, members)
        except (ViolationError, LogDivergedError, AssertionError):
            return True
    return False


@pytest.mark.slow
def test_acknowledging_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that answers for what is not yet durable is found out."""
    monkeypatch.setattr(follower, "durable_match", lambda state: state.matched_index)

    assert is_found(range(1, 10))


@pytest.mark.slow
def test_voting_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote that leaves before the ballot is durable elects two leaders in one term."""
    send = driver.Driver._send

    def send_at_once(self: driver.Driver) -> None:
        job, self._ballot_job = self._ballot_job, None
        send(self)
        self._ballot_job = job

    monkeypatch.setattr(driver.Driver, "_send", send_at_once)

    assert is_found(range(1, 300))


@pytest.mark.slow
def test_voting_for_a_shorter_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A voter that does not compare logs helps to overwrite what is committed."""
    monkeypatch.setattr(voting, "_is_complete", lambda state, message: True)

    assert is_found(range(1, 60))


@pytest.mark.slow
def test_committing_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that counts only itself is found out at its first commit."""
    monkeypatch.setattr(leader, "committable", lambda state: state.log.journal.stored_index)

    assert is_found(range(1, 5))
