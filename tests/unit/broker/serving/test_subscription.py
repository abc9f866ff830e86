"""
When a subscription has room.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.subscription import AcknowledgeMode, Subscription


@pytest.mark.parametrize(
    ("held", "room_bytes", "expected"),
    [(0, 1, True), (1, 1, True), (2, 1, False), (0, 0, False), (0, -5, False)],
)
def test_room_is_prefetch_and_socket(new_client, held, room_bytes, expected) -> None:
    """
    Both the window and the connection must have room.
    """
    client = new_client()
    client.room_bytes = room_bytes
    subscription = Subscription(client, "s", mode=AcknowledgeMode.CLIENT, prefetch=2)
    subscription.unacknowledged = dict.fromkeys(range(held))
    assert subscription.has_room() is expected
