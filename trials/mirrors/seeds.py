"""
Many seeds of one world, one after the other: what they met, and which of them broke a promise.

The command line of each simulation of mirrors; a world runs to its end or raises what it found.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from rich.console import Console

_SHOWN_MAX = 200


class SeededWorld(Protocol):
    """One run of a simulation."""

    happened: Counter[str]
    """How often each thing happened in it."""

    def run(self) -> None:
        """Live it to its end; raises the error of its simulation if a promise is broken."""
        ...


def run_seeds(
    about: str,
    world_of: Callable[[int], SeededWorld],
    error: type[Exception],
    outcome: str,
    *,
    count: int,
) -> int:
    """Run the seeds that the command line names, and tell; 1 if one of them came to `outcome`."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--start", type=int, default=1)
    chosen = parser.parse_args()
    happened: Counter[str] = Counter()
    failures = 0
    console = Console()
    for seed in range(chosen.start, chosen.start + chosen.count):
        world = world_of(seed)
        try:
            world.run()
        except error as found:
            failures += 1
            console.print(f"seed {seed}: {str(found)[:_SHOWN_MAX]}")
        happened += world.happened
    console.print(f"{chosen.count:,} seeds, {failures:,} {outcome}: {dict(happened.most_common())}")
    return int(failures > 0)
