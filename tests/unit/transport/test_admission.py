"""
Who may stay when a port is full.
"""

from __future__ import annotations

import logging

import pytest

from holdfast.transport.admission import TELL_SECONDS, Admission


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
