"""
What a broker over a shared log says of itself, without changing anything.

The face of `LeasedDriver` that is only read; a turn changes what is seen here, nothing here does.

Owned by the loop thread, as the driver is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.journal.journal import Journal
from holdfast.leases import ordering
from holdfast.leases.cache_room import CacheRoom
from holdfast.leases.contract import Claimant, LeasedLog, MediumFacts, Waiter
from holdfast.leases.elections import Elections
from holdfast.leases.projection import MessageKey, Projection
from holdfast.leases.state import ALWAYS, LeasedState, Phase
from holdfast.model.format_level import FIRST_LEVEL
from holdfast.model.numbering import Numbering

_LEASE_SPARE = 0.25
"""The share of the lease that must be left where something is confirmed that only we have."""
_NO_ANSWER = "the store that keeps the log does not answer: nothing is confirmed until it does"
_REFUSED = (
    "the store that keeps the log takes nothing: publishing is refused until it does again; who"
    " runs it is told why"
)
_CACHE_FULL = (
    "this broker has no room for its own copy of the log: publishing is refused here until it has;"
    " who runs it is told where"
)
_NO_INDEX = 1 << 62
_AWAY_TELLS = 3.5
"""A broker whose line did not change in the time of so many tellings is away."""


class LeasedView:
    """One broker as the node sees it between two turns."""

    _state: LeasedState
    _journal: Journal
    _log: LeasedLog
    _clock: Callable[[], float]
    _known_level: int
    _room: CacheRoom

    @property
    def role(self) -> str:
        """leader, standby, catching up or joining."""
        return self._state.phase.value

    @property
    def is_leader(self) -> bool:
        """Whether this broker holds the lease, serving or not."""
        return self._state.is_holder

    @property
    def is_handing_over(self) -> bool:
        """Whether it holds the lease and is giving it back."""
        return self._state.phase is Phase.HOLDING and self._state.is_giving_up

    @property
    def is_serving(self) -> bool:
        """Whether it holds the lease, and all that was there before was given out."""
        state = self._state
        is_able = state.phase is Phase.HOLDING and not state.is_giving_up
        return is_able and state.taken_index >= state.term_start

    @property
    def term(self) -> int:
        """The newest epoch that this broker knows of."""
        return self._state.epoch

    @property
    def holder(self) -> Claimant | None:
        """
        Who holds the lease, as far as is known; None if nobody does, or it was given back.

        Nobody does while this broker takes it: whoever held it is gone.
        """
        state = self._state
        if state.is_holder:
            return state.claimant
        if state.taking:
            return None
        holding = state.holding
        return None if holding is None or holding.is_released else holding.claimant

    @property
    def leader(self) -> str | None:
        """The name of who holds the lease."""
        holder = self.holder
        return None if holder is None else holder.name

    @property
    def silent_seconds(self) -> float:
        """For how long its holder has given no sign of life, as this broker has seen it."""
        state = self._state
        return 0.0 if state.is_holder else state.silent_seconds

    @property
    def told_commit_index(self) -> int:
        """Through which entry the log is committed, as far as was read."""
        return self._state.commit_index

    @property
    def unheard_seconds(self) -> float | None:
        """How long ago the log's medium was read; None if never since the start."""
        state = self._state
        if state.is_holder:
            return 0.0
        return None if state.read_at is None else max(self._clock() - state.read_at, 0.0)

    @property
    def held_seconds(self) -> float | None:
        """Since when the lease is ours; None if it is not."""
        state = self._state
        return self._clock() - state.held_since if state.is_holder else None

    @property
    def lease_left_seconds(self) -> float:
        """For how long nobody else can hold the lease; 0 if it is not ours."""
        return max(self._state.valid_until - self._clock(), 0.0)

    @property
    def lease_seconds(self) -> float:
        """After so long without a sign of life, and a margin, the lease is taken."""
        state = self._state
        return state.lease_seconds if state.is_holder else state.holders_lease_seconds

    @property
    def trouble(self) -> str:
        """Why the medium is not reached, or cannot be used yet; empty if it can."""
        state = self._state
        unread = self._room.trouble if self._room.is_stuck and not state.is_holder else ""
        told = state.trouble or state.take_trouble or state.taking or unread
        is_joining = state.phase is Phase.JOINING
        return told or ("the log has not been reached yet" if is_joining else "")

    @property
    def elections(self) -> Elections | None:
        """What is known of the elector; None if there is none."""
        return self._state.elections

    @property
    def claimant(self) -> Claimant:
        """This broker, as the others find it."""
        return self._state.claimant

    def facts(self) -> MediumFacts:
        """What the medium is."""
        facts = self._log.facts()
        undone = tuple(f"left for later: {it.reason}" for it in self._state.left_undone.values())
        namesake = self._state.namesake
        told = tuple(filter(None, (namesake, self._room.trouble)))
        return replace(facts, warnings=(*facts.warnings, *undone, *told))

    def identity(self) -> str:
        """The log's own id; empty before it was reached."""
        return "" if self._state.phase is Phase.JOINING else self._log.identity()

    def others(self) -> list[Waiter]:
        """The other brokers that told of themselves, by name."""
        own = self._state.claimant.name
        return [it for name, it in sorted(self._state.waiters.items()) if name != own]

    def seen_seconds(self, name: str) -> float:
        """How long ago a broker told something new of itself, as this one has seen it."""
        seen_at = self._state.waiters_seen_at.get(name)
        return ALWAYS if seen_at is None else max(self._clock() - seen_at, 0.0)

    def is_there(self, name: str) -> bool:
        """Whether a broker tells of itself."""
        return self.seen_seconds(name) < _AWAY_TELLS * self._state.settings.tell_seconds

    @property
    def can_project(self) -> bool:
        """
        Whether the medium shows something, is ours, and has shown all that it was to show.

        Nothing where room is low: what is left is for acknowledgements, which make some.
        """
        state = self._state
        is_hindered = state.is_giving_up or state.refusal or self._log.low_room
        is_able = state.phase is Phase.HOLDING and not is_hindered
        return is_able and not state.projecting and isinstance(self._log, Projection)

    @property
    def projections_lost(self) -> int:
        """How often what it was to show was given up; after each the whole is to be told anew."""
        return self._state.projections_lost

    @property
    def shown_keys(self) -> tuple[MessageKey, ...]:
        """What the medium shows of messages, as it answered last."""
        return self._state.shown_keys

    @property
    def projection_trouble(self) -> str:
        """Why it shows nothing new; empty while it does."""
        return self._state.projection_trouble

    @property
    def commit_index(self) -> int:
        """Entries through here will never be undone."""
        return self._state.commit_index

    @property
    def sure_index(self) -> int:
        """All that was stored before this process began is up to here; -1: not known yet."""
        return self._state.sure_index

    @property
    def taken_index(self) -> int:
        """Entries through here were given out by `take_committed`."""
        return self._state.taken_index

    @property
    def has_committed(self) -> bool:
        """Whether `take_committed` has an entry to give."""
        return self._state.taken_index < self._state.commit_index

    @property
    def uncommitted_bytes(self) -> int:
        """Entries of this holder that are not yet stored."""
        return self._state.uncommitted_bytes

    @property
    def config_index(self) -> int:
        """No entry of the log says who its brokers are."""
        return _NO_INDEX

    @property
    def reclaim_limit(self) -> int:
        """Entries before this index may be dropped for all that the lease cares."""
        return self._state.commit_index

    @property
    def log_epoch(self) -> int:
        """Counts how often the cache began anew: all that was built from it must go too."""
        return self._state.log_epoch

    @property
    def farewell(self) -> str:
        """Why the lease was lost, if it was the medium that did not answer."""
        # Where it is, and what it said, is the operator's to know.
        return _NO_ANSWER if self._state.trouble else ""

    @property
    def promotion(self) -> str:
        """A log with a lease is never promoted by force."""
        return ""

    @property
    def numbering(self) -> Numbering:
        """Where queues' numbers begin in this epoch."""
        return Numbering(0, self._state.epoch)

    @property
    def damaged(self) -> tuple[int, ...]:
        """Entries of the cache that are damaged and not yet mended."""
        return tuple(sorted(self._state.damaged))

    @property
    def repaired_count(self) -> int:
        """Entries of the cache that were mended from the medium."""
        return self._state.repaired_count

    @property
    def format_level_of_all(self) -> int:
        """
        The newest level of the log's format that every broker that told of itself knows.

        The first one while this broker does not hold the lease, or has not read since it took it
        what they told: who waits may be of an earlier version, and be held up just then.
        """
        if not self._state.is_company_known:
            return FIRST_LEVEL
        known = [self._known_level]
        known += [it.known_level for it in self._state.waiters.values()]
        return min(known)

    def tell_format_level(self, level: int) -> None:
        """Nothing to do: whoever waits reads the log, and with it its level."""

    def learner_matches(self) -> dict[str, int]:
        """Nobody is waited for: who reads the log has it from the medium."""
        return {}

    def refusal(self) -> str:
        """Why the medium keeps nothing more; empty while it does."""
        return _REFUSED if self._medium_refusal else ""

    @property
    def refusal_reason(self) -> str:
        """Why nothing is published, and what it is that has no room: for who runs it."""
        return self._medium_refusal or (self._room.trouble if self.cache_refusal else "")

    @property
    def _medium_refusal(self) -> str:
        state = self._state
        return state.refusal or (self._log.low_room if state.is_holder else "")

    @property
    def is_journal_a_copy(self) -> bool:
        """It is a cache of what the medium keeps."""
        return True

    @property
    def cache_refusal(self) -> str:
        """Why nothing is published for want of room beside the medium; empty while there is."""
        return _CACHE_FULL if self._state.is_holder and self._room.is_stuck else ""

    @property
    def message_bytes_max(self) -> int:
        """The most that one message may have, so that the medium stores it in time; 0: any."""
        state = self._state
        found = state.throughput.bytes_max(state.sure_seconds, self._clock())
        of_copies = self._log.message_bytes_max(state.sure_seconds)
        return min(found, of_copies) if found and of_copies else found or of_copies

    @property
    def batch_bytes_max(self) -> int:
        """The most that is to be gathered into one entry, so that it is stored in time; 0: any."""
        state = self._state
        return state.throughput.batch_bytes_max(state.sure_seconds, self._clock())

    def is_writing(self, index: int) -> bool:
        """
        Whether an entry proposed is on its way to the medium.

        What an earlier tenure proposed and lost is not, whatever its index: nobody will store it.
        """
        state = self._state
        return state.last_unstored is not None and index > state.commit_index

    def may_dispatch(self, now: float) -> bool:
        """Whether nobody else can hold the lease; the lease clock is read here and now."""
        return self._is_sure_for(0.0)

    def holds_lease(self, now: float) -> bool:
        """Whether nobody else can hold the lease for a while yet."""
        return self._is_sure_for(_LEASE_SPARE * self._state.short_seconds)

    def _is_sure_for(self, seconds: float) -> bool:
        """Whether the lease is ours for so long; what is being given back may be another's now."""
        state = self._state
        if state.phase is not Phase.HOLDING or state.is_giving_up:
            return False
        return self._clock() < state.valid_until - seconds

    def is_lease_awaited(self, now: float) -> bool:
        """A lease is taken when nobody can hold it any more: there is nothing to wait for."""
        return False

    @property
    def rests_until(self) -> float:
        """When a turn has something to do by the clock alone, by the lease clock."""
        return ordering.due(self._state)

    def repropose_config(self) -> int:
        """Nothing of the log is the lease's own: there is nothing to write again."""
        return self._state.commit_index
