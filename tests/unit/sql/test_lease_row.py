"""The lease row of a log in a database: what is read of it, and what writing under it says."""

from __future__ import annotations

import pytest

from holdfast.errors import StoreError
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, seal_entry
from holdfast.leases.contract import Place
from holdfast.sql.layout import NOBODY
from holdfast.sql.lease_row import (
    Tenure,
    fence_of,
    held_by,
    holder_of,
    holding_of,
    is_held_by,
)

HOLDER = "a" * 32
ROW = (3, 9, HOLDER, "a", "h:1", "h:2", 5000, 0, 7, "ab" * 16, 2)


def test_a_row_is_a_lease() -> None:
    """Who holds it, how long it lasts, and where the log begins and ends."""
    holding = holding_of(ROW, "db")
    assert (holding.epoch, holding.beat, holding.first_index) == (3, 9, 2)
    assert (holding.end.index, holding.end.chain) == (7, b"\xab" * 16)
    assert holding.claimant is not None
    assert holding.claimant.lease_seconds == 5.0
    assert holder_of(holding) == HOLDER
    assert is_held_by(holding, Tenure(3, HOLDER))
    assert not is_held_by(holding, Tenure(2, HOLDER))
    assert not is_held_by(holding_of((*ROW[:7], 1, *ROW[8:]), "db"), Tenure(3, HOLDER))


def test_a_row_that_nobody_held_is_nobodys() -> None:
    """Before the first take."""
    holding = holding_of((0, 0, NOBODY, "", "", "", 0, 0, 0, FIRST_CHAIN.hex(), 1), "db")
    assert (holding.claimant, holder_of(holding)) == (None, "")


@pytest.mark.parametrize(
    ("place", "value"), [(0, -1), (1, -1), (6, -1), (9, "no hex"), (9, "ab"), (10, 9), (10, 0)]
)
def test_a_row_that_makes_no_sense_is_named(place: int, value: object) -> None:
    """It was changed by hand: nothing is worked out from it."""
    row = (*ROW[:place], value, *ROW[place + 1 :])
    with pytest.raises(StoreError, match="the row of holdfast_lease in db makes no sense"):
        holding_of(row, "db")


def test_a_fence_says_behind_what_and_under_what() -> None:
    """The entry before the first with its chain, the last one with its own, epoch and holder."""
    entry = seal_entry(
        index=8,
        term=3,
        kind=KIND_RECORDS,
        timestamp=1,
        first_record=1,
        record_count=1,
        parts=[b"x"],
        previous_chain=FIRST_CHAIN,
    )
    tenure = Tenure(3, HOLDER)
    assert held_by(tenure) == {"epoch": 3, "holder": HOLDER}
    behind = {"before": 7, "behind": "07" * 16}
    wanted = {**behind, "last": 8, "chain": entry.chain.hex(), "at": 5, **held_by(tenure)}
    assert fence_of([entry], Place(7, b"\7" * 16), tenure, 5) == wanted
