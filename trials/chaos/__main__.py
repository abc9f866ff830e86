"""
`python -m trials.chaos`: hurt real clusters for some minutes and account for everything.

Without arguments it runs ten minutes over all topologies, each with a mix of faults drawn from a
seed that it prints. Ends with a table, report.json, and 1 as exit code if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from holdfast.environment.clock import SystemClock
from holdfast.errors import ConfigError, HoldfastError
from holdfast.testing.local_cluster import LocalNodeError
from trials.chaos.network import KINDS as NETWORKS
from trials.chaos.network import NetworkUnavailableError
from trials.chaos.report import RunReport, ScenarioReport, write_tables
from trials.chaos.runner import RunSettings, run_schedule
from trials.chaos.scenarios import SCENARIOS, named
from trials.chaos.schedule import KINDS, TOPOLOGIES, Schedule, deal, read_schedules

_AROUND_SECONDS = 10.0
"""Start, first load, healing, draining and verification of one cluster, about."""

_FAULT_SECONDS_MIN = 15.0
"""A topology that could not be hurt for so long is not begun."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; exits on a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m trials.chaos", description="Real brokers, hurt on purpose."
    )
    add = parser.add_argument
    add("--minutes", type=float, default=10.0, help="of mixes over the topologies (10)")
    add("--scenario", nargs="+", default=[], metavar="NAME", help="these instead; `all` for each")
    add("--topology", nargs="+", default=[], choices=TOPOLOGIES, help="only these")
    add("--seed", type=int, help="draw the same mixes again")
    add("--network", choices=NETWORKS, help="namespaces (root) where possible, else proxies")
    add("--schedule", type=Path, metavar="FILE", help="schedules as JSON, or a report.json")
    add("--folder", type=Path, default=Path("var/chaos"), help="for artefacts (var/chaos)")
    add("--keep", action="store_true", help="keep logs, histories and data folders in any case")
    add("--json", action="store_true", help="write the report to standard output, words elsewhere")
    add("--list", action="store_true", help="the scenarios and kinds of faults, and run nothing")
    return parser.parse_args(arguments)


