"""
Holding the lease: taking it, keeping it, losing it. Decisions only; the driver orders and reads.

Source: design section 6, and "Stores and fenced leases", section 4.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from holdfast.environment.randomness import Randomness
from holdfast.errors import AppendRefusedError, EntryRefusedError
from holdfast.journal.entry import bytes_of
from holdfast.leases.contract import Claimant, Holding, Outcome
from holdfast.leases.elections import NOT_ASKED
from holdfast.leases.elector import Reading
from holdfast.leases.orders import Order, Report, Store, Take
from holdfast.leases.state import NEVER, LeasedState, Phase

logger = logging.getLogger("holdfast.leases")

REFUSED_PAUSE_SECONDS = 0.5
"""What a medium refused, being full, is tried again so soon."""
OWN_LIMIT_SECONDS = 600.0
"""For so long nothing is tried that is as large as what the medium has a limit of its own for."""
NO_ROOM_SECONDS = 120.0
"""The same where it had no room."""
GIVE_UP_SECONDS = 3.0
"""For so long there may be room again for what is of some size."""


def seen(state: LeasedState, report: Report) -> None:
    """The lease was read."""
    holding = report.holding
    assert holding is not None, "whoever looks reads the lease"
    state.taking = ""  # Had it gone on, that would have been asked for in place of this.
    state.silent_seconds = state.silence.note(holding, report.began, report.ended)
    if state.is_holder and holding.epoch != state.epoch:
        step_down(state, f"{_name(holding)} has taken the lease")
    if not state.is_holder:
        _tell_news(state, holding)
        state.holding, state.is_fresh = holding, True
        state.epoch = max(state.epoch, holding.epoch)


def claim(state: LeasedState) -> Take | None:
    """The order to take the lease, if it may be taken and was just read."""
    holding, is_fresh = state.holding, state.is_fresh
    state.is_fresh = False
    if state.phase is not Phase.WAITING or holding is None or not is_fresh:
        return None
    pause_until = max(state.rests_until, state.retry_at, state.take_at)
    if state.now < pause_until or holding.epoch != state.epoch:
        return None
    if not _may_take(state, holding):
        return None
    claimant = replace(state.claimant, known_index=state.commit_index)
    return Take(holding, claimant, state.call_seconds())


def _may_take(state: LeasedState, holding: Holding) -> bool:
    """Whether its holder's time is over, and it is for us to take it."""
    silence, silent, own = state.silence, state.silent_seconds, state.claimant.holder
    is_over = silence.may_take(holding, silent, state.needed_silence, own)
    elections = state.elections
    if elections is None:
        return is_over
    is_own = holding.claimant is not None and holding.claimant.holder == own
    patience = elections.patience_seconds(state.lease_seconds)
    if silent >= state.needed_silence + patience or (is_own and not holding.is_released):
        return True
    return elections.may_take(
        holding,
        state.now,
        is_over=is_over,
        silent_since=silence.since,
        short_seconds=state.short_silence,
    )


def next_look(state: LeasedState, pause: float) -> float:
    """
    When the lease is read next: after a pause, or as soon as its holder was silent for long enough.
    """
    usual = state.now + pause
    is_over_at = state.silence.since + state.needed_silence
    return min(usual, is_over_at) if is_over_at > state.now else usual


def heard(state: LeasedState, reading: Reading) -> None:
    """The elector was asked: what it said may be what is waited for, or let our lease last."""
    elections = state.elections
    assert elections is not None, "there is one that was asked"
    before = (elections.trouble, elections.elected())
    elections.note(reading, state.settings.margin_fraction)
    if state.is_holder:
        state.valid_until = state.validity()
    elif elections.is_elected(state.now) and _holder(state) not in elections.line:
        state.look_at = min(state.look_at, state.now)
    if elections.trouble and before[0] in {"", NOT_ASKED}:
        logger.warning("the elector does not answer: %s", elections.trouble)
    elif before[0] and not elections.trouble:
        logger.info("the elector answers")
    is_news = elections.elected() != before[1] and elections.elected() == elections.own
    if is_news and not state.is_holder:
        logger.info("this broker is elected to take the lease next")


def stand(state: LeasedState) -> None:
    """Whether we are to be elected: not while the store is away from us, or after a release."""
    if state.elections is not None:
        is_reached = not state.trouble and state.now >= state.take_at
        is_able = state.phase is Phase.WAITING and is_reached
        is_willing = state.is_holder or (is_able and state.now >= state.rests_until)
        state.elections.want(is_willing=is_willing, now=state.now)


def _holder(state: LeasedState) -> str:
    holding = state.holding
    return "" if holding is None or holding.claimant is None else holding.claimant.holder


