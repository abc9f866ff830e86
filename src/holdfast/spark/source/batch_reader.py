"""
`spark.read.format("holdfast")`: a range of the log, planned on the driver, read by the tasks.

The plan is made when Spark asks for the partitions: how far the log goes then is what is read,
however much it grows meanwhile. Every part is a segment of the log, or a piece of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from holdfast.errors import RecordNotFoundError
from holdfast.spark.log.backlog import backlog_as_of, index_of
from holdfast.spark.log.holds import (
    HeldRead,
    Hold,
    hold_for_read,
    kept_while_reading,
    let_go,
    try_to_move,
    wall_seconds,
)
from holdfast.spark.log.row_filter import RowFilter
from holdfast.spark.log.source import LogPosition, LogSource, first_index_at
from holdfast.spark.source.continuity import check_continues
from holdfast.spark.source.log_reading import LiveRows, LogReading
from holdfast.spark.source.losses import first_kept, lenient, passed_over
from holdfast.spark.source.open_source import open_source, parts_of
from holdfast.spark.source.options import ReadOptions
from holdfast.spark.source.partitions import (
    BacklogPartition,
    LogPartition,
    at_least,
    carried,
    split,
)
from holdfast.spark.source.pushdown import narrow
from holdfast.spark.source.row_conditions import keep, taken
from holdfast.spark.worker_memory import keep_loaded


class BatchReader(DataSourceReader):
    """Reads one view once."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.wanted = RowFilter()
        self.conditions: list[Filter] = []
        """What is decided here and not by Spark, for the sake of rows that tell of damage."""

    @property
    def pushFilters(self) -> Callable[[list[Filter]], Iterable[Filter]]:  # noqa: N802 - Spark's name; see _Pushdown
        """How Spark hands over its conditions."""
        return _Pushdown(self)

    def partitions(self) -> list[InputPartition]:
        """
        Plan the tasks: one per segment of the log, or as many as are asked for.

        What is planned is held first: the log is cleaned meanwhile, and tasks may come late.
        """
        source = open_source(self.options)
        hold, kept_from = hold_for_read(source, 1)
        try:
            position = source.position()
            position = replace(position, first_index=max(position.first_index, kept_from))
            if self.options.view == "backlog":
                planned = plan_backlog(self.options, source, position)
            else:
                planned = plan_range(self.options, source, position, self.wanted)
        except BaseException:
            let_go(hold)
            raise
        return _held(planned, hold, kept_from)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part of the log, on an executor."""
        for batch in read_partition(self.options, partition, self.wanted):
            yield keep(batch, self.conditions)


def read_partition(
    options: ReadOptions, partition: InputPartition, wanted: RowFilter
) -> Iterator[pa.RecordBatch]:
    """Give the batches of one partition; Spark's placeholder for no partitions has none."""
    keep_loaded()
    if isinstance(partition, LogPartition):
        source = open_source(options) if partition.source is None else partition.source
        live = None
        if isinstance(partition, BacklogPartition):
            places, queues = (
                np.frombuffer(it, dtype=np.int64) for it in (partition.places, partition.queues)
            )
            live = LiveRows(places, partition.marks, queues, partition.moved)
        log = source if options.fails_on_loss or live is not None else lenient(source)
        reading = LogReading(log, options, partition.names, partition.cluster_id, wanted, live)
        with kept_while_reading(source, partition.held, partition.first_index):
            yield from reading.batches(partition.first_index, partition.last_index)


def plan_range(
    options: ReadOptions, source: LogSource, position: LogPosition, wanted: RowFilter
) -> list[LogPartition]:
    """
    Plan one task per segment of what is to be read, or as many as are asked for.

    Raises:
        StoreError: An offset that was given is of another log.
        LinkError: No node answers.
    """
    for taken_before in options.proofs:
        check_continues(source, position, taken_before)
    first, last = chosen_range(options, source, position, wanted)
    if not options.fails_on_loss:
        kept = first_kept(source, position, first)
        passed_over(first, kept, last)
        first = kept
    ranges = at_least(split(first, last, position.bases), options.partitions_min)
    names = carried(source.queue_names()) if ranges else {}
    return [
        LogPartition(*bounds, names, position.cluster_id, source=part)
        for bounds, part in parts_of(source, ranges)
    ]


