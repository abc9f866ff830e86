"""
`spark.read.format("holdfast")`: a range of the log, planned on the driver, read by the tasks.

The plan is made when Spark asks for the partitions: how far the log goes then is what is read,
however much it grows meanwhile. Every part is a segment of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from holdfast.spark.log_reading import LogReading
from holdfast.spark.log_source import LogPosition, LogSource, first_index_at
from holdfast.spark.open_source import open_source
from holdfast.spark.options import ReadOptions
from holdfast.spark.partitions import LogPartition, split
from holdfast.spark.pushdown import narrow
from holdfast.spark.row_filter import RowFilter


class BatchReader(DataSourceReader):
    """Reads one view once."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.wanted = RowFilter()

    @property
    def pushFilters(self) -> Callable[[list[Filter]], Iterable[Filter]]:  # noqa: N802 - Spark's name; see _Pushdown
        """How Spark hands over its conditions."""
        return _Pushdown(self)

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks: one per segment of the log."""
        source = open_source(self.options)
        position = source.position()
        first, last = chosen_range(self.options, source, position, self.wanted)
        ranges = split(first, last, position.bases)
        names = source.queue_names() if ranges else {}
        return [LogPartition(low, high, names, position.cluster_id) for low, high in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part of the log, on an executor."""
        return read_partition(self.options, partition, self.wanted)


def read_partition(
    options: ReadOptions, partition: InputPartition, wanted: RowFilter
) -> Iterator[pa.RecordBatch]:
    """Give the batches of one partition; Spark's placeholder for no partitions has none."""
    if isinstance(partition, LogPartition):
        source = open_source(options)
        reading = LogReading(source, options, partition.names, partition.cluster_id, wanted)
        yield from reading.batches(partition.first_index, partition.last_index)


def chosen_range(
    options: ReadOptions, source: LogSource, position: LogPosition, wanted: RowFilter
) -> tuple[int, int]:
    """Return the entries that options and filter leave, both ends included."""
    first = max(options.start_index or position.first_index, wanted.index_min)
    last = min(options.end_index or position.last_index, position.last_index, wanted.index_max)
    if options.start_time is not None:
        first = max(first, first_index_at(source, position, options.start_time))
    if options.end_time is not None:
        last = min(last, first_index_at(source, position, options.end_time) - 1)
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

    __func__ = DataSourceReader.pushFilters

    def __init__(self, reader: BatchReader) -> None:
        self.reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Note what can be decided early; all of it stays with Spark as well."""
        self.reader.wanted = narrow(self.reader.wanted, filters, self.reader.options.view)
        return filters
