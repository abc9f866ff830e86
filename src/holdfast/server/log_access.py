"""
What a node gives of its log to readers: positions, places of entries, and holds.

Only what is committed, applied and on this node's own disk is given: it can be read from the files
by another thread, and no later leader replaces it. Looks things up in memory; the reading itself is
done elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal, cast

import structlog

from holdfast.admin.status import HoldRequest, HoldStatus, LogPosition, LogSlice
from holdfast.broker.cleaning import holds_to_come
from holdfast.environment.disk import readable_path
from holdfast.errors import DestinationError, RecordNotFoundError
from holdfast.model.records import HoldLoss, HoldRecord
from holdfast.server.learner_holds import LEARNER_PREFIX
from holdfast.server.parts import Parts
from holdfast.server.reader_holds import admitted_bytes, bound_bytes, expiry_seconds

log = structlog.get_logger("holdfast.server")

HOLD_WATCH_SECONDS: Final = 5.0
"""How often the holds are looked at for an alarm."""

HOLD_ALARM_SHARE: Final = 0.8
"""A hold that keeps more than this part of its bound, or is so old, is an alarm."""

ALARM_EXPIRY_SECONDS: Final = 3600
"""What lives shorter is a single query's: that one is gone is told when it ends."""

_LOST_BECAUSE: Final[dict[HoldLoss, Literal["", "bound", "space"]]] = {
    HoldLoss.NONE: "",
    HoldLoss.BOUND: "bound",
    HoldLoss.SPACE: "space",
}
_BECAUSE: Final = {
    HoldLoss.BOUND: "as more would have been kept for it than may be",
    HoldLoss.SPACE: "as the disk was almost full, which wins over a hold",
}


def log_position(
    node: Parts, from_index: int, bytes_max: int, *, with_bases: bool = True
) -> LogPosition:
    """
    Say what the node can give; where the segments begin only if that is wanted.

    Raises:
        DestinationError: It keeps no messages.
        RecordNotFoundError: `from_index` is not 0, and not in the log any more.
    """
    replication = node.driver.status()
    readable = _readable_index(node)
    return LogPosition(
        name=replication.name,
        role=cast("Any", replication.role),
        cluster_id=replication.cluster_id,
        generation=replication.generation,
        first_index=node.journal.first_index,
        commit_index=readable,
        last_timestamp=node.journal.last_timestamp,
        through_index=_reach(node, from_index, bytes_max, readable) if from_index else 0,
        bases=node.journal.table.bases() if with_bases else (),
    )


def log_slice(node: Parts, from_index: int, bytes_max: int, through: int) -> LogSlice:
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
    path = readable_path(node.journal.disk, place.path)
    return LogSlice(path=path, start=place.byte, size=place.size, next_index=reached + 1)


def hold_record(node: Parts, name: str, wanted: HoldRequest) -> HoldRecord:
    """
    Make the record that sets a hold; what its reader has lost is not forgotten.

    Raises:
        DestinationError: The name is that of a learner's hold.
        LimitReachedError: It asks for more than is allowed, or there are too many holds.
        RecordNotFoundError: What is to be kept is not in the log any more.
    """
    if name.startswith(LEARNER_PREFIX):
        raise DestinationError(f"{name} is a learner's hold: the leader keeps it")
    settings = node.conductor.settings
    # What is on its way to the log comes before this.
    holds = holds_to_come(node.broker)
    known = holds.get(name)
    bound = admitted_bytes(holds, name, wanted.bytes_max, settings)
    if known is None:
        known = HoldRecord(name, wanted.index, bound)
    index = known.index if wanted.only_renews else wanted.index
    first_to_stay = node.conductor.cleaner.leaving_through + 1
    if wanted.or_first:
        index = max(index, node.journal.first_index, first_to_stay)
    try:
        _require_kept(node, index, first_to_stay)
    except RecordNotFoundError as error:
        if not known.loss:
            raise
        raise RecordNotFoundError(
            f"{error}: {name} was left behind, {_BECAUSE[known.loss]}"
        ) from error
    return HoldRecord(
        name,
        index,
        bound,
        known.lost_through,
        expiry_seconds=wanted.expiry_seconds or known.expiry_seconds,
        loss=known.loss,
    )


def hold_statuses(node: Parts, holds: Collection[HoldRecord]) -> list[HoldStatus]:
    """Say how much of the log each hold keeps, by whole segments, and how old it is."""
    return [_status(node, hold, node.store.bytes_from(hold.index)) for hold in holds]


def _status(node: Parts, hold: HoldRecord, held: int) -> HoldStatus:
    settings = node.conductor.settings
    bound = bound_bytes(hold, settings)
    expiry = expiry_seconds(hold, settings)
    silent = max(node.clock.wall_microseconds() - hold.renewed_at, 0) / 1_000_000
    return HoldStatus(
        name=hold.name,
        index=hold.index,
        bytes_max=bound,
        held_bytes=held,
        lost_through=hold.lost_through,
        lost_because=_LOST_BECAUSE[hold.loss],
        expiry_seconds=expiry,
        silent_seconds=silent,
        is_near_bound=held > HOLD_ALARM_SHARE * bound,
        is_near_expiry=expiry >= ALARM_EXPIRY_SECONDS and silent > HOLD_ALARM_SHARE * expiry,
    )


class HoldWatch:
    """Says once when a reader falls so far behind, or is silent for so long, that it will lose."""

    __slots__ = ("_next", "_node", "_told")

    def __init__(self, node: Parts) -> None:
        self._node = node
        self._next = 0.0
        self._told: set[str] = set()

    def step(self, now: float) -> None:
        """Look at the holds, every few seconds."""
        holds = self._node.broker.state.holds
        if now < self._next or not holds:
            return
        self._next = now + HOLD_WATCH_SECONDS
        found = {status.name: status for status in hold_statuses(self._node, holds.values())}
        alarms = {name for name, status in found.items() if status.is_alarm}
        for name in sorted(alarms - self._told):
            _tell(found[name])
        self._told = alarms


def _tell(status: HoldStatus) -> None:
    if status.is_near_bound:
        log.warning(
            "a reader of the log is far behind: it will lose entries at its bound",
            hold=status.name,
            held_bytes=status.held_bytes,
            bytes_max=status.bytes_max,
        )
    if status.is_near_expiry:
        log.warning(
            "a reader of the log was not heard of for long: its hold will end",
            hold=status.name,
            silent_seconds=int(status.silent_seconds),
            expiry_seconds=status.expiry_seconds,
        )


def _readable_index(node: Parts) -> int:
    if node.driver.is_witness:
        raise DestinationError(f"{node.config.name} is a witness: it keeps no messages")
    return min(node.driver.commit_index, node.store.applied_index, node.journal.stored_index)


def _require_kept(node: Parts, index: int, first_to_stay: int = 0) -> None:
    first = max(node.journal.first_index, first_to_stay)
    if index < first:
        raise RecordNotFoundError(
            f"entries {index:,} to {first - 1:,} are no longer in the log of {node.config.name},"
            f" which begins with entry {first:,}; a hold keeps the log for its reader"
        )


def _reach(node: Parts, from_index: int, bytes_max: int, last: int) -> int:
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
