"""
What an ablation is: one safeguard, how to do without it, and the trouble in which it matters.

The lists are in ablations.py and, by topic, in safeguards/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from trials.simulation.faults import Plan, focused, plan
from trials.simulation.simulator import simulate

Patch = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Ablation:
    """A safeguard and how to do without it."""

    name: str
    patches: Callable[[], list[Patch]]
    kinds: tuple[str, ...] = ()
    """Trouble in which it matters; empty for what the seed says."""
    bend: Callable[[Plan], None] = lambda _plan: None
    topology: str = "three"
    """Of the seeds with that trouble, before they are bent."""
    covered_by: str = ""
    """Why no seed is expected to notice; empty where one must."""
    lived: Callable[[int], str] | None = None
    """Live through a seed of another kind of world, and give what was broken in it."""


@contextmanager
def without(ablation: Ablation) -> Iterator[None]:
    """Run with this safeguard off."""
    kept = []
    for owner, name, replacement in ablation.patches():
        kept.append((owner, name, owner.__dict__[name]))
        setattr(owner, name, replacement)
    try:
        yield
    finally:
        for owner, name, original in reversed(kept):
            setattr(owner, name, original)


def made_for(ablation: Ablation, seed: int) -> Plan:
    """The seed's plan, bent towards what the safeguard is for."""
    made = plan(seed)
    if ablation.kinds:
        made = focused(seed, ablation.kinds, topology=ablation.topology)
    ablation.bend(made)
    return made


def broken_in(ablation: Ablation, seed: int) -> str:
    """Live through a seed's world, and give what was broken in it."""
    if ablation.lived is not None:
        return ablation.lived(seed)
    return simulate(seed, made_for(ablation, seed)).violation


def catch(ablation: Ablation, seeds: Sequence[int]) -> tuple[int, str] | None:
    """
    Return the first seed that notices, and what it says; None if none does.

    Only a seed that is fine with the safeguard on counts.
    """
    for seed in seeds:
        with without(ablation):
            violation = broken_in(ablation, seed)
        if violation and not broken_in(ablation, seed):
            return seed, violation
    return None
