"""
Connections to the peer port that have proven nothing yet, and who of them gives way.

Anybody can connect; only members can prove the secret. So places are few, and when they are taken
the one that has said nothing for longest gives way to the newest: a member proves itself within
a round trip, silence fills places only. Our own dials are no strangers. Pure: times are arguments.

Invariants:
    From one source at most `strangers_per_source_max`.
    From sources that are no member's at most `strangers_max` in all; members' sources have places
    of their own, which nobody else's connections can take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

from holdfast.replication.settings import LinkSettings

T = TypeVar("T")


class Strangers(Generic[T]):
    """The connections that others made to us and that have not yet proven themselves."""

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings
        self._sources: dict[T, str] = {}
        """In the order in which they came."""
        self._told: set[str] = set()
        self._told_since = float("-inf")
        self.crowded_out = 0
        """How many had to give way so far."""

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._sources))

    def __contains__(self, connection: object) -> bool:
        return connection in self._sources

    def enter(self, connection: T, source: str, members: Collection[str]) -> T | None:
        """
        Take a new connection in; return the one that has to give way to it, if any.

        Args:
            source: Where it comes from, see `network_of`.
            members: The sources of the members, as far as they are known.
        """
        leaving = self._crowded_out(source, members)
        if leaving is not None:
            self.leave(leaving)
            self.crowded_out += 1
        self._sources[connection] = source
        return leaving

    def leave(self, connection: T) -> None:
        """Forget a connection: it proved itself, or is gone."""
        self._sources.pop(connection, None)

    def _crowded_out(self, source: str, members: Collection[str]) -> T | None:
        counts = Counter(self._sources.values())
        if counts[source] >= self._settings.strangers_per_source_max:
            return self._oldest({source})
        if source in members:
            return None
        others = {it: count for it, count in counts.items() if it not in members}
        if sum(others.values()) < self._settings.strangers_max:
            return None
        # Who holds the most gives way, so that one source cannot push out all others.
        most = max(others.values())
        return self._oldest({it for it, count in others.items() if count == most})

    def _oldest(self, sources: set[str]) -> T:
        return next(it for it, source in self._sources.items() if source in sources)

    def is_news(self, source: str, now: float) -> bool:
        """Whether something is to be logged of this source: once in a while, of a few sources."""
        if now - self._told_since >= self._settings.stranger_log_seconds:
            self._told_since = now
            self._told.clear()
        if source in self._told or len(self._told) >= self._settings.strangers_max:
            return False
        self._told.add(source)
        return True
