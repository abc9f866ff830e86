"""
One schedule from an empty folder to a verdict: network, cluster, load, faults, healing, account.

The order at the end matters: all faults end, the cluster is whole and level, nothing new is sent,
everything is consumed, and only then the books are closed and the replicas compared. A run that
cannot do one of these says so among the problems and does the rest.

Invariants:
    Nothing started here outlives `run_schedule`, however it ends.
    A scenario without problems lost nothing, every node came back whole and level, and no password
    or token stands in any file that is left.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.testing.local_cluster import LocalNodeError
from trials.chaos.cluster import CHAOS_TOPOLOGIES, ChaosCluster
from trials.chaos.faulty_disk import FaultyDiskError, build_layer
from trials.chaos.nemesis import Happened, Nemesis
from trials.chaos.network import OPERATOR, Network, open_network
from trials.chaos.people import People
from trials.chaos.process_faults import NEWCOMER
from trials.chaos.replicas import ReplicaVerdict, compare_replicas
from trials.chaos.report import (
    ScenarioReport,
    StepReport,
    faults_of,
    forbidden,
    gaps,
)
from trials.chaos.scenarios import SCENARIOS
from trials.chaos.schedule import Schedule
from trials.chaos.stage import Stage, StageError
from trials.chaos.verdict import Verdict, confirm_seconds, judge
from trials.chaos.workload import Workload, WorkloadError, WorkloadSettings

NODE_ARGUMENTS = ("--segment", "256KiB", "--memory", "32MiB")
"""Segments that are sealed, and cleaned away, while a short run looks on."""
_NODE_SETTINGS = "[journal]\nscrub_round_seconds = 0\n"
"""Rot is waited for: the short log is read again as fast as a long one."""

_FIRST_SECONDS = 1.5
"""Of load before the first fault."""

_WRONG = ("Traceback", "critical", "damage in the log")
_ALLOWED = {
    **dict.fromkeys(("fsync EIO", "write EIO", "disk full"), ("critical",)),
    "add member": ("critical",),
    "remove member": ("critical",),
    "promote learner": ("critical",),
}
"""What a node may log whose disk failed, or that was removed."""

_ALLOWED_SPOILT = ("critical", "damage in the log")

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How schedules are run."""

    network: str | None = None
    """"namespaces", "proxies", or None for the best there is."""

    load: WorkloadSettings = field(default_factory=WorkloadSettings)
    drain_seconds: float = 60.0


