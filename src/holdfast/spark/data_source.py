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

from holdfast.spark.batch_reader import BatchReader
from holdfast.spark.options import ReadOptions, read_options
from holdfast.spark.schema import check_columns, spark_schema


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
        """The reader of one query."""
        return BatchReader(self._options(schema))

    def _options(self, schema: StructType) -> ReadOptions:
        """The options, with the columns that a schema given by the user asks for."""
        options = read_options(self.options)
        columns = tuple(schema.fieldNames())
        if columns != options.columns:
            check_columns(options.view, columns)
            options = replace(options, columns=columns)
        return options
