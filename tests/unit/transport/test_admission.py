"""
Who may stay when a port is full.
"""

from __future__ import annotations

import logging

import pytest

from holdfast.transport.admission import LOOK_SECONDS, LOOKED_AT_MAX, Admission
from holdfast.transport.inside import TELL_SECONDS


def test_the_oldest_silent_one_makes_room() -> None:
    """
    Those who have said who they are stay, however old; then the new one is turned away.
    """
    known = {"a"}
    port = Admission[str]("client", 3, known.__contains__)
    assert [port.enter(name, 0.0) for name in "abc"] == [None, None, None]
    assert port.enter("d", 1.0) == "b"
    assert len(port) == 3
    known |= {"c", "d"}
    assert port.enter("e", 2.0) == "e"
    assert (len(port), port.turned_away) == (3, 2)


def test_who_leaves_makes_room_for_another() -> None:
    """
    Leaving twice, or without having been inside, is fine: a closed socket is told of later.
    """
    port = Admission[str]("client", 1, lambda _: False)
    port.enter("a", 0.0)
    port.leave("a")
    port.leave("a")
    assert port.enter("b", 0.0) is None
    port.clear()
    assert len(port) == 0
    assert port.enter("c", 0.0) is None


def test_a_full_port_is_told_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """
    Whoever opens sockets in a loop must not fill the log as well.
    """
    port = Admission[int]("admin", 1, lambda _: False)
    with caplog.at_level(logging.WARNING):
        for number in range(400):
            port.enter(number, number / 1000)
    assert len(caplog.messages) == 1
    port.enter(400, TELL_SECONDS + 1)
    assert caplog.messages[1].endswith("; 400 closed so far")
    assert "the admin port is full with 1 connections" in caplog.messages[0]


class Crowd:
    """Connections that are named by source and number, all of them known."""

    def __init__(self, count_max: int) -> None:
        self.idle: set[str] = set()
        self.asked = 0
        self.port = Admission[str](
            "client", count_max, lambda _: True, is_idle=self.is_idle, source_of=lambda it: it[0]
        )

    def is_idle(self, name: str, now: float) -> bool:
        self.asked += 1
        return name in self.idle


def test_an_idle_one_of_the_largest_source_makes_room() -> None:
    """
    Else whoever fills the port with connections that do nothing keeps everybody else out for ever.
    """
    crowd = Crowd(5)
    for name in ("a1", "b1", "b2", "b3", "c1"):
        crowd.port.enter(name, 0.0)
    crowd.idle = {"a1", "b2", "b3", "c1"}
    assert crowd.port.enter("d1", 1.0) == "b2"
    assert crowd.port.enter("d2", 2.0) == "b3"
    assert crowd.port.enter("d3", 3.0) in {"a1", "c1"}
    assert len(crowd.port) == 5


def test_where_nobody_is_idle_the_new_one_goes() -> None:
    """
    Who subscribes, sends or beats is never closed for another.
    """
    crowd = Crowd(2)
    crowd.port.enter("a1", 0.0)
    crowd.port.enter("b1", 0.0)
    assert crowd.port.enter("c1", 1.0) == "c1"
    crowd.port.leave("a1")
    assert crowd.port.enter("c1", 1.0) is None
    crowd.port.clear()
    assert len(crowd.port) == 0


def test_looking_for_an_idle_one_is_bounded() -> None:
    """
    Of ten thousand a few are asked each time, others the next time, and not for each newcomer.
    """
    crowd = Crowd(10_000)
    for number in range(10_000):
        crowd.port.enter(f"{'ab'[number % 2]}{number}", 0.0)
    crowd.idle = {"a9998"}
    now = 1.0
    leaving = "new"
    rounds = 0
    while leaving == "new":
        asked = crowd.asked
        leaving = crowd.port.enter("new", now)
        assert crowd.asked - asked <= LOOKED_AT_MAX
        asked = crowd.asked
        assert crowd.port.enter("soon", now + LOOK_SECONDS / 2) == "soon"
        assert crowd.asked == asked
        now += 2 * LOOK_SECONDS
        rounds += 1
        assert rounds < 1_000
    assert leaving == "a9998"
