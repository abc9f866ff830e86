"""
Worlds lived through until something happened in one: which seed has it changes with what is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.safeguards.ablation import without
from trials.simulation.faults import focused
from trials.simulation.simulator import Result, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trials.safeguards.ablation import Ablation
    from trials.simulation.faults import Plan


FAILOVERS = ("crash", "power cut", "transfer", "pause", "partition", "heal network")


def busy(seed: int, happening: str, *others: str) -> Plan:
    """Give a seed a lot of one kind of happening, among others, and traffic for it to happen in."""
    made = focused(seed, (happening, *others))
    made.kinds |= {happening: 6}
    made.operations = 1_200
    made.chaos_seconds = max(made.chaos_seconds, 6.0)
    return made


def first_with(
    happened: str, plan: Callable[[int], Plan], seeds: Iterable[int] = range(1, 41)
) -> Result:
    """Give the end of the first world that had it; in none was a promise broken up to there."""
    for seed in seeds:
        result = simulate(seed, plan(seed))
        assert "" == result.violation, f"seed {seed}: {result.violation}"
        if result.faults[happened]:
            return result
    raise AssertionError(f"none of these seeds has {happened!r}")


def assert_kept(
    plan: Callable[[int], Plan], *, first: int, count: int, happened: Iterable[str]
) -> None:
    """
    Live through so many worlds, and through more until each of these happened in one: in none may
    a promise be broken.
    """
    missing = set(happened)
    for seed in range(first, first + 40):
        if seed >= first + count and not missing:
            return
        result = simulate(seed, plan(seed))
        assert "" == result.violation, f"seed {seed}: {result.violation}"
        missing = {it for it in missing if not result.faults[it]}
    assert not missing, f"no seed from {first} on has {sorted(missing)}"


def first_broken(
    plan: Callable[[int], Plan], seeds: Iterable[int] = range(1, 41), *, naming: str = ""
) -> str:
    """
    Give what was broken in the first world in which something was; empty if nothing was.

    Only what names this counts, if anything is to be named: one cause may show in several ways.
    """
    broken = (simulate(seed, plan(seed)).violation for seed in seeds)
    return next((it for it in broken if it and naming in it), "")


def all_kept(plan: Callable[[int], Plan], count: int) -> list[Result]:
    """Give the ends of so many worlds; in none was a promise broken."""
    results = [simulate(seed, plan(seed)) for seed in range(1, count + 1)]
    assert [""] * count == [result.violation for result in results]
    return results


def broken_without(
    ablation: Ablation, plan: Callable[[int], Plan], seeds: Iterable[int], *, naming: str = ""
) -> str:
    """Give what was broken first without a safeguard; see `first_broken`."""
    with without(ablation):
        return first_broken(plan, seeds, naming=naming)
