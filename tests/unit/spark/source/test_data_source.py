"""
What Spark is told about the data source, without Spark.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import pyspark_holdfast
from holdfast.errors import ConfigError
from holdfast.spark.columns.schema import default_columns, spark_schema
from holdfast.spark.source.data_source import HoldfastDataSource
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import orders_log


def source(**options: str) -> HoldfastDataSource:
    return HoldfastDataSource({"path": "/x", **options})


def test_spark_finds_the_source_under_its_name() -> None:
    """By the module whose name begins with `pyspark_`."""
    assert pyspark_holdfast.DefaultSource is HoldfastDataSource
    assert "holdfast" == HoldfastDataSource.name()


def test_the_schema_is_that_of_the_view_and_the_columns() -> None:
    """The default ones, or those asked for."""
    assert list(default_columns("events")) == source(view="events").schema().fieldNames()
    assert ["body"] == source(columns="body").schema().fieldNames()
    assert source(mode="report").schema().fieldNames()[-1] == "problem"


def test_a_users_schema_chooses_columns() -> None:
    """What Spark hands to the reader counts."""
    chosen = spark_schema("messages", ("body", "index"))
    assert ("body", "index") == source().reader(chosen).options.columns
    assert ("body", "index") == source().streamReader(chosen).options.columns
    with pytest.raises(ConfigError, match="no column 'time'"):
        source().reader(spark_schema("events", ("time",)))


def test_a_backlog_cannot_be_streamed() -> None:
    """It is a moment."""
    made = source(view="backlog")
    with pytest.raises(ConfigError, match="not a stream"):
        made.streamReader(made.schema())


def test_only_a_stream_begins_at_the_end() -> None:
    """A batch read would find nothing there, or be taken for one of everything."""
    made = source(startingOffsets="latest")
    assert made.streamReader(made.schema()).options.starts_at_latest
    with pytest.raises(ConfigError, match="latest is for streams"):
        made.reader(made.schema())


def test_a_queue_cannot_be_overwritten(tmp_path: Path) -> None:
    """Nobody's messages are removed by a mode."""
    made = HoldfastDataSource({"uri": "stomp://a:1", "destination": "q"})
    rows = spark_schema("messages", ("body",))
    assert made.writer(rows, overwrite=False).options.destination == "q"
    assert made.streamWriter(rows, overwrite=False).options.uri == "stomp://a:1"
    for make in (made.writer, made.streamWriter):
        with pytest.raises(ConfigError, match="cannot be overwritten"):
            make(rows, overwrite=True)


PLANNING = """
import json, pickle, sys
from pyspark.sql.streaming.datasource import ReadAllAvailable
from holdfast.spark.source.data_source import HoldfastDataSource
for path in sys.argv[1:]:
    made = HoldfastDataSource({"path": path})
    assert pickle.dumps(made.reader(made.schema()).partitions())
    stream = made.streamReader(made.schema())
    begin = stream.initialOffset()
    end = stream.latestOffset(begin, ReadAllAvailable())
    assert pickle.dumps(stream.partitions(begin, end))
print("pandas" in sys.modules)
"""


def test_who_plans_a_query_loads_no_pandas(tmp_path: Path) -> None:
    """
    Each kind of planning and each stream has a process of its own, where pandas takes half of
    the time; pyarrow loads it for its first array of Python's objects.
    """
    log = orders_log(tmp_path / "log", b"one", b"two")
    archived_log(log, tmp_path / "archive", per_range=2)
    line = [sys.executable, "-c", PLANNING, str(tmp_path / "log"), str(tmp_path / "archive")]
    ended = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.stdout.strip(), ended.stderr) == ("False", "")
