"""The names of who stands in a line, and of what nobody knows."""

from __future__ import annotations

from holdfast.electors.candidates import holder_of, line_of
from holdfast.leases.elector import LINE_COUNT_MAX

A, B = "a" * 32, "b" * 32


def test_a_line_is_its_brokers_each_once() -> None:
    """By the first of its names: one of an earlier try may be there still."""
    line = line_of([f"{B}-1", f"{A}-0000000002", f"{B}-3"], 2.0)

    assert ((B, A), 2.0, 0) == (line.holders, line.sure_seconds, line.strangers)


def test_what_no_broker_has_written_is_counted_and_stands_in_no_line() -> None:
    """Another program's lock, a name that is half of one, one that is far too long."""
    names = ["lock", "", f"{A}-", f"{A[:-1]}-1", f"{A}-{'1' * 99}", f"{A}-x", f"{B}-1"]
    line = line_of(names, 0.0)

    assert ((B,), 6) == (line.holders, line.strangers)
    assert "" == holder_of(f"{A}\n-1")


def test_a_line_has_an_end() -> None:
    """Somebody may fill the place."""
    names = [f"{number:032x}-1" for number in range(1_000)]
    assert LINE_COUNT_MAX == len(line_of(names, 0.0).holders)
