"""
What is full is told by its name, or as what all share; nothing is changed by asking.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.errors import QueueFullError, StoreFullError
from holdfast.model.records import PolicyRecord
from holdfast.sessions.sending_room import DISK, MEMORY, SendingRoom, named, what_has_room
from holdfast.sessions.target import Target


class Sent:
    """A message with something in it."""

    body = b"body"


@pytest.fixture
def room(new_desk):
    """A desk whose memory has room for one message that is not kept."""
    desk = new_desk(BrokerSettings(memory_bytes=100, send_fail_if_no_space=False))
    room = SendingRoom(desk.broker, desk.context)
    sender = desk.connect().session
    return desk, lambda target: room.lacking(sender, target, Sent())


def test_what_all_share_is_full_by_no_name(room) -> None:
    """
    Memory is for what is not kept, the disk for what is.
    """
    desk, lacking = room
    queue = desk.broker.queue("q")
    kept = Target(queue, b"", persistent=True)
    plain = Target(queue, b"", persistent=False)
    assert lacking(kept) is lacking(plain) is None
    desk.broker.send_transient(queue, b"", bytes(200))
    desk.context.refusal = "no disk"
    for target, what, text in ((plain, MEMORY, "memory"), (kept, DISK, "no disk")):
        lack = lacking(target)
        assert (lack.place, lack.what) == (queue, what)
        assert type(lack.error) is StoreFullError
        assert text in str(lack.error)
        assert not lack.is_final
        assert set(what_has_room(target)) == {what, named(queue)}


def test_what_has_limits_is_full_by_its_name(room) -> None:
    """
    By those, and as it says how long may be waited for memory.
    """
    desk, lacking = room
    policy = json.dumps({"maxLength": 1, "overflow": "block"})
    desk.broker.receipts.record(PolicyRecord("queue://q", policy))
    desk.turn()
    queue = desk.broker.queue("q")
    desk.connect().send(b"1", "/queue/q")
    desk.turn()
    target = Target(queue, b"", persistent=True)
    target.is_limited = True
    lack = lacking(target)
    assert lack.what == named(queue)
    assert isinstance(lack.error, QueueFullError)
    assert lack.error.can_wait
    assert not lack.is_final
    desk.broker.send_transient(desk.broker.queue("other"), b"", bytes(200))
    lack = lacking(Target(queue, b"", persistent=False))
    assert (lack.what, lack.error.can_wait) == (named(queue), True)


def test_nothing_is_waited_for_where_a_reader_is_behind(room) -> None:
    """
    One of several is enough; a topic is not the queue of its name.
    """
    desk, lacking = room
    reader = desk.connect()
    reader.subscribe("/temp-topic/t")
    (topic,) = desk.broker.temporaries.topics.values()
    queue = desk.broker.queue(topic.name)
    assert named(queue) != named(topic)
    target = Target(queue, b"", persistent=True)
    target.destinations = (queue, topic)
    assert lacking(target) is None
    assert set(what_has_room(target)) == {named(queue), named(topic), DISK}
    topic.blocked_by.update(topic.subscriptions)
    lack = lacking(target)
    assert (lack.place, lack.is_final) == (topic, True)
