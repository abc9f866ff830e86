"""Levels of the log's format: what is above the known one is refused in one sentence."""

from __future__ import annotations

import pytest

from holdfast.errors import FormatLevelError
from holdfast.model.format_level import FIRST_LEVEL, NEWEST_LEVEL, require_known


def test_known_levels_are_taken() -> None:
    """Each version reads all levels up to its newest."""
    for level in range(FIRST_LEVEL, NEWEST_LEVEL + 1):
        require_known(level, NEWEST_LEVEL, "the log")


def test_a_level_above_is_refused() -> None:
    """The sentence says what has reached which level, and what to do."""
    with pytest.raises(FormatLevelError, match=r"^the log has reached level 3 .* above 2: start"):
        require_known(3, 2, "the log")
