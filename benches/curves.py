"""
What a table of growth is made of: curves, their points, and what a process holds at a point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from machine import KIB
from scenarios import Place


@dataclass(frozen=True)
class Point:
    """One place of a curve: how large, what was measured there, and what was wrong."""

    size: str
    rate: float
    unit: str = "/s"
    note: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Curve:
    """What grows, and how a point of it is measured."""

    name: str
    title: str
    sizes: tuple[int, ...]
    sizes_quick: tuple[int, ...]
    measure: Callable[[Place, int], Point]
    has_own_broker: bool = False
    """Each point needs a node that holds nothing else."""


def resident_bytes(pid: int) -> int:
    """How much memory a process holds now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * KIB
    raise AssertionError(f"process {pid} has no VmRSS")
