"""
Clients that acknowledge what they were never given.

The client itself is in testing/strangers.py; it joins such a world at the first stroke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.testing.rare_trouble import RareTrouble
from holdfast.testing.strangers import GUESSED, Stranger

if TYPE_CHECKING:
    from holdfast.testing.faults import Nemesis


def guess(nemesis: Nemesis) -> bool:
    """Let a stranger guess; told of when it has."""
    world = nemesis.world
    strangers = [client for client in world.clients if isinstance(client, Stranger)]
    if not strangers:
        strangers = [Stranger(world, "x1")]
        world.clients += strangers
    strangers[0].volley()
    return False


TROUBLES = (RareTrouble(name=GUESSED, act=guess, chance=0.08, weight=12),)
