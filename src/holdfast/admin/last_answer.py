"""
Who has answered a command last: whoever it was, what he answered may be of another form.

A command looks for what a node has in its answers. What comes of one without it, far from where it
was read, is told as whose it is, and is no mistake of ours.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

_LAST: Final[ContextVar[str]] = ContextVar("holdfast_last_answered", default="")


def note_answer(address: str) -> None:
    """Note who has answered; empty: begin anew."""
    _LAST.set(address)


def last_answered() -> str:
    """Give who has answered last here; empty: nobody has."""
    return _LAST.get()