def _held(planned: list[LogPartition], hold: Hold | None, kept_from: int) -> list[InputPartition]:
    """Tell the tasks under which name they are waited for; what no task wants is kept no more."""
    if hold is None:
        return list(planned)
    if not planned:
        let_go(hold)
        return []
    first = planned[0].first_index
    if first > kept_from:
        try_to_move(hold, first)
    held = HeldRead(hold.name, wall_seconds(), is_alone=len(planned) == 1)
    for partition in planned:
        partition.held = held
    return list(planned)


def plan_backlog(
    options: ReadOptions, source: LogSource, position: LogPosition
) -> list[LogPartition]:
    """
    Find what is live, and plan one task per segment that holds some of it.

    Raises:
        RecordNotFoundError: `as_of` is not in the log, or cannot be told any more.
        CorruptEntryError: An entry is damaged (mode=fail).
    """
    as_of = position.last_index if options.as_of is None else options.as_of
    if not position.first_index - 1 <= as_of <= position.last_index:
        raise RecordNotFoundError(
            f"as_of {as_of:,} is not in the log, which holds entries {position.first_index:,} to"
            f" {position.last_index:,}"
        )
    backlog = backlog_as_of(source, position, as_of, is_strict=options.mode == "fail")
    names = carried(source.queue_names() | backlog.names)
    (places, queues), marks, moved = backlog.live(), backlog.marks(), backlog.moved()
    indexes, moved_indexes = index_of(places), index_of(moved.places)
    planned: list[LogPartition] = []
    ranges = split(position.first_index, as_of, position.bases)
    ranges = at_least(ranges, options.partitions_min)
    for (low, high), part in parts_of(source, ranges):
        start, stop = np.searchsorted(indexes, [low, high + 1])
        some = moved.part(*np.searchsorted(moved_indexes, [low, high + 1]).tolist())
        here = np.concatenate([indexes[start:stop], index_of(some.places)])
        if len(here):
            # Not from the segment's beginning to its end: only where something lives.
            first, last = int(here.min()), int(here.max())
            chosen = places[start:stop].tobytes()
            planned.append(
                BacklogPartition(
                    first,
                    last,
                    names,
                    position.cluster_id,
                    source=part,
                    places=chosen,
                    queues=queues[start:stop].tobytes(),
                    marks=marks,
                    moved=some if len(some.places) else None,
                )
            )
    return planned


def chosen_range(
    options: ReadOptions, source: LogSource, position: LogPosition, wanted: RowFilter
) -> tuple[int, int]:
    """Return the entries that options and filter leave, both ends included."""
    first = max(options.start_index or position.first_index, wanted.index_min)
    last = min(options.end_index or position.last_index, position.last_index, wanted.index_max)
    # Nothing else is looked at: another part of an archive may be missing.
    wanted_part = replace(position, first_index=max(first, position.first_index), last_index=last)
    if options.start_time is not None:
        first = max(first, first_index_at(source, wanted_part, options.start_time))
    if options.end_time is not None:
        last = min(last, first_index_at(source, wanted_part, options.end_time) - 1)
    if options.start_index is None:
        first = max(first, position.first_index)
    return first, last


class _Pushdown:
    """
    Takes Spark's conditions where `spark.sql.python.filterPushdown.enabled` is set.

    Where it is not, Spark refuses a reader whose `pushFilters` is its own method rather than run
    it without; by `__func__` this one passes for the inherited one, so a notebook's session works
    either way.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: BatchReader) -> None:
        self.reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """
        Note what can be decided early; all of it stays with Spark as well.

        With mode=report it does not: Spark would drop the rows that tell of damage.
        """
        reader = self.reader
        reader.wanted = narrow(reader.wanted, filters, reader.options.view)
        if reader.options.mode == "fail":
            return filters
        options = reader.options
        reader.conditions, left = taken(filters, options.view, options.columns)
        return left
