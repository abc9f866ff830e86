"""
Run what shows each promise, and write docs/reference/promises.md from what came of it.

    python -m trials.promises                      everything: about a quarter of an hour
    python -m trials.promises --from report.json   with a chaos report that is there
    python -m trials.promises --only simulator     one source anew; the others as kept
    python -m trials.promises --render             write the page from what is kept
    python -m trials.promises --check              is the page true? writes nothing but
                                                             build/promises.md
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from trials import failover_times
from trials.promises import evidence, simulations, table, verdicts

SOURCES = {
    "simulator": "simulations",
    "tests": "tests",
    "chaos": "chaos",
    "kills": "failover",
}
"""What can be run, and the name of its evidence: a source that is run anew forgets what it knew."""
BUILD_PAGE = evidence.REPOSITORY / "build" / "promises.md"
_CHAOS_REPORTS = evidence.REPOSITORY / "var" / "chaos"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m trials.promises")
    parser.add_argument("--seeds", type=int, default=40, help="of each simulated scenario")
    parser.add_argument("--kills", type=int, default=50, help="of the leader, as real processes")
    parser.add_argument("--silences", type=int, default=20, help="of the leader, as real processes")
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="of chaos by chance, instead of every scenario"
    )
    parser.add_argument(
        "--from",
        dest="reports",
        type=Path,
        nargs="+",
        default=[],
        help="chaos reports to take instead of running chaos",
    )
    parser.add_argument(
        "--only", choices=list(SOURCES), nargs="+", default=[], help="run these only"
    )
    parser.add_argument(
        "--skip", choices=list(SOURCES), nargs="+", default=[], help="run all but these"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="of the simulator")
    parser.add_argument("--render", action="store_true", help="run nothing, write the page")
    parser.add_argument("--check", action="store_true", help="run nothing, judge the page")
    return parser


# Sources ------------------------------------------------------------------------------------------


def run_simulator(console: Console, seeds: int, jobs: int) -> None:
    """Run every simulated scenario over so many seeds and keep what came of them."""
    orders = [(name, seeds) for name in simulations.SCENARIOS]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for runs in pool.imap_unordered(simulations.run_named, orders):
            word = f"BROKEN {runs.broken[0]}" if runs.broken else "ok"
            if runs.missing:
                word += f"; did not happen: {', '.join(runs.missing)}"
            console.print(f"simulator, {runs.name}: {runs.seeds} seeds, {word}", markup=False)
            evidence.save_simulations([runs])


def run_tests(console: Console) -> None:
    """Run the marked tests; the hook of tests/conftest.py keeps what came of them."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "promise", "tests"]
    code = subprocess.run(command, cwd=evidence.REPOSITORY, check=False).returncode  # noqa: S603
    console.print(f"marked tests: exit code {code}", markup=False)


def run_chaos(console: Console, minutes: float, reports: Sequence[Path]) -> None:
    """Take chaos reports, or run every named scenario (or so many minutes) and take its report."""
    chosen = list(reports)
    if not chosen:
        before = set(_CHAOS_REPORTS.glob("*/report.json"))
        command = [sys.executable, "-m", "trials.chaos"]
        command += ["--minutes", f"{minutes:g}"] if minutes else ["--scenario", "all"]
        code = subprocess.run(command, cwd=evidence.REPOSITORY, check=False).returncode  # noqa: S603
        console.print(f"chaos: exit code {code}", markup=False)
        chosen = sorted(set(_CHAOS_REPORTS.glob("*/report.json")) - before)
    for report in chosen:
        count = evidence.save_chaos(report)
        console.print(f"chaos: {count} scenarios of {report}", markup=False)


# The page -----------------------------------------------------------------------------------------


def _tell(console: Console, known: evidence.Evidence) -> int:
    broken = 0
    for row in verdicts.judge_all(known):
        broken += row.status == verdicts.BROKEN
        console.print(f"{row.promise.fault:>4}  {row.status}", markup=False)
        for trouble in row.troubles:
            console.print(f"      {trouble}", markup=False)
    return broken


def check(console: Console) -> int:
    """Write build/promises.md from what is kept, and judge the page of the documentation."""
    known = evidence.load()
    table.write(table.render(known), BUILD_PAGE)
    page = table.PAGE.read_text(encoding="utf-8") if table.PAGE.exists() else ""
    problems = table.check(page, known) if page else [f"{table.PAGE} is not there"]
    for problem in problems:
        console.print(f"docs/reference/promises.md: {problem}", markup=False)
    if not problems:
        console.print("docs/reference/promises.md says nothing that was not shown", markup=False)
    return 1 if problems else 0


def _end(_number: int, _frame: object) -> None:
    raise SystemExit(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and write the page; the exit code is 1 if a promise is broken."""
    chosen = _parser().parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True)
    if chosen.check:
        return check(console)
    signal.signal(signal.SIGTERM, _end)
    wanted = [name for name in chosen.only or list(SOURCES) if name not in chosen.skip]
    if not chosen.render:
        for name in wanted:
            evidence.forget(SOURCES[name])
        if "simulator" in wanted:
            run_simulator(console, chosen.seeds, chosen.jobs)
        if "tests" in wanted:
            run_tests(console)
        if "chaos" in wanted:
            run_chaos(console, chosen.minutes, chosen.reports)
        if "kills" in wanted:
            failover_times.main(["--kills", str(chosen.kills), "--silences", str(chosen.silences)])
    known = evidence.load()
    page = table.render(known)
    table.write(page, table.PAGE)
    table.write(page, BUILD_PAGE)
    broken = _tell(console, known)
    console.print(f"written: {table.PAGE}", markup=False)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
