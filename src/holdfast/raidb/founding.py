"""
The first set of several databases: who is of it is decided in one of them, by one write.

All are new, or one of them has a log of its own, which the others are filled from. The set is
written first in the member with the log, or in that with the lowest id: whoever writes there second
finds what the first one wrote. A new member that is named by the first set has it by that alone, as
nothing was ever written there: whoever comes by completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.errors import StoreError, UnreachableError
from holdfast.mirrors.mirror_set import MirrorSet, MirrorState, Number
from holdfast.raidb.databases import Databases
from holdfast.raidb.member import ActOf, KnownSet, Row

_ROUNDS_MAX = 10
FIRST_EVENT = 0
"""Of the first set only: those that holders make begin with 1."""


def complete(
    databases: Databases, rows: Mapping[str, Row], seconds_max: float, clock: Callable[[], float]
) -> dict[str, Row]:
    """
    Found the set if there is none; write it in new members that it names.

    Raises:
        StoreError: Several have a log of their own.
        UnreachableError: One is missing that is needed for it.
    """
    deadline = clock() + seconds_max
    for _ in range(_ROUNDS_MAX):
        acts = _next(databases, rows)
        if not acts:
            return dict(rows)
        databases.run(acts, max(deadline - clock(), 0.1))
        rows = databases.read(max(deadline - clock(), 0.1))
    raise UnreachableError(
        f"the first set could not be written in all of {databases.named(rows)}: see whether each"
        f" may be written, and whether another broker begins with other ones"
    )


def _next(databases: Databases, rows: Mapping[str, Row]) -> dict[str, ActOf]:
    written = [it.written for it in rows.values() if it.written is not None]
    if not written:
        return _begin(databases, rows)
    first = next((it for it in written if it.known.number.event == FIRST_EVENT), None)
    if first is None:
        return {}
    named = dict(first.known.states)
    return {it: _found(row, first) for it, row in rows.items() if row.is_new and it in named}


def _begin(databases: Databases, rows: Mapping[str, Row]) -> dict[str, ActOf]:
    if databases.is_any_misled:
        raise databases.trouble()
    if len(rows) < len(databases.members):
        raise UnreachableError(
            "the databases have never been used together, so all of them are needed to begin: "
            + str(databases.trouble())
        )
    logs = [it for it in rows.values() if it.lease.epoch]
    if len(logs) > 1:
        raise StoreError(
            f"{databases.named(it.member for it in logs)} have each a log of their own: start with"
            f" the one to be kept, and give databases that are empty beside it"
        )
    first = logs[0] if logs else rows[min(rows)]
    other: MirrorState = "joining" if logs else "active"
    states: dict[str, MirrorState] = dict.fromkeys(rows, other)
    states[first.member] = "active"
    epoch = first.lease.epoch
    known = MirrorSet(
        first.log_id,
        tuple(sorted(states.items())),
        Number(epoch, FIRST_EVENT),
        promised=epoch,
    )
    places = tuple(sorted((it, databases.name(it)) for it in rows))
    return {first.member: _found(first, KnownSet(known, places))}


def _found(row: Row, written: KnownSet) -> ActOf:
    return lambda member, seconds: member.found(row, written, seconds)
