"""
The housekeeper at work between any two steps of the writer: files removed, spare ones filled.

Elsewhere its turns come between those of the writer, never within them. Counted for each step of a
writer before which it changed something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.mixed_housekeeper import WITHIN
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan


def happens_by_itself(_nemesis: Nemesis) -> bool:
    """Nothing is to be done: every process of such a world has it from its start."""
    return False


def _mix(plan: Plan) -> None:
    plan.is_housekeeping_mixed = True
    plan.segment_bytes = 8 * 1024


TROUBLES = (RareTrouble(name=WITHIN, act=happens_by_itself, chance=0.08, weight=1, prepare=_mix),)
