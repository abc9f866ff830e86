"""
Spark's conditions as a filter of our own, as far as they are about columns we can decide early.

Whatever is not understood is left to Spark, which applies all conditions again anyway.

Pure, but for Spark's filter classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from holdfast.spark.columns.schema import View
from holdfast.spark.log.row_filter import RowFilter

_EQUAL: Final = (EqualTo, EqualNullSafe)


def narrow(wanted: RowFilter, filters: Iterable[Filter], view: View) -> RowFilter:
    """Return `wanted` with the conditions added that this view can decide early."""
    ranges = dict(_RANGES[view])
    for condition in filters:
        attribute: tuple[str, ...] = getattr(condition, "attribute", ())
        if len(attribute) != 1:
            continue
        name = attribute[0]
        if name == "destination" and view != "entries":
            wanted = _with_destinations(wanted, condition)
        elif name in ranges:
            wanted = _with_range(wanted, condition, ranges[name])
    return wanted


_RANGES: Final[dict[View, dict[str, str]]] = {
    "messages": {"index": "index", "sequence": "sequence", "stored_at": "time"},
    "backlog": {"index": "index", "sequence": "sequence", "stored_at": "time"},
    "events": {"index": "index", "time": "time"},
    "entries": {"index": "index"},
}


def _with_destinations(wanted: RowFilter, condition: Filter) -> RowFilter:
    if isinstance(condition, _EQUAL) and isinstance(condition.value, str):
        names = frozenset({condition.value})
    elif isinstance(condition, In):
        names = frozenset(name for name in condition.value if isinstance(name, str))
    else:
        return wanted
    known = wanted.destinations
    return replace(wanted, destinations=names if known is None else names & known)


def _with_range(wanted: RowFilter, condition: Filter, bound: str) -> RowFilter:
    low, high = f"{bound}_min", f"{bound}_max"
    read: Callable[[Any], int | None] = _microseconds if bound == "time" else _integer
    value = read(getattr(condition, "value", None))
    if value is None:
        if isinstance(condition, In):
            values = [read(each) for each in condition.value]
            known = [each for each in values if each is not None]
            if known and len(known) == len(values):
                return _raised(_lowered(wanted, high, max(known)), low, min(known))
        return wanted
    if isinstance(condition, _EQUAL):
        return _raised(_lowered(wanted, high, value), low, value)
    if isinstance(condition, GreaterThan):
        return _raised(wanted, low, value + 1)
    if isinstance(condition, GreaterThanOrEqual):
        return _raised(wanted, low, value)
    if isinstance(condition, LessThan):
        return _lowered(wanted, high, value - 1)
    if isinstance(condition, LessThanOrEqual):
        return _lowered(wanted, high, value)
    return wanted


def _raised(wanted: RowFilter, name: str, value: int) -> RowFilter:
    return replace(wanted, **{name: max(getattr(wanted, name), value)})


def _lowered(wanted: RowFilter, name: str, value: int) -> RowFilter:
    return replace(wanted, **{name: min(getattr(wanted, name), value)})


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(value: Any) -> int | None:
    return microseconds_of(value) if isinstance(value, datetime) else None


def microseconds_of(value: datetime) -> int:
    """Return the microseconds since the epoch; without a zone it is UTC."""
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    seconds = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (seconds.days * 86_400 + seconds.seconds) * 1_000_000 + seconds.microseconds
