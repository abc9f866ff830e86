"""
`python -m trials.soak`: run for hours, or render what an aborted run left.

    python -m trials.soak --hours 0.33
    python -m trials.soak --hours 8 --topology five --seed 7 --report var/soak/night
    python -m trials.soak --render var/soak/night

The exit code is 0 only if all was flat, nothing was lost and no node logged an exception.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from holdfast.environment.clock import SystemClock
from holdfast.testing.local_cluster import TOPOLOGIES
from trials.soak.judgement import Verdict, format_measure
from trials.soak.report import MEASURES, render
from trials.soak.running import Run
from trials.soak.samples import Record, read_record
from trials.soak.settings import SoakSettings

_FOLDER = Path("var/soak")
_FILE_WIDTH = 150
"""Of the tables where the output is no terminal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or render; give the exit code."""
    options = _parser().parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    if options.render is not None:
        return _render(console, options.render)
    seconds = options.seconds if options.seconds is not None else options.hours * 3600
    settings = SoakSettings(
        seconds=seconds,
        topology=options.topology,
        seed=options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 16),
        rate=options.rate,
        fault_seconds=options.fault_seconds,
        has_faults=not options.no_faults,
        warm_up_seconds=options.warm_up,
    )
    started = datetime.fromtimestamp(SystemClock().wall_microseconds() // 1_000_000, tz=UTC)
    name = f"{started:%Y%m%d-%H%M%S}-{settings.topology}-{settings.seed}"
    folder = options.report or _FOLDER / name
    if folder.exists() and any(folder.iterdir()):
        console.print(f"{folder} is not empty: choose another --report, or --render it")
        return 2
    console.print(
        f"{settings.topology}, seed {settings.seed}, {seconds:,.0f} s, a fault about every"
        f" {settings.fault_interval:.0f} s; Ctrl-C ends it with a report in {folder}",
        markup=False,
    )
    run = Run(settings, folder, console, started.isoformat())
    run.run()
    code = _render(console, folder, settings)
    if not options.keep:
        run.clear(is_ok=code == 0)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trials.soak",
        description="Mixed traffic and mild faults on a real cluster; what must stay flat does.",
    )
    parser.add_argument("--hours", type=float, default=0.33, help="how long (default 0.33)")
    parser.add_argument("--seconds", type=float, help="how long, instead of --hours")
    parser.add_argument("--topology", default="three", choices=sorted(TOPOLOGIES))
    parser.add_argument("--seed", type=int, help="of the faults and sizes; random if not given")
    parser.add_argument("--rate", type=float, default=1.0, help="factor on the traffic")
    parser.add_argument("--report", type=Path, help="a folder to write to; default var/soak/…")
    parser.add_argument(
        "--fault-seconds", type=float, default=0.0, help="between faults; default by the length"
    )
    parser.add_argument("--no-faults", action="store_true", help="traffic only")
    parser.add_argument(
        "--warm-up", type=float, default=0.0, help="seconds of each stretch that are not judged"
    )
    parser.add_argument("--keep", action="store_true", help="keep the nodes' data after success")
    parser.add_argument("--render", type=Path, metavar="FOLDER", help="only report on a record")
    return parser


def _render(console: Console, folder: Path, settings: SoakSettings | None = None) -> int:
    try:
        verdict = render(folder, settings)
    except FileNotFoundError:
        console.print(f"there is no record of a soak in {folder}", markup=False)
        return 2
    except ImportError as error:
        console.print(f"the curves need matplotlib (the dev extra): {error}", markup=False)
        return 2
    tell(console, read_record(folder), verdict)
    console.print(f"report: {folder / 'report.html'}", markup=False)
    return 0 if verdict.is_ok else 1


def tell(console: Console, record: Record, verdict: Verdict) -> None:
    """Print the account, the steepest slopes and the verdict."""
    console.print(_accounts(record))
    console.print(_steepest(verdict))
    gaps = sorted(mark.gap_ms for mark in record.faults)
    if gaps:
        middle = gaps[len(gaps) // 2]
        console.print(
            f"{len(gaps)} faults; longest time without a receipt at each: median {middle:,.0f} ms,"
            f" worst {gaps[-1]:,.0f} ms"
        )
    for text in verdict.remarks:
        console.print(f"note: {text}", markup=False)
    for text in verdict.problems:
        console.print(f"PROBLEM {text}", markup=False)
    console.print("ok: flat, and nothing was lost" if verdict.is_ok else "NOT OK")


def _accounts(record: Record) -> Table:
    table = Table(title="Account", title_justify="left")
    table.add_column("traffic")
    names = ("sent", "confirmed", "delivered", "lost", "unflagged", "twice", "unexpected")
    for name in (*names, "redelivered"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in record.accounts:
        numbers = [f"{getattr(row, name):,}" for name in (*names, "redelivered")]
        word = "; ".join(row.faults) or ("ok" if row.is_strict else "may lose")
        table.add_row(row.name, *numbers, word)
    return table


def _steepest(verdict: Verdict) -> Table:
    """The steepest stretch of each measure and node, nearest to its limit."""
    table = Table(title="Steepest stretches", title_justify="left")
    for name in ("measure", "node", "stretch"):
        table.add_column(name)
    for name in ("median", "growth", "flat up to", "per hour"):
        table.add_column(name, justify="right")
    table.add_column("")
    for measure, word in MEASURES.items():
        for node in sorted({each.node for each in verdict.judgements}):
            found = [j for j in verdict.judgements if (j.measure, j.node) == (measure, node)]
            if not found:
                continue
            worst = max(found, key=lambda j: j.trend.growth / j.growth_max)
            trend = worst.trend
            numbers = (trend.median, trend.growth, worst.growth_max, worst.per_hour)
            shown = [format_measure(measure, value) for value in numbers]
            is_flat = "flat" if worst.is_flat else "GROWS"
            table.add_row(word, node, worst.stretch, *shown, is_flat)
    return table


if __name__ == "__main__":
    sys.exit(main())
