"""
Run simulated worlds from the command line: one seed with its story, or many with their sums.

    python -m trials.simulate --seed 4711
    python -m trials.simulate --count 2000 --start 1 --jobs 2
    python -m trials.simulate --count 200 --topology three
    python -m trials.simulate --count 200 --leased
    python -m trials.simulate --count 200 --several

With `--leased` the worlds are those of brokers over one log that several reach. A seed that breaks
a promise prints the one line that repeats it; its transcript is kept in `var/simulation`. The exit
code says whether all promises were kept.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from trials.leased import running as leased
from trials.simulation.faults import DESTRUCTIVE, LAST, OPERATORS, SAFE, TOPOLOGIES, plan
from trials.simulation.generations import GIVEN_UP, UNDONE
from trials.simulation.late_consumer import LATE
from trials.simulation.simulator import Result, simulate
from trials.simulation.workload import RENEWED
from trials.troubles import DRAWN
from trials.troubles.forced_promotions import AWAKE, CUT_SHORT, RETURNED
from trials.troubles.long_outages import BROUGHT_UP, WITNESS_OUTAGE
from trials.troubles.promoted_together import SITE_BACK

STORIES = Path("var/simulation")
_STORY_LINES = 40
FAULTS = (
    *SAFE,
    *DESTRUCTIVE,
    *LAST,
    *OPERATORS,
    *DRAWN,
    "message delayed",
    "message lost",
    "message doubled",
    "message reordered",
    "message late",
    "message 20 to 30 s late",
    "torn write",
    "lost unsynced write",
    "lost unsynced name",
    "restart",
    "site back",
    "damage mended",
    "operator empties a disk",
    GIVEN_UP,
    UNDONE,
    LATE,
    RETURNED,
    AWAKE,
    CUT_SHORT,
    SITE_BACK,
    BROUGHT_UP,
    WITNESS_OUTAGE,
)
"""All that can go wrong, or be done about it."""
ACTS = (
    "confirmation",
    "sent again",
    RENEWED,
    "delivery",
    "delivered again, flagged",
    "acknowledgement confirmed",
    "acknowledged late",
    "client rejects a message",
    "client dies with unacknowledged messages",
    "transaction",
    "transaction sent again",
    "transaction rolled back",
    "client died in a transaction",
    "failover followed",
    "topic delivery",
    "non-persistent delivery",
)
"""What clients can do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; the exit code is 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m trials.simulate")
    parser.add_argument("--seed", type=int, help="run this one and tell its story")
    parser.add_argument("--count", type=int, default=100, help="run so many")
    parser.add_argument("--start", type=int, default=1, help="the first seed of --count")
    parser.add_argument("--jobs", type=int, default=1, help="processes at once")
    parser.add_argument("--topology", default="", choices=["", *TOPOLOGIES], help="only this one")
    parser.add_argument("--leased", action="store_true", help="brokers over a shared log")
    parser.add_argument("--several", action="store_true", help="over a log in several databases")
    chosen = parser.parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True)
    if chosen.leased or chosen.several:
        kind = leased.SEVERAL if chosen.several else leased.LEASED
        if chosen.seed is not None:
            return leased.tell(console, chosen.seed, STORIES, kind)
        seeds = range(chosen.start, chosen.start + chosen.count)
        return leased.run_many(console, seeds, chosen.jobs, STORIES, kind)
    if chosen.seed is not None:
        return tell(console, chosen.seed, chosen.topology)
    seeds = range(chosen.start, chosen.start + chosen.count)
    return run_many(console, seeds, chosen.jobs, chosen.topology)


def tell(console: Console, seed: int, topology: str = "") -> int:
    """Run one seed, write its transcript, and print its end."""
    result = simulate(seed, plan(seed, topology=topology), is_watched=True)
    path = keep_story(result)
    for line in result.transcript[-_STORY_LINES:]:
        console.print(line, markup=False)
    console.print(f"seed {seed}: {result.plan}", markup=False)
    console.print(f"{_sums([result])}; digest {result.digest}; all of it in {path}", markup=False)
    console.print(f"BROKEN {result.violation}" if result.violation else "all promises were kept")
    return 1 if result.violation else 0


def keep_story(result: Result) -> Path:
    """Write a transcript where it can be read at leisure."""
    STORIES.mkdir(parents=True, exist_ok=True)
    path = STORIES / f"seed-{result.seed}.txt"
    path.write_text("\n".join([*result.transcript, ""]), encoding="utf-8")
    return path


def run_many(console: Console, seeds: range, jobs: int, topology: str = "") -> int:
    """Run seeds one after the other, or several at once, and print what came of them."""
    began = time.perf_counter()
    results: list[Result] = []
    cpu = 0.0
    for result, seconds in _results(seeds, jobs, topology):
        results.append(result)
        cpu += seconds
        if result.violation:
            made = plan(result.seed, topology=topology)
            keep_story(simulate(result.seed, made, is_watched=True))
            only = f" ARGS='--topology {topology}'" if topology else ""
            console.print(f"seed {result.seed} BROKEN {result.violation}", markup=False)
            console.print(f"    repeat it: make simulate SEED={result.seed}{only}", markup=False)
    elapsed = time.perf_counter() - began
    broken = sum(bool(result.violation) for result in results)
    count = len(results)
    console.print(_sums(results), markup=False)
    console.print(f"topologies: {_counted(_topologies(results))}", markup=False)
    faults = sum((result.faults for result in results), Counter[str]())
    acts = sum((result.acts for result in results), Counter[str]())
    console.print(f"faults: {_counted(faults)}", markup=False)
    console.print(f"clients: {_counted(acts)}", markup=False)
    missing = [kind for kind in FAULTS if not faults[kind]] + [it for it in ACTS if not acts[it]]
    console.print(f"did not happen: {', '.join(missing) or 'nothing'}", markup=False)
    console.print(
        f"{count} seeds in {elapsed:.1f} s: {count / elapsed:.1f} a second,"
        f" {count / cpu:.1f} per second of one core; {broken} broken",
        markup=False,
    )
    return 1 if broken else 0


def _results(seeds: range, jobs: int, topology: str) -> Iterator[tuple[Result, float]]:
    run = partial(_timed, topology=topology)
    if jobs == 1:
        yield from map(run, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs) as pool:
        yield from pool.imap(run, seeds, chunksize=8)


def _timed(seed: int, *, topology: str) -> tuple[Result, float]:
    """Run one seed; also the processor's seconds that it took."""
    began = time.process_time()
    result = simulate(seed, plan(seed, topology=topology))
    return result, time.process_time() - began


def _topologies(results: Iterable[Result]) -> Counter[str]:
    found = Counter(result.plan.split(",", 1)[0] for result in results)
    return Counter({name: found[name] for name in TOPOLOGIES if found[name]})


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in counts.most_common() if count)


def _sums(results: Sequence[Result]) -> str:
    def total(name: str) -> str:
        return f"{sum(getattr(result, name) for result in results):,}"

    return (
        f"operations {total('operations')}"
        f" ({sum(result.operations for result in results) / max(1, len(results)):,.0f} a seed),"
        f" confirms {total('confirms')}, deliveries"
        f" {total('deliveries')} (again {total('duplicates')}, all flagged), elections"
        f" {total('elections')}, entries {total('entries')},"
        f" virtual seconds {sum(result.seconds for result in results):,.0f}"
    )


if __name__ == "__main__":
    sys.exit(main())
