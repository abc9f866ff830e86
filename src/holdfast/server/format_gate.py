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

Invariants:
    A level is asked for by a leader that serves, at most once in its leadership.
    It is told before the record that asks for it is sent.
    No node writes what belongs to a level but behind the record that reaches it.

Owned by the loop.
"""

from __future__ import annotations

from typing import Protocol

import structlog

from holdfast.broker.broker import Broker
from holdfast.model.format_level import FIRST_LEVEL
from holdfast.model.records import FormatRecord

log = structlog.get_logger("holdfast.server")


class Levels(Protocol):
    """Who knows what the members know: the store."""

    @property
    def format_level_of_all(self) -> int:
        """The newest level that every member has told it knows."""
        ...

    def tell_format_level(self, level: int) -> None:
        """Let the others know which level our log has reached."""
        ...


class FormatGate:
    """Raises the level of one cluster's log, and tells the others of it."""

    __slots__ = ("_asked", "_broker", "_levels", "_told")

    def __init__(self, broker: Broker, levels: Levels) -> None:
        self._broker = broker
        self._levels = levels
        self._asked = self._told = FIRST_LEVEL

    @property
    def asked(self) -> int:
        """The level for which a record is written that is not committed yet; 0 if there is none."""
        return self._asked if self._asked > self._broker.state.format_level else 0

    def step(self, *, is_leading: bool) -> None:
        """Look whether there is something to raise or to tell; costs next to nothing if not."""
        reached = self._broker.state.format_level
        level_max = self._broker.settings.known_format_level
        if is_leading and max(reached, self._asked) < level_max:
            self._raise(min(level_max, self._levels.format_level_of_all))
        coming = max(reached, self._asked)
        if coming != self._told:
            self._told = coming
            self._levels.tell_format_level(coming)

    def _raise(self, level: int) -> None:
        if level > max(self._broker.state.format_level, self._asked):
            self._asked = level
            self._broker.receipts.record(FormatRecord(level))
            self._broker.receipts.format_level = level
            log.info("the level of the log's format is raised: all members know it", level=level)

    def stop(self) -> None:
        """The leadership is over: what was asked for may be lost."""
        self._asked = FIRST_LEVEL
