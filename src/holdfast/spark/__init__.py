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
    from pyspark.sql import SparkSession

__all__ = ["register", "spark_session"]


def register(session: SparkSession) -> None:
    """Make `format("holdfast")` known to this session."""
    from holdfast.spark.data_source import HoldfastDataSource  # noqa: PLC0415 - pyspark is an extra

    session.dataSource.register(HoldfastDataSource)


def _register_with_active() -> None:
    """On import: only where Spark is there already, so that the pure modules stay light."""
    module = sys.modules.get("pyspark.sql")
    session = module.SparkSession.getActiveSession() if module is not None else None
    if session is not None:
        register(session)


_register_with_active()
