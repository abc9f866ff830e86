"""What is asked of a database: the conditions that make each write a fence."""

from __future__ import annotations

import pytest

from holdfast.sql import statements


@pytest.mark.parametrize("name", ["ADVANCE", "RENEW", "RELEASE", "CLEAN"])
def test_whatever_is_written_under_the_lease_asks_whose_it_is(name: str) -> None:
    """Epoch, holder, and that it was not given back, in the write itself; and it is a beat."""
    statement = getattr(statements, name)

    assert statement.startswith("UPDATE holdfast_lease SET ")
    condition = statement.partition(" WHERE ")[2]
    for term in ("id = 1", "epoch = :epoch", "holder = :holder", "released = 0"):
        assert term in condition
    assert "beat = beat + 1" in statement


def test_an_append_asks_for_the_end_as_well() -> None:
    """So the same is stored once, and neither a hole nor what follows on another history at all."""
    assert statements.ADVANCE.endswith("AND last_index = :before AND last_chain = :behind")


def test_a_take_asks_for_epoch_beat_and_holder() -> None:
    """Any sign of life since it was seen keeps the lease where it is; so does another holder's."""
    condition = "WHERE id = 1 AND epoch = :epoch AND beat = :beat AND holder = :was"
    assert statements.TAKE.endswith(condition)


def test_nothing_is_computed_by_the_database() -> None:
    """Its clock and its chance differ from copy to copy."""
    for name, statement in vars(statements).items():
        if name.isupper():
            assert not {"NOW(", "RANDOM(", "CURRENT_"} & set(statement.upper().split()), name
