"""
A consumer that settles in transactions and changes its mind; it joins at the first stroke.

What it withdraws is its own again or comes again, whoever leads; what it was told is committed
never comes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble, joined
from trials.simulation.wavering_consumer import WAVERED, WaveringConsumer

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def waver(nemesis: Nemesis) -> bool:
    """Let it come; told of each time it wavers."""
    joined(nemesis.world, WaveringConsumer, "w1")
    return False


TROUBLES = (RareTrouble(name=WAVERED, act=waver, chance=0.01, weight=2),)
