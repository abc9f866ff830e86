"""
Where messages stand after they came back to their queue or were moved, and when they may come.

The log is read by somebody who does not trust the broker (`committed_log`); the brokers' own books
are held against that where such a record was just applied, and deliveries against it as they come.

Invariants (each violation is raised with its name):
    M1: what is moved stands in the one place and no more in the other, on every node. (That it
        lived before, `committed_log` sees.)
    M5: what came back is counted as the log says; who rejected it is told so.
    M6: nobody gets a message before it is due.
    S7: nothing is delivered from a place after it was moved away from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast.journal.entry import KIND_RECORDS, Entry
from holdfast.model.records import MoveRecord, Record, ReturnedRecord
from holdfast.store.record_codec import decode_records
from trials.simulation.committed_log import NEVER
from trials.simulation.history import ViolationError, place_of

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

_ROUNDED_MS = 2
"""A due time is a whole number of milliseconds."""


class Places:
    """Looks on, once somebody sends messages back or moves them."""

    def __init__(self, world: Simulation) -> None:
        self._world = world
        self._seen_at: dict[tuple[int, int], float] = {}
        """When somebody had first applied what last happened to a message."""
        world.history.delivery_checks.append(self._check_delivered)

    def on_applied(self, node: SimulatedNode, entry: Entry) -> None:
        """M1, M5: hold what a broker has made of an entry against what it says."""
        checkers = self._world.checkers
        log = checkers.log
        if entry.kind != KIND_RECORDS or checkers.generations.is_past(node):
            return
        # Others are held against this one by their digests (S4).
        if (
            entry.index != log.last_index
            or log.complete_from(node.journal.first_index) > entry.index
        ):
            return
        for place in _touched(decode_records(entry.body, with_content=False)):
            self._check_place(node, place)

    def _check_place(self, node: SimulatedNode, place: tuple[int, int]) -> None:
        log = self._world.checkers.log
        self._seen_at.setdefault(place, self._world.timeline.now)
        if place in log.live or place in log.moved:
            self._seen_at[place] = self._world.timeline.now
        queue = node.broker.state.queues.get(place[0])
        is_live = queue is not None and queue.index.is_live(place[1])
        if is_live != (place in log.live):
            what = "still stands" if is_live else "does not stand"
            raise ViolationError("M1", f"message {place} {what} there on {node.name}")
        if queue is not None and is_live:
            counted = queue.index.returned(place[1])
            known = log.returns.get(place, NEVER)
            if tuple(counted) != tuple(known):
                raise ViolationError(
                    "M5", f"message {place} came back {known}; {node.name} has {counted}"
                )

    def _check_delivered(self, message_id: bytes, token: str, sent_at: float) -> None:
        """M6, S7: hold a delivery against what was committed before it was sent."""
        place = place_of(message_id)
        if sent_at <= self._seen_at.get(place, sent_at):
            return
        world = self._world
        log = world.checkers.log
        if place in log.moved:
            raise ViolationError("S7", f"{token} came from {place} after it was moved")
        due_ms = log.returns.get(place, NEVER).due_ms
        # Time is what the clock that is furthest ahead says, or said.
        clocks = [node.clock for node in world.network.nodes.values()]
        ahead = max(clock.wall_ahead_seconds_max for clock in clocks)
        true_ms = clocks[0].wall_microseconds() / 1_000 - 1_000 * clocks[0].wall_offset_seconds
        if due_ms > true_ms + 1_000 * (sent_at - world.timeline.now + ahead) + _ROUNDED_MS:
            raise ViolationError("M6", f"{token} came before it was due at {due_ms}")

    def attempts(self, message_id: bytes) -> int:
        """How often the log says that a message came back."""
        return self._world.checkers.log.returns.get(place_of(message_id), NEVER).attempts


def _touched(records: Iterable[Record]) -> Iterator[tuple[int, int]]:
    """Give the places of messages that come back, are moved from, or moved to."""
    for record in records:
        if type(record) is ReturnedRecord:
            for sequence in record.sequences:
                yield record.queue_number, sequence
        elif type(record) is MoveRecord:
            for run in record.runs:
                yield from ((record.queue_number, run.first + it) for it in range(run.length))
                if record.target_number:
                    first = run.target_first
                    yield from ((record.target_number, first + it) for it in range(run.length))
