"""
What happens to a link besides messages; queued among them, because their order counts.

A message that came before a link's end is judged by what the link's other end said of itself; one
that comes after it is of nobody. So the driver queues all of it in one line and takes it in turn.
"""

from __future__ import annotations

from typing import Final

from holdfast.replication.messages import Hello


class LinkUp:
    """A link was made to the node of this hello."""

    __slots__ = ("hello",)

    def __init__(self, hello: Hello) -> None:
        self.hello = hello


class Moving:
    """A part of a message went to a peer or came from it."""

    __slots__ = ("has_entries",)

    def __init__(self, has_entries: bool) -> None:
        self.has_entries = has_entries
        """It came, and is part of an append request: only who leads sends those."""


MOVING: Final = Moving(has_entries=False)
MOVING_ENTRIES: Final = Moving(has_entries=True)


class LinkDown:
    """A link is gone; what came on it before was queued before."""

    __slots__ = ("closed",)

    def __init__(self, closed: bool) -> None:
        self.closed = closed
