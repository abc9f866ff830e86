"""
What tells a copy of a database that others went on with from this log, switched off one by one.

Each gives what is to be patched; the worlds, and which of them notice, are with the ablations of
several databases.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.leases.contract import Outcome
from holdfast.raidb import histories
from holdfast.raidb.histories import Histories, has_promised
from holdfast.raidb.member import Row
from holdfast.raidb.tenure import Tenure
from trials.safeguards.ablation import Patch


def go_by_whoever_is_newest() -> list[Patch]:
    """Nothing is told apart."""
    return [(Histories, "judge", lambda *_arguments, **_named: {})]


def believe_any_taker() -> list[Patch]:
    """Whoever took any database has deposed the holder."""

    def is_deposed(_self: Tenure, found: dict[str, Any], _deadline: float) -> bool:
        return any(it is Outcome.DEPOSED for it in found.values())

    return [(Tenure, "is_deposed", is_deposed)]


def tell_starts_by_number() -> list[Patch]:
    """Who began a set is not told, as it was before."""

    def promised(row: Row, begun: Row) -> bool:
        return has_promised(_without_who(row), _without_who(begun))

    def is_begun_as(row: Row, met: Any) -> bool:
        return bool(row.written and row.written.known.number.start == met.start)

    return [(histories, "has_promised", promised), (histories, "_is_begun_as", is_begun_as)]


def _without_who(row: Row) -> Row:
    assert row.written is not None, "those without were left out"
    return replace(row, written=replace(row.written, known=replace(row.written.known, begun_by="")))


def go_by_what_is_left() -> list[Patch]:
    """What is there may lack what is final."""
    return [(Histories, "_require_what_is_final", lambda *_arguments, **_named: None)]
