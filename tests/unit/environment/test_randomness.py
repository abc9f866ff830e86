"""The machine's chance keeps the contract."""

from __future__ import annotations

from holdfast.environment.randomness import Randomness, SystemRandomness


def test_uniform_stays_between_its_bounds() -> None:
    """Every number lies between low and high."""
    chance: Randomness = SystemRandomness()
    assert all(2.0 <= chance.uniform(2.0, 3.0) <= 3.0 for _ in range(100))


def test_bytes_have_the_length_asked_for_and_differ() -> None:
    """Two identities drawn one after the other are not the same."""
    chance = SystemRandomness()
    first, second = chance.bytes(16), chance.bytes(16)
    assert len(first) == len(second) == 16
    assert first != second
