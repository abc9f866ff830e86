"""Who is connected and somebody else vouches for: asked about again, and judged by the answer."""

from __future__ import annotations

import queue
import threading

import pytest
import structlog

from holdfast.errors import AuthenticationError
from holdfast.security.authority import Vouched
from holdfast.security.checking import Checking
from holdfast.security.principal import Principal
from holdfast.server.asking_again import SEEN_AT_ONCE, AskingAgain

ORDERS = frozenset({"orders"})
ANNA = Principal("anna", ORDERS, authority="ldap.people")


class Desk:
    """A directory whose answers a test decides, and who is connected."""

    label = "ldap.people"
    is_guessable = True
    again_seconds = 300.0

    def __init__(self) -> None:
        self.now = 100.0
        self.there: list[Principal] = [ANNA, ANNA, Principal("log's own", ORDERS)]
        self.answers: dict[str, object] = {"anna": Vouched("anna", ORDERS, 300.0)}
        self.asked: list[str] = []
        self.called: list[str] = []
        self.concerned: list[str] = []
        self.posted: queue.Queue = queue.Queue()
        self.go_on = threading.Event()
        self.go_on.set()
        self.checking = Checking({}.get, b"k" * 32)
        self.again_for = AskingAgain(
            [self],
            self,
            self.checking,
            clock=lambda: self.now,
            concern=self.concerned.append,
            post=self.posted.put,
        )

    def principals(self) -> list[Principal]:
        return self.there

    def again(self, name: str, called: str) -> object:
        self.go_on.wait(20)
        self.called.append(called)
        self.asked.append(name)
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look(self, *, later: float) -> None:
        self.now += later
        self.again_for.look()

    def hear(self) -> None:
        self.posted.get(timeout=20)()


@pytest.fixture
def desk():
    made = Desk()
    yield made
    made.go_on.set()
    made.again_for.close()


def test_a_person_is_asked_about_once_in_a_while_however_many_clients_he_has(desk) -> None:
    """And nobody is judged again where all is as it was."""
    desk.look(later=0)
    desk.look(later=299)
    assert desk.posted.empty()
    desk.look(later=1)
    desk.look(later=1)
    desk.hear()
    assert desk.asked == ["anna"]
    assert desk.concerned == []
    desk.look(later=298)
    assert desk.posted.empty()
    desk.look(later=2)
    desk.hear()
    assert desk.asked == ["anna", "anna"]


@pytest.mark.parametrize("answer", [Vouched("anna", frozenset({"bills"}), 300.0), None])
def test_who_has_other_groups_or_is_gone_is_judged_by_that(desk, answer) -> None:
    """Also what was kept of a password that was right counts no more."""
    desk.look(later=0)
    desk.answers["anna"] = answer
    desk.look(later=300)
    desk.hear()
    assert desk.concerned == ["anna"]
    expected = None if answer is None else ANNA._replace(roles=answer.roles)
    assert desk.checking.still(ANNA) == expected
    desk.there = []
    desk.look(later=1)
    assert desk.checking.still(ANNA) == ANNA, "who comes again is asked about then"


@pytest.mark.parametrize("failure", [AuthenticationError("away"), RuntimeError("a mistake")])
def test_who_cannot_be_asked_about_stays(desk, failure) -> None:
    """And is asked about again after the same time."""
    desk.look(later=0)
    desk.answers["anna"] = failure
    desk.look(later=300)
    desk.hear()
    assert desk.concerned == []
    desk.answers["anna"] = None
    desk.look(later=300)
    desk.hear()
    assert desk.concerned == ["anna"]


def crowd(desk, count: int) -> None:
    desk.there = [Principal(f"u{it}", ORDERS, authority="ldap.people") for it in range(count)]
    desk.answers = {f"u{it}": Vouched(f"u{it}", ORDERS, 300.0) for it in range(count)}


