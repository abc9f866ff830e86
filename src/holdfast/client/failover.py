"""
Where to turn when the broker is gone: pure decisions, no socket and no clock.

`FailoverPlan` says which address to try next and how long to pause, `TermFence` which brokers may
not be believed. The rules are ActiveMQ's: the address that failed goes to the end of the list, the
others are tried at once, only a pass that failed whole is followed by a pause, pauses grow to a
limit and start anew after a link that was of use.

Invariants:
    Every address is tried once between two pauses.
    A pause never exceeds `reconnect_seconds_max`.
    The highest term seen falls only to one that was led on for `TERM_DOUBT_SECONDS` since.

Owned by the session of one connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

AddressType = TypeVar("AddressType")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverOptions:
    """ActiveMQ's failover options by our names; their defaults are ActiveMQ's."""

    initial_reconnect_seconds: float = 0.01
    """initialReconnectDelay: the pause before the first reconnect and after the first pass."""

    reconnect_seconds_max: float = 30.0
    """maxReconnectDelay."""

    is_exponential: bool = True
    """useExponentialBackOff."""

    pause_factor: float = 2.0
    """reconnectDelayExponent, in other places called backOffMultiplier."""

    reconnect_attempts_max: int = -1
    """maxReconnectAttempts: passes over the whole list; -1 has no limit, 0 never reconnects."""

    startup_attempts_max: int = -1
    """startupMaxReconnectAttempts: for the first connection; -1 means the limit above."""

    is_randomized: bool = True
    """randomize: try the addresses in random order, so that clients spread."""

    timeout_seconds: float | None = None
    """timeout: how long a send waits for a broker; the connection survives. None waits for ever."""

    warn_after_attempts: int = 10
    """warnAfterReconnectAttempts: log a warning after so many failed passes; -1 never does."""


@dataclass(frozen=True, slots=True)
class Attempt(Generic[AddressType]):
    """Try this address now."""

    address: AddressType


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long, then ask again."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Exhausted:
    """No attempt is left; `passes` over the list have failed."""

    passes: int


@dataclass(frozen=True, slots=True)
class Find:
    """Find out which addresses there are, and tell `found`."""


class FailoverPlan(Generic[AddressType]):
    """
    The order of attempts of one connection.

    Ask `next_step`, do what it says, and tell the outcome by `attempt_failed` or `connected`; tell
    `link_lost` when an established link breaks. With `finds` addresses are asked for before
    each pass, and tried in the order in which they are told. `uniform` is a source of randomness as
    `random.uniform`; eager limits are explained in `settings.py`.
    """

    def __init__(
        self,
        addresses: Sequence[AddressType],
        options: FailoverOptions,
        uniform: Callable[[float, float], float],
        *,
        eager_seconds: float = 0.0,
        eager_pause_seconds_max: float = 0.0,
        finds: bool = False,
    ) -> None:
        assert addresses or finds
        self.options = options
        self.failed_passes = 0
        self._uniform = uniform
        self._eager_seconds = eager_seconds
        self._eager_pause_seconds_max = max(
            eager_pause_seconds_max, options.initial_reconnect_seconds
        )
        self._addresses = list(addresses)
        if options.is_randomized:
            self._shuffle()
        self._untried = list(self._addresses)
        self._finds = finds
        self._is_found = False
        """Whether the addresses of this pass were told."""

        self._lost: AddressType | None = None
        self._pause_seconds = options.initial_reconnect_seconds
        self._pause_due = 0.0
        self._interrupted_at: float | None = None
        self.is_startup = True
        """Whether nobody has answered yet."""

    def next_step(self, now: float) -> Attempt[AddressType] | Pause | Find | Exhausted:
        """What to do now; a pause is told once and then counts as made."""
        limit = self._attempts_max()
        if limit == 0 and not self.is_startup:
            return Exhausted(self.failed_passes)
        if limit >= 0 and self.failed_passes >= max(limit, 1):
            return Exhausted(self.failed_passes)
        if self._pause_due > 0:
            seconds = self._limited(self._pause_due, now)
            self._pause_due = 0.0
            return Pause(seconds)
        if self._finds and not self._is_found:
            return Find()
        return Attempt(self._untried[0])

    def found(self, addresses: Sequence[AddressType]) -> None:
        """These are there for this pass, and no others; that there are none is a failed pass."""
        self._addresses = list(addresses)
        if self._lost in self._addresses:
            self._addresses.sort(key=lambda it: it == self._lost)
        self._untried = list(self._addresses)
        self._is_found = True
        if not addresses:
            self._pass_failed()

    def attempt_failed(self, address: AddressType) -> None:
        """An address did not answer, or not as a broker we may believe."""
        self._move_to_end(address)
        self._untried = [other for other in self._untried if other != address]
        if not self._untried:
            self._pass_failed()

    def connected(self, address: AddressType) -> None:
        """An address answered: counts start anew."""
        self.is_startup = False
        self.failed_passes = 0
        self._pause_due = 0.0
        self._lost = None
        self._untried = list(self._addresses)

    def link_lost(self, address: AddressType, now: float, *, was_useful: bool = True) -> None:
        """
        An established link broke: its address is tried last, after the first pause.

        A link that was lost before it was of any use is no success: pauses go on growing, or a
        broker that accepts and hangs up would be called a hundred times a second.
        """
        if was_useful or self._interrupted_at is None:
            self._interrupted_at = now
            self._pause_seconds = self.options.initial_reconnect_seconds
        self._pause_due = self._pause_seconds
        if not was_useful:
            self._grow_pause()
        self._lost = address
        self._is_found = False
        if self.options.is_randomized:
            self._shuffle()
        self._move_to_end(address)
        self._untried = list(self._addresses)

    @property
    def is_warning_due(self) -> bool:
        """Whether the pass that failed last is one to warn about."""
        every = self.options.warn_after_attempts
        return every > 0 and self.failed_passes > 0 and self.failed_passes % every == 0

    def _attempts_max(self) -> int:
        if self.is_startup and self.options.startup_attempts_max >= 0:
            return self.options.startup_attempts_max
        return self.options.reconnect_attempts_max

    def _pass_failed(self) -> None:
        self.failed_passes += 1
        self._is_found = False
        self._untried = list(self._addresses)
        self._pause_due = self._pause_seconds
        self._grow_pause()

    def _grow_pause(self) -> None:
        if self.options.is_exponential:
            self._pause_seconds = min(
                self._pause_seconds * self.options.pause_factor,
                self.options.reconnect_seconds_max,
            )

    def _limited(self, seconds: float, now: float) -> float:
        seconds = min(seconds, self.options.reconnect_seconds_max)
        since = self._interrupted_at
        if since is not None and now - since < self._eager_seconds:
            return min(seconds, self._eager_pause_seconds_max)
        return seconds

    def _move_to_end(self, address: AddressType) -> None:
        self._addresses.remove(address)
        self._addresses.append(address)

    def _shuffle(self) -> None:
        # Fisher and Yates, by the given randomness, so that a simulation can replay it.
        addresses = self._addresses
        for last in range(len(addresses) - 1, 0, -1):
            other = min(int(self._uniform(0, last + 1)), last)
            addresses[last], addresses[other] = addresses[other], addresses[last]


NO_PROMOTION: Final = (0, 0)
"""Of a cluster that goes on by no promotion by force; else its generation, and when it was."""


TERM_DOUBT_SECONDS: Final = 60.0
"""
For so long no leader goes on that was deposed: it stops when no quorum answers, or as its lease
ends, which is 30 s where nothing else is said and longest (NFS).
"""

_LOWER_COUNT_MAX: Final = 8


class TermFence:
    """
    Which broker may be believed: none of an older term, none of another cluster.

    A leader that was deposed while it was cut off, and does not know it yet, still answers. The
    term in CONNECTED tells. Another cluster knows nothing of our sequence numbers and messages.
    A copy that an operator let go on by force knows nothing of elections that others held since:
    terms are compared within one promotion, and of two the later one rules.

    In clear anybody can say any term, once, who is found where a broker was. A leader that was
    deposed stops soon, and none leads one term twice. So who leads a lower one for
    `TERM_DOUBT_SECONDS`, while nobody tells a higher one, was never deposed: what had been told
    before was not so.
    """

    def __init__(self) -> None:
        self.cluster: str | None = None
        self.term = 0
        self.promotion = NO_PROMOTION
        self.dropped_term: int | None = None
        """The term that was given up for the one of now."""
        self._lower: dict[int, float] = {}
        """Lower terms that were told since the highest was, and since when."""

    def refusal(
        self,
        cluster: str | None,
        term: int | None,
        promotion: tuple[int, int] = NO_PROMOTION,
        *,
        now: float = 0.0,
    ) -> str | None:
        """
        Why this broker must not be used, or None if it may; then its term is remembered.

        A broker that tells no cluster (ActiveMQ, RabbitMQ) is taken as it is, unless this
        connection began with one: it would keep none of what was promised there.
        """
        self.dropped_term = None
        if cluster is None and self.cluster is not None:
            return (
                f"it is no Holdfast, this connection began with cluster {self.cluster};"
                " open a new connection if that is meant"
            )
        if cluster is not None and self.cluster is not None and cluster != self.cluster:
            return (
                f"it belongs to cluster {cluster}, this connection began with {self.cluster};"
                " open a new connection if that is meant"
            )
        if promotion < self.promotion:
            return "it is of before a promotion by force, of which a leader was seen"
        if term is not None and term < self.term and promotion == self.promotion:
            if not self._is_led_on(term, now):
                return f"it leads term {term}, a leader of term {self.term} was seen before"
            self.dropped_term = self.term
        self._lower.clear()
        if cluster is not None:
            self.cluster = cluster
        if term is not None:
            self.term = term
        self.promotion = promotion
        return None

    def _is_led_on(self, term: int, now: float) -> bool:
        """Whether a lower term was led for so long since the highest was told that it counts."""
        if term not in self._lower:
            if len(self._lower) >= _LOWER_COUNT_MAX:
                del self._lower[next(iter(self._lower))]
            self._lower[term] = now
        return now - self._lower[term] >= TERM_DOUBT_SECONDS
