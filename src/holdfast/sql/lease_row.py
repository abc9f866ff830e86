"""
The lease row of a log in a database: under what it is written, and what it says.

Source: "Stores and fenced leases", sections 7.3 and 7.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.errors import StoreError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Holding, Place
from holdfast.sql import layout


class Held(Protocol):
    """Under what a database is written: it counts while its lease row says the same."""

    @property
    def epoch(self) -> int: ...

    @property
    def holder(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Tenure:
    """The lease as this log took it."""

    epoch: int
    holder: str


def held_by(tenure: Held) -> dict[str, Any]:
    """What a statement that holds the lease to be ours says of it."""
    return {"epoch": tenure.epoch, "holder": tenure.holder}


def fence_of(entries: list[Entry], before: Place, tenure: Held, at: int) -> dict[str, Any]:
    """What the fence of an append says: behind which end it stores these, and under what."""
    first, last = entries[0], entries[-1]
    behind = {"before": first.index - 1, "behind": before.chain.hex(), "at": at}
    return {"last": last.index, "chain": last.chain.hex(), **behind, **held_by(tenure)}


def is_held_by(holding: Holding, tenure: Tenure) -> bool:
    """Whether the lease is the one of this tenure still."""
    found = (holding.epoch, holder_of(holding), holding.is_released)
    return found == (tenure.epoch, tenure.holder, False)


def holder_of(holding: Holding) -> str:
    """Who holds it, or held it last; empty before anybody did."""
    return "" if holding.claimant is None else holding.claimant.holder


def seen_as(holding: Holding) -> dict[str, Any]:
    """What a take says of the lease row that it was decided by: it must be that one still."""
    was = layout.NOBODY if holding.claimant is None else holding.claimant.holder
    return {"epoch": holding.epoch, "beat": holding.beat, "was": was}


def holding_of(row: tuple[Any, ...], place: str) -> Holding:
    """
    Give the lease that a row of `statements.READ_LEASE` is.

    Raises:
        StoreError: It makes no sense.
    """
    epoch, beat, holder, name, address, stomp, lease_ms, released, last, chain, first = row
    try:
        end = Place(last, bytes.fromhex(chain))
    except ValueError:
        end = Place(-1, b"")
    if len(end.chain) != 16 or not 0 <= first - 1 <= end.index or min(epoch, beat, lease_ms) < 0:
        raise StoreError(
            f"the row of holdfast_lease in {place} makes no sense (last_index {last}, last_chain"
            f" {chain!r}, first_index {first}, epoch {epoch}): it was changed by hand; bring back a"
            f" copy of the database"
        )
    claimant = Claimant(
        holder=holder, name=name, admin=address, stomp=stomp, lease_seconds=lease_ms / 1000
    )
    is_anybody = epoch > 0 and holder != layout.NOBODY
    return Holding(
        epoch=epoch,
        beat=beat,
        claimant=claimant if is_anybody else None,
        is_released=bool(released),
        first_index=first,
        end=end,
        sure=end,
    )
