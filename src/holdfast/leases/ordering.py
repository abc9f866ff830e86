"""
What the worker is to do next: one rule, in the order of urgency.

A holder stores and gives signs of life before all else; what is left to be forgotten, mended and
told comes when nothing waits, and what is only shown to people after that. An append whose outcome
is not known is sent again as it was, and nothing else is stored before it.
"""

from __future__ import annotations

from typing import Final

from holdfast.journal.entry import Entry, bytes_of
from holdfast.leases.contract import Waiter
from holdfast.leases.orders import (
    Drop,
    Fetch,
    Join,
    Look,
    Order,
    Project,
    Release,
    Renew,
    Store,
    Tell,
)
from holdfast.leases.state import ALWAYS, LeasedState, Phase

PROJECT_SECONDS_MAX = 2.0
"""How long an append may have to wait for what is only shown."""

STORES_IN_ROW_MAX = 16
"""After so many appends without a pause, but for beats, what else is due comes first, once."""

_LEFT: Final = (Drop, Fetch, Tell)
"""What comes when nothing waits, each in its turn: where pauses are rare none waits for ever."""


def next_order(
    state: LeasedState, last_index: int, chain: bytes, *, known_level: int, is_room: bool
) -> Order | None:
    """
    Choose the next order; None if nothing is due.

    Args:
        last_index: Where the log ends that is known here, and the chain value there.
        known_level: The newest level of the log's format that this broker knows.
        is_room: Whether more of the log may be read now.
    """
    order = _most_urgent(state, last_index, chain, known_level, is_room=is_room)
    is_put_off = state.may_store and state.stores_in_row >= STORES_IN_ROW_MAX
    if order is None and is_put_off and not state.in_flight:
        order = _store_more(state)
    if isinstance(order, Store):
        state.stores_in_row += 1
    elif not isinstance(order, Renew):  # A beat among them is no pause: the rest still waits.
        state.stores_in_row = 0
    return order


def _most_urgent(
    state: LeasedState, last_index: int, chain: bytes, known_level: int, *, is_room: bool
) -> Order | None:
    seconds = state.call_seconds()
    if state.phase is Phase.JOINING:
        return Join(last_index, chain, seconds) if state.now >= state.retry_at else None
    if state.is_holder:
        order = _of_a_holder(state, seconds)
        if order is not None:
            return order
    is_reading = state.phase is not Phase.HOLDING and is_room and state.now >= state.retry_at
    if is_reading and state.now >= state.look_at:
        reading = 0.0 if state.is_holder else state.look_seconds_max
        return Look(last_index, chain, seconds, reading)
    if state.is_holder and state.now < state.retry_at:
        return None  # What is to be tried again comes first: nothing else may take its time.
    kind = _next_left(state)
    if kind is not None:
        state.left_last = kind
    if kind is Drop:
        return Drop(state.drop_to, seconds)
    if kind is Fetch:
        return Fetch(min(state.damaged), seconds)
    if kind is Tell:
        state.tell_at = state.now + state.settings.tell_seconds
        state.told_count += 1
        waiter = Waiter(
            claimant=state.claimant,
            known_level=known_level,
            beat=state.told_count,
            applied_index=state.taken_index,
        )
        return Tell(waiter, seconds, state.forgets)
    if state.projecting and state.phase is Phase.HOLDING:
        return Project(state.projecting[0], min(seconds, PROJECT_SECONDS_MAX))
    return None


def _of_a_holder(state: LeasedState, seconds: float) -> Order | None:
    is_renewal_due = state.now >= state.renewed_at + state.beat_seconds
    if state.refusal and is_renewal_due and (not state.trouble or state.now >= state.retry_at):
        return Renew(seconds)  # Nothing of what was refused is stored: the beat comes first.
    if state.in_flight:
        return _store(state) if state.now >= state.retry_at else None
    if is_renewal_due and (not state.is_fence or not state.may_store):
        return Renew(seconds) if state.now >= state.retry_at else None
    if state.may_store and (state.is_giving_up or state.stores_in_row < STORES_IN_ROW_MAX):
        return _store_more(state)
    if state.is_giving_up:
        return Release(seconds) if state.now >= state.retry_at else None
    return None


def _next_left(state: LeasedState) -> type | None:
    """Which of what is left to be done is due, and waits for longest."""
    now = state.now
    is_to_drop = state.phase is Phase.HOLDING and state.first_there < state.drop_to
    is_to_mend = bool(state.damaged) and not state.is_mending
    is_due = {
        Drop: is_to_drop and not state.is_giving_up and now >= state.put_off_until(Drop),
        Fetch: is_to_mend and now >= _mend_at(state),
        Tell: now >= max(state.tell_at, state.put_off_until(Tell)),
    }
    following = _LEFT.index(state.left_last) + 1
    return next((it for it in (*_LEFT[following:], *_LEFT[:following]) if is_due[it]), None)


def _store_more(state: LeasedState) -> Store:
    state.in_flight = _together(state)
    return _store(state)


def _store(state: LeasedState) -> Store:
    seconds = state.call_seconds(bytes_of(state.in_flight))
    return Store(state.in_flight, seconds, ALWAYS if state.is_fence else state.valid_until)


def _mend_at(state: LeasedState) -> float:
    return max(state.retry_at, state.mend_at)


def _together(state: LeasedState) -> list[Entry]:
    """Take what is stored at once off those that wait: as much as goes well together."""
    pending, bytes_max = state.pending, state.settings.append_bytes_max
    in_time = state.throughput.batch_bytes_max(state.sure_seconds, state.now)
    if in_time:
        bytes_max = min(bytes_max, in_time)
    taken = [pending.popleft()]
    size = len(taken[0].raw)
    while pending and size + len(pending[0].raw) <= bytes_max:
        taken.append(pending.popleft())
        size += len(taken[-1].raw)
    return taken


def due(state: LeasedState) -> float:
    """When, by the lease clock, there is something to order without anything having happened."""
    if state.is_busy:
        return state.valid_until if state.is_holder else float("inf")
    if state.phase is Phase.JOINING:
        return state.retry_at
    tell_at = max(state.tell_at, state.put_off_until(Tell))
    times = [tell_at]
    if state.is_holder:
        times = [max(tell_at, state.retry_at), state.valid_until, _beat_at(state)]
        if state.in_flight or state.is_giving_up or state.projecting:
            times.append(state.retry_at)
        if Drop in state.left_undone:
            times.append(max(state.put_off_until(Drop), state.retry_at))
    if state.phase is not Phase.HOLDING:
        times.append(max(state.look_at, state.retry_at))
    if state.damaged and not state.is_mending:
        times.append(_mend_at(state))
    return min(times)


def _beat_at(state: LeasedState) -> float:
    """When the next sign of life is due that is no append."""
    due_at = state.renewed_at + state.beat_seconds
    if state.refusal and not state.trouble:
        return due_at
    return max(due_at, state.retry_at)
