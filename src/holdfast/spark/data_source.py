"""
The data source `holdfast` itself: what Spark is told when it sees `format("holdfast")`.

Options are checked when the DataFrame is made, so that a mistake shows at once and in one sentence.
A user who wants fewer columns says so with the option `columns` or with `.schema(...)`: Spark does
not tell Python data sources which columns a query needs.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from holdfast.errors import ConfigError
from holdfast.spark.batch_reader import BatchReader
from holdfast.spark.options import ReadOptions, read_options
from holdfast.spark.schema import check_columns, spark_schema
from holdfast.spark.stream_reader import StreamReader
from holdfast.spark.writer import BatchWriter, StreamWriter, write_options


class HoldfastDataSource(DataSource):
    """Reads the log of a cluster, a data directory or an archive; writes messages to a cluster."""

    @classmethod
    def name(cls) -> str:
        """The word in `format(...)`."""
        return "holdfast"

    def schema(self) -> StructType:
        """
        The columns of the chosen view.

        Raises:
            ConfigError: The options are wrong; the error lists every mistake.
        """
        options = read_options(self.options)
        return spark_schema(options.view, options.columns)

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
        options = read_options(self.options)
        columns = tuple(schema.fieldNames())
        if columns != options.columns:
            check_columns(options.view, columns)
            options = replace(options, columns=columns)
        return options
