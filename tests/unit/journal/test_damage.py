"""What is known of entries that were stored and cannot be read."""

from __future__ import annotations

from holdfast.journal.damage import Damage


def test_damage_names_its_place() -> None:
    """People find the byte in the file; programs get the same as an error to raise."""
    damage = Damage("1.segment", 4_096, 1_000, "rot")
    assert str(damage) == "segment 1.segment byte 4,096 (entry 1,000): rot"
    error = damage.error()
    assert (error.segment, error.byte, error.index) == ("1.segment", 4_096, 1_000)
    assert error.reason == "rot"
