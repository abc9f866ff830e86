"""
What a process does that may open no further file, switched off.

A disk that was asked nothing has not failed, so no excuse covers a node that ends over it.
"""

from __future__ import annotations

from holdfast.journal import housekeeper
from trials.safeguards.ablation import Ablation, Patch


def _blame_the_disk() -> list[Patch]:
    return [(housekeeper, "is_out_of_descriptors", lambda _error: False)]


ABLATIONS = [
    Ablation(
        "wait for a descriptor when a spare segment file cannot be opened",
        _blame_the_disk,
        ("descriptors run out",),
    ),
]
