"""
From where somebody came in lately: who comes from there again does not stand behind strangers.

A stranger may come from more networks than passwords can be looked at, and each of them be the
first time. What tells others apart from him is that somebody from there was once who he said.

Invariants:
    Names do not count: who waits for less long because there is such a user would give it away.
    It keeps as many networks as it may, and forgets where nobody came from for longest first.

Pure: time is an argument.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.networks import network_of

REGULAR_SECONDS: Final = 86_400.0
NETWORK_COUNT_MAX: Final = 10_000


class Regulars:
    """The networks of whoever came in lately."""

    __slots__ = ("_came_in",)

    def __init__(self) -> None:
        self._came_in: dict[str, float] = {}
        """When somebody did last; the latest stands last."""

    def came_in(self, address: str, now: float) -> None:
        """Note that somebody from there is who he says."""
        network = network_of(address)
        self._came_in.pop(network, None)
        if len(self._came_in) >= NETWORK_COUNT_MAX:
            del self._came_in[next(iter(self._came_in))]
        self._came_in[network] = now

    def is_one(self, address: str, now: float) -> bool:
        """Whether somebody came in from there lately."""
        came_in = self._came_in.get(network_of(address))
        return came_in is not None and now - came_in < REGULAR_SECONDS
