"""
Conditions decided as Spark decides them, and rows of damage that no condition leaves out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from holdfast.spark.columns.schema import PROBLEM, arrow_schema
from holdfast.spark.source.row_conditions import keep, taken

COLUMNS = ("index", "destination", "stored_at", "persistent", PROBLEM)
NAME, INDEX, TIME = ("destination",), ("index",), ("stored_at",)


def moment(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


ROWS = pa.RecordBatch.from_pylist(
    [
        {"index": 1, "destination": "orders", "stored_at": moment(1), "persistent": True},
        {"index": 2, "destination": "orders.eu", "stored_at": moment(2), "persistent": False},
        {"index": 3, "destination": None, "stored_at": moment(3), "persistent": True},
        {"index": 4, "problem": "damaged"},
    ],
    arrow_schema("messages", COLUMNS),
)
DAMAGED = 4


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        (EqualTo(NAME, "orders"), {1}),
        (EqualTo(NAME, None), set()),
        (Not(EqualTo(NAME, "orders")), {2}),
        (EqualNullSafe(NAME, "orders"), {1}),
        (Not(EqualNullSafe(NAME, "orders")), {2, 3}),
        (EqualNullSafe(NAME, None), {3}),
        (In(NAME, ("orders", "x")), {1}),
        (Not(In(NAME, ("orders", "x"))), {2}),
        (Not(In(NAME, ("orders", None))), set()),
        (IsNull(NAME), {3}),
        (IsNotNull(NAME), {1, 2}),
        (StringStartsWith(NAME, "orders"), {1, 2}),
        (StringEndsWith(NAME, "eu"), {2}),
        (StringContains(NAME, "s.e"), {2}),
        (GreaterThan(INDEX, 2), {3}),
        (GreaterThanOrEqual(INDEX, 2), {2, 3}),
        (LessThan(INDEX, 2), {1}),
        (LessThanOrEqual(TIME, moment(2)), {1, 2}),
        (EqualTo(("persistent",), False), {2}),
    ],
)
def test_a_condition_keeps_what_spark_keeps_and_what_tells_of_damage(
    condition: Filter, kept: set[int]
) -> None:
    """Nothing is known of a damaged entry, so no condition says that it is not wanted."""
    assert ([condition], []) == taken([condition], "messages", COLUMNS)
    assert kept | {DAMAGED} == set(keep(ROWS, [condition]).column("index").to_pylist())


def test_conditions_hold_together() -> None:
    """One after the other; without any everything is kept."""
    both = [IsNotNull(NAME), GreaterThan(INDEX, 1)]
    assert [2, DAMAGED] == keep(ROWS, both).column("index").to_pylist()
    assert 4 == keep(ROWS, []).num_rows


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("headers", "x"), "1"),
        EqualTo(("body",), b"x"),
        EqualTo(NAME, 5),
        EqualTo(INDEX, "5"),
        EqualTo(INDEX, True),
        EqualTo(INDEX, 1.5),
        GreaterThan(INDEX, Decimal("1.5")),
        LessThan(TIME, 5),
        EqualTo(NAME, b"orders"),
        LessThan(INDEX, moment(1)),
        StringContains(INDEX, "1"),
        IsNotNull((PROBLEM,)),
    ],
)
def test_what_is_not_understood_is_left_to_spark(condition: Filter) -> None:
    """Columns that are not read, values of another kind, and what is asked of damage itself."""
    assert ([], [condition]) == taken([condition], "messages", COLUMNS)
