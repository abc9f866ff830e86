"""
What a session need not write, and what every session keeps to.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.protocols.detect import Answer
from holdfast.sessions.registration import Arrival, Registration
from holdfast.sessions.session import Session
from holdfast.sessions.undecided import begin
from tests.unit.sessions.speaker import Speaker


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


def stomp(desk) -> Session:
    return desk.connect().session


def undecided(desk) -> Session:
    arrival = Arrival(desk.broker, desk.context, desk.read_message, 0.0)
    never = Registration("NEVER", lambda start: Answer.PERHAPS, lambda arrival: Speaker(desk))
    return begin((never, never), arrival)


EVERY_KIND = [stomp, undecided, Speaker]


@pytest.mark.parametrize("make", EVERY_KIND)
def test_whoever_has_something_to_say_is_listed_to_be_sent(desk, make) -> None:
    """The contract, of every session: else its bytes would never leave."""
    session = make(desk)
    desk.context.dirty.clear()
    session.farewell("the node ends\nnow", "going")
    assert session.is_closing
    assert session in desk.context.dirty or not session.out


@pytest.mark.parametrize("make", EVERY_KIND)
def test_leaving_is_the_same_work_for_all_who_ask(desk, make) -> None:
    """The contract, of every session: what is given back twice would be somebody else's."""
    session = make(desk)
    session.disconnected()
    session.leave()
    session.leave()
    assert session.held_count == 0
    assert list(session.leaving()) == []
    assert session.is_idle
    assert not any(session.forget())
    assert session.connection is None


@pytest.mark.parametrize("make", EVERY_KIND)
def test_what_is_not_left_off_has_nothing_left(desk, make) -> None:
    """The contract, of every session: the loop feeds it only then, and asks in any order."""
    session = make(desk)
    for data in (b"", b"\n", b"\n\n"):
        is_done = session.receive(data, lambda: True)
        assert is_done is not session.is_left_off
        assert session.proceed(lambda: False)
        assert session.proceed_with_endings(lambda: False)
    assert not session.go_on()
    assert not session.is_full
    assert not session.is_spreading
    assert session.protocol_name


@pytest.mark.parametrize("make", EVERY_KIND)
def test_nobody_is_dead_before_its_deadline(desk, make) -> None:
    """The contract, of every session: who has none lives as long as its socket."""
    session = make(desk)
    session.note_received(1.0)
    session.note_sent(1.0)
    until = session.deadline
    assert session.handle_deadline(0.0 if until is None else until - 0.1) is not None


@pytest.mark.parametrize("make", EVERY_KIND)
def test_who_gives_up_keeps_nothing(desk, make) -> None:
    """The contract, of every session: it is closed for what it kept."""
    session = make(desk)
    session.receive(b"SEN")
    session.give_up()
    assert session.unfinished_bytes == 0
