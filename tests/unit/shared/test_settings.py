"""Sizes and times of a shared log."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from holdfast.shared.settings import SharedSettings


def test_a_takeover_waits_for_less_than_a_full_segment() -> None:
    """The first segment of an epoch is smaller, and nothing unsafe is allowed by itself."""
    settings = SharedSettings()

    assert settings.first_segment_bytes < settings.segment_bytes
    assert not settings.allow_unsafe_share
    with pytest.raises(FrozenInstanceError):
        settings.segment_bytes = 1  # type: ignore[misc]
