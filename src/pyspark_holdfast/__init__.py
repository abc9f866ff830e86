"""
Spark finds the data source `holdfast` here by itself.

When a query first names a data source, Spark looks through the top-level modules whose names begin
with `pyspark_` for a class `DefaultSource`. So `format("holdfast")` works wherever Holdfast is
installed, with nothing imported or registered before.
"""

from holdfast.spark.source.data_source import HoldfastDataSource as DefaultSource

__all__ = ["DefaultSource"]