def test_a_directory_is_asked_about_a_crowd_one_after_the_other(desk) -> None:
    """A thousand who came together are due together: few wait for the thread at a time."""
    crowd(desk, 9)
    desk.look(later=0)
    desk.go_on.clear()
    desk.look(later=300)
    desk.look(later=1)
    assert len(desk.again_for._asked) == 4
    desk.go_on.set()
    for _ in range(9):
        desk.hear()
    assert sorted(desk.asked) == [f"u{it}" for it in range(9)], "without a look in between"
    assert desk.posted.empty()


def test_a_directory_that_does_not_keep_up_is_told_of(desk) -> None:
    """Once in a while, once a right has gone on for twice as long as it should; all are asked."""
    crowd(desk, 3)
    desk.look(later=0)
    desk.go_on.clear()
    with structlog.testing.capture_logs() as told:
        desk.look(later=300)
        desk.look(later=299)
        assert told == []
        desk.there.append(Principal("v", ORDERS, authority="ldap.people"))
        for _ in range(5):
            crowd(desk, 6)
            desk.look(later=301)
        desk.look(later=1)
    assert {it["event"] for it in told} == {"login.asked_again_late"}
    assert len(told) < 6
    assert told[-1]["late_seconds"] >= 300
    desk.go_on.set()


def test_of_ten_thousand_people_a_few_are_looked_at_in_one_go(desk) -> None:
    """
    Each second all of them were, and sorted by when they are due: 9 to 24 ms of the loop's.

    Whoever waits for the loop comes between; who has gone is forgotten likewise.
    """
    crowd(desk, 10 * SEEN_AT_ONCE)
    steps: list[int] = []
    passed = 0

    def counted():
        nonlocal passed
        for each in desk.there:
            passed += 1
            yield each

    def go() -> None:
        nonlocal passed
        passed = 0
        desk.hear()
        steps.append(passed)

    desk.principals = counted
    desk.again_for.look()
    assert passed == SEEN_AT_ONCE
    while not desk.posted.empty():
        go()
    assert max(steps) == SEEN_AT_ONCE
    assert sum(steps) == 9 * SEEN_AT_ONCE
    assert len(desk.again_for._due[desk.label]) == 10 * SEEN_AT_ONCE
    desk.there = desk.there[:1]
    desk.look(later=1)
    for count in range(9, 0, -1):
        kept = len(desk.again_for._due[desk.label])
        assert kept <= count * SEEN_AT_ONCE + 1
        desk.hear()
    while not desk.posted.empty():
        desk.hear()
    assert list(desk.again_for._due[desk.label]) == ["u0"]


def test_who_of_two_directories_is_due_first_is_asked_about_first(desk) -> None:
    """Each has a time of its own between two questions."""
    other = Desk()
    other.label, other.again_seconds = "ldap.others", 200.0
    other.asked = desk.asked
    both = AskingAgain(
        [desk, other],
        desk,
        desk.checking,
        clock=lambda: desk.now,
        concern=desk.concerned.append,
        post=desk.posted.put,
    )
    desk.there = [ANNA, Principal("ben", ORDERS, authority="ldap.others")]
    desk.answers = other.answers = {it: Vouched(it, ORDERS, 300.0) for it in ("anna", "ben")}
    both.look()
    desk.now += 300
    both.look()
    for _ in range(2):
        desk.hear()
    both.close()
    other.again_for.close()
    assert desk.asked == ["ben", "anna"]


def test_somebody_is_asked_about_by_what_he_came_as(desk) -> None:
    """A directory knows him by that; his name is the one that it gave him."""
    desk.there = [ANNA._replace(called="anna@example.org")]
    desk.look(later=0)
    desk.look(later=300)
    desk.hear()
    assert (desk.asked, desk.called) == (["anna"], ["anna@example.org"])


def test_nobody_is_asked_about_after_the_end(desk) -> None:
    """An answer that comes late asks no further."""
    crowd(desk, 9)
    desk.look(later=0)
    desk.go_on.clear()
    desk.look(later=300)
    desk.again_for.close()
    desk.go_on.set()
    desk.hear()
    assert len(desk.asked) == 1
