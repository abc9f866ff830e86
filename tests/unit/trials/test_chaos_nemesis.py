"""
The nemesis on a cluster of fakes: what it does, in which order, and what it calls a problem.
"""

from __future__ import annotations

import random
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from trials.chaos import disk_faults
from trials.chaos.nemesis import FAULTS, Nemesis
from trials.chaos.schedule import KINDS, Schedule, Step
from trials.chaos.stage import Stage, StageError


class FakeTime:
    """Sleeping is all that moves it; `later` are things that happen on the way."""

    def __init__(self) -> None:
        self.now = 100.0
        self.later: list = []

    def clock(self) -> float:
        self.now += 0.001
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for due in [each for each in self.later if each[0] <= self.now]:
            self.later.remove(due)
            due[1]()


class FakeDisk:
    def __init__(self, node: FakeNode) -> None:
        self.node = node
        self.calls: list = []

    def __getattr__(self, name: str):
        def call(*arguments):
            self.calls.append((name, *arguments))
            if name.startswith("fail_next"):
                self.node.die(70)
            return "what was lost"

        return call


class FullDisk:
    """Its writes without room meet one thing after the other: the ballot's floor, or the log."""

    def __init__(self, node: FakeNode, *met: str) -> None:
        self.node = node
        self.left = list(met)
        self.failed = 0

    def counts(self) -> dict[str, int]:
        return {"failed": self.failed}

    def fail_next_write(self, number: int) -> None:
        self.failed += 1
        met = self.left.pop(0)
        if met != "floor":
            self.node.words += "the disk is full, nothing is stored until there is room\n"
        if met == "log":
            self.node.words += "the disk has room again: writing goes on\n"


class FakeNode:
    def __init__(self, name: str, folder: Path, journal: list) -> None:
        self.name = name
        self.data = folder / name
        self.admin = f"{name}:1"
        self.journal = journal
        self.is_running = True
        self.is_paused = False
        self.code = 0
        self.disk = FakeDisk(self)
        self.identity = f"{name}1"
        self.damage: list = []
        self.words = "its last words"
        self.cluster: FakeCluster

    def _log(self, text: str) -> None:
        self.journal.append(f"{text} {self.name}")

    def start(self) -> None:
        self._log("start")
        self.is_running = True

    def die(self, code: int) -> None:
        self.is_running = False
        self.code = code

    def kill(self) -> None:
        self._log("kill")
        self.die(-9)

    def stop(self) -> int:
        self._log("stop")
        self.die(0)
        return 0

    def wait(self) -> int:
        return self.code

    def signal(self, number: signal.Signals) -> None:
        self._log(number.name)
        self.is_paused = number is signal.SIGSTOP

    def status(self):
        if not self.is_running or self.is_paused:
            return None
        leader = self.cluster.leader()
        return {
            "role": "leader" if leader is self else "follower",
            "serving": leader is self,
            "term": 3,
            "applied_index": 9,
            "node_id": self.identity,
            "members": self.cluster.members(),
            "store": {"damage": self.damage},
        }

    def log_tail(self, lines: int = 30) -> str:
        return self.words


class FakeCluster:
    def __init__(self, folder: Path, names: str, journal: list) -> None:
        self.nodes = {name: FakeNode(name, folder, journal) for name in names}
        for node in self.nodes.values():
            node.cluster = self
        self.kinds = {"w": "witness", "l": "learner"}
        self.sites: dict[str, str] = {}
        self.secret = b"secret"
        self.lag = 0

    def leader(self):
        able = [n for n in self.nodes.values() if n.is_running and not n.is_paused]
        return able[0] if len(able) * 2 > len(self.nodes) else None

    def members(self) -> list:
        return [
            {
                "name": node.name,
                "kind": self.kinds.get(node.name, "voter"),
                "node_id": node.identity,
                "connected": node.is_running,
                "lag_entries": self.lag,
            }
            for node in self.nodes.values()
        ]


@pytest.fixture
def world(tmp_path: Path):
    """Three nodes under no load at all; `journal` is what was done, in order."""
    journal: list[str] = []
    time = FakeTime()
    cluster = FakeCluster(tmp_path, "abc", journal)

    def trouble(source, target, trouble):
        journal.append(f"{'cut' if trouble.is_cut else 'bad'} {source}{target}")

    links = SimpleNamespace(trouble=trouble, heal=lambda: journal.append("heal"))
    load = SimpleNamespace(
        mark=lambda text: None, kill_consumer=lambda: journal.append("kill consumer")
    )
    told: list[str] = []
    stage = Stage(
        cluster=cluster,
        links=links,
        load=load,
        chance=random.Random(1),
        folder=tmp_path,
        tell=told.append,
        clock=time.clock,
        sleep=time.sleep,
    )
    return SimpleNamespace(
        stage=stage, cluster=cluster, journal=journal, time=time, told=told, nodes=cluster.nodes
    )


