"""
Spark's conditions applied to rows here, so that rows which tell of damage pass them.

With mode=report a row that says what is wrong has nothing else in it, so every condition on another
column would drop it. What is understood is therefore taken off Spark's hands, exactly: the rows
that Spark would have kept, and those of damage. What is not understood stays with Spark.

Pure, but for Spark's filter classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
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

from holdfast.spark.columns.schema import PROBLEM, View, arrow_type
from holdfast.spark.source.pushdown import microseconds_of

_COMPARED: Final[dict[type[Filter], Callable[..., Any]]] = {
    EqualTo: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}
_OF_TEXT: Final[dict[type[Filter], Callable[..., Any]]] = {
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}
_VALUES: Final[tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...]], ...]] = (
    (pa.types.is_boolean, (bool,)),
    (pa.types.is_integer, (int,)),
    (pa.types.is_string, (str,)),
    (pa.types.is_binary, (bytes, bytearray)),
    (pa.types.is_timestamp, (datetime,)),
)
"""What is compared with a column of which kind."""


def taken(
    filters: Iterable[Filter], view: View, columns: tuple[str, ...]
) -> tuple[list[Filter], list[Filter]]:
    """Return the conditions that can be decided here, and those that are left to Spark."""
    found: tuple[list[Filter], list[Filter]] = ([], [])
    for condition in filters:
        found[0 if _is_understood(condition, view, columns) else 1].append(condition)
    return found


def keep(batch: pa.RecordBatch, conditions: list[Filter]) -> pa.RecordBatch:
    """Leave out the rows for which a condition does not hold; never one that tells of damage."""
    if not conditions or not batch.num_rows:
        return batch
    mask = pc.is_valid(batch.column(PROBLEM))
    wanted = _mask(conditions[0], batch)
    for condition in conditions[1:]:
        wanted = pc.and_kleene(wanted, _mask(condition, batch))
    return batch.filter(pc.or_(mask, pc.fill_null(wanted, fill_value=False)))


def _is_understood(condition: Filter, view: View, columns: tuple[str, ...]) -> bool:
    if isinstance(condition, Not):
        return _is_understood(condition.child, view, columns)
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in columns or attribute[0] == PROBLEM:
        return False
    if isinstance(condition, IsNull | IsNotNull):
        return True
    kind = arrow_type(view, attribute[0])
    value = getattr(condition, "value", None)
    if type(condition) in _OF_TEXT:
        return pa.types.is_string(kind) and isinstance(value, str)
    if type(condition) not in _COMPARED and not isinstance(condition, EqualNullSafe | In):
        return False
    values = list(condition.value) if isinstance(condition, In) else [value]
    try:
        for each in values:
            _scalar(each, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """
    Make what is compared with a column, without changing it: 1.5 is no whole number.

    Raises:
        TypeError: It is of another type.
        ArrowException: It is out of the column's range.
    """
    fits = value is None or any(
        is_kind(kind) and type(value) in types for is_kind, types in _VALUES
    )
    if not fits:
        raise TypeError(f"{value!r} is not compared with {kind}")
    if isinstance(value, datetime):
        return pa.scalar(microseconds_of(value), kind)
    return pa.scalar(value, kind)


def _mask(condition: Filter, batch: pa.RecordBatch) -> Any:
    """Tell of each row whether a condition holds: yes, no, or null as SQL has it."""
    if isinstance(condition, Not):
        return pc.invert(_mask(condition.child, batch))
    column = batch.column(condition.attribute[0])  # type: ignore[attr-defined] # was looked at
    if isinstance(condition, IsNull):
        return pc.is_null(column)
    if isinstance(condition, IsNotNull):
        return pc.is_valid(column)
    if type(condition) in _OF_TEXT:
        return _OF_TEXT[type(condition)](column, pattern=condition.value)  # type: ignore[attr-defined]
    if isinstance(condition, In):
        return _is_one_of(column, condition.value)
    value = _scalar(condition.value, column.type)  # type: ignore[attr-defined]
    if isinstance(condition, EqualNullSafe):
        if not value.is_valid:
            return pc.is_null(column)
        return pc.fill_null(pc.equal(column, value), fill_value=False)
    return _COMPARED[type(condition)](column, value)


def _is_one_of(column: pa.Array, values: Iterable[Any]) -> Any:
    scalars = [_scalar(value, column.type) for value in values]
    found = pa.array([False] * len(column), pa.bool_())
    for scalar in scalars:
        found = pc.or_kleene(found, pc.equal(column, scalar))
    return found
