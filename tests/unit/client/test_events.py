"""
Events are values: equal if their fields are, and not to be changed.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from holdfast.client.events import BrokerComplaint, Interrupted, Resumed
from holdfast.errors import RefusedError


def test_events_are_values() -> None:
    """They reach several listeners, so nobody may change them."""
    event = Interrupted("stomp://a:1", "gone", 3)
    assert event == Interrupted("stomp://a:1", "gone", 3)
    with pytest.raises(FrozenInstanceError):
        event.reason = "other"  # type: ignore[misc]
    assert Resumed("stomp://a:1", 0.1, 2).term is None
    assert str(BrokerComplaint(RefusedError("no")).error) == "no"