class _Phases:
    """Seconds of each phase, in order."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - began, 1)


@dataclass(slots=True)
class _Run:
    """One schedule under way."""

    schedule: Schedule
    settings: RunSettings
    folder: Path
    tell: Tell
    network: Network
    cluster: ChaosCluster
    load: Workload
    stage: Stage
    nemesis: Nemesis
    phases: _Phases
    people: People
    is_drained: bool = False

    def problem(self, text: str) -> None:
        self.tell(f"WRONG: {text.splitlines()[0]}")
        self.stage.problems.append(text)

    def hurt(self) -> None:
        """Let the schedule happen under load; then heal everything."""
        self.load.start()
        self.stage.pause_for(_FIRST_SECONDS)
        try:
            self.nemesis.run()
        finally:
            self.stage.heal()

    def settle(self) -> None:
        """Wait until all is whole, end the load, and collect what it wrote."""
        self.tell("healed; the cluster becomes whole and level")
        try:
            self.stage.await_whole([self.cluster.nodes[name] for name in self._spoilt()])
        except (StageError, LocalNodeError, OSError) as error:
            self.problem(f"not whole after healing: {error}")
        self.problems_of_workers()
        self.tell("drained by the consumers, and what is left by a last one")
        try:
            self.load.finish(self.settings.drain_seconds)
            self.is_drained = True
        except WorkloadError as error:
            self.problem(f"not drained: {error}")

    def problems_of_workers(self) -> None:
        """A client that ended by itself is a problem: its library let it down."""
        for complaint in self.load.complaints():
            self.problem(f"worker {complaint}")

    def compare(self) -> ReplicaVerdict | None:
        """Compare what the nodes hold, and read what they logged."""
        found = None
        self.people.visit(self.cluster)
        if not self.people.let_in:
            self.problem("no node let the operator in by his password")
        try:
            self.cluster.wait_level()
            found = compare_replicas(self.cluster)
            if self.is_drained and found.left_over:
                self.problem(f"drained, and the queues still hold {found.left_over}")
        except (HoldfastError, LocalNodeError, OSError) as error:
            self.problem(f"the replicas cannot be compared: {error}")
        for name, node in self.cluster.nodes.items():
            for line in suspicious_lines(node.log_path, self._wrong_words(name)):
                self.problem(f"{name} logged: {line}")
        return found

    def _wrong_words(self, name: str) -> list[str]:
        """What this node must not have logged, after what was done to it."""
        allowed: set[str] = set()
        for happened in self.nemesis.happened:
            if name in happened.nodes:
                allowed.update(_ALLOWED.get(happened.step.fault, ()))
        if name in self._spoilt():
            allowed.update(_ALLOWED_SPOILT)
        return [word for word in _WRONG if word not in allowed]

    def _spoilt(self) -> set[str]:
        """Nodes whose disks were spoilt and which are still there."""
        return {
            name
            for happened in self.nemesis.happened
            if happened.step.kind.is_destructive
            for name in happened.nodes
            if name in self.cluster.nodes
        }


def run_schedule(
    schedule: Schedule, folder: Path, settings: RunSettings, tell: Tell
) -> ScenarioReport:
    """
    Run one schedule in a folder that is not there yet, and give what was found.

    Raises:
        NetworkUnavailableError: The network asked for cannot be made here.
        LocalNodeError: The cluster never came up.
    """
    began = time.monotonic()
    phases = _Phases()
    with ExitStack() as stack:
        with phases.phase("start"):
            run = _begin(stack, schedule, folder, settings, tell, phases)
        with phases.phase("faults"):
            run.hurt()
        with phases.phase("drain"):
            run.settle()
        with phases.phase("verification"):
            replicas = run.compare()
            links, disks = _proof(run)
    for left in run.people.left_in(folder):
        run.problem(f"secret left behind: {left}")
    with_books = time.monotonic()
    verdict = judge(run.load.paths, is_drained=run.is_drained)
    confirms = confirm_seconds(run.load.paths)
    phases.seconds["account"] = round(time.monotonic() - with_books, 1)
    return _report(run, verdict, replicas, confirms, links, disks, time.monotonic() - began)


def write_settings(folder: Path) -> Path:
    """Write the nodes' settings file; gives its path."""
    path = folder / "holdfast.toml"
    path.write_text(_NODE_SETTINGS)
    return path


def _begin(
    stack: ExitStack,
    schedule: Schedule,
    folder: Path,
    settings: RunSettings,
    tell: Tell,
    phases: _Phases,
) -> _Run:
    """Start everything; the stack ends it."""
    folder.mkdir(parents=True)
    hosts = [*CHAOS_TOPOLOGIES[schedule.topology].hosts, NEWCOMER]
    network = stack.enter_context(open_network(hosts, prefer=settings.network, seed=schedule.seed))
    stack.enter_context(network.inside(OPERATOR))
    # In namespaces all clients come from other machines, and TLS would hide what is sent.
    own = ("--plain-without-tls", "--config", str(write_settings(folder)))
    arguments = (*NODE_ARGUMENTS, *own)
    cluster = stack.enter_context(
        ChaosCluster(folder, schedule.topology, network, disks=has_layer(tell), arguments=arguments)
    )
    cluster.start()
    people = People.settle(cluster)
    load = Workload(
        network,
        cluster.stomp_addresses.split(","),
        folder / "clients",
        settings.load,
        schedule.seed,
        environment=people.environment,
    )
    stack.callback(load.close)
    chance = random.Random(f"{schedule.seed}:{schedule.topology}:nemesis")  # noqa: S311 - repeated
    stage = Stage(
        cluster=cluster, links=network, load=load, chance=chance, folder=folder, tell=tell
    )
    nemesis = Nemesis(stage, schedule)
    parts = (network, cluster, load, stage, nemesis, phases, people)
    return _Run(schedule, settings, folder, tell, *parts)


def has_layer(tell: Tell) -> bool:
    """Whether disks can fail here; tells why not."""
    try:
        build_layer()
    except FaultyDiskError as error:
        tell(f"disks and clocks cannot fail here: {error}")
        return False
    return True


