"""
Where a log is read from: the contract of a directory, a cluster and an archive alike.

A reader asks for the position first, then for ranges of entries; it may do the latter on another
machine, so a source can be pickled and keeps no open files or connections between calls.

Invariants:
    What `blocks` gives covers the asked range exactly once, in order, damage included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from holdfast.errors import CorruptEntryError, RecordNotFoundError
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.naming import learn_names
from holdfast.spark.log.record_table import RecordTable
from holdfast.spark.log.row_filter import INDEX_MAX

BLOCK_BYTES: Final = 4 * 1024 * 1024
"""How much of the log is looked at in one go, and so about how large a batch is. Of 8 MiB the
memory goes back to the system after each block, and comes again page by page; of less than 2 MiB
much is read twice, as the last entry is mostly cut off (`benches/blocks.py`)."""

NO_CHAIN: Final = ""
"""The chain before the first entry of a log, or of an archive of it, where nobody knows it: what
was before has been cleaned."""


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


@dataclass(slots=True)
class _Searched:
    """What a process has found in one log, and in which parts of it."""

    names: dict[int, str] = field(default_factory=dict)
    through: dict[int, int] = field(default_factory=dict)
    """By first index of a segment, up to which entry it was gone through."""


_SEARCHES_MAX: Final = 5
"""What is looked for may be in no part that a reader holds, so the cleaner may be ahead of it."""

_found: dict[tuple[LogSource, str], _Searched] = {}
"""By source and cluster: a worker process does many tasks, and another cluster may come to stand
at an address or in a folder."""


def search_names(
    source: LogSource, wanted: Collection[int] | None = None, around: int = INDEX_MAX
) -> dict[int, str]:
    """
    Find the names of these queues, of all if None, by going through the log segment by segment.

    From entry `around` on backwards, as a queue's declaration stands before its messages, then the
    rest, where the cleaner may have written it again. It ends with the last name that is found.

    Raises:
        RecordNotFoundError: The log is cleaned faster than it can be gone through.
        LinkError: No node answers.
    """
    searched = _found.setdefault((source, source.position().cluster_id), _Searched())
    for _ in range(_SEARCHES_MAX - 1):
        try:
            return _search(source, searched, wanted, around)
        except RecordNotFoundError:
            # Cleaned away meanwhile, and before that written again at the end: look there too.
            continue
    return _search(source, searched, wanted, around)


def _search(
    source: LogSource, searched: _Searched, wanted: Collection[int] | None, around: int
) -> dict[int, str]:
    if wanted is None or not searched.names.keys() >= set(wanted):
        searched.names |= source.queue_names()
    position = source.position()
    starts = sorted({position.first_index, *position.bases} - {position.last_index + 1})
    parts = list(zip(starts, [*(it - 1 for it in starts[1:]), position.last_index], strict=True))
    before = [part for part in parts if part[0] <= around]
    for start, last in [*reversed(before), *parts[len(before) :]]:
        if wanted is not None and searched.names.keys() >= set(wanted):
            break
        first = max(start, position.first_index, searched.through.get(start, 0) + 1)
        if first > last:
            continue
        for block in source.blocks(first, last):
            if isinstance(block, EntryBlock):
                learn_names(RecordTable(block), searched.names)
        searched.through[start] = last
    return dict(searched.names)


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
