"""
What voters have promised to leaders: that no other dispatches on their vote for a while.

Values only; what is made of them stands in `lease`.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.replication.messages import Hello

_NEVER = float("-inf")


class Promise:
    """What one voter has promised, by its own clock; in memory only."""

    __slots__ = ("holder", "older_until", "term", "until")

    def __init__(self) -> None:
        self.term = 0
        """Of the leader that was promised to last."""
        self.holder: Hello | None = None
        """Its node and process."""
        self.until = _NEVER
        self.older_until = _NEVER
        """The same for all leaders before that one."""


class Answer(NamedTuple):
    """What a voter has promised, by the clock of the leader that was told."""

    term: int
    until: float
    older_until: float
