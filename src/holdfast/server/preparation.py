"""
What a node needs some day is made ready once it has served for a while.

The tables by which selectors are read, the checks of an operator's changes, the numbers for
Prometheus, what answers in pieces stand on: to import and make them took a third of a node's start,
and nobody asks for them while it starts. Whoever does before they are ready waits for that, and the
loop with him.

Runs in a thread; each import and each table is made once, whoever comes first.
"""

from __future__ import annotations

import importlib
from typing import Final

PREPARE_SECONDS: Final = 10.0
"""So long after the ports have opened: a takeover is over, and clients are back."""

_NEEDED_SOME_DAY: Final = (
    "holdfast.admin.bodies",
    "holdfast.admin.metrics",
    "holdfast.admin.user_bodies",
    # Starlette's streams import it by this name when the first answer in pieces goes out.
    "anyio._backends._asyncio",
)


def prepare() -> None:
    """Import and make what may be asked for."""
    for name in _NEEDED_SOME_DAY:
        importlib.import_module(name)
    importlib.import_module("holdfast.selectors.grammar").prepare()
