"""
Messages of any protocol on their way into the broker, and what waits for room.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.errors import StoreFullError
from holdfast.sessions.target import Goodbye
from tests.unit.sessions.speaker import Message, Speaker

FULL = BrokerSettings(memory_bytes=1000, message_memory_overhead_bytes=100)


def test_what_lasts_is_replied_to_when_it_is_stored(desk) -> None:
    """
    And what does not, when it is out.
    """
    session = Speaker(desk)
    session.send(Message("/queue/q", receipt=b"1"))
    session.send(Message("/queue/q", receipt=b"2", persistent=False))
    assert session.told == []
    assert session.unconfirmed_count == 1
    desk.turn()
    assert sorted(session.told) == [b"1", b"2"]


def test_what_finds_no_room_waits_in_its_order_with_the_goodbye_behind_it(new_desk) -> None:
    """
    The protocol is asked anew what it means, and is told what came of it.
    """
    desk = new_desk(FULL)
    session = Speaker(desk)
    for _ in range(4):
        session.send(Message("/queue/q", b"x" * 450, persistent=False))
    goodbye = Goodbye(b"bye", 400)
    session.waiting.add(goodbye)
    assert session.waiting
    session.send_waiting()
    assert session.told == []
    desk.context.now += 1000.0
    session.send_waiting()
    codes = [each[2] for each in session.told[:-1]]
    assert codes == ["store-full"] * len(codes)
    assert session.told[-1] == goodbye
    assert not session.waiting
    with pytest.raises(StoreFullError):
        session.send(Message("/queue/q", b"x" * 450, persistent=False))


def test_nothing_lasting_is_taken_while_there_is_no_room_on_the_disk(desk) -> None:
    """
    The sentence is the store's.
    """
    desk.context.refusal = "the disk is almost full"
    with pytest.raises(StoreFullError, match="almost full"):
        Speaker(desk).send(Message("/queue/q"))


def test_numbers_that_were_taken_are_known_by_their_digits(desk) -> None:
    """
    What is no number was never taken.
    """
    sending = Speaker(desk).holdings.sending
    assert not sending.has_taken("p", None)
    assert not sending.has_taken("p", b"x")
    assert not sending.has_taken("p", b"1")


def test_a_client_that_is_gone_waits_for_nothing(new_desk) -> None:
    """
    Nor do all, for what was its.
    """
    desk = new_desk(FULL)
    session = Speaker(desk)
    for _ in range(4):
        session.send(Message("/queue/q", b"x" * 450, persistent=False))
    assert desk.context.waiting_bytes
    session.holdings.sending.stop(session)
    assert desk.context.waiting_bytes == 0
    assert session not in desk.context.waiting
