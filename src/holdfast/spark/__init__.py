"""
The data pipeline on Apache Spark: the data source `holdfast`, and what is built on it.

Importing this package registers the data source with the session that is active, if there is one;
a session made later finds it by itself (see `pyspark_holdfast`), or is made by `spark_session`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdfast.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from holdfast.spark.mapped_log import ArrowFunction

__all__ = ["map_log", "query_log", "register", "spark_session"]


def register(session: SparkSession) -> None:
    """Make `format("holdfast")` known to this session."""
    from holdfast.spark.data_source import HoldfastDataSource  # noqa: PLC0415 - pyspark is an extra

    session.dataSource.register(HoldfastDataSource)


def map_log(
    session: SparkSession,
    function: ArrowFunction,
    schema: StructType | str,
    *,
    stream: bool = False,
    **options: str,
) -> DataFrame:
    """Run a function of yours where the log is parsed: see `holdfast.spark.mapped_log`."""
    from holdfast.spark import mapped_log  # noqa: PLC0415 - pyspark is an extra

    return mapped_log.map_log(session, function, schema, stream=stream, **options)


def query_log(
    session: SparkSession,
    query: Callable[[DataFrame], DataFrame],
    *,
    stream: bool = False,
    **options: str,
) -> DataFrame:
    """Read only the columns that a query needs: see `holdfast.spark.needed_columns`."""
    from holdfast.spark import needed_columns  # noqa: PLC0415 - pyspark is an extra

    return needed_columns.query_log(session, query, stream=stream, **options)


def _register_with_active() -> None:
    """On import: only where Spark is there already, so that the pure modules stay light."""
    module = sys.modules.get("pyspark.sql")
    session = module.SparkSession.getActiveSession() if module is not None else None
    if session is not None:
        register(session)


_register_with_active()
