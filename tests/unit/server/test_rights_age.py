"""How old what a node knows of users' rights may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast.server import rights_age
from holdfast.server.rights_age import SILENT_SECONDS_MAX, RightsAge


class Group:
    """A member that says of itself what a test says; something happens at each look."""

    def __init__(self) -> None:
        self.is_leader = False
        self.told_commit_index = 9
        self.unheard_seconds: float | None = 0.1
        self.applied_index = 9
        self.next: list[Callable[[], None]] = []
        self.look_count = 0

    def look(self) -> int:
        self.look_count += 1
        if self.next:
            self.next.pop(0)()
        return self.applied_index

    def catch_up(self) -> str:
        """Give what is told to who asks now."""
        return asyncio.run(RightsAge(lambda: self, self.look).catch_up())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long."""
    monkeypatch.setattr(rights_age, "CATCH_UP_SECONDS_MAX", 0.03)
    monkeypatch.setattr(rights_age, "_LOOK_SECONDS", 0.0)


def test_who_has_applied_all_that_he_heard_of_waits_for_nothing() -> None:
    """Not even a turn of the loop."""
    group = Group()
    assert (group.catch_up(), group.look_count) == ("", 1)


@pytest.mark.usefixtures("impatient")
def test_what_was_heard_of_when_somebody_asked_is_applied_first() -> None:
    """And not what comes behind it, which under load is always more."""
    group = Group()
    group.applied_index = 7

    def more() -> None:
        group.applied_index += 1
        group.told_commit_index += 5

    group.next = [lambda: None, more, more]
    assert group.catch_up() == ""
    assert (group.applied_index, group.told_commit_index) == (9, 19)


@pytest.mark.usefixtures("impatient")
def test_who_stays_behind_or_is_cut_off_says_so() -> None:
    """With how far, or since when; that a leader is heard again, or that it leads itself, helps."""
    group = Group()
    group.applied_index = 1_000
    group.told_commit_index = 2_000
    assert group.catch_up() == "it has 1,000 of 2,000 entries that its leader has committed"
    group.is_leader = True
    assert group.catch_up() != "", "as one that has just taken over"
    group.applied_index, group.is_leader = 2_000, False
    group.unheard_seconds = SILENT_SECONDS_MAX + 1
    assert group.catch_up() == "it has heard of no leader for 11 s"

    def lead() -> None:
        group.is_leader = True

    group.next = [lambda: None, lead]
    assert group.catch_up() == ""


def test_who_was_never_told_anything_keeps_nobody_waiting() -> None:
    """It is alone, or only just there."""
    group = Group()
    group.unheard_seconds = None
    assert group.catch_up() == "it has heard of no leader since it was started"
    assert group.look_count == 1
