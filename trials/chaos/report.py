"""
What a chaos run found: values, their JSON for programs, and the table and lines for people.

`report.json` is read by the promise table, so its keys are a contract: see `ScenarioReport`. Each
scenario carries its schedule, so that the report of a failed run is all one needs to repeat it.

Invariants:
    `problems` is empty exactly if the run may be called good; every count that must be 0 and is
    not has its sentence there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from trials.chaos.schedule import KINDS, Schedule, shown_by

FORBIDDEN = ("lost", "unexpected", "unflagged", "diverged", "resurrected", "torn_transactions")
"""Counts that must be 0."""

_SILENCE_SECONDS = 0.3
"""What is shorter is the ordinary time between two confirms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """One fault that did happen; `at` and `seconds` in seconds of the load."""

    fault: str
    where: str
    node: str
    at: float
    seconds: float
    """Until the cluster served again, and was whole again after a spoilt disk."""

    gap_ms: float
    """The longest time without any confirm that began before the next step."""

    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioReport:
    """One schedule on one cluster. Counts are messages unless they say otherwise."""

    name: str
    topology: str
    seed: int
    network: str = ""
    faults: tuple[str, ...] = ()
    """Numbers F1-F41 that its steps showed."""

    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of start, faults, drain and verification."""

    steps: tuple[StepReport, ...] = ()
    left_out: tuple[str, ...] = ()
    """Steps that could not happen, with the reason, or for which there was no time."""

    attempts: int = 0
    confirmed: int = 0
    delivered: int = 0
    lost: int = 0
    unexpected: int = 0
    duplicated: int = 0
    flagged: int = 0
    unflagged: int = 0
    recovered: int = 0
    diverged: int = 0
    resurrected: int = 0
    reordered: int = 0
    torn_transactions: int = 0
    elections: int = 0
    leaders: tuple[str, ...] = ()
    """Who was seen to lead, with the term; one that led between two looks is not among them."""

    unavailable_ms: tuple[float, ...] = ()
    verdict: Mapping[str, Any] = field(default_factory=dict)
    """What the judge said, in full."""

    replicas: Mapping[str, Any] = field(default_factory=dict)
    """What was compared between the nodes."""

    links: Mapping[str, Any] = field(default_factory=dict)
    """What the network carried, lost and delayed."""

    disks: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    schedule: Schedule | None = None

    @property
    def is_good(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        plain = asdict(self)
        plain["schedule"] = self.schedule.to_json() if self.schedule else None
        return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """All scenarios of one run."""

    started: str
    seed: int
    network: str
    machine: Mapping[str, Any]
    scenarios: tuple[ScenarioReport, ...] = ()
    seconds: float = 0.0

    @property
    def problems(self) -> list[str]:
        """What is wrong, each with its scenario and topology."""
        return [
            f"{scenario.name} on {scenario.topology}: {problem}"
            for scenario in self.scenarios
            for problem in scenario.problems
        ]

    @property
    def happened(self) -> dict[str, int]:
        """How often each kind of fault happened, all kinds listed."""
        counts = dict.fromkeys(KINDS, 0)
        for scenario in self.scenarios:
            for step in scenario.steps:
                counts[step.fault] += 1
        return counts

    def missing(self) -> list[str]:
        """Kinds that the topologies of this run's mixes can have and that did not happen."""
        topologies = {each.topology for each in self.scenarios if each.name == "mix"}
        return [
            name
            for name, count in self.happened.items()
            if not count and topologies & set(KINDS[name].topologies)
        ]

    def to_json(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "started": self.started,
            "seed": self.seed,
            "network": self.network,
            "machine": dict(self.machine),
            "seconds": round(self.seconds, 1),
            "is_good": not self.problems,
            "faults": self.happened,
            "did_not_happen": self.missing(),
            "scenarios": [scenario.to_json() for scenario in self.scenarios],
        }

    def write(self, path: Path) -> None:
        """Write report.json. Raises OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_json(), indent=1) + "\n")


def gaps(confirms: Sequence[float], marks: Sequence[float], end: float) -> list[float]:
    """
    For each mark the longest time without a confirm until the next mark, in seconds.

    A silence that reaches over the next mark is told in full for both if it was one before, and
    else for the second alone. All are times of one clock, ascending.
    """
    edges = [*confirms, end]
    found = []
    first = 0
    for mark, until in zip(marks, [*marks, end][1:], strict=True):
        while first < len(edges) and edges[first] <= mark:
            first += 1
        longest, before = 0.0, mark
        for edge in edges[first:]:
            if before > until - _SILENCE_SECONDS and before > mark:
                longest = max(longest, min(edge, until) - before)
                break
            longest = max(longest, edge - before)
            before = edge
        found.append(longest)
    return found


def forbidden(counts: Mapping[str, int]) -> list[str]:
    """A sentence for each count that must be 0 and is not."""
    return [
        f"{name.replace('_', ' ')}: {counts[name]}" for name in FORBIDDEN if counts.get(name, 0)
    ]


def faults_of(steps: Iterable[StepReport]) -> tuple[str, ...]:
    """The numbers F1-F41 that the steps showed."""
    return tuple(shown_by((step.fault, step.where) for step in steps))


def write_tables(console: Console, report: RunReport) -> None:
    """Write what a person wants to know at the end."""
    _write_scenarios(console, report)
    _write_features(console, report)
    _write_gaps(console, report)
    counts = ", ".join(f"{name} {count}" for name, count in report.happened.items() if count)
    console.print(f"\nFaults that happened: {counts}", highlight=False)
    missing = report.missing()
    if missing:
        console.print(f"Did not happen in this run: {', '.join(missing)}", highlight=False)
    for scenario in report.scenarios:
        for text in scenario.left_out:
            console.print(f"left out on {scenario.topology}: {text}", highlight=False)
    for problem in report.problems:
        console.print(
            f"WRONG: {problem.splitlines()[0]}", style="bold red", highlight=False, markup=False
        )


_COLUMNS = (
    *("scenario", "topology", "seconds", "faults", "elections", "attempts", "confirmed"),
    *("delivered", "recovered", "flagged", "lost", "wrong"),
)


def _write_scenarios(console: Console, report: RunReport) -> None:
    table = Table(title=f"chaos, seed {report.seed}, {report.network}, {report.seconds:.0f} s")
    for name in _COLUMNS:
        table.add_column(name, justify="left" if name in {"scenario", "topology"} else "right")
    for each in report.scenarios:
        wrong = sum(int(getattr(each, name)) for name in FORBIDDEN if name != "lost")
        cells = [each.seconds, len(each.steps), each.elections, each.attempts, each.confirmed]
        cells += [each.delivered, each.recovered, each.flagged, each.lost]
        table.add_row(
            each.name,
            each.topology,
            *(f"{cell:,.0f}" for cell in cells),
            f"{wrong}" if each.is_good else f"[red]{wrong} ({len(each.problems)} problems)[/red]",
        )
    console.print(table)


_FEATURES = (
    *("subscriptions", "published", "owed", "sent_again", "uneven"),
    *("grouped", "in_two_hands", "out_of_group_order"),
    *("scheduled", "repeated", "early"),
)
"""What the judge says of topics, of groups, and of what is scheduled."""


def _write_features(console: Console, report: RunReport) -> None:
    table = Table(title="durable subscriptions, message groups, schedules")
    for name in ("scenario", "topology"):
        table.add_column(name)
    for name in _FEATURES:
        table.add_column(name.replace("_", " "), justify="right")
    for each in report.scenarios:
        cells = (f"{each.verdict.get(name, 0):,}" for name in _FEATURES)
        table.add_row(each.name, each.topology, *cells)
    console.print(table)


def _write_gaps(console: Console, report: RunReport) -> None:
    by_fault: dict[str, list[float]] = {}
    for scenario in report.scenarios:
        for step in scenario.steps:
            where = step.where if step.where in {"leader", "all"} else ""
            name = f"{step.fault} ({where})" if where else step.fault
            by_fault.setdefault(name, []).append(step.gap_ms)
    table = Table(title="longest time without confirms after each fault, ms")
    for name in ("fault", "times", "median", "worst"):
        table.add_column(name, justify="left" if name == "fault" else "right")
    for name, found in sorted(by_fault.items()):
        found.sort()
        table.add_row(name, str(len(found)), f"{found[len(found) // 2]:,.0f}", f"{found[-1]:,.0f}")
    console.print(table)
