"""
The load of the chaos runs against real nodes: both libraries, a killed leader, a killed consumer.

One run is judged by every test here; those that falsify it work on copies of its histories.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalCluster
from trials.chaos.history import DEAD_LETTERS, Event, History, read_history
from trials.chaos.replicas import ReplicaVerdict, compare_folders, compare_replicas
from trials.chaos.subscriptions import SUBSCRIPTIONS
from trials.chaos.verdict import Verdict, judge, judge_history
from trials.chaos.workload import Workload, WorkloadSettings

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SETTINGS = WorkloadSettings(rate=250, reject_share=0.03, quiet_seconds=1.0)
CONFIRMS_BETWEEN_KILLS = 200


@dataclass(frozen=True)
class Run:
    """What is left of the run."""

    paths: list[Path]
    verdict: Verdict
    live: ReplicaVerdict
    """Of the replicas, while they ran."""
    folders: dict[str, Path]
    victim: str
    """The worker that was killed."""

    def workers(self) -> list[list[Event]]:
        """The histories anew, to be falsified."""
        return [read_history(path) for path in sorted(self.paths)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """
    Some seconds of load over three nodes, the leader and then a consumer killed in the middle.
    """
    folder = tmp_path_factory.mktemp("chaos")
    arguments = ["--segment", "256KiB"]
    with LocalCluster(folder / "cluster", "three", arguments) as cluster:
        leader = cluster.start()
        addresses = cluster.stomp_addresses.split(",")
        with Workload(None, addresses, folder / "load", SETTINGS, seed=11) as workload:
            workload.start()
            workload.wait_confirmed(CONFIRMS_BETWEEN_KILLS)
            workload.mark("kill the leader")
            leader.kill()
            workload.wait_confirmed(CONFIRMS_BETWEEN_KILLS)
            leader.start()
            victim = workload.kill_consumer()
            workload.wait_confirmed(CONFIRMS_BETWEEN_KILLS)
            cluster.wait_level()
            paths = workload.finish()
        cluster.wait_level()
        live = compare_replicas(cluster)
        for node in cluster.nodes.values():
            assert node.stop() == 0
        folders = {name: node.data for name, node in cluster.nodes.items()}
        yield Run(paths, judge(paths), live, folders, victim)


def test_the_account_is_clean(run):
    """
    Nothing lost, vanished, unexpected, doubled, reordered, unflagged or torn.
    """
    verdict = run.verdict

    assert verdict.is_good, "\n".join(verdict.problems)
    assert verdict.confirmed >= 3 * CONFIRMS_BETWEEN_KILLS
    assert verdict.transactions > 0
    assert verdict.repeated > 0
    assert verdict.dead_letters > 0
    assert verdict.redelivered > 0
    assert len(verdict.unavailable_ms) == 1


def test_every_durable_subscription_was_there(run):
    """
    Each was made, taken up again at least by who sweeps up, and had its messages.
    """
    history = History.read(run.paths)
    received = {event["q"] for event in history.of_kind("delivery")}
    made = Counter(event["s"] for event in history.of_kind("subscribed"))

    assert run.verdict.subscriptions == len(SUBSCRIPTIONS)
    assert run.verdict.owed > len(SUBSCRIPTIONS)
    for each in SUBSCRIPTIONS.values():
        assert each.place in received
        assert made[each.place] > 1


def test_a_delivery_for_one_subscription_taken_out_of_the_history_is_missed(run):
    """
    What all others got was confirmed: this one lost it.
    """
    place = SUBSCRIPTIONS["reader"].place
    stored = {(event["p"], event["n"]) for event in History.read(run.paths).of_kind("stored")}
    got = History.read(run.paths).of_kind("delivery")
    *_, last = (each for each in got if each["q"] == place and (each["p"], each["n"]) in stored)
    key = (last["p"], last["n"])
    verdict = falsified(
        run,
        lambda event: (
            None
            if event["e"] == "delivery" and event["q"] == place and (event["p"], event["n"]) == key
            else event
        ),
    )

    assert verdict.lost == 1
    assert any(f"never came to {place}" in problem for problem in verdict.problems)


def test_both_libraries_took_part_in_everything(run):
    """
    Each sent, had confirms, committed, consumed, and saw the leader die.
    """
    seen: dict[str, set[str]] = {"h": set(), "s": set()}
    for event in History.read(run.paths):
        if event["w"][0] in seen and event["w"] != "sweeper":
            seen[event["w"][0]].add(event["e"])
    for kinds in seen.values():
        assert {"send", "stored", "committed", "rolled-back"} <= kinds
        assert {"delivery", "settle", "settled", "link"} <= kinds


def test_what_a_killed_consumer_held_reached_others(run):
    """
    Its history has no end, and what it had not settled was delivered again, flagged.
    """
    killed = read_history(next(path for path in run.paths if path.stem == run.victim))
    settled = {
        id for event in killed if event["e"] in ("settle", "commit") for id in event.get("x", ())
    }
    held = {event["id"]: event["t"] for event in killed if event["e"] == "delivery"}
    open_ids = held.keys() - settled
    # Others may have had a message before, while the leader lived, and then for the first time.
    later = [
        event
        for event in History.read(run.paths).of_kind("delivery")
        if event["id"] in open_ids and event["w"] != run.victim and event["t"] > held[event["id"]]
    ]

    assert killed[-1]["e"] != "end"
    assert open_ids == {event["id"] for event in later}
    assert all(event["r"] for event in later)


def test_the_replicas_are_the_same(run):
    """
    While they ran and after they were stopped, entry by entry.

    How many entries that are depends on how many messages went into one and on how much was
    cleaned: all that two of the three have are held against each other, up to the end.
    """
    stopped = compare_folders(run.folders)
    firsts, lasts = (sorted(ends) for ends in zip(*stopped.ranges.values(), strict=True))
    committed = max(last for _, last in run.live.ranges.values())

    assert run.live.is_good, run.live.problems
    assert run.live.queues_compared >= 3
    assert run.live.left_over == {}
    assert stopped.is_good, stopped.problems
    assert len(firsts) == 3
    assert lasts[1] >= committed
    assert stopped.compared == lasts[1] - firsts[1] + 1 > 0
    assert stopped.segments_compared > 0


def falsified(run: Run, change: object) -> Verdict:
    """Judge the run with its lines filtered and changed by `change(event)`; None drops a line."""
    workers = [
        [changed for event in events if (changed := change(event)) is not None]  # type: ignore[operator]
        for events in run.workers()
    ]
    return judge_history(History.of(workers))


def confirmed_delivery(run: Run) -> Event:
    """A message that was confirmed, delivered once, unflagged, and acknowledged."""
    history = History.read(run.paths)
    stored = {(event["p"], event["n"]) for event in history.of_kind("stored")}
    times: dict[tuple[str, int], int] = {}
    for event in history.of_kind("delivery"):
        key = (event["p"], event["n"])
        times[key] = times.get(key, 0) + 1
    return next(
        event
        for event in history.of_kind("delivery")
        if times[event["p"], event["n"]] == 1
        and (event["p"], event["n"]) in stored
        and not event["r"]
        and event["q"] != DEAD_LETTERS
    )


def test_a_delivery_taken_out_of_the_history_is_missed(run):
    """
    The judge is shown the run without one delivery: one message is lost.
    """
    chosen = confirmed_delivery(run)
    verdict = falsified(
        run,
        lambda event: None if event["e"] == "delivery" and event["id"] == chosen["id"] else event,
    )

    assert verdict.lost == 1
    assert any(chosen["p"] in problem and "lost" in problem for problem in verdict.problems)


def test_a_send_taken_out_of_the_history_is_missed(run):
    """
    Without its send and receipt, a delivery comes from nowhere.
    """
    chosen = confirmed_delivery(run)
    key = (chosen["p"], chosen["n"])
    verdict = falsified(
        run,
        lambda event: (
            None
            if event["e"] in ("send", "stored", "again") and (event["p"], event["n"]) == key
            else event
        ),
    )

    assert verdict.unexpected == 1


def test_a_flag_wiped_off_the_history_is_missed(run):
    """
    Every redelivery of the run was flagged: without the flags each is found.
    """
    verdict = falsified(
        run, lambda event: event | {"r": False} if event["e"] == "delivery" else event
    )

    assert verdict.unflagged >= run.verdict.redelivered > 0


@pytest.mark.parametrize("node", ["a", "b", "c"])
def test_a_flipped_bit_in_a_replica_is_found(run, node, tmp_path):
    """
    One bit in the middle of one node's log, on a copy of the folders.
    """
    folders = {name: tmp_path / name for name in run.folders}
    for name, folder in run.folders.items():
        shutil.copytree(folder, folders[name], ignore=shutil.ignore_patterns("spare-*"))
    path = min((folders[node] / "journal").glob("*.segment"))
    data = bytearray(path.read_bytes())
    data[len(bytes(data).rstrip(b"\0")) // 2] ^= 4
    path.write_bytes(data)
    verdict = compare_folders(folders)

    assert verdict.first is not None
    assert verdict.first.node == node


def test_the_verdict_is_plain_values(run):
    """
    Both verdicts go into the report as JSON.
    """
    assert json.loads(json.dumps(run.verdict.to_json()))["lost"] == 0
    assert json.loads(json.dumps(run.live.to_json()))["diverged"] == 0
