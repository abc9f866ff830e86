"""
The data pipeline on Apache Spark: the data source `holdfast`, and what is built on it.

Importing this package registers the data source with the session that is active, if there is one;
a session made later finds it by itself (see `pyspark_holdfast`), or is made by `spark_session`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.spark.source.mapped_log import map_log
    from holdfast.spark.source.needed_columns import query_log

__all__ = ["map_log", "query_log", "register", "spark_session"]

_FROM = {
    "map_log": "holdfast.spark.source.mapped_log",
    "query_log": "holdfast.spark.source.needed_columns",
}


def register(session: SparkSession) -> None:
    """Make `format("holdfast")` known to this session."""
    from holdfast.spark.source.data_source import HoldfastDataSource  # noqa: PLC0415 - pyspark is an extra

    session.dataSource.register(HoldfastDataSource)


def __getattr__(name: str) -> Any:
    """Give what needs pyspark, which is an extra, to whoever asks for it."""
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_FROM[name]), name)


def _register_with_active() -> None:
    """On import: only where Spark is there already, so that the pure modules stay light."""
    module = sys.modules.get("pyspark.sql")
    session = module.SparkSession.getActiveSession() if module is not None else None
    if session is not None:
        register(session)


_register_with_active()
