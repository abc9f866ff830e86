"""The journal's settings are checked as a whole."""

from __future__ import annotations

import pytest

from holdfast.errors import ConfigError
from holdfast.journal.settings import LOG_SEGMENTS_MIN, JournalSettings, KiB, MiB


def test_the_defaults_are_consistent() -> None:
    """The defaults pass their own checks."""
    assert JournalSettings().segment_bytes == 64 * MiB


def test_all_mistakes_are_reported_together() -> None:
    """Every wrong value is named with what is allowed."""
    with pytest.raises(ConfigError) as caught:
        JournalSettings(segment_bytes=5 * KiB, open_files_max=0)
    assert len(caught.value.problems) == 3
    assert "not a multiple of 4,096" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "reserve"),
    [
        (JournalSettings(), 256 * MiB),
        (JournalSettings(segment_bytes=128 * MiB), 384 * MiB),
        (JournalSettings(reserve_bytes=5), 5),
    ],
)
def test_the_reserve_is_worked_out_from_the_segments(
    settings: JournalSettings, reserve: int
) -> None:
    """Without a number of its own the reserve is three segments, at least 256 MiB."""
    assert settings.reserve == reserve


def test_a_log_that_may_have_less_than_some_segments_is_refused() -> None:
    """What lives in its oldest is written again before that goes: there must be room for both."""
    least = LOG_SEGMENTS_MIN * 64 * KiB
    assert JournalSettings(segment_bytes=64 * KiB, log_bytes_max=least).log_bytes_max == least
    with pytest.raises(ConfigError, match="log_bytes_max: 524,287 is below 8 segments"):
        JournalSettings(segment_bytes=64 * KiB, log_bytes_max=least - 1)
