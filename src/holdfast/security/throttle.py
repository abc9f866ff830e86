"""
Who guesses is slowed down, by the address it comes from and never by the name it says.

By name it would be a weapon: anybody could shut out anybody else. What counts is the network that
somebody has, and the site that it may be one of 65,536 of (`networks_of`). And as many live there
as there are machines behind it, it is not how often somebody failed but with how many different
guesses: a program with an old password shows the same one all the time, and guesses nothing.

Invariants:
    Whoever comes from elsewhere is asked nothing more, whatever goes on here.
    Of a site, the networks from where somebody came in lately are counted apart from all others.
    It keeps as many networks and sites as it may. Of networks a site that has more gives way, and
    else who failed longest ago.

Pure: time is an argument.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.model.crowd import Crowd
from holdfast.model.networks import networks_of
from holdfast.security.regulars import Regulars

_FIRST_SECONDS: Final = 0.1
DELAY_SECONDS_MAX: Final = 5.0
FAILURES_MAX: Final = 20
"""With more guesses lately nothing new is looked at for a while."""
SITE_FAILURES_MAX: Final = 200
"""The same of a whole site. Half of an office may have mistyped a password lately."""
LATELY_SECONDS: Final = 600.0
SHUT_OUT_SECONDS: Final = 60.0
ADDRESS_COUNT_MAX: Final = 10_000
SITE_COUNT_MAX: Final = 1_000
"""26 MiB where each has guessed as much as it may, and 38 MiB for so many addresses (measured)."""


class _Part(NamedTuple):
    """A part of a site, whose networks are counted together."""

    site: str
    is_regular: bool


class Throttle:
    """Who failed to log in lately, from where, and how often."""

    __slots__ = ("_crowd", "_networks", "_sites", "regulars")

    def __init__(self, regulars: Regulars) -> None:
        """Tell by `regulars` from where somebody came in lately."""
        self.regulars = regulars
        self._networks: dict[str, _Guesses] = {}
        """Who failed last stands last."""
        self._crowd: Crowd[str] = Crowd()
        """The same networks by their sites."""
        self._sites: dict[_Part, _Guesses] = {}

    def failed(self, address: str, mark: bytes, now: float) -> float:
        """
        Note a failure; gives for how many seconds it is not to be told.

        `mark` stands for what was shown: the same again is no further guess.
        """
        site, network = networks_of(address)
        guesses = self._networks.pop(network, None)
        if guesses is None:
            guesses = _Guesses(FAILURES_MAX)
            self._make_room(address)
        else:
            self._crowd.discard(network)
        self._networks[network] = guesses
        self._crowd.add(network, address)
        # Of a network that is shut out its neighbours need hear no more.
        is_counted = site != network and not guesses.are_too_many(now)
        count = guesses.add(mark, now)
        if is_counted:
            # Told as late as if so many were one network's.
            count_of_site = self._add_to_site(self._part(address, now), mark, now)
            count = max(count, count_of_site * FAILURES_MAX // SITE_FAILURES_MAX)
        return min(_FIRST_SECONDS * 2.0**count, DELAY_SECONDS_MAX)

    def is_shut_out(self, address: str, now: float) -> bool:
        """Whether so much was guessed from there that nothing new is looked at."""
        guesses = self._networks.get(networks_of(address)[1])
        if guesses is not None and guesses.are_too_many(now):
            return True
        of_site = self._sites.get(self._part(address, now))
        return of_site is not None and of_site.are_too_many(now)

    def _part(self, address: str, now: float) -> _Part:
        return _Part(networks_of(address)[0], self.regulars.is_one(address, now))

    def _add_to_site(self, part: _Part, mark: bytes, now: float) -> int:
        guesses = self._sites.pop(part, None) or _Guesses(SITE_FAILURES_MAX)
        if len(self._sites) >= SITE_COUNT_MAX:
            del self._sites[next(iter(self._sites))]
        self._sites[part] = guesses
        return guesses.add(mark, now)

    def _make_room(self, address: str) -> None:
        """
        Let one more network in.

        Nobody has others forgotten, and guesses on, by failing from all networks of his site.
        """
        if len(self._networks) >= ADDRESS_COUNT_MAX:
            network = self._crowd.giving_way(address)
            del self._networks[network]
            self._crowd.discard(network)


class _Guesses:
    """Different ones that were made lately, and when; the last one stands last."""

    __slots__ = ("_at", "_count_max")

    def __init__(self, count_max: int) -> None:
        self._at: dict[bytes, float] = {}
        self._count_max = count_max

    def add(self, mark: bytes, now: float) -> int:
        """Note one; gives how many others there were."""
        self._forget_old(now)
        if mark not in self._at:
            if len(self._at) > self._count_max:
                del self._at[next(iter(self._at))]
            self._at[mark] = now
        return len(self._at) - 1

    def are_too_many(self, now: float) -> bool:
        """Whether there were more than there may be, and the last one a moment ago."""
        self._forget_old(now)
        if len(self._at) <= self._count_max:
            return False
        return now - self._at[next(reversed(self._at))] < SHUT_OUT_SECONDS

    def _forget_old(self, now: float) -> None:
        while self._at:
            mark = next(iter(self._at))
            if now - self._at[mark] <= LATELY_SECONDS:
                return
            del self._at[mark]
