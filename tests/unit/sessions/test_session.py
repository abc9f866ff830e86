"""
What a session need not write: the answers of one that never does what is asked about.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.sessions.session import Session


class Quiet(Session):
    """A session that holds nothing, in steps."""

    protocol_name = "QUIET"

    def __init__(self) -> None:
        super().__init__("q-1")
        self.steps: list[str] = []

    def receive(self, data, is_spent=lambda: False) -> bool:
        return True

    def deliver(self, subscription, key, message, *, redelivered) -> None:
        raise AssertionError

    def reply(self, receipt) -> None:
        raise AssertionError

    confirm = reply

    def recount_room(self) -> None:
        pass

    def farewell(self, text, code) -> None:
        self.is_closing = True

    def leaving(self) -> Iterator[None]:
        for step in ("first", "last"):
            self.steps.append(step)
            yield

    held_count = 2


def test_a_protocol_without_time_or_waiting_answers_so() -> None:
    """
    No deadline, nothing left to do, nothing kept: the loop passes it by.
    """
    session = Quiet()
    session.note_received(1.0)
    session.note_sent(1.0)
    session.give_up()
    session.send_waiting()
    session.disconnected()
    assert session.deadline is None
    assert session.received_at is None
    assert session.handle_deadline(1.0) == b""
    assert session.proceed(lambda: False)
    assert session.proceed_with_endings(lambda: False)
    assert not session.go_on()
    assert not session.is_full
    assert not session.is_spreading
    assert session.unfinished_bytes == 0


def test_who_holds_something_is_not_idle() -> None:
    """
    A consumer is worth its place though it says nothing.
    """
    session = Quiet()
    assert session.is_idle
    session.subscriptions["s"] = None  # type: ignore[assignment]
    assert not session.is_idle


def test_leaving_at_once_is_leaving_in_steps() -> None:
    """
    One way to give everything back.
    """
    session = Quiet()
    session.leave()
    assert session.steps == ["first", "last"]


def test_who_is_forgotten_gives_what_it_holds_to_be_freed() -> None:
    """
    And has no connection any more, so that the two do not hold each other.
    """
    session = Quiet()
    session.connection = object()  # type: ignore[assignment]
    assert session.forget() == [session.subscriptions]
    assert session.connection is None


def test_the_contract_names_what_must_be_written() -> None:
    """
    A session that cannot say goodbye is none.
    """
    with pytest.raises(TypeError, match="farewell"):
        type("Half", (Session,), {"receive": Quiet.receive})("h-1")
