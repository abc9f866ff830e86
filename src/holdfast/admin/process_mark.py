"""
By what a process is known to be the one that was meant, and not another one at the same address.

Each process of a node has a word of its own, its life. What brokers that wait tell of themselves in
a store, or members each other, has it; whoever reaches the admin port is told a digest of it, by
which nothing can be proven.
"""

from __future__ import annotations

import hashlib
from typing import Final

MARK: Final = "process"
"""Under which name `/health` tells it."""

PLACE: Final = "place"
"""The same of where on the network it is."""

_LENGTH: Final = 32


def mark_of(life: str) -> str:
    """Give the mark of a process by its life: 32 hexadecimal digits."""
    return hashlib.sha256(f"holdfast process {life}".encode()).hexdigest()[:_LENGTH]


def place_mark_of(life: str, place: str) -> str:
    """
    Give the mark of a place for who knows this life, and for nobody else: 32 hexadecimal digits.

    Args:
        place: As `environment.network_place` tells it; empty gives an empty mark.
    """
    if not place:
        return ""
    return hashlib.sha256(f"holdfast place {life} {place}".encode()).hexdigest()[:_LENGTH]
