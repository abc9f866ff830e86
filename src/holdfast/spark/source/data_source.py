"""
The data source `holdfast` itself: what Spark is told when it sees `format("holdfast")`.

Options are checked when the DataFrame is made, so that a mistake shows at once and in one sentence.
A user who wants fewer columns says so with the option `columns` or with `.schema(...)`: Spark does
not tell Python data sources which columns a query needs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from holdfast.errors import ConfigError
from holdfast.spark.columns.schema import check_columns, spark_schema
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import ReadOptions, read_options
from holdfast.spark.source.stream_reader import StreamReader
from holdfast.spark.source.table_options import options_of_new_table, options_of_query, with_options
from holdfast.spark.source.writer import BatchWriter, StreamWriter, write_options
from holdfast.spark.worker_memory import keep_loaded

_NO_OPTIONS: Final = (
    "url, path, store: name one of them: where the log is read from. If this is a table of Spark's"
    " catalog: one that was made with a list of columns does not keep its options; make it without,"
    " and name columns by the option of that name"
)

_NO_INSERT: Final = (
    "url: a write has no options, so this is an INSERT into a table of Spark's catalog, which is"
    ' for reading; write with df.write.format("holdfast")'
)


class HoldfastDataSource(DataSource):
    """Reads the log of a cluster, directory, store or archive; writes messages to a cluster."""

    @classmethod
    def name(cls) -> str:
        """The word in `format(...)`."""
        return "holdfast"

    def schema(self) -> StructType:
        """
        The columns of the chosen view; of a table that is being made they carry its options.

        Raises:
            ConfigError: The options are wrong; the error lists every mistake.
        """
        keep_loaded()
        of_table = options_of_new_table(self.options)
        options = read_options(self.options if of_table is None else of_table)
        schema = spark_schema(options.view, options.columns)
        return schema if of_table is None else with_options(schema, of_table)

    def reader(self, schema: StructType) -> BatchReader:
        """
        The reader of one query.

        Raises:
            ConfigError: The options are wrong, or only a stream can begin so.
        """
        options = self._options(schema)
        if options.starts_at_latest:
            raise ConfigError(["start_index: latest is for streams: behind it there is nothing"])
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """
        The reader of one streaming query.

        Raises:
            ConfigError: The options are wrong, or the view cannot be streamed.
        """
        options = self._options(schema)
        if options.view == "backlog":
            raise ConfigError(["view: a backlog is a moment, not a stream; stream messages"])
        return StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """
        The writer of one DataFrame.

        Raises:
            ConfigError: The options or columns are wrong, or the mode is `overwrite`.
        """
        if not self.options:
            raise ConfigError([_NO_INSERT])
        if overwrite:
            raise ConfigError(["mode: a queue cannot be overwritten; use append"])
        return BatchWriter(write_options(self.options, schema))

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> StreamWriter:
        """
        The writer of one streaming query.

        Raises:
            ConfigError: The options or columns are wrong, or the output mode is `complete`.
        """
        if overwrite:
            raise ConfigError(["outputMode: a queue cannot be overwritten; use append"])
        return StreamWriter(write_options(self.options, schema))

    def _options(self, schema: StructType) -> ReadOptions:
        """The options, with the columns that a schema given by the user asks for."""
        given = options_of_query(schema, self.options)
        if not given:
            raise ConfigError([_NO_OPTIONS])
        options = read_options(given)
        columns = tuple(schema.fieldNames())
        if columns != options.columns:
            check_columns(options.view, columns)
            options = replace(options, columns=columns)
        return options
