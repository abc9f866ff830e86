"""
The tables of columns: one list behind Arrow, Spark, the options and the reference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from holdfast.errors import ConfigError
from holdfast.spark.columns.schema import (
    COLUMNS,
    PROBLEM,
    VIEWS,
    arrow_schema,
    check_view,
    choose_columns,
    default_columns,
    spark_schema,
)

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "spark.md"


@pytest.mark.parametrize("view", VIEWS)
def test_spark_and_arrow_agree(view: str) -> None:
    """Spark compares the types of the batches with what it makes of its own schema."""
    names = tuple(column.name for column in COLUMNS[view])
    made = to_arrow_schema(spark_schema(view, names), timezone="UTC")
    assert made.equals(arrow_schema(view, names))


def test_columns_are_chosen_by_name_or_all() -> None:
    """The star is all default columns, to which others may be added."""
    assert ("body", "index") == choose_columns("messages", " body, index")
    everything = choose_columns("messages", "*, header_block")
    assert (*default_columns("messages"), "header_block") == everything
    assert PROBLEM in choose_columns("events", f"index,{PROBLEM}")


@pytest.mark.parametrize("wanted", ["bodi", "index,index", "*,index", ","])
def test_a_wrong_choice_is_refused(wanted: str) -> None:
    """With the names that there are."""
    with pytest.raises(ConfigError):
        choose_columns("messages", wanted)


def test_a_view_that_is_none_is_refused() -> None:
    """With the names of those that are."""
    assert "events" == check_view("events")
    with pytest.raises(ConfigError, match="messages, events, backlog, entries"):
        check_view("topics")


def test_the_reference_lists_every_column() -> None:
    """What it says of a column is what the table says."""
    text = REFERENCE.read_text()
    for view in ("messages", "events", "entries"):
        for column in COLUMNS[view]:
            assert f"| `{column.name}` " in text
            assert column.meaning in text
