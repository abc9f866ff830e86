"""
What Spark is told about the data source, without Spark.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import pyspark_holdfast
from holdfast.errors import ConfigError
from holdfast.spark.columns.schema import default_columns, spark_schema
from holdfast.spark.source.data_source import HoldfastDataSource


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