def run(world, *steps: Step, seconds: float = 0.0) -> Nemesis:
    schedule = Schedule(name="x", topology="three", seed=1, steps=steps, seconds=seconds)
    nemesis = Nemesis(world.stage, schedule)
    nemesis.run()
    return nemesis


def test_a_killed_leader_is_started_again(world):
    """The step ends with the node up; its time and node are noted."""
    nemesis = run(world, Step(fault="crash", where="leader", seconds=2.0))

    assert world.journal == ["kill a", "start a"]
    assert nemesis.happened[0].nodes == ("a",)
    assert 2.0 < nemesis.happened[0].ended - nemesis.happened[0].began < 3.0
    assert not world.stage.problems


NO_ROOM = Step(fault="disk full", where="leader", parameters={"how": "at a write"})


def test_a_floor_that_finds_no_room_is_no_reason_to_complain(world):
    """The node says nothing of it, as an older one does; so it strikes until it meets the log."""
    disk = world.nodes["a"].disk = FullDisk(world.nodes["a"], "floor", "floor", "log")
    run(world, NO_ROOM)

    assert disk.failed == 3
    assert not world.stage.problems


@pytest.mark.parametrize("met", [["waits for ever"], ["floor"] * 5])
def test_a_node_that_does_not_go_on_is_told(world, met):
    """It found no room for the log, said so, and nothing else; or it is never seen to go on."""
    world.nodes["a"].disk = FullDisk(world.nodes["a"], *met)
    run(world, NO_ROOM)

    assert world.stage.problems == ["a did not go on after a write without room"]


def test_the_leader_is_who_leads_at_that_moment(world):
    """Of two steps at the leader the second hits the new one, if the first still lasts."""
    run(
        world,
        Step(fault="pause", where="leader", together=True),
        Step(fault="client cut off", where="leader", seconds=1.0),
    )

    assert world.journal == ["SIGSTOP a", "cut bclient", "cut clientb", "heal", "SIGCONT a"]


def test_a_paused_node_holds_nobody_up(world):
    """While a node is paused it is not asked, or the pause would last as long as the answer."""
    asked = []
    world.nodes["a"].status = lambda: asked.append(world.nodes["a"].is_paused)
    world.stage.freeze(world.nodes["a"])
    world.stage.pause_for(1.0)
    world.stage.thaw(world.nodes["a"])
    world.stage.pause_for(0.2)

    assert asked == [False]


def test_a_calm_schedule_begins_every_step_with_a_whole_cluster(world):
    """What a named scenario measures after a fault is not the trace of the one before."""
    world.cluster.lag = 10_000
    world.time.later.append((120.0, lambda: setattr(world.cluster, "lag", 0)))
    step = Step(fault="crash", where="leader", seconds=0.1)
    schedule = Schedule(name="x", topology="three", seed=1, steps=(step,), is_calm=True)
    nemesis = Nemesis(world.stage, schedule)
    nemesis.run()

    assert nemesis.happened[0].began > 119.0


def test_nothing_lasts_while_a_disk_is_spoilt(world):
    """A step that was to last while a disk is spoilt is ended first."""
    run(
        world,
        Step(fault="crash", where="c", together=True),
        Step(fault="wiped disk", where="b", seconds=0.5),
    )

    assert world.journal == ["kill c", "start c", "kill b", "start b"]


def test_a_spoilt_disk_is_whole_before_the_next(world):
    """After a wiped disk nothing else happens until the node is a level member again."""
    world.cluster.lag = 10_000
    world.time.later.append((130.0, lambda: setattr(world.cluster, "lag", 0)))
    nemesis = run(
        world,
        Step(fault="wiped disk", where="b", seconds=0.5),
        Step(fault="wiped disk", where="c", seconds=0.5),
    )

    assert world.journal == ["kill b", "start b", "kill c", "start c"]
    assert nemesis.happened[0].began > 129.0


def test_damage_that_is_never_repaired_is_a_problem(world):
    """The schedule ends with the finding, and the steps that were left are named."""
    world.nodes["b"].damage = [{"repaired": False, "index": 7}]
    nemesis = run(world, Step(fault="wiped disk", where="c"), Step(fault="crash", where="a"))

    assert nemesis.left_out == [Step(fault="crash", where="a")]
    assert "damage that is not repaired" in world.stage.problems[0]


def test_a_victim_that_refuses_its_disk_gets_an_empty_one(world, tmp_path):
    """An operator's deed, once; for a node that nobody hurt the same end is a problem."""
    victim = world.nodes["b"]
    (victim.data / "journal").mkdir(parents=True)
    (victim.data / "ballot").write_text("old")
    victim.die(70)
    world.stage.await_whole([victim])

    assert victim.is_running
    assert list(victim.data.iterdir()) == []
    assert victim.disk.calls == [("forget",)]
    assert not world.stage.problems


