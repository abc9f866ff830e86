"""A message that was delivered: what it says, and that its subscription settles it."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client.message import Message, size_of
from holdfast.client.settlements import ACKNOWLEDGE, REJECT
from holdfast.protocols.stomp.frames import Frame

FRAME = Frame(
    "MESSAGE",
    {"message-id": "q-1-7", "destination": "/queue/a", "persistent": "true", "ack": "3"},
    "größer".encode(),
)


class PaperSubscription:
    """Notes what it is asked to settle; what is confirmed is confirmed at once."""

    def __init__(self) -> None:
        self.settled = []

    def settle(self, message, verb, *, confirm=False):
        self.settled.append((message.id, verb, confirm))
        if not confirm:
            return None
        outcome = asyncio.get_running_loop().create_future()
        outcome.set_result(None)
        return outcome


def test_it_says_what_the_frame_says() -> None:
    """Headers and body are the producer's; its size is what it takes in memory."""
    message = Message(FRAME, PaperSubscription(), 2)

    assert (message.id, message.destination, message.text) == ("q-1-7", "/queue/a", "größer")
    assert (message.persistent, message.redelivered, message.is_settled) == (True, False, False)
    assert (message.delivery_id, message.generation) == ("3", 2)
    assert message.size_bytes == size_of(FRAME) == len(FRAME.body) + len("q-1-7/queue/atrue3")
    assert "q-1-7" in repr(message)


def test_a_body_that_is_no_text_is_no_text() -> None:
    """Bytes stay bytes; only who asks for text hears that it is none."""
    message = Message(Frame("MESSAGE", {"message-id": "1"}, b"\xff"), PaperSubscription(), 1)

    assert message.body == b"\xff"
    with pytest.raises(UnicodeDecodeError):
        _ = message.text


async def test_it_is_settled_by_its_subscription() -> None:
    """Which knows by what the broker knows it; what is to be waited for is waited for."""
    subscription = PaperSubscription()
    message = Message(FRAME, subscription, 1)

    await message.acknowledge()
    await message.reject(confirm=True)

    assert subscription.settled == [("q-1-7", ACKNOWLEDGE, False), ("q-1-7", REJECT, True)]
