"""
The other brokers of a log: who told of itself last, and who is gone for good.

Each tells of itself under its name; what it told stands until it is stopped or forgotten.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import MembershipError, StoreError
from holdfast.leases.orders import Namesake, Report, Tell
from holdfast.leases.state import NEVER, LeasedState

_LEFT_BY_ONE_THAT_ENDED: Final = 2
"""So often one may be met that has ended: what it told last, and what was on the way."""


def told(state: LeasedState, report: Report) -> None:
    """
    What all have told was read, after ours was told and those gone for good were forgotten.

    Raises:
        StoreError: Another living broker has our name, and goes before us.
    """
    order = report.order
    assert isinstance(order, Tell), "it is asked for by telling"
    state.forgets = tuple(it for it in state.forgets if it not in order.forgets)
    _judge_namesake(state, report.namesake)
    before = state.waiters
    state.is_company_known = state.is_holder  # One order at a time: it was given as holder, too.
    state.waiters = {it.claimant.name: it for it in report.waiters}
    for name, waiter in state.waiters.items():
        was = before.get(name)
        if was is None or (was.beat, was.claimant) != (waiter.beat, waiter.claimant):
            state.waiters_seen_at[name] = state.now
    for name in state.waiters_seen_at.keys() - state.waiters.keys():
        del state.waiters_seen_at[name]


def _judge_namesake(state: LeasedState, other: Namesake | None) -> None:
    """
    One of two of a name is left: who holds the lease; where a third one does, by their numbers.

    The other one may have ended because we held it just now: nobody goes by numbers before it has
    told more since.

    Raises:
        StoreError: It is the other one.
    """
    state.namesake = "" if other is None else other.told
    if state.is_holder:
        state.namesake_count = 0
    if other is None or state.is_holder:
        return
    state.namesake_count += 1
    holding = state.holding
    claimant = None if holding is None or holding.is_released else holding.claimant
    is_holder = claimant is not None and claimant.holder == other.holder
    is_sure = state.namesake_count > _LEFT_BY_ONE_THAT_ENDED
    if is_holder or (is_sure and other.holder < state.claimant.holder):
        raise StoreError(f"{other.told}; the other one goes on, and this one ends")


def forget(state: LeasedState, name: str, *, is_there: bool) -> None:
    """
    Drop the line of a broker that is gone for good: nobody waits for what it knows any more.

    Raises:
        MembershipError: There is none of this name, or it is there.
    """
    if name not in state.waiters:
        raise MembershipError(
            f"no broker of this log is called {name!r}: 'holdfast status' lists them"
        )
    if name == state.claimant.name or is_there:
        raise MembershipError(f"{name} is there: stop a broker to take it out")
    state.forgets = (*state.forgets, name)
    del state.waiters[name]
    state.tell_at = NEVER