def test_a_node_that_ends_by_itself_is_a_problem(world):
    """It is noted with its exit code and last words, and started again."""
    world.nodes["c"].die(70)
    world.stage.supervise()

    assert world.nodes["c"].is_running
    assert world.stage.problems == ["c ended by itself with 70: its last words"]


def test_no_leader_in_time_is_a_problem(world):
    """A cluster that does not come back ends the schedule."""
    world.nodes["a"].is_paused = world.nodes["b"].is_paused = True
    nemesis = run(world, Step(fault="crash", where="leader"))

    assert "no leader within" in world.stage.problems[0]
    assert not nemesis.happened


def test_what_cannot_happen_is_noted_with_its_reason(world):
    """A learner cannot be hurt where there is none."""
    nemesis = run(world, Step(fault="crash", where="learner"))

    assert nemesis.happened[0].is_skipped
    assert nemesis.happened[0].text == "no node is a learner"
    assert not world.stage.problems


def test_time_that_is_up_ends_the_schedule(world):
    """Steps that would not fit any more are left out and named."""
    steps = [Step(fault="crash", where="follower", seconds=4.0) for _ in range(10)]
    nemesis = run(world, *steps, seconds=12.0)

    assert 1 < len(nemesis.happened) < 5
    assert len(nemesis.happened) + len(nemesis.left_out) == 10


def test_a_failed_sync_must_end_the_node(world):
    """It ends with an error by itself, and is started again."""
    run(world, Step(fault="fsync EIO", where="b", seconds=0.1))

    assert world.journal == ["start b"]
    assert world.nodes["b"].disk.calls[0][0] == "fail_next_sync"
    assert not world.stage.problems


def test_a_node_that_goes_on_after_a_failed_sync_is_a_problem(world):
    """It is killed, and the report says so."""
    world.nodes["b"].die = lambda code: None
    world.nodes["b"].kill = lambda: setattr(world.nodes["b"], "is_running", False)
    run(world, Step(fault="fsync EIO", where="b", seconds=0.1))

    assert world.stage.problems[0] == "b went on after a failed sync"


def test_a_failure_that_costs_a_checkpoint_only_is_brought_again(world):
    """It is no fault of the node to go on then; the next sync to fail is the log's."""
    node = world.nodes["b"]
    told = []
    die = node.die
    node.log_tail = lambda lines=30: "\n".join(told)
    node.die = lambda code: die(code) if told else told.append("checkpoint was not written")
    run(world, Step(fault="fsync EIO", where="b", seconds=0.1))

    assert [call[0] for call in node.disk.calls].count("fail_next_sync") == 2
    assert not world.stage.problems


def test_a_partition_is_both_ways_and_healed(world):
    """The leader's links to and from all others are cut, not those to the clients."""
    run(world, Step(fault="partition", where="leader", seconds=0.5))

    assert world.journal == ["cut ab", "cut ac", "cut ba", "cut ca", "heal"]


def test_a_ring_leaves_each_node_its_neighbours(tmp_path, world):
    """Of five nodes each loses two of its four links; then all is healed."""
    world.stage.cluster = FakeCluster(tmp_path, "abcde", world.journal)
    run(world, Step(fault="ring partition", where="all", seconds=0.1))

    cuts = [line for line in world.journal if line.startswith("cut")]

    assert len(cuts) == 10
    assert world.journal[10] == "heal"


def test_healing_ends_everything(world):
    """Links, paused processes, dead processes, slow and lying disks, clocks."""
    stage = world.stage
    stage.kill(world.nodes["a"])
    world.nodes["b"].signal(signal.SIGSTOP)
    stage.heal()

    assert world.journal == ["kill a", "SIGSTOP b", "heal", "start a", "SIGCONT b", "SIGCONT c"]
    assert {call[0] for call in world.nodes["a"].disk.calls} == {
        "slow",
        "lie",
        "pretend_free",
        "true_clock",
    }
    assert not stage.down


def test_rot_in_other_places_needs_segments_enough(world):
    """Where too little is sealed the step is left out and all nodes run again."""
    nemesis = run(world, Step(fault="different damage on every node", where="all", seconds=0))

    assert "too few sealed segments" in nemesis.happened[0].text
    assert all(node.is_running for node in world.nodes.values())


def test_every_deed_stands_in_one_table():
    """Faults that spoil a disk live apart from those that do not."""
    spoiling = {name for name, kind in KINDS.items() if kind.is_destructive}
    operators = {"remove member", "promote learner"}

    assert spoiling - operators <= set(disk_faults.FAULTS)
    assert set(FAULTS) == set(KINDS)


def test_a_change_that_is_refused_for_good_is_a_finding(world, monkeypatch):
    """The operator's request is repeated while nobody can take it, and then given up."""
    world.nodes["a"].is_paused = world.nodes["b"].is_paused = True
    with pytest.raises(StageError, match="no leader"):
        world.stage.change("/cluster/remove", {"name": "c"}, seconds=1.0)
