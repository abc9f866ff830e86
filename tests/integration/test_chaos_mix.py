"""
Chaos in two minutes: real brokers, networks, disks and clocks that fail, and a strict account.

The schedules are fixed, so that every `make test` shows the same faults; `make chaos` draws others.
Each test ends as every chaos run does: nothing lost, unexpected, doubled without a flag or back
from the dead, no transaction torn, no log with a traceback, all nodes whole, level and alike.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import takewhile
from pathlib import Path

import pytest

from holdfast.admin.remote import RemoteNode, queue_path
from trials.chaos.nemesis import FAULTS
from trials.chaos.people import CLIENT_USER, found_in
from trials.chaos.report import ScenarioReport
from trials.chaos.runner import RunSettings, run_schedule
from trials.chaos.schedule import Schedule, Step
from trials.chaos.stage import Fault, Stage, Strike
from trials.chaos.workload import WorkloadSettings
from trials.promises.evidence import save_scenarios, stamp

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(240)]

SEED = 20261121
LOAD = WorkloadSettings(rate=50.0)
"""What a fault meets is what is under way, and of that there is enough: with more, this file took
as much more of the cores, for more of the same."""

MIXES = {
    "three": (
        Step(fault="crash", where="leader", seconds=0.3),
        Step(fault="fsync EIO", where="follower", seconds=0.2),
        Step(fault="bit flip", where="follower", seconds=0.0, parameters={"part": "body"}),
        Step(fault="power cut", where="leader", seconds=0.3),
        Step(fault="wiped disk", where="follower", seconds=0.3),
        Step(fault="consumer and leader killed", where="leader", seconds=0.3),
        Step(fault="disk full", where="leader", seconds=1.0, parameters={"how": "told in time"}),
        Step(fault="partition", where="leader", seconds=1.5),
        Step(fault="clock jump", where="leader", seconds=1.0, parameters={"by": 3600.0}),
        Step(fault="lying disk", where="follower", seconds=1.0),
        Step(fault="add member", where="newcomer", seconds=0.3),
    ),
    "witness": (
        Step(fault="pause", where="leader", seconds=1.5),
        Step(fault="power cut everywhere", where="all", seconds=0.2),
        Step(fault="data node lost after the other's crash", where="follower", seconds=1.0),
        Step(fault="write EIO", where="leader", seconds=0.2),
        Step(fault="power cut while the others are paused", where="follower", seconds=1.5),
        Step(fault="disk rolled back", where="follower", seconds=1.0),
        Step(fault="crash and a bit flip at the log's end", where="follower", seconds=0.3),
    ),
    "sites": (
        Step(fault="site lost", where="leader's site", seconds=1.0),
        Step(fault="crash everywhere", where="all", seconds=0.2),
        Step(fault="one-way cut", where="leader out", seconds=1.5),
        Step(
            fault="bad links",
            where="all",
            seconds=3.0,
            parameters={"delay": 0.05, "loss": 0.02, "duplicate": 0.05},
        ),
        Step(fault="ring partition", where="all", seconds=3.0),
        Step(fault="log cut short", where="follower", seconds=0.3, parameters={"bytes": 65536.0}),
        Step(fault="bit flip in a checkpoint", where="follower", seconds=0.3),
    ),
}

OVER_PROXIES = (
    Step(fault="partition", where="leader", seconds=1.5),
    Step(fault="client cut off", where="leader", seconds=1.0),
    Step(fault="transfer", where="leader", seconds=0.1),
)


def run(tmp_path: Path, topology: str, steps: tuple[Step, ...], network: str | None = None):
    told: list[str] = []
    schedule = Schedule(name="test", topology=topology, seed=SEED, steps=steps)
    report = run_schedule(
        schedule, tmp_path / "run", RunSettings(network=network, load=LOAD), told.append
    )
    save_scenarios(f"test {topology} {network}", [report.to_json()], stamp())

    assert report.problems == (), "\n".join([*report.problems, *told])
    return report


@pytest.mark.parametrize("topology", MIXES)
def test_a_mix_of_faults_costs_nothing_that_was_promised(tmp_path: Path, topology: str):
    """
    Faults of processes, links, disks, clocks and operators, one after the other under load: every
    one happens, the cluster is whole again after each, and the account holds.
    """
    report = run(tmp_path, topology, MIXES[topology])

    assert [step.fault for step in report.steps] == [step.fault for step in MIXES[topology]]
    assert report.left_out == ()
    assert report.confirmed > 0
    # What was sent to the topic before it had subscriptions was for nobody.
    assert report.delivered + report.verdict["for_nobody"] >= report.confirmed
    assert report.replicas["compared"] > 0


def test_the_network_of_proxies_hurts_as_well(tmp_path: Path):
    """Without any rights the links are troubled by forwarders, and the same account holds."""
    report = run(tmp_path, "three", OVER_PROXIES, network="proxies")

    assert report.network == "proxies"
    assert len(report.steps) == len(OVER_PROXIES)
    assert report.links["dropped"] > 0
    folder = tmp_path / "run"
    told = {str(path) for path, _ in found_in(folder, {"": CLIENT_USER.encode()})}
    assert {"a.audit.jsonl", "b.audit.jsonl", "c.audit.jsonl"} & told, "somebody logged in"
    files = {path.name for path, _ in found_in(folder, {"": b"HFSG"})}
    assert len(files) > 1, "what was looked through for passwords has the log in it"


def run_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault) -> ScenarioReport:
    """Let something be done to a healthy cluster that breaks what was promised."""
    monkeypatch.setitem(FAULTS, "transfer", fault)
    step = Step(fault="transfer", where="leader", seconds=0.0)
    schedule = Schedule(name="test", topology="three", seed=SEED, steps=(step,))
    return run_schedule(schedule, tmp_path / "run", RunSettings(load=LOAD), lambda text: None)


def test_a_promise_that_is_broken_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """
    Queues are purged under load, which the load does not know: the report says what is gone.
    Without this nobody would know whether the account can fail at all.
    """
    report = run_broken(tmp_path, monkeypatch, purge_queues)

    assert not report.is_good
    assert report.lost + report.verdict["vanished"] > 0


def test_a_subscription_that_somebody_ends_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """
    An operator ends one whose consumer is away, which the load does not know: what waited for it
    is lost, and from queues nothing is.
    """
    report = run_broken(tmp_path, monkeypatch, end_subscription)
    lost = [problem for problem in report.problems if problem.startswith("lost (")]

    assert report.lost > 0
    assert all("never came to /topic/" in problem for problem in lost)


def purge_queues(stage: Stage, step: Step) -> Strike:
    leader = stage.leader()
    node = RemoteNode(leader.admin, secret=stage.cluster.secret)
    for _ in range(10):
        for queue in node.get("/queues")["queues"]:
            node.change("POST", f"{queue_path(queue['name'])}/purge")
        stage.sleep(0.1)
    return Strike((leader.name,), "its queues are purged")


def end_subscription(stage: Stage, step: Step) -> Strike:
    leader = stage.leader()
    node = RemoteNode(leader.admin, secret=stage.cluster.secret)
    deadline = stage.clock() + 20.0
    while stage.clock() < deadline:
        for each in node.get("/subscriptions")["subscriptions"]:
            if each["messages"] and not each["is_active"]:
                named = {"client_id": each["client_id"], "name": each["name"]}
                node.change("POST", "/subscriptions/end", named)
                return Strike((leader.name,), f"{each['name']} is ended", lambda: None)
        stage.sleep(0.05)
    raise AssertionError("no subscription had messages waiting and nobody there")


def test_what_was_started_is_gone_after_an_interruption(tmp_path: Path):
    """Ctrl-C in the middle: exit code 130, and no process, no data folder is left."""
    command = [sys.executable, "-m", "trials.chaos", "--scenario", "follower-killed"]
    command += ["--folder", str(tmp_path / "chaos")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        seen = list(takewhile(lambda line: "is killed" not in line, process.stdout))
        process.send_signal(signal.SIGINT)
        seen += process.stdout.readlines()
        code = process.wait(60)

    assert code == 130, "".join(seen)
    assert wait_until_nobody_names(str(tmp_path)) == []
    assert [path.name for path in (tmp_path / "chaos").glob("*/*")] == ["report.json"]


def wait_until_nobody_names(text: str, seconds: float = 10.0) -> list[str]:
    """Command lines of processes that still mention a text; waits for the last ones to go."""
    deadline = time.monotonic() + seconds
    while (found := command_lines_with(text)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def command_lines_with(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line and path.parent.name != str(os.getpid()):
            found.append(line)
    return found
