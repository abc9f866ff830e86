"""Tests of server/member_watch.py: what a leader tells of the others, once each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from holdfast.replication.status import MemberView
from holdfast.server.member_watch import MemberWatch


class Scene:
    """A leader's view of three members, that changes; `events` is what it told since."""

    def __init__(self, told: list[dict]) -> None:
        self.watch = MemberWatch("a", self)
        self.now = 100.0
        self.leader: str | None = "a"
        self.views = {
            name: MemberView(
                name=name,
                address=f"{name}:1",
                kind="voter",
                site="",
                node_id=name,
                connected=True,
                last_seen_seconds=0.0,
                metadata={},
                lag_seconds=0.0,
                lag_entries=0,
            )
            for name in "abc"
        }
        self.told = told

    def members_at_hand(self) -> list[MemberView]:
        return list(self.views.values())

    def change(self, name: str, **fields: object) -> None:
        self.views[name] = replace(self.views[name], **fields)  # type: ignore[arg-type]

    def kill(self, name: str) -> None:
        self.change(name, connected=False, last_seen_seconds=0.3)

    def revive(self, name: str) -> None:
        self.change(name, connected=True, last_seen_seconds=0.0)

    def events(self, seconds: float = 5.0) -> list[tuple[str, str]]:
        self.told.clear()
        end = self.now + seconds
        while self.now < end:
            self.watch.step(self.now)
            self.now += 0.25
        return [(it["event"].partition(":")[0], it.get("member", "")) for it in self.told]


@pytest.fixture
def scene() -> Iterator[Scene]:
    with capture_logs() as told:
        yield Scene(told)


def test_a_death_and_a_return_are_told_once_each(scene: Scene) -> None:
    """With how long it was away."""
    assert [] == scene.events()
    scene.kill("c")
    assert [("a member is dead", "c")] == scene.events()
    assert "0.3 s ago" == scene.told[0]["last_seen"]
    scene.revive("c")
    assert [("a member is back", "c")] == scene.events()
    assert 5.3 == scene.told[0]["away_seconds"]
    scene.kill("c")
    assert [("a member is dead", "c")] == scene.events()


def test_the_loss_of_the_majority_is_told(scene: Scene) -> None:
    """Also by one that leads no more because of it, as long as nobody else does."""
    scene.events()
    scene.kill("b")
    scene.kill("c")
    told = scene.events(0.5)
    assert [("a member is dead", "b"), ("a member is dead", "c")] == told[:2]
    assert [("the majority is lost", "")] == told[2:]
    assert ("1 of 3 voters", "b, c") == (scene.told[2]["there"], scene.told[2]["dead"])
    scene.leader = None
    assert [] == scene.events()
    scene.revive("b")
    assert [("a member is back", "b"), ("the majority is back", "")] == scene.events()
    scene.leader = "b"
    scene.kill("c")
    assert [] == scene.events()


def test_a_lead_that_ends_between_two_looks_is_no_secret(scene: Scene) -> None:
    """The deaths that ended it came in the same moment."""
    scene.events()
    for name in "bc":
        scene.kill(name)
    scene.leader = None

    assert ("the majority is lost", "") in scene.events()


def test_who_was_never_there_is_told_of_after_a_moment(scene: Scene) -> None:
    """A new leader has links to be made; the leader before it may be dead for good."""
    scene.change("c", connected=False, last_seen_seconds=None)
    assert [] == scene.events(2.5)
    assert [("a member is dead", "c")] == scene.events()
    assert "not since this node started" == scene.told[0]["last_seen"]


def test_a_follower_tells_nothing(scene: Scene) -> None:
    """Nor a leader of a member that was removed, or shut out."""
    scene.leader = "b"
    scene.kill("c")
    assert [] == scene.events()
    scene.leader = "a"
    scene.revive("c")
    scene.events()
    del scene.views["c"]
    scene.change("b", kind="fenced", connected=False)
    assert [] == scene.events()


def test_falling_behind_and_catching_up_are_told(scene: Scene) -> None:
    """Once each, not at every change of the lag."""
    scene.events()
    scene.change("b", lag_seconds=11.0, lag_bytes=5)
    assert [("a member falls behind", "b")] == scene.events()
    scene.change("b", lag_seconds=8.0)
    assert [] == scene.events()
    scene.change("b", lag_seconds=0.1)
    assert [("a member has caught up", "b")] == scene.events()


def test_who_is_so_far_behind_that_only_the_log_tells_it_is_behind(scene: Scene) -> None:
    """The log is not read for it; a few entries of before this node led are no lag."""
    scene.events()
    scene.change("b", lag_seconds=None, lag_entries=3)
    assert [] == scene.events()
    scene.change("b", lag_entries=20_000)
    assert [("a member falls behind", "b")] == scene.events()
    assert (20_000, "many") == (scene.told[0]["entries"], scene.told[0]["seconds"])
    scene.change("b", lag_entries=9_000)
    assert [] == scene.events()
    scene.change("b", lag_seconds=0.0, lag_entries=0)
    assert [("a member has caught up", "b")] == scene.events()
