"""
Where a log is read from: the contract of a directory, a cluster and an archive alike.

A reader asks for the position first, then for ranges of entries; it may do the latter on another
machine, so a source can be pickled and keeps no open files or connections between calls.

Invariants:
    What `blocks` gives covers the asked range exactly once, in order, damage included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from holdfast.errors import CorruptEntryError
from holdfast.spark.entry_block import EntryBlock
from holdfast.spark.naming import learn_names
from holdfast.spark.record_table import RecordTable

BLOCK_BYTES: Final = 8 * 1024 * 1024
"""How much of the log is looked at in one go, and so about how large a batch is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPosition:
    """How far a log goes: entries `first_index` to `last_index`; none if last < first."""

    first_index: int
    last_index: int
    cluster_id: str = ""
    bases: tuple[int, ...] = ()
    """The first index of each segment, ascending."""

    last_timestamp: int = 0
    """When the last entry was sealed, in microseconds; 0 if not known."""

    generation: int = 0
    """Of the cluster: every promotion by force begins one. 0 also if the source cannot tell."""


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Entries that cannot be read, and why."""

    first_index: int
    last_index: int
    error: CorruptEntryError


class LogSource(Protocol):
    """A place that holds a log."""

    def position(self) -> LogPosition:
        """
        How far the log goes now.

        Raises:
            StoreError: There is no log.
            LinkError: No node answers.
        """
        ...

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        """
        Give these entries, verified; they must be in the log.

        Raises:
            RecordNotFoundError: The log does not go back so far any more.
            LinkError: No node answers.
        """
        ...

    def queue_names(self) -> dict[int, str]:
        """The names of queues that can be told without reading the log, by number."""
        ...

    def reach(self, from_index: int, bytes_max: int) -> int:
        """
        The last index such that entries from `from_index` on are about `bytes_max` together.

        At least `from_index` itself; at most the last index there is.
        """
        ...


_found: dict[LogSource, tuple[int, dict[int, str]]] = {}
"""What this worker process has found, and up to which entry: a worker does many tasks."""


def search_names(source: LogSource) -> dict[int, str]:
    """Find the names of all queues by going through the whole log, each part of it once."""
    position = source.position()
    through, names = _found.get(source, (0, {}))
    first = max(position.first_index, through + 1)
    for block in source.blocks(first, position.last_index):
        if isinstance(block, EntryBlock):
            learn_names(RecordTable(block), names)
    _found[source] = (position.last_index, names)
    return dict(names)


def first_index_at(source: LogSource, position: LogPosition, microseconds: int) -> int:
    """Return the first entry sealed at or after this time; one behind the last if none is."""
    low, high = position.first_index, position.last_index + 1
    for base in position.bases:
        # Narrow down by segments first: that touches one entry of each on the way.
        if low < base < high:
            if _time_of(source, base) >= microseconds:
                high = base
                break
            low = base
    while low < high:
        middle = (low + high) // 2
        if _time_of(source, middle) < microseconds:
            low = middle + 1
        else:
            high = middle
    return low


def _time_of(source: LogSource, index: int) -> int:
    block = next(iter(source.blocks(index, index)))
    if isinstance(block, DamagedRange):
        raise block.error
    return int(block.field("timestamp")[0])
