"""From what is wrong with a database to the errors of the contract."""

from __future__ import annotations

import pytest

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.sql.faults import ROTATES, Fault, error_of

UNKNOWN_OUTCOMES = {
    *(Fault.LOST, Fault.READ_ONLY, Fault.CROWDED, Fault.BUSY, Fault.UNKNOWN, Fault.UNWRITABLE)
}


@pytest.mark.parametrize("fault", Fault)
def test_each_fault_is_one_error(fault: Fault) -> None:
    """What may have been done is unreachable, what is full refused, anything else final."""
    error = error_of(fault, "sqlite:////srv/store.db", "it said so.\n")

    expected = StoreError
    if fault in UNKNOWN_OUTCOMES:
        expected = UnreachableError
    elif fault is Fault.FULL:
        expected = AppendRefusedError
    assert type(error) is expected
    assert str(error).startswith(f"sqlite:////srv/store.db {fault.value}: it said so")
    assert "\n" not in str(error)


@pytest.mark.parametrize("fault", set(Fault) - UNKNOWN_OUTCOMES - {Fault.FULL})
def test_what_is_final_says_what_to_do(fault: Fault) -> None:
    """Behind what the database said stands an advice."""
    assert "it said so; " in str(error_of(fault, "here", "it said so"))


def test_another_host_is_tried_only_where_it_may_help() -> None:
    """A lock that is held is held for all of them."""
    assert {Fault.LOST, Fault.READ_ONLY, Fault.CROWDED} == ROTATES
