"""
`map_log`: a function of the user's, run where the log is parsed.

What a Python data source reads is an Arrow batch before it is anything else. A function that is
given it there saves what a later `mapInArrow` pays: the way of every row to Java and back. What
the function leaves out never leaves the worker.

The function travels in the class of a data source of its own, as Spark ships any function, and in
no option: nothing that stands in a plan, a table or a log is ever run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType, _parse_datatype_string

from holdfast.errors import ConfigError, MappedRowsError
from holdfast.spark.source.data_source import HoldfastDataSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.spark.source.batch_reader import BatchReader
    from holdfast.spark.source.stream_reader import StreamReader

ArrowFunction = Callable[[pa.RecordBatch], "pa.RecordBatch | pa.Table"]

_NAME: Final = "holdfast-map"
_NAME_DIGITS: Final = 16


def map_log(
    session: SparkSession,
    function: ArrowFunction,
    schema: StructType | str,
    *,
    stream: bool = False,
    **options: str,
) -> DataFrame:
    """
    Return what `function` makes of the batches of a log, read as `format("holdfast")` reads it.

    Args:
        function: Called on the workers with each batch (at most 65,536 rows, in the log's order,
            the columns that `columns` names), and never with two partitions' rows at once. It gives
            a batch or a table with the columns of `schema`, in any order; fewer rows or more.
        schema: What the function gives: a schema, or Spark's words for one ("n long, body binary").
        stream: Read as `readStream` does.
        options: Those of the data source, `url` or `path` first.

    Raises:
        ConfigError: An option or the schema is wrong, or `mode` is `report`: its rows are for
            people and not for a function.
        AnalysisException: Spark's, where the options are wrong as the data source says it.
    """
    modes = [value for name, value in options.items() if name.lower() == "mode"]
    if any(str(value).strip().lower() == "report" for value in modes):
        raise ConfigError(["mode: a function is given no rows of damage; read with mode=fail"])
    wanted = _schema(schema)
    source = _source(function, wanted)
    session.dataSource.register(source)
    reader = session.readStream if stream else session.read
    return reader.format(source.name()).options(**options).load()


def _schema(given: StructType | str) -> StructType:
    if isinstance(given, StructType):
        schema = given
    else:
        parsed = _parse_datatype_string(given)
        if not isinstance(parsed, StructType):
            raise ConfigError([f"schema: {given!r} is no list of columns; write 'name type, …'"])
        schema = parsed
    if not schema.fields:
        raise ConfigError(["schema: names no column"])
    return schema


def _source(function: ArrowFunction, schema: StructType) -> type[DataSource]:
    """
    A data source with this function, as Spark ships a class with what it refers to.

    Its name is made of both, so that what was registered before goes on meaning what it meant, and
    a program that calls `map_log` over and over with one function leaves one name behind.
    """
    shipped: bytes = cloudpickle.dumps((function, schema.json()))  # type: ignore[no-untyped-call]
    content = sha256(shipped).hexdigest()
    name = f"{_NAME}-{content[:_NAME_DIGITS]}"

    class MappedSource(DataSource):
        """Reads the log as the data source `holdfast` does, and gives what the function makes."""

        @classmethod
        def name(cls) -> str:
            """Of no use to anybody but `map_log`."""
            return name

        def schema(self) -> StructType:
            """What the function gives; the options are checked here, too."""
            HoldfastDataSource(self.options).schema()
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:
            """Of one query."""
            log = HoldfastDataSource(self.options)
            return MappedReader(log.reader(log.schema()), function, schema)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            """Of one streaming query."""
            log = HoldfastDataSource(self.options)
            return MappedStreamReader(log.streamReader(log.schema()), function, schema)

    return MappedSource


class MappedReader(DataSourceReader):
    """A reader of the log with a function behind it."""

    def __init__(self, log: BatchReader, function: ArrowFunction, schema: StructType) -> None:
        self.log = log
        self.function = function
        self.schema = to_arrow_schema(schema, timezone="UTC")

    def partitions(self) -> list[InputPartition]:
        """As the log's."""
        return self.log.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part of the log, on an executor."""
        return mapped(self.log.read(partition), self.function, self.schema)


class MappedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of the log with a function behind it; offsets and holds are the log's."""

    def __init__(self, log: StreamReader, function: ArrowFunction, schema: StructType) -> None:
        self.log = log
        self.function = function
        self.schema = to_arrow_schema(schema, timezone="UTC")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """As the log's."""
        return self.log.initialOffset()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """As the log's."""
        return self.log.latestOffset(start, limit)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """As the log's."""
        return self.log.getDefaultReadLimit()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """As the log's."""
        self.log.prepareForTriggerAvailableNow()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """As the log's."""
        return self.log.reportLatestOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """As the log's."""
        return self.log.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part of the log, on an executor."""
        return mapped(self.log.read(partition), self.function, self.schema)

    def commit(self, end: dict[str, Any]) -> None:
        """As the log's."""
        self.log.commit(end)

    def stop(self) -> None:
        """As the log's."""
        self.log.stop()


def mapped(
    batches: Iterator[pa.RecordBatch], function: ArrowFunction, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """
    Give what the function makes of each batch, with the columns of `schema`.

    Raises:
        MappedRowsError: It gave something else; the sentence names the column.
    """
    for batch in batches:
        yield from _as_said(function(batch), schema)


def _as_said(given: object, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if isinstance(given, pa.RecordBatch):
        given = pa.Table.from_batches([given])
    if not isinstance(given, pa.Table):
        raise MappedRowsError(
            f"the function of map_log gave {type(given).__name__}; it must give a"
            " pyarrow.RecordBatch or a pyarrow.Table"
        )
    for name in schema.names:
        count = given.column_names.count(name)
        if count != 1:
            raise MappedRowsError(
                f"the function of map_log gave {count} columns {name!r}, and was said to give one;"
                f" it gave {', '.join(map(repr, given.column_names)) or 'none'}"
            )
    columns = []
    for wanted in schema:
        try:
            columns.append(given.column(wanted.name).cast(wanted.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise MappedRowsError(
                f"the function of map_log gave a column {wanted.name!r} of type"
                f" {given.column(wanted.name).type}, which is no {wanted.type}: {error}"
            ) from error
        if not wanted.nullable and columns[-1].null_count:
            raise MappedRowsError(
                f"the function of map_log gave {columns[-1].null_count:,} nulls in column"
                f" {wanted.name!r}, which was said to have none"
            )
    yield from pa.Table.from_arrays(columns, schema=schema).to_batches()
