"""
Ranges as people read them.
"""

from __future__ import annotations

import pytest

from holdfast.model.allowed import Allowed


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        (Allowed(0), "0 or more"),
        (Allowed(65_536, 1 << 32), "65,536 to 4,294,967,296"),
        (Allowed(0.005, 600), "0.005 to 600"),
    ],
)
def test_a_range_is_told_with_both_its_ends(allowed: Allowed, text: str) -> None:
    """
    Whoever is told that a value is out of range is told what would not be.
    """
    assert str(allowed) == text
