"""
What a node gives of its log to readers: positions, places of entries, and holds.

Only what is committed, applied and on this node's own disk is given: it can be read from the files
by another thread, and no later leader replaces it. Looks things up in memory; the reading itself is
done elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from holdfast.admin.status import HoldStatus, LogPosition, LogSlice
from holdfast.errors import DestinationError, RecordNotFoundError
from holdfast.model.records import HoldRecord
from holdfast.server.learner_holds import LEARNER_PREFIX

if TYPE_CHECKING:
    from holdfast.server.node import Node

log = structlog.get_logger("holdfast.server")

HOLD_BYTES_DEFAULT: Final = 16 * 1024**3
"""What is kept for a named reader that names no bound."""

HOLD_WATCH_SECONDS: Final = 5.0
"""How often the holds are looked at for an alarm."""

HOLD_ALARM_SHARE: Final = 0.8
"""A hold that keeps more than this part of its bound is an alarm."""


def log_position(node: Node, from_index: int, bytes_max: int) -> LogPosition:
    """
    Say what the node can give.

    Raises:
        DestinationError: It keeps no messages.
        RecordNotFoundError: `from_index` is not 0, and not in the log any more.
    """
    replication = node.driver.status()
    readable = _readable_index(node)
    segments = node.journal.segments()
    return LogPosition(
        name=replication.name,
        role=cast("Any", replication.role),
        cluster_id=replication.cluster_id,
        generation=replication.generation,
        first_index=node.journal.first_index,
        commit_index=readable,
        last_timestamp=node.journal.last_timestamp,
        through_index=_reach(node, from_index, bytes_max, readable) if from_index else 0,
        bases=tuple(segment.base_index for segment in segments),
    )


def log_slice(node: Node, from_index: int, bytes_max: int, through: int) -> LogSlice:
    """
    Say where entries from `from_index` on are, in one file.

    Raises:
        DestinationError: The node keeps no messages.
        RecordNotFoundError: `from_index` is not in the log any more.
    """
    last = min(_readable_index(node), through)
    _require_kept(node, from_index)
    if from_index > last:
        return LogSlice(path=node.journal.directory, start=0, size=0, next_index=from_index)
    place, reached = node.journal.span(from_index, bytes_max, last)
    return LogSlice(path=place.path, start=place.byte, size=place.size, next_index=reached + 1)


def hold_record(node: Node, name: str, index: int, bytes_max: int | None) -> HoldRecord:
    """
    Make the record that sets a hold; what its reader has lost is not forgotten.

    Raises:
        DestinationError: The name is that of a learner's hold.
        RecordNotFoundError: `index` is not in the log any more.
    """
    if name.startswith(LEARNER_PREFIX):
        raise DestinationError(f"{name} is a learner's hold: the leader keeps it")
    _require_kept(node, index, node.conductor.cleaner.leaving_through + 1)
    known = node.broker.state.holds.get(name)
    bound = bytes_max or (known.bytes_max if known is not None else HOLD_BYTES_DEFAULT)
    return HoldRecord(name, index, bound, known.lost_through if known is not None else 0)


def hold_status(node: Node, hold: HoldRecord) -> HoldStatus:
    """Say how much of the log a hold keeps, by whole segments."""
    held = node.store.bytes_from(hold.index)
    return HoldStatus(
        name=hold.name,
        index=hold.index,
        bytes_max=hold.bytes_max,
        held_bytes=held,
        lost_through=hold.lost_through,
        is_near_bound=held > HOLD_ALARM_SHARE * hold.bytes_max,
    )


class HoldWatch:
    """Says once when a reader falls so far behind that it is about to lose entries."""

    __slots__ = ("_next", "_node", "_told")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._next = 0.0
        self._told: set[str] = set()

    def step(self, now: float) -> None:
        """Look at the holds, every few seconds."""
        holds = self._node.broker.state.holds
        if now < self._next or not holds:
            return
        self._next = now + HOLD_WATCH_SECONDS
        near = {name for name, hold in holds.items() if hold_status(self._node, hold).is_near_bound}
        for name in sorted(near - self._told):
            status = hold_status(self._node, holds[name])
            log.warning(
                "a reader of the log is far behind: it will lose entries at its bound",
                hold=name,
                held_bytes=status.held_bytes,
                bytes_max=status.bytes_max,
            )
        self._told = near


def _readable_index(node: Node) -> int:
    if node.driver.is_witness:
        raise DestinationError(f"{node.config.name} is a witness: it keeps no messages")
    return min(node.driver.commit_index, node.store.applied_index, node.journal.stored_index)


def _require_kept(node: Node, index: int, first_to_stay: int = 0) -> None:
    first = max(node.journal.first_index, first_to_stay)
    if index < first:
        raise RecordNotFoundError(
            f"entries {index:,} to {first - 1:,} are no longer in the log of {node.config.name},"
            f" which begins with entry {first:,}; a hold keeps the log for its reader"
        )


def _reach(node: Node, from_index: int, bytes_max: int, last: int) -> int:
    """Find the last entry that so many bytes reach; a step takes a whole segment."""
    _require_kept(node, from_index)
    reached = min(from_index, last)
    left = bytes_max
    index = from_index
    while index <= last and left > 0:
        place, through = node.journal.span(index, left, last)
        if place.size > left and index > from_index:
            break
        reached = through
        left -= place.size
        index = through + 1
    return reached
