"""
One Spark session for all tests here: starting one takes longer than most of them.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.spark.session import spark_session
from holdfast.testing.local_cluster import LocalCluster

os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""For every driver that a test starts: each query is short, and optimizing what Java compiles cost
more of the cores than it saved."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two cores in this process's own Java."""
    place = tmp_path_factory.mktemp("spark")
    session = spark_session(
        "tests",
        "local[2]",
        {
            "spark.local.dir": str(place / "local"),
            "spark.sql.warehouse.dir": str(place / "warehouse"),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "1g",
            "spark.sql.streaming.stopTimeout": "20s",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three real nodes, for tests that leave all of them running."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with LocalCluster(directory) as nodes:
        nodes.start()
        yield nodes


@pytest.fixture(autouse=True)
def _warnings_of_spark() -> Iterator[None]:
    """Spark's own Python warns about sockets it leaves to the garbage collector."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
