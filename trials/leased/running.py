"""
Leased worlds from the command line: one seed with its story, or many with their sums.

The seeds' stories are kept beside those of other worlds; a seed that breaks a promise prints the
one line that repeats it. What did not happen in any of them is named: a trouble that never comes
proves nothing.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from trials.leased.judge import CONFIRMED_WITHOUT, OUTLIVED
from trials.leased.plan import (
    ELECTOR_KINDS,
    ENDINGS,
    FULL,
    HEALED,
    KINDS,
    LARGE_LEFT,
    LARGE_LEFT_ONE_AWAY,
    OF_ADDRESSES,
    OF_LARGE,
    OF_NAMES,
    OF_SEVERAL,
    Plan,
    plan,
    plan_of_several,
)
from trials.leased.simulator import LeasedResult, simulate

_STORY_LINES = 40
HAPPENINGS = (
    *KINDS,
    *ELECTOR_KINDS,
    *OF_NAMES,
    OUTLIVED,
    "elector asked",
    "elector silent",
    "taken of a session that ended",
    *(it for it in ENDINGS if it != HEALED),
    "lost request",
    "lost reply",
    "late",
    "slow reply",
    "refused",
    "cleaned",
    "cache begun anew",
    "damage met",
    "holder known to be gone",
    "unsynced entry cut",
    "entry written where nobody reads",
    "look at an old claim",
)
"""All that can happen in such a world."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of worlds."""

    flag: str
    """How it is asked for."""

    plan: Callable[[int], Plan]
    happenings: tuple[str, ...]
    """All that can happen in it."""


LEASED = Kind("--leased", plan, HAPPENINGS)
SEVERAL = Kind(
    "--several",
    plan_of_several,
    (
        *(it for it in KINDS if it != FULL),
        *OF_SEVERAL,
        *OF_LARGE,
        *OF_NAMES,
        OUTLIVED,
        *OF_ADDRESSES,
        LARGE_LEFT,
        LARGE_LEFT_ONE_AWAY,
        "lost request",
        "lost reply",
        "late",
        CONFIRMED_WITHOUT,
    ),
)


def tell(console: Console, seed: int, stories: Path, kind: Kind = LEASED) -> int:
    """Run one seed, write its transcript, and print its end."""
    result = _quietly(kind, seed)
    path = _keep(result, stories)
    for line in result.transcript[-_STORY_LINES:]:
        console.print(line, markup=False)
    console.print(f"seed {seed}: {result.plan}; digest {result.digest}; all of it in {path}")
    console.print(f"BROKEN {result.violation}" if result.violation else "all promises were kept")
    return 1 if result.violation else 0


def run_many(console: Console, seeds: range, jobs: int, stories: Path, kind: Kind = LEASED) -> int:
    """Run seeds one after the other, or several at once, and print what came of them."""
    began = time.perf_counter()
    faults: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    broken = 0
    for result in _results(kind, seeds, jobs):
        faults += result.faults
        counts += result.counts + Counter(epochs=result.takes, virtual_seconds=int(result.seconds))
        if result.violation:
            broken += 1
            _keep(result, stories)
            console.print(f"seed {result.seed} BROKEN {result.violation}", markup=False)
            console.print(f"    repeat it: make simulate SEED={result.seed} ARGS={kind.flag}")
    elapsed = time.perf_counter() - began
    console.print(f"brokers: {_counted(counts)}", markup=False)
    console.print(f"faults: {_counted(faults)}", markup=False)
    missing = [it for it in kind.happenings if not faults[it]]
    console.print(f"did not happen: {', '.join(missing) or 'nothing'}", markup=False)
    console.print(f"{len(seeds)} seeds in {elapsed:.1f} s; {broken} broken", markup=False)
    return 1 if broken else 0


def _results(kind: Kind, seeds: range, jobs: int) -> Iterator[LeasedResult]:
    if jobs == 1:
        yield from map(partial(_quietly, kind), seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(partial(_quietly, kind), seeds, chunksize=8)


def _quietly(kind: Kind, seed: int) -> LeasedResult:
    """What the brokers log is of no use here: it has no time of this world."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return simulate(seed, kind.plan(seed))
    finally:
        logging.disable(before)


def _keep(result: LeasedResult, stories: Path) -> Path:
    stories.mkdir(parents=True, exist_ok=True)
    path = stories / f"leased-{result.seed}.txt"
    path.write_text("\n".join([*result.transcript, ""]), encoding="utf-8")
    return path


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in counts.most_common() if count)
