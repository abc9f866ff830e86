"""
Clients that acknowledge what they were never given.

The client itself is in testing/strangers.py; it joins such a world at the first stroke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble, joined
from trials.simulation.strangers import GUESSED, Stranger

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def guess(nemesis: Nemesis) -> bool:
    """Let a stranger guess; told of when it has."""
    joined(nemesis.world, Stranger, "x1").volley()
    return False


TROUBLES = (RareTrouble(name=GUESSED, act=guess, chance=0.08, weight=12),)