def suspicious_lines(path: Path, words: Sequence[str], most: int = 3) -> list[str]:
    """Lines of a log with words that must not be there; of a traceback all of it."""
    found = []
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    for number, line in enumerate(lines):
        if any(word in line for word in words):
            rest = lines[number : number + 25] if "Traceback" in line else [line]
            found.append("\n".join(re.sub(r"\x1b\[[0-9;]*m", "", each) for each in rest))
    return found[:most]


def _proof(run: _Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the network and the disks counted: that the faults did happen."""
    links: dict[str, Any] = {}
    for counts in run.network.counts().values():
        for name in ("packets", "bytes", "dropped", "delayed", "duplicated", "late"):
            links[name] = links.get(name, 0) + int(getattr(counts, name))
    disks = {
        name: node.disk.counts()
        for name, node in run.cluster.nodes.items()
        if node.disk is not None
    }
    for name, counted in disks.items():
        if counted["refused"]:
            run.problem(f"the disk of {name} saw {counted['refused']} calls it cannot undo")
    return links, disks


def _report(
    run: _Run,
    verdict: Verdict,
    replicas: ReplicaVerdict | None,
    confirms: Sequence[float],
    links: dict[str, Any],
    disks: dict[str, Any],
    seconds: float,
) -> ScenarioReport:
    steps = _step_reports(run.nemesis, confirms)
    scenario = SCENARIOS.get(run.schedule.name)
    elections = max(0, len(run.stage.leaders) - 1)
    counts = {**verdict_counts(verdict), "diverged": replicas.diverged if replicas else 0}
    problems = [*run.stage.problems, *verdict.problems]
    problems += replicas.problems if replicas else []
    problems += forbidden(counts)
    if scenario is not None and 0 <= scenario.elections_max < elections:
        problems.append(f"{elections} elections: {', '.join(run.stage.leaders)}")
    return ScenarioReport(
        name=run.schedule.name,
        topology=run.schedule.topology,
        seed=run.schedule.seed,
        network=run.network.kind,
        faults=faults_of(steps),
        seconds=round(seconds, 1),
        phases=run.phases.seconds,
        steps=steps,
        left_out=_left_out(run.nemesis),
        elections=elections,
        leaders=tuple(run.stage.leaders),
        unavailable_ms=tuple(step.gap_ms for step in steps),
        verdict=verdict.to_json(),
        replicas=replicas.to_json() if replicas else {},
        links=links,
        disks=disks,
        problems=tuple(problems),
        schedule=run.schedule,
        **counts,
    )


def verdict_counts(verdict: Verdict) -> dict[str, int]:
    """The judge's numbers by the report's names."""
    return {
        name: int(getattr(verdict, name))
        for name in (
            *("attempts", "confirmed", "delivered", "lost", "unexpected", "duplicated"),
            *("flagged", "unflagged", "recovered", "resurrected", "reordered"),
            "torn_transactions",
        )
    }


def _left_out(nemesis: Nemesis) -> tuple[str, ...]:
    texts = [f"{each.step.fault}: {each.text}" for each in nemesis.happened if each.is_skipped]
    if nemesis.left_out:
        names = Counter(step.fault for step in nemesis.left_out)
        texts.append(f"no time for {names.total()}: {', '.join(names)}")
    return tuple(texts)


def _step_reports(nemesis: Nemesis, confirms: Sequence[float]) -> tuple[StepReport, ...]:
    happened = [each for each in nemesis.happened if not each.is_skipped]
    happened.sort(key=lambda each: each.began)
    end = max([*confirms, *(each.ended for each in happened)], default=0.0)
    found = gaps(confirms, [each.began for each in happened], end)
    return tuple(
        _step_report(nemesis, each, gap) for each, gap in zip(happened, found, strict=True)
    )


def _step_report(nemesis: Nemesis, each: Happened, gap: float) -> StepReport:
    return StepReport(
        fault=each.step.fault,
        where=each.step.where,
        node=", ".join(each.nodes),
        at=round(each.began - nemesis.began, 2),
        seconds=round(each.ended - each.began, 2),
        gap_ms=round(gap * 1000, 1),
        text=each.text,
    )


def problems_of(reports: Sequence[ScenarioReport]) -> int:
    """How many problems there are in all."""
    return sum(len(report.problems) for report in reports)
