"""
Chance, as a contract.

Election timeouts and identities need chance; simulations need to repeat it from a seed.
So nothing calls `random` itself, it is handed a `Randomness`.
"""

from __future__ import annotations

import os
import random
from typing import Protocol


class Randomness(Protocol):
    """Where chance comes from."""

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`, every one as likely as the next."""
        ...

    def bytes(self, count: int) -> bytes:
        """Return `count` bytes that nobody can guess."""
        ...


class SystemRandomness:
    """Chance from the operating system."""

    __slots__ = ("_generator",)

    def __init__(self) -> None:
        self._generator = random.SystemRandom()

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`, every one as likely as the next."""
        return self._generator.uniform(low, high)

    def bytes(self, count: int) -> bytes:
        """Return `count` bytes that nobody can guess."""
        return os.urandom(count)
