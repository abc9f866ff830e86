"""
Who was taken at a door by TLS and has no place for its handshake yet: a fleet that comes back.

From where somebody comes is known only once it is taken. So who finds no place is taken all the
same and waits here as a bare socket, and who stands behind it at the door may be of another site.
What that costs is a descriptor, and these are lent by the clients' port: a fleet that this has room
for is closed on nowhere. Where too many wait, who came last of the site that has the most goes.

Invariants:
    Never more wait than there is room for; none where that is less than `ROOM_MIN`.
    Each site has a turn before another one has a second one.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol

from holdfast.model.crowd import Crowd

ROOM_MIN: Final = 32
"""With less nobody waits: a few would shut it for all others."""

_SHARES: Final = 10


class Stranger(Protocol):
    """A connection whose handshake is not done."""

    @property
    def source(self) -> str:
        """The address it came from."""

    def proceed(self) -> None:
        """Do one step of the handshake."""

    def give_up(self, reason: str) -> None:
        """End it: others need the room."""


class Comer(Stranger, Protocol):
    """Somebody who was taken and is no connection yet."""

    @property
    def has_spoken(self) -> bool:
        """Whether it has brought something; it is not read for that."""

    def begin(self) -> None:
        """Make a connection of it: it has a place now."""


class Porch:
    """Those who wait for a place."""

    __slots__ = ("_crowd", "_lent")

    def __init__(self, lent: Callable[[], int]) -> None:
        """Let as many wait as `lent` says at any time."""
        self._lent = lent
        self._crowd: Crowd[Comer] = Crowd()

    def __len__(self) -> int:
        return len(self._crowd)

    @property
    def count_max(self) -> int:
        """So many may wait now; 0: nobody, and who finds no place is closed."""
        lent = self._lent()
        return lent if lent >= ROOM_MIN else 0

    @property
    def is_open(self) -> bool:
        """Whether one more finds room, or somebody may go for it."""
        count_max = self.count_max
        return len(self) < count_max or self._crowd.site_count_max > max(count_max // _SHARES, 1)

    def enter(self, comer: Comer) -> Comer | None:
        """Let one wait that does not; who goes for it, maybe itself. None: nobody has to."""
        leaving = None
        if len(self) >= self.count_max:
            group = self._crowd.greedier(comer.source)
            if not group:
                return comer
            leaving = next(reversed(group))
            self._crowd.discard(leaving)
        self._crowd.add(comer, comer.source)
        return leaving

    def discard(self, comer: object) -> None:
        """Forget one that has a place, or is gone; fine if it does not wait."""
        self._crowd.discard(comer)

    def surplus(self) -> Iterator[Comer]:
        """Take out who has to go as there is less room now, of who has the most first."""
        while len(self) > self.count_max:
            leaving = next(reversed(self._crowd.greediest()))
            self._crowd.discard(leaving)
            yield leaving

    def looks(self, count: int) -> Iterator[Comer]:
        """
        Give whose turn it is, of each site in turn, at most so many; all of them stay.

        Each site is looked at once where somebody has spoken, else others of it are as well. Who
        has said nothing by then is behind all others of its network.
        """
        is_one_ready, sites = False, self._crowd.count_of_sites
        for number in range(min(count, len(self))):
            if is_one_ready and number >= sites:
                return
            comer = self._crowd.look()
            assert comer is not None, "somebody waits"
            if comer.has_spoken:
                is_one_ready = True
            else:
                self._crowd.put_last(comer)
            yield comer
