"""
From samples to a table: medians, ratios, and what is worth doubting.

Every ratio says how many times better: above 1.0 is good whether a line counts messages or
milliseconds. Runs with a fault do not count; a line whose every run failed shows the fault.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from brokers import Broker, Holdfast
from rich.table import Table
from scenarios import Line, Sample, Scenario

_KILO = 1000


@dataclass
class Results:
    """All samples, by broker and scenario."""

    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=lambda: defaultdict(list))
    notes: dict[str, str] = field(default_factory=dict)
    """Why a broker has no samples, by its name."""

    def values(self, broker: str, scenario: Scenario, key: str) -> list[float]:
        """The values of the runs without a fault."""
        samples = self.samples.get((broker, scenario.name), [])
        return [sample.values[key] for sample in samples if not sample.faults]

    def faults(self, broker: str, scenario: Scenario) -> list[str]:
        """What went wrong, over all runs."""
        samples = self.samples.get((broker, scenario.name), [])
        return [fault for sample in samples for fault in sample.faults]

    @property
    def has_faults(self) -> bool:
        """Whether any run of Holdfast failed."""
        return any(
            sample.faults
            for (broker, _), samples in self.samples.items()
            if broker == "holdfast"
            for sample in samples
        )

    @property
    def load_range(self) -> tuple[float, float]:
        """The lowest and the highest load average before a run."""
        loads = [run.load_before for each in self.samples.values() for s in each for run in s.runs]
        return (min(loads, default=0.0), max(loads, default=0.0))

    def as_json(self) -> list[dict[str, Any]]:
        """Every run as plain values."""
        return [
            {
                "broker": broker,
                "scenario": scenario,
                "values": sample.values,
                "faults": sample.faults,
                "runs": [
                    {
                        "command": run.command,
                        "load_before": run.load_before,
                        "fault": run.fault,
                        **run.numbers,
                    }
                    for run in sample.runs
                ],
            }
            for (broker, scenario), samples in self.samples.items()
            for sample in samples
        ]


def rows(
    results: Results, scenarios: Iterable[Scenario], brokers: list[type[Broker]]
) -> tuple[list[str], list[list[str]]]:
    """The heads and the cells of the table."""
    ours = Holdfast.name
    others = [broker for broker in brokers if broker is not Holdfast]
    heads = ["", Holdfast.title, "runs", "reach at least", "aim"]
    heads += [broker.title for broker in others]
    table = []
    for scenario in scenarios:
        for line in scenario.lines:
            own = results.values(ours, scenario, line.key)
            row = [line.title, _own_cell(results, ours, scenario, line), str(len(own))]
            row += [_goal_cell(own, line, line.reach), _goal_cell(own, line, line.aim)]
            row += [_other_cell(results, other.name, scenario, line, own) for other in others]
            table.append(row)
    return heads, table


def rich_table(heads: list[str], cells: list[list[str]]) -> Table:
    """The table for a terminal."""
    table = Table(title="Medians; × is how many times better Holdfast is", show_lines=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    return table


def markdown(heads: list[str], cells: list[list[str]]) -> str:
    """The table for docs/."""
    ruler = ["---"] + ["---:"] * (len(heads) - 1)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ruler, *cells]) + "\n"


def number(value: float, unit: str) -> str:
    """A value as people say it."""
    if unit == "msg/s":
        return f"{value / _KILO:.1f} k/s" if value >= _KILO else f"{value:.0f} /s"
    return f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}"


def _own_cell(results: Results, broker: str, scenario: Scenario, line: Line) -> str:
    values = results.values(broker, scenario, line.key)
    faults = results.faults(broker, scenario)
    mark = f" FAILED RUNS: {'; '.join(sorted(set(faults)))}" if faults else ""
    if not values:
        return mark.strip() or "-"
    middle = number(statistics.median(values), line.unit)
    if len(values) > 1:
        middle += f" ({number(min(values), line.unit)} to {number(max(values), line.unit)})"
    return middle + mark


def _goal_cell(own: list[float], line: Line, goal: float) -> str:
    if not goal:
        return ""
    cell = number(goal, line.unit)
    return f"{cell}: ×{_better(statistics.median(own), goal, line):.2f}" if own else cell


def _other_cell(
    results: Results, broker: str, scenario: Scenario, line: Line, own: list[float]
) -> str:
    if broker in results.notes:
        return results.notes[broker]
    values = results.values(broker, scenario, line.key)
    faults = results.faults(broker, scenario)
    if not values:
        return f"failed: {faults[0]}" if faults else "-"
    middle = statistics.median(values)
    cell = number(middle, line.unit)
    if own and middle:
        cell += f": ×{_better(statistics.median(own), middle, line):.1f}"
    return f"{cell} ({len(faults)} faults)" if faults else cell


def _better(own: float, other: float, line: Line) -> float:
    if not own or not other:
        return 0.0
    return other / own if line.less_is_better else own / other