def schedules_of(options: argparse.Namespace, seed: int) -> list[Schedule]:
    """
    What is to be run.

    Raises:
        ConfigError: A scenario, a schedule or a combination makes no sense.
        OSError: The schedule's file cannot be read.
    """
    if options.schedule:
        found = read_schedules(options.schedule)
        wanted = options.topology
        return [each for each in found if not wanted or each.topology in wanted]
    if options.scenario:
        names = list(SCENARIOS) if options.scenario == ["all"] else options.scenario
        return [each for name in names for each in _scenario(name, options.topology, seed)]
    topologies = list(options.topology or TOPOLOGIES)
    seconds = options.minutes * 60
    most = max(1, int(seconds // (_AROUND_SECONDS + _FAULT_SECONDS_MIN)))
    if most < len(topologies):
        topologies = random.Random(seed).sample(topologies, most)  # noqa: S311 - to be repeated
    share = max(_FAULT_SECONDS_MIN, seconds / len(topologies) - _AROUND_SECONDS)
    return deal(seed, dict.fromkeys(topologies, share))


def _scenario(name: str, topologies: Sequence[str], seed: int) -> list[Schedule]:
    scenario = named(name)
    wanted = [each for each in topologies if each in scenario.topologies]
    if topologies and not wanted:
        offered = ", ".join(scenario.topologies)
        raise ConfigError([f"scenario: {scenario.name} is for {offered} only"])
    return [scenario.schedule(each, seed) for each in wanted or scenario.topologies[:1]]


class Chaos:
    """One run from the command line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.console = Console(stderr=options.json, soft_wrap=True)
        if not self.console.is_terminal:
            self.console.width = 150
        seed = options.seed
        self.seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
        now = datetime.fromtimestamp(SystemClock().wall_microseconds() / 1e6, UTC)
        self.started = now.isoformat(timespec="seconds")
        self.folder = options.folder / f"{now:%Y%m%d-%H%M%S}-{self.seed}-{os.getpid()}"
        self.began = time.monotonic()
        self.reports: list[ScenarioReport] = []

    def tell(self, text: str) -> None:
        """A line of progress, with the time since the start."""
        elapsed = time.monotonic() - self.began
        line = f"{elapsed:7.1f} {text}"
        self.console.print(line, highlight=False, markup=False)

    def run(self) -> int:
        """Run everything that was asked for; the exit code."""
        schedules = schedules_of(self.options, self.seed)
        asked = f"--seed {self.seed}"
        self.tell(f"{asked}, {len(schedules)} schedules; report and artefacts in {self.folder}")
        is_interrupted = False
        for number, schedule in enumerate(schedules):
            try:
                self.reports.append(self._run_one(number, schedule))
            except KeyboardInterrupt:
                self.tell("interrupted; everything that was started is gone")
                is_interrupted = True
                break
        report = self._report()
        report.write(self.folder / "report.json")
        write_tables(self.console, report)
        if self.options.json:
            sys.stdout.write(json.dumps(report.to_json()) + "\n")
        bad = [each for each in self.reports if not each.is_good]
        if bad:
            self.tell(
                f"WRONG: {len(report.problems)} problems; repeat with --schedule"
                f" {self.folder / 'report.json'}; logs, histories and data folders are beside it"
            )
        elif not is_interrupted:
            self.tell(f"all well; {self.folder / 'report.json'}")
        return 130 if is_interrupted else 1 if bad else 0

    def _run_one(self, number: int, schedule: Schedule) -> ScenarioReport:
        name = schedule.name.replace(" ", "-").replace("'", "")
        folder = self.folder / f"{number + 1:02}-{name}-{schedule.topology}"
        limit = f", {schedule.seconds:.0f} s of faults" if schedule.seconds else ""
        self.tell(f"--- {schedule.name} on {schedule.topology}, seed {schedule.seed}{limit}")
        settings = RunSettings(network=self.options.network)
        is_kept = True
        try:
            report = run_schedule(
                schedule, folder, settings, lambda text: self.tell(f"{schedule.topology}: {text}")
            )
            is_kept = not report.is_good
        except (HoldfastError, LocalNodeError, OSError, TimeoutError) as error:
            text = f"{type(error).__name__}: {error}"
            report = ScenarioReport(
                name=schedule.name,
                topology=schedule.topology,
                seed=schedule.seed,
                problems=(text,),
                schedule=schedule,
            )
        except KeyboardInterrupt:
            is_kept = False
            raise
        finally:
            if not is_kept and not self.options.keep:
                shutil.rmtree(folder, ignore_errors=True)
        self._tell_of(report)
        return replace(report, schedule=schedule)

    def _tell_of(self, report: ScenarioReport) -> None:
        phases = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in report.phases.items())
        word = "good" if report.is_good else "WRONG"
        self.tell(
            f"{report.topology}: {word}: {len(report.steps)} faults,"
            f" {report.confirmed:,} confirmed, {report.delivered:,} delivered, {report.lost} lost,"
            f" {report.elections} elections; {phases}"
        )
        for problem in report.problems:
            self.tell(f"{report.topology}: WRONG: {problem.splitlines()[0]}")

    def _report(self) -> RunReport:
        networks = sorted({each.network for each in self.reports if each.network})
        return RunReport(
            started=self.started,
            seed=self.seed,
            network=", ".join(networks),
            machine={"cores": os.cpu_count(), "kernel": os.uname().release},
            scenarios=tuple(self.reports),
            seconds=time.monotonic() - self.began,
        )


def write_list(console: Console) -> None:
    """Write what there is to choose from."""
    scenarios = Table(title="scenarios")
    for name in ("name", "shows", "topologies", "what must be seen"):
        scenarios.add_column(name)
    for each in SCENARIOS.values():
        topologies = ", ".join(each.topologies)
        scenarios.add_row(each.name, " ".join(each.faults), topologies, each.says)
    console.print(scenarios)
    faults = Table(title="kinds of faults")
    for name in ("fault", "shows", "where", "topologies"):
        faults.add_column(name)
    for kind in KINDS.values():
        topologies = "all" if kind.topologies == TOPOLOGIES else ", ".join(kind.topologies)
        faults.add_row(kind.name, " ".join(kind.shows), ", ".join(kind.where), topologies)
    console.print(faults)


def _end(number: int, _frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough: the way out must not be cut short
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    """Give the exit code: 0 all well, 1 something was wrong, 2 a mistake, 130 interrupted."""
    options = parse(arguments)
    console = Console(stderr=True)
    if options.list:
        write_list(Console())
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        return Chaos(options).run()
    except (ConfigError, NetworkUnavailableError, OSError) as error:
        console.print(str(error), style="red", markup=False)
        return 2


if __name__ == "__main__":
    sys.exit(main())
