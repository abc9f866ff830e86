"""Tests of server/founding.py: whom a node without a cluster waits for."""

from __future__ import annotations

from structlog.testing import capture_logs

from holdfast.admin.status import AwaitedStatus
from holdfast.replication.membership import Member
from holdfast.replication.messages import Hello
from holdfast.server.founding import FoundingWatch, awaited


def test_who_is_not_there_is_told_with_the_reason() -> None:
    """Not those that wait as well; and who has a cluster takes this node in."""
    fresh = Hello("b", "bb" * 16)
    found = awaited(
        [
            (Member("b", "b:1"), fresh),
            (Member("c", "c:1"), None),
            (Member("d", "d:1"), None),
            (Member("e", "e:1"), Hello("e", "ee" * 16, "cd" * 16)),
        ],
        {"c": "connection refused"},
    )

    assert [("c", "connection refused"), ("d", "not met yet")] == [
        (it.name, it.reason) for it in found[:2]
    ]
    assert found[2].reason.startswith("belongs to cluster cdcdcdcd already, whose leader")


def test_it_is_told_at_once_and_then_seldom() -> None:
    """At growing intervals, with what is true by then; nothing once there is a cluster."""
    waits = [AwaitedStatus(name="b", address="b:1", reason="not met yet")]
    watch = FoundingWatch(lambda: tuple(waits))
    with capture_logs() as told:
        for now in range(60):
            watch.step(float(now))
        waits.clear()
        for now in range(60, 1000):
            watch.step(float(now))

    assert ["b at b:1 (not met yet)"] * 4 == [it["missing"] for it in told]


def test_the_pauses_end_at_the_longest() -> None:
    """An hour later there is a line every five minutes."""
    waits = (AwaitedStatus(name="b", address="b:1", reason="not met yet"),)
    watch = FoundingWatch(lambda: waits)
    with capture_logs() as told:
        for now in range(3600):
            watch.step(float(now))

    assert 17 == len(told)
