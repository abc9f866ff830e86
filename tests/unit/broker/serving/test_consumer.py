"""
When a consumer has room.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer


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
    consumer = Consumer(client, "s", mode=AcknowledgeMode.CLIENT, prefetch=2)
    consumer.unacknowledged = dict.fromkeys(range(held))
    assert consumer.has_room() is expected


def test_who_selects_takes_more_memory_and_more_effort(new_client) -> None:
    """
    What the selector says of itself is added: it is bounded with all that subscriptions take.
    """
    selector = SimpleNamespace(effort=3, cost_bytes=1000)
    plain, selecting = (
        Consumer(new_client(), "s", mode=AcknowledgeMode.AUTO, prefetch=1, selector=each)
        for each in (None, selector)
    )
    assert (plain.effort, selecting.effort) == (1, 4)
    assert selecting.cost_bytes == plain.cost_bytes + 1000
