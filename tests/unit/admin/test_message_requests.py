"""What is asked about single messages, and told: values."""

from __future__ import annotations

from dataclasses import asdict

from holdfast.admin.message_requests import MessageAction, MessageRequest, MessageStep


def test_what_is_not_said_asks_for_all_of_a_queue() -> None:
    """From its first message to its last, a thousand at a time."""
    wanted = MessageRequest(action=MessageAction.MOVE, queue="a", target="b")
    assert (wanted.after, wanted.through, wanted.count_max) == (0, 0, 1_000)
    assert (wanted.selector, wanted.body_bytes_max) == ("", 0)


def test_the_fields_of_an_answer_stay() -> None:
    """Programs rely on their names."""
    assert set(asdict(MessageStep(queue="a", action="move"))) == {
        *("queue", "action", "count", "examined", "in_delivery", "skipped", "not_matching"),
        *("unreadable", "after", "through", "is_done", "messages"),
    }
