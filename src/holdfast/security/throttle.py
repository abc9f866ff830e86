"""
Who guesses is slowed down, by the address it comes from and never by the name alone.

By name it would be a weapon: anybody could shut out anybody else. What counts is the network that
somebody has, and the site that it may be one of 65,536 of (`networks_of`). And as many live there
as there are machines behind it, it is not how often somebody failed but with how many different
guesses: a program with an old password shows the same one all the time, and guesses nothing.

Where much was guessed each name still has chances of its own, whether there is such a user or not:
else whoever guesses shuts out all others of his network. At one name nobody has more of them by
that than if it were the only one that he guesses at.

Invariants:
    Whoever comes from elsewhere is asked nothing more, whatever goes on here.
    At one name a network that is shut out guesses once in `SHUT_OUT_SECONDS`, behind the first few.
    Of a site, the networks from where somebody came in lately are counted apart from all others.
    It keeps as many networks, sites and names as it may. Of networks a site that has more gives
    way, and else who failed longest ago; a name stays for as long as it counts.

Pure: time is an argument.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple
from unicodedata import combining, normalize

from holdfast.model.crowd import Crowd
from holdfast.model.networks import networks_of
from holdfast.security.regulars import Regulars

_FIRST_SECONDS: Final = 0.1
DELAY_SECONDS_MAX: Final = 5.0
FAILURES_MAX: Final = 20
"""With more guesses lately nothing new is looked at for a while."""
SITE_FAILURES_MAX: Final = 200
"""The same of a whole site. Half of an office may have mistyped a password lately."""
NAME_FAILURES_MAX: Final = 2
"""The same of one name, where nothing else is looked at. A person mistypes it twice."""
LATELY_SECONDS: Final = 600.0
SHUT_OUT_SECONDS: Final = 60.0
ADDRESS_COUNT_MAX: Final = 10_000
SITE_COUNT_MAX: Final = 1_000
"""26 MiB where each has guessed as much as it may, and 38 MiB for so many addresses (measured)."""
FORGOTTEN_AT_ONCE_MAX: Final = 64
"""Of what is old, in one call: all of it would take longer than the loop may stand still."""
NAME_COUNT_MAX: Final = 65_536
"""Two threads look at no more passwords in ten minutes. Where it is full no name has chances."""


class _Part(NamedTuple):
    """A part of a site, whose networks are counted together."""

    site: str
    is_regular: bool


class Throttle:
    """Who failed to log in lately, from where, and how often."""

    __slots__ = ("_crowd", "_names", "_networks", "_sites", "regulars")

    def __init__(self, regulars: Regulars) -> None:
        """Tell by `regulars` from where somebody came in lately."""
        self.regulars = regulars
        self._networks: dict[str, _Guesses] = {}
        """Who failed last stands last."""
        self._crowd: Crowd[str] = Crowd()
        """The same networks by their sites."""
        self._sites: dict[_Part, _Guesses] = {}
        self._names: OrderedDict[int, _GuessesAtName] = OrderedDict()
        """By what a name has of its own in a part of a site; what failed last stands last."""

    def failed(self, address: str, mark: bytes, now: float, name: str | None) -> float:
        """
        Note a failure; gives for how many seconds it is not to be told.

        Args:
            mark: Stands for what was shown: the same again is no further guess.
            name: At whose password it was a guess; None: at nobody's, it took no look.
        """
        site, network = networks_of(address)
        if name is not None:
            self._add_to_name(self._of_name(address, now, name), hash(mark), now)
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

    def is_shut_out(self, address: str, now: float, name: str) -> bool:
        """Whether so much was guessed from there that nothing new of this name is looked at."""
        if not self._has_guessed(address, now):
            return False
        guesses = self._guesses_at(self._of_name(address, now, name), now)
        if guesses is None:
            self._forget_names(now)
            return len(self._names) >= NAME_COUNT_MAX
        return guesses.are_too_many(now)

    def _has_guessed(self, address: str, now: float) -> bool:
        guesses = self._networks.get(networks_of(address)[1])
        if guesses is not None and guesses.are_too_many(now):
            return True
        of_site = self._sites.get(self._part(address, now))
        return of_site is not None and of_site.are_too_many(now)

    def _part(self, address: str, now: float) -> _Part:
        return _Part(networks_of(address)[0], self.regulars.is_one(address, now))

    def _of_name(self, address: str, now: float, name: str) -> int:
        # A directory takes a name however it is written: each way is no chance more.
        letters = normalize("NFKD", normalize("NFKD", name).casefold())
        plain = "".join(it for it in letters if not combining(it))
        return hash((self._part(address, now), plain))

    def _add_to_name(self, name: int, mark: int, now: float) -> None:
        self._forget_names(now)
        guesses = self._guesses_at(name, now)
        if guesses is not None and mark in guesses.marks:
            return
        if guesses is None and len(self._names) >= NAME_COUNT_MAX:
            return
        self._names.pop(name, None)
        before = () if guesses is None else guesses.marks[-NAME_FAILURES_MAX:]
        self._names[name] = _GuessesAtName((*before, mark), now)

    def _guesses_at(self, name: int, now: float) -> _GuessesAtName | None:
        """What was guessed lately at a name; what is older may not be forgotten yet."""
        guesses = self._names.get(name)
        return None if guesses is None or now - guesses.at > LATELY_SECONDS else guesses

    def _forget_names(self, now: float) -> None:
        for _ in range(min(len(self._names), FORGOTTEN_AT_ONCE_MAX)):
            name = next(iter(self._names))
            if now - self._names[name].at <= LATELY_SECONDS:
                return
            del self._names[name]

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


class _GuessesAtName(NamedTuple):
    """The last different ones at one name: as many as it takes to tell that they are too many."""

    marks: tuple[int, ...]
    at: float

    def are_too_many(self, now: float) -> bool:
        return len(self.marks) > NAME_FAILURES_MAX and now - self.at < SHUT_OUT_SECONDS
