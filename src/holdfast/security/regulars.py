"""
From where somebody came in lately: who comes from there again does not stand behind strangers.

A stranger may come from more networks than passwords can be looked at, and each of them be the
first time. What tells others apart from him is that somebody from there was once who he said.

Invariants:
    Names do not count: who waits for less long because there is such a user would give it away.
    It keeps as many networks as it may. A site that has more of them gives way, and else where
    nobody came from for longest.

Pure: time is an argument.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.crowd import Crowd
from holdfast.model.networks import network_of

REGULAR_SECONDS: Final = 86_400.0
NETWORK_COUNT_MAX: Final = 10_000


class Regulars:
    """The networks of whoever came in lately."""

    __slots__ = ("_came_in", "_crowd")

    def __init__(self) -> None:
        self._came_in: dict[str, float] = {}
        """When somebody did last; the latest stands last."""
        self._crowd: Crowd[str] = Crowd()
        """The same networks by their sites."""

    def came_in(self, address: str, now: float) -> None:
        """Note that somebody from there is who he says."""
        network = network_of(address)
        if self._came_in.pop(network, None) is not None:
            self._crowd.discard(network)
        elif len(self._came_in) >= NETWORK_COUNT_MAX:
            oldest = self._crowd.giving_way(address)
            del self._came_in[oldest]
            self._crowd.discard(oldest)
        self._came_in[network] = now
        self._crowd.add(network, address)

    def is_one(self, address: str, now: float) -> bool:
        """Whether somebody came in from there lately."""
        came_in = self._came_in.get(network_of(address))
        return came_in is not None and now - came_in < REGULAR_SECONDS