def taken(state: LeasedState, report: Report) -> None:
    """What was to be taken is ours, or was somebody else's first."""
    state.taking = ""
    state.look_at = state.now
    holding = report.holding
    if holding is None:
        return
    state.holding = holding
    state.epoch = holding.epoch
    state.phase = Phase.CATCHING_UP
    state.is_company_known = False
    state.end_index = holding.end.index
    state.first_there = 0
    state.is_giving_up = False
    state.silence.forget_gone()
    _forget_failed_takes(state)
    state.held_since = report.began
    _sign_of_life(state, report)
    _forget_unstored(state)


def renewed(state: LeasedState, report: Report) -> None:
    """A sign of life was stored, or it was found that another one holds the lease."""
    if report.outcome is Outcome.DEPOSED:
        step_down(state, "another broker has taken the lease")
    elif state.is_holder and (state.is_fence or report.ended < state.valid_until):
        # Without a fence nobody has judged what was given after the lease had run out.
        _sign_of_life(state, report)
        if not state.in_flight:
            state.refusal = ""  # It takes something again, and nothing is left that it refused.


def _sign_of_life(state: LeasedState, report: Report) -> None:
    """One was stored: it counts from before it was sent."""
    state.renewed_at = report.began
    state.valid_until = state.validity()


def refused(state: LeasedState, error: AppendRefusedError, order: Order | None = None) -> None:
    """
    The medium keeps nothing of what it was given: it is tried again while the lease is ours.

    One that is of some size is given up then, if the medium may take others: acknowledgements
    behind it would wait until somebody made room, which they make. That costs the lease, as they
    follow on it; once, since nothing of this size is taken from a client after that. A medium that
    has taken nothing since one was given up takes nothing at all: then the lease is kept, as it is
    where the medium says so.
    """
    count = bytes_of(order.entries) if isinstance(order, Store) else 0
    if not state.refusal:
        logger.error("the store refuses what is to be stored: %s", error)
        state.refused_since = state.now
    is_long = state.now - state.refused_since >= GIVE_UP_SECONDS
    is_its_own = isinstance(error, EntryRefusedError)
    is_over = not error.keeps_lease and (is_long or is_its_own)
    refusals = state.throughput.refusals
    if is_over and refusals.may_give_up(count):
        seconds = OWN_LIMIT_SECONDS if is_its_own else NO_ROOM_SECONDS
        refusals.gave_up(count, state.now, seconds)
        step_down(state, f"an entry of {count:,} bytes is refused: {error}")
        return
    state.refusal = str(error)
    state.retry_at = state.now + REFUSED_PAUSE_SECONDS


def released(state: LeasedState, randomness: Randomness) -> None:
    """It was given back: others take it, and if nobody does we may again."""
    pause = state.needed_silence * randomness.uniform(0.5, 1.0)
    step_down(state, "")
    state.rests_until = state.now + pause
    logger.info("the lease was given back")


def step_down(state: LeasedState, reason: str) -> None:
    """Hold it no more: what is not stored is forgotten, and nothing is dispatched."""
    if state.is_holder:
        if reason:
            logger.warning("no longer the active broker: %s", reason)
        state.phase = Phase.WAITING
        state.look_at = state.now
        state.is_fresh = False
    state.valid_until = NEVER
    state.is_giving_up = False
    _forget_unstored(state)


def _forget_unstored(state: LeasedState) -> None:
    state.pending.clear()
    state.in_flight = []
    state.is_known_late = False
    state.uncommitted_bytes = 0
    state.refusal = ""
    forget_projection(state)


def forget_projection(state: LeasedState) -> None:
    """What the medium was to show is given up: whoever tells it begins anew."""
    state.projecting.clear()
    state.projections_lost += 1


def _tell_news(state: LeasedState, holding: Holding) -> None:
    before = state.holding
    is_news = before is None or (before.epoch, before.is_released) != (
        holding.epoch,
        holding.is_released,
    )
    if is_news:
        _forget_failed_takes(state)
    if is_news and holding.claimant is not None:
        what = "was given back by" if holding.is_released else "is held by"
        logger.info("the lease %s %s, epoch %d", what, _name(holding), holding.epoch)
        _compare_lengths(state, holding.claimant)


def _forget_failed_takes(state: LeasedState) -> None:
    """Somebody holds it, or gave it back: what failed before says nothing of the next time."""
    state.take_trouble, state.failed_takes, state.take_at = "", 0, NEVER


def _compare_lengths(state: LeasedState, claimant: Claimant) -> None:
    if claimant.lease_seconds and claimant.lease_seconds != state.lease_seconds:
        logger.warning(
            "%s holds its lease for %g s, and this broker would for %g s: it is waited for as long"
            " as it says; better set 'lease_seconds' alike on all brokers",
            claimant.name,
            claimant.lease_seconds,
            state.lease_seconds,
        )


def _name(holding: Holding) -> str:
    return holding.claimant.name if holding.claimant is not None else "nobody"
