"""
Spark's conditions as bounds: never narrower than what they say.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from holdfast.spark.log.row_filter import RowFilter
from holdfast.spark.source.pushdown import narrow

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
MICROSECONDS = 1_767_312_000_000_000


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        (EqualTo(("destination",), "a"), RowFilter(destinations=frozenset({"a"}))),
        (In(("destination",), ("a", "b", None)), RowFilter(destinations=frozenset({"a", "b"}))),
        (EqualTo(("index",), 7), RowFilter(index_min=7, index_max=7)),
        (GreaterThan(("index",), 7), RowFilter(index_min=8)),
        (GreaterThanOrEqual(("sequence",), 7), RowFilter(sequence_min=7)),
        (LessThan(("sequence",), 7), RowFilter(sequence_max=6)),
        (LessThanOrEqual(("stored_at",), MOMENT), RowFilter(time_max=MICROSECONDS)),
        (In(("index",), (9, 3)), RowFilter(index_min=3, index_max=9)),
    ],
)
def test_conditions_that_are_understood(condition: Filter, wanted: RowFilter) -> None:
    """Equality, order and lists, on the columns that are decided early."""
    assert wanted == narrow(RowFilter(), [condition], "messages")


@pytest.mark.parametrize(
    "condition",
    [
        Not(EqualTo(("index",), 7)),
        EqualTo(("body_size",), 7),
        EqualTo(("destination",), None),
        EqualTo(("index",), None),
        EqualTo(("index",), True),
        In(("index",), (9, None)),
        StringStartsWith(("destination",), "a"),
        IsNotNull(("index",)),
        EqualTo(("headers", "index"), 1),
        GreaterThan(("stored_at",), 5),
    ],
)
def test_conditions_that_are_not_understood_change_nothing(condition: Filter) -> None:
    """Spark decides them; a guess would lose rows."""
    assert RowFilter() == narrow(RowFilter(), [condition], "messages")


def test_conditions_hold_together() -> None:
    """The narrowest of all."""
    conditions = [
        In(("destination",), ("a", "b")),
        EqualTo(("destination",), "b"),
        GreaterThan(("index",), 3),
        GreaterThan(("index",), 1),
        LessThan(("index",), 9),
    ]
    wanted = RowFilter(destinations=frozenset({"b"}), index_min=4, index_max=8)
    assert wanted == narrow(RowFilter(), conditions, "messages")


def test_views_have_columns_of_their_own() -> None:
    """`time` is an event's; its sequence is a range; an entry has no destination."""
    assert RowFilter(time_min=MICROSECONDS) == narrow(
        RowFilter(), [GreaterThanOrEqual(("time",), MOMENT)], "events"
    )
    assert RowFilter() == narrow(RowFilter(), [EqualTo(("sequence",), 1)], "events")
    assert RowFilter() == narrow(RowFilter(), [EqualTo(("destination",), "a")], "entries")
