"""
The connections inside a port, each in a group: of who holds it, or of where it is from.

What finds out who goes when a port is full needs to know who has many. See `admission` for the port
of clients, and `admin.places`.

Pure. Owned by the loop.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

TELL_SECONDS: Final = 60.0
"""What may happen very often is told of at most once in this time, with how often it did."""

T = TypeVar("T")


class Inside(Generic[T]):
    """Connections by their groups; a group is there as long as it has one."""

    __slots__ = ("_group_of", "by_group")

    def __init__(self) -> None:
        self._group_of: dict[T, str] = {}
        self.by_group: dict[str, dict[T, None]] = {}
        """Those of each, in the order in which they came to it; whoever reads may reorder them."""

    def __len__(self) -> int:
        return len(self._group_of)

    def put(self, connection: T, group: str) -> None:
        """Let one that is not inside be in this group."""
        self._group_of[connection] = group
        self.by_group.setdefault(group, {})[connection] = None

    def leave(self, connection: T) -> None:
        """Forget a connection that is gone; fine if it is not inside."""
        group = self._group_of.pop(connection, None)
        if group is not None:
            of_group = self.by_group[group]
            del of_group[connection]
            if not of_group:
                del self.by_group[group]

    def group_of(self, connection: T) -> str | None:
        """In which group it is; None: it is not inside."""
        return self._group_of.get(connection)

    def count(self, group: str) -> int:
        """How many are in a group."""
        return len(self.by_group.get(group, ()))

    def clear(self) -> None:
        """Forget all."""
        self._group_of.clear()
        self.by_group.clear()


class NowAndThen:
    """Whether it is time to tell of something once more."""

    __slots__ = ("_told_at",)

    def __init__(self) -> None:
        self._told_at: float | None = None

    def is_due(self, now: float) -> bool:
        """Whether to tell it now, in seconds of the monotonic clock; whoever asks tells it."""
        if self._told_at is not None and now - self._told_at < TELL_SECONDS:
            return False
        self._told_at = now
        return True
