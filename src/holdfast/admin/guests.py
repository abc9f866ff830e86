"""
Who is inside the admin port and has shown nothing yet, and which of them goes for who comes.

They are counted by where they are from, in the order in which they came. A stranger has as many
sockets and requests as he likes, but few addresses: so who has more of them gives way, and of those
whoever leaves us waiting before one that waits for us. Those of this machine have a line of their
own, as they have by TLS (`transport.listener`): nobody from elsewhere stands in it.

Invariants:
    One that waits for us goes only for who has fewer, or where its site has more than its share, or
    where all of those that have been there for longest wait for us.
    What it costs to find one is bounded, however many are inside.

Pure. Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

from holdfast.model.crowd import Crowd

LOOKED_AT_MAX: Final = 64
"""So many are asked whether they leave us waiting, whoever came first first."""

_SHARES: Final = 10
_SHARE_MIN: Final = 16

T = TypeVar("T")


class Guests(Generic[T]):
    """One line of them."""

    __slots__ = ("_crowd", "_leaves_waiting", "_share", "_source_of", "places")

    def __init__(
        self,
        places: int,
        *,
        count_max: int,
        source_of: Callable[[T], str],
        leaves_waiting: Callable[[T], bool],
    ) -> None:
        """
        Make a line with nobody in it.

        Args:
            places: So many are theirs, whoever else is inside the port.
            count_max: How many are inside the port at most.
            source_of: The address that one is from; always the same.
            leaves_waiting: Whether its other end has to do something next, and not we.
        """
        self.places = places
        self._share = max(count_max // _SHARES, _SHARE_MIN)
        self._source_of = source_of
        self._leaves_waiting = leaves_waiting
        self._crowd: Crowd[T] = Crowd()

    def __len__(self) -> int:
        return len(self._crowd)

    def __contains__(self, guest: object) -> bool:
        return guest in self._crowd

    def add(self, guest: T) -> None:
        """Take one in that is not there."""
        self._crowd.add(guest, self._source_of(guest))

    def discard(self, guest: T) -> None:
        """Forget one; fine if it is not there."""
        self._crowd.discard(guest)

    def leaving_for(self, comer: T) -> T | None:
        """Give who goes for one that comes, to this line or another; None: nobody is here."""
        crowd, source = self._crowd, self._source_of(comer)
        group = crowd.greedier(source) or crowd.fellows(source) or crowd.greediest()
        first = next(iter(group), None)
        if first is None:
            return None
        waited_for = self._waited_for(group)
        if waited_for is None and crowd.site_count(self._source_of(first)) <= self._share:
            waited_for = self._waited_for(crowd)
        return first if waited_for is None else waited_for

    def _waited_for(self, guests: Iterable[T]) -> T | None:
        return next((it for it in islice(guests, LOOKED_AT_MAX) if self._leaves_waiting(it)), None)
