"""
Levels of the log's format in a simulated world whose nodes are of several versions.

A node of an older version must never go on with what it cannot read. Where the log has reached a
level that it does not know it ends, and only there: that its process ends so is no fault of it.

Invariants (each violation is raised with its name):
    F38: no node applies an entry in which the log reaches a level that it does not know, nor a
        record of one; and no leader has such a record in its log before that reached the level.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from holdfast.errors import CorruptEntryError, FormatLevelError
from holdfast.journal.entry import KIND_RECORDS, Entry
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.facts import Cause
from holdfast.model.format_level import (
    ACCESS_LEVEL,
    FACTS_LEVEL,
    FIRST_LEVEL,
    MOVES_LEVEL,
    NEWEST_LEVEL,
    POLICIES_LEVEL,
    RETURNS_LEVEL,
    SCHEDULES_LEVEL,
)
from holdfast.model.records import (
    FiredRecord,
    FormatRecord,
    MessageRecord,
    MoveRecord,
    PolicyRecord,
    Record,
    ReturnedRecord,
)
from holdfast.replication.format_levels import reached_level
from holdfast.store.record_codec import decode_records
from trials.simulation.history import ViolationError

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

ENDED = "node ends at a level that it does not know"
_BROUGHT_BY = {
    FormatRecord: FACTS_LEVEL,
    PolicyRecord: POLICIES_LEVEL,
    ReturnedRecord: RETURNS_LEVEL,
    MoveRecord: MOVES_LEVEL,
    FiredRecord: SCHEDULES_LEVEL,
    UserRecord: ACCESS_LEVEL,
    GrantRecord: ACCESS_LEVEL,
    AuditRecord: ACCESS_LEVEL,
}


class Levels:
    """Which level the log has reached where, and which nodes know less."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._raised = (0, b"")
        """The first entry applied that says of a level beyond the first one, and its chain."""
        self.is_story_told = False
        """An operator upgrades this world, or has."""

    def begin(self) -> None:
        """Let all nodes be of the version before, or of several, where the plan says so."""
        plan = self._world.plan
        chance = random.Random(f"{self._world.seed}:levels")  # noqa: S311 - to be repeated
        lowest = chance.randint(FIRST_LEVEL, RETURNS_LEVEL)
        for node in self._world.nodes:
            if plan.is_old_at_first:
                node.known_format_level = FIRST_LEVEL
            elif plan.is_mixed_at_first:
                # Rather old ones: what a level brings is worth most where it is to come yet.
                draws = [chance.randint(lowest, NEWEST_LEVEL) for _ in range(3)]
                node.known_format_level = min(draws)

    def end(self, node: SimulatedNode) -> None:
        """Start a node as the newest version, if it is not and nobody else will."""
        plan = self._world.plan
        if (
            plan.is_old_at_first or plan.is_mixed_at_first
        ) and node.known_format_level < NEWEST_LEVEL:
            become(node, NEWEST_LEVEL)

    def on_applied(self, node: SimulatedNode, entry: Entry) -> None:
        """F38: look at an entry that a broker has applied."""
        if self._world.plan.is_mixed_at_first and entry.kind == KIND_RECORDS:
            self._check_records(node, entry)
        is_known = self._raised_index() > 0
        if is_known and node.known_format_level == NEWEST_LEVEL:
            return
        level = level_in(entry)
        if level > node.known_format_level:
            raise ViolationError(
                "F38", f"{node.name} has applied entry {entry.index}: level {level} is beyond it"
            )
        if level > FIRST_LEVEL and not is_known:
            self._raised = entry.index, entry.chain

    def _check_records(self, node: SimulatedNode, entry: Entry) -> None:
        records = list(decode_records(entry.body, with_content=True))
        needed = max(map(needed_level, records), default=FIRST_LEVEL)
        if needed > node.known_format_level:
            raise ViolationError(
                "F38", f"{node.name} has applied entry {entry.index}, of which it knows nothing"
            )
        # Who begins with a later part of the log comes by what the level brought before the level.
        reached = max(node.broker.state.format_level, level_in(entry))
        if node.is_listening and needed > reached:
            raise ViolationError(
                "F38", f"entry {entry.index} has a record of level {needed} in a log at {reached}"
            )

    def _raised_index(self) -> int:
        """Where the level was raised; 0 if it was not, or a promotion by force gave that up."""
        index, chain = self._raised
        is_given_up = self._world.checkers.log.chains.get(index, chain) != chain
        return 0 if is_given_up or index > self._world.checkers.log.last_index else index

    def is_excused(self, node: SimulatedNode, error: Exception) -> bool:
        """Whether a process has ended because the log reaches a level that it does not know."""
        if not isinstance(error, FormatLevelError) or node.known_format_level == NEWEST_LEVEL:
            return False
        others = [it for it in self._world.nodes if it.is_built and it is not node]
        is_told = any(reached_level(it.driver.hello) > node.known_format_level for it in others)
        if not is_told and not self._raised_index():
            return False
        self._world.count(ENDED)
        return True


def become(node: SimulatedNode, level: int) -> None:
    """Start a node as a version that knows this level; one that is dead is that when it rises."""
    node.stop(power=False)
    node.known_format_level = level
    node.start()


def level_in(entry: Entry) -> int:
    """The newest level of which an entry says that the log has reached it."""
    if entry.kind != KIND_RECORDS:
        return FIRST_LEVEL
    records = decode_records(entry.body, with_content=False)
    return max((it.level for it in records if type(it) is FormatRecord), default=FIRST_LEVEL)


def needed_level(record: Record) -> int:
    """The first level at which a log may have this record."""
    if not isinstance(record, MessageRecord):
        return _BROUGHT_BY.get(type(record), FIRST_LEVEL)
    if record.facts is None:
        return FIRST_LEVEL
    origin = record.facts.origin
    return FACTS_LEVEL if origin is None or origin.cause is Cause.REJECTED else MOVES_LEVEL


def keeps_beyond(node: SimulatedNode, first_index: int) -> int:
    """The entry on a node's disk that says of a level that it does not know; 0 if there is none."""
    journal = node.journal
    for index in range(max(first_index, journal.first_index), journal.stored_index + 1):
        try:
            if level_in(journal.entry(index)) > node.known_format_level:
                return index
        except CorruptEntryError:
            continue
    return 0
