"""
Who keeps nothing for those that come later.
"""

from __future__ import annotations

from holdfast.broker.serving.recovers import NOTHING_KEPT


def test_it_is_never_on() -> None:
    """So nobody tells it anything."""
    assert not NOTHING_KEPT.is_on
