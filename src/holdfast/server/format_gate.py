"""
The gate before what a new level of the log's format brings: the leader opens it, once for all.

Once every member has told that it knows a level, the leader writes a FORMAT record; from the moment
when that is applied all of them may write what the level brings. Until then everything is written
as the oldest member knows it, so a rolling upgrade may be taken back node by node.

A node may be taken back while that record is on its way. So the leader says that its log has
reached the level before anybody is sent the record: whoever does not know the level ends, or gets
no link, and neither keeps the record nor helps to commit it. If it is lost with its leader, the way
back is open still. A leader that takes over with the record in its log cannot tell it from others
before it is applied: there an older node ends when it comes to apply it.

A cluster that nothing was ever stored in has no upgrade to wait for: there clients are let in when
the level is reached, so that the first of them is not served as by the oldest version. Who waits
for a member that is not there yet waits no longer than a moment.

Invariants:
    A level is asked for by a leader that serves, at most once in its leadership.
    It is told before the record that asks for it is sent.
    No node writes what belongs to a level but behind the record that reaches it.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.state import BrokerState
from holdfast.model.format_level import FIRST_LEVEL, OWNERS_LEVEL, WILD_DURABLES_LEVEL
from holdfast.model.records import FormatRecord

log = structlog.get_logger("holdfast.server")

NEW_LOG_SECONDS: Final = 2.0
"""So long the first clients of a new cluster wait for members that have not told what they know."""


class Levels(Protocol):
    """Who knows what the members know: the store."""

    @property
    def format_level_of_all(self) -> int:
        """The newest level that every member has told it knows; the first until that was heard."""
        ...

    def tell_format_level(self, level: int) -> None:
        """Let the others know which level our log has reached."""
        ...


class FormatGate:
    """Raises the level of one cluster's log, and tells the others of it."""

    __slots__ = ("_asked", "_broker", "_levels", "_opened", "_seen", "_shut_until", "_told")

    def __init__(
        self, broker: Broker, levels: Levels, opened: Callable[[], None] = lambda: None
    ) -> None:
        """
        Keep the gate of one node.

        Args:
            broker: What is written by level.
            levels: What the members know.
            opened: Told when clients may come, where they had to wait.
        """
        self._broker = broker
        self._levels = levels
        self._opened = opened
        self._asked = self._told = self._seen = FIRST_LEVEL
        self._shut_until = 0.0

    @property
    def asked(self) -> int:
        """The level for which a record is written that is not committed yet; 0 if there is none."""
        return self._asked if self._asked > self._broker.state.format_level else 0

    @property
    def lets_in(self) -> bool:
        """Whether clients may come: not to a new log that has not reached its level."""
        return not self._shut_until

    def begin(self, now: float) -> None:
        """Begin to lead: let clients wait if nothing was ever stored."""
        is_behind = self._broker.settings.known_format_level > FIRST_LEVEL
        self._shut_until = now + NEW_LOG_SECONDS if is_behind and is_new(self._broker.state) else 0

    def step(self, now: float, *, is_leading: bool) -> None:
        """Look whether there is something to raise or to tell; costs next to nothing if not."""
        reached = self._broker.state.format_level
        level_max = self._broker.settings.known_format_level
        if is_leading and max(reached, self._asked) < level_max:
            self._raise(min(level_max, self._levels.format_level_of_all))
        coming = max(reached, self._asked)
        if coming != self._told:
            self._told = coming
            self._levels.tell_format_level(coming)
        if is_leading and (reached != self._seen or self._shut_until):
            self._follow(now, reached)

    def _follow(self, now: float, reached: int) -> None:
        """Let come what has waited for a level."""
        if self._seen < WILD_DURABLES_LEVEL <= reached:
            self._broker.bundling.bind_all()
        if self._seen < OWNERS_LEVEL <= reached:
            # What a SEND comes to is kept with its headers, also by what its producer is known.
            self._broker.destinations.leadership.patterns.unsettle()
        self._seen = reached
        if self._shut_until and (reached > FIRST_LEVEL or now >= self._shut_until):
            self._shut_until = 0.0
            self._opened()

    def _raise(self, level: int) -> None:
        if level > max(self._broker.state.format_level, self._asked):
            self._asked = level
            self._broker.receipts.record(FormatRecord(level))
            self._broker.receipts.format_level = level
            log.info("the level of the log's format is raised: all members know it", level=level)

    def stop(self) -> None:
        """The leadership is over: what was asked for may be lost."""
        self._asked = self._seen = FIRST_LEVEL
        self._shut_until = 0.0


def is_new(state: BrokerState) -> bool:
    """Whether nothing was ever stored: no level, no destination, no producer's number."""
    is_first = state.format_level == FIRST_LEVEL and state.next_queue_number == 1
    return is_first and not state.producers.by_id
