"""
Measure Holdfast, and other brokers where they are installed, with one load generator.

One command runs the lines of the speed table, prints medians and ratios, and can write them to
docs/benchmarks.md. Load generator and brokers share this machine; each broker runs alone, in its
own directory, on loopback. A run in which a message was lost or damaged is marked and not counted.

Run: make bench [ARGS="--quick"], or .venv/bin/python benches/run.py --help
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from activemq import ActiveMQ
from brokers import Broker, BrokerError, Holdfast
from document import conditions, document, kept_sections
from generator import Generator, GeneratorMissingError
from machine import heading
from options import table_options
from rabbitmq import RabbitClassic, RabbitQuorum
from report import Results, markdown, number, rich_table, rows
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from scenarios import SCENARIOS, Place, Sample, Scenario

from holdfast.testing.local_cluster import LocalNodeError

BROKERS: list[type[Broker]] = [Holdfast, ActiveMQ, RabbitClassic, RabbitQuorum]
_RUNS_OF_RECORD = 3
_SECONDS = 4.0
_SECONDS_QUICK = 1.5
_PLAIN_WIDTH = 160


def arguments() -> argparse.Namespace:
    parser = table_options(__doc__, "scenario", [scenario.name for scenario in SCENARIOS])
    parser.add_argument("--seconds", type=float, help="length of one load (4; --quick: 1.5)")
    every = ",".join(broker.name for broker in BROKERS)
    parser.add_argument("--against", metavar="NAMES",
                        help=f"brokers, by commas ({every}; --quick: holdfast)")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run")
    given = parser.parse_args()
    given.runs = given.runs or (1 if given.quick else _RUNS_OF_RECORD)
    given.seconds = given.seconds or (_SECONDS_QUICK if given.quick else _SECONDS)
    wanted = (given.against or ("holdfast" if given.quick else every)).split(",")
    unknown = set(wanted) - {broker.name for broker in BROKERS}
    if unknown:
        parser.error(f"--against: unknown {', '.join(sorted(unknown))}; there are {every}")
    given.brokers = [broker for broker in BROKERS if broker.name in wanted]
    return given


class Bench:
    """One measurement from start to end."""

    def __init__(self, given: argparse.Namespace, directory: Path, progress: Progress) -> None:
        self.given = given
        self.directory = directory
        self.progress = progress
        self.task = progress.add_task("starting", total=None)
        self.results = Results()
        self.generator = Generator(directory, given.stompbench)
        self.scenarios = [each for each in SCENARIOS if each.name in given.scenario]

    def measure(self) -> None:
        """Measure every broker in every topology it has; a broker that fails is noted."""
        jobs = []
        for broker in self.given.brokers:
            if reason := broker.missing():
                self.results.notes[broker.name] = reason
                self.progress.console.print(f"{broker.title}: {reason}")
                continue
            for nodes in broker.node_counts:
                scenarios = [each for each in self.scenarios if each.nodes == nodes]
                jobs += [(broker, nodes, scenarios)] if scenarios else []
        total = sum(self._runs(each) for _, _, scenarios in jobs for each in scenarios)
        self.progress.update(self.task, total=total)
        for broker, nodes, scenarios in jobs:
            try:
                self._measure_broker(broker, nodes, scenarios)
            except (BrokerError, LocalNodeError) as error:
                sentence = str(error).partition("\n")[0]
                self.progress.console.print(f"[red]{broker.title}, {nodes} nodes:[/] {error}")
                for scenario in scenarios:
                    self._keep(broker, scenario, Sample(faults=[sentence]))

    def _measure_broker(self, broker: type[Broker], nodes: int, scenarios: list[Scenario]) -> None:
        self.progress.update(self.task, description=f"{broker.title} x{nodes}: starting")
        with broker(self.directory / f"{broker.name}-{nodes}", nodes) as started:
            place = Place(started, self.generator, self.given.seconds, self.directory)
            short = Place(started, self.generator, 1.0, self.directory)
            self.progress.update(self.task, description=f"{broker.title} x{nodes}: warming up")
            for scenario in scenarios[:2]:
                scenario.measure(short)
            # Round by round, so that a slow minute of the machine meets every scenario alike.
            for turn in range(max(self._runs(each) for each in scenarios)):
                for scenario in scenarios:
                    if turn < self._runs(scenario):
                        words = f"{broker.title}: {scenario.name}, run {turn + 1}"
                        self.progress.update(self.task, description=words)
                        self._keep(broker, scenario, scenario.measure(place))
                        self.progress.advance(self.task)

    def _runs(self, scenario: Scenario) -> int:
        return self.given.runs if self.given.quick else max(self.given.runs, scenario.runs_min)

    def _keep(self, broker: type[Broker], scenario: Scenario, sample: Sample) -> None:
        self.results.samples[broker.name, scenario.name].append(sample)
        told = [
            f"{line.key} {number(sample.values[line.key], line.unit)}"
            for line in scenario.lines
            if line.key in sample.values
        ]
        loads = [f"load {run.load_before:.1f}" for run in sample.runs[:1]]
        faults = [f"[red]{'; '.join(sample.faults)}[/]"] if sample.faults else []
        words = ", ".join(told + loads + faults)
        self.progress.console.print(f"{broker.title:18}{scenario.name:14}{words}")


def main() -> int:
    given = arguments()
    # Told to end, it ends its brokers first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PLAIN_WIDTH)
    columns = (TextColumn("{task.description:40}"), BarColumn(), MofNCompleteColumn())
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=given.directory) as name:
        directory = Path(name)
        head = heading(directory)
        begin = time.monotonic()
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            bench = Bench(given, directory, progress)
            try:
                bench.measure()
            except KeyboardInterrupt:
                console.print("interrupted: what follows is what was measured until now")
    told = conditions(bench.results, given, head)
    told["took"] = f"{time.monotonic() - begin:.0f} s"
    heads, cells = rows(bench.results, bench.scenarios, given.brokers)
    for label, words in told.items():
        console.print(f"[bold]{label}[/]: {words}", highlight=False, soft_wrap=True)
    for scenario in bench.scenarios:
        console.print(f"  {scenario.name}: {scenario.command}", highlight=False, soft_wrap=True)
    console.print(rich_table(heads, cells))
    if given.write:
        text = document(told, bench.scenarios, markdown(heads, cells))
        given.write.write_text(text + kept_sections(given.write))
    if given.json:
        record = {"conditions": told, "samples": bench.results.as_json()}
        given.json.write_text(json.dumps(record, indent=1))
    return 1 if bench.results.has_faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except GeneratorMissingError as missing:
        sys.exit(f"bench: {missing}")
