"""A hold is set, moved and renewed; the cluster is a list of what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.errors import AuthenticationError, HoldfastError, LinkLostError
from holdfast.spark.log import holds
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.holds import (
    HeldRead,
    Hold,
    held_for_a_while,
    hold_for_read,
    kept_while_reading,
    renewed,
)


class PaperCluster(RemoteLog):
    """It keeps the log from entry 20 on at the earliest."""

    asked: list[dict[str, Any]]
    fault: HoldfastError | None = None
    names: set[str]

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        told: Mapping[str, type] | None = None,
        is_furthest_first: bool = False,
        patience_seconds: float = 30.0,
    ) -> dict[str, Any]:
        if self.fault is not None:
            raise self.fault
        name = path.removeprefix("/holds/")
        if method == "DELETE":
            self.names.remove(name)
            return {}
        assert body is not None
        self.names.add(name)
        self.asked.append(body)
        return {"index": max(int(body["index"]), 20)}

    def fail(self, fault: HoldfastError) -> None:
        object.__setattr__(self, "fault", fault)


@pytest.fixture
def cluster() -> PaperCluster:
    made = PaperCluster(("a:1",))
    object.__setattr__(made, "asked", [])
    object.__setattr__(made, "names", set())
    return made


def test_the_bound_is_the_clusters_unless_one_is_asked_for(cluster: PaperCluster) -> None:
    """Else who asks for nothing would be refused where less is allowed."""
    assert 20 == Hold(cluster, "h").move(3, or_first=True)
    assert 21 == Hold(cluster, "h", 99, 60).move(21)
    assert [
        {"index": 3, "or_first": True, "expiry_seconds": 604_800},
        {"index": 21, "or_first": False, "expiry_seconds": 60, "bytes_max": 99},
    ] == cluster.asked


def test_it_is_renewed_after_a_quarter_of_its_age(
    cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To have moved it counts as well."""
    now = [0.0]
    monkeypatch.setattr(holds.time, "monotonic", lambda: now[0])
    hold = Hold(cluster, "h", expiry_seconds=100)
    hold.move(30)
    for seconds, renewals in ((20, 0), (26, 1), (50, 1), (52, 2)):
        now[0] = float(seconds)
        hold.renew_if_due(31)
        assert renewals == sum("only_renews" in body for body in cluster.asked)


def test_a_read_keeps_what_there_is_and_lets_go(cluster: PaperCluster) -> None:
    """Under a name of its own, and for minutes only if it dies."""
    with held_for_a_while(cluster, "audit") as first:
        assert 20 == first
        (name,) = cluster.names
        assert name.startswith("audit-")
    assert not cluster.names
    assert [{"index": 1, "or_first": True, "expiry_seconds": 900}] == cluster.asked


def test_who_cannot_hold_reads_without(cluster: PaperCluster) -> None:
    """Without a leader nothing is cleaned; only who may not ask at all is told at once."""
    cluster.fail(LinkLostError("nobody leads"))
    assert (None, 7) == hold_for_read(cluster, 7)
    with held_for_a_while(cluster, "audit") as first:
        assert 1 == first
    cluster.fail(AuthenticationError("no"))
    with pytest.raises(AuthenticationError):
        hold_for_read(cluster, 7)


def test_it_is_renewed_from_another_thread_until_it_is_left(cluster: PaperCluster) -> None:
    """Spark takes rows when it likes: between two of them nobody else could."""
    is_asked = threading.Event()

    class TellingHold(Hold):
        def renew(self, index: int) -> None:
            super().renew(index)
            is_asked.set()

    hold = TellingHold(cluster, "h", expiry_seconds=0)
    with renewed(hold, 30):
        assert is_asked.wait(20)
    asked = len(cluster.asked)
    is_asked.clear()
    assert {"index": 30, "only_renews": True, "expiry_seconds": 0} == cluster.asked[0]
    assert not is_asked.is_set()
    assert asked == len(cluster.asked)


def test_a_task_that_comes_late_says_so_at_once(
    cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes soon after the plan costs the cluster nothing; the only one ends the hold."""
    begun: list[bool] = []

    def note(_hold: Hold, _index: int, *, at_once: bool) -> object:
        begun.append(at_once)
        return renewed(Hold(cluster, "other", expiry_seconds=10**6), 1)

    monkeypatch.setattr(holds, "renewed", note)
    monkeypatch.setattr(holds, "wall_seconds", lambda: 1_000.0)
    cluster.names.add("r")
    for planned_at, is_alone in ((990.0, False), (700.0, False), (2_000.0, False), (990.0, True)):
        with kept_while_reading(cluster, HeldRead("r", planned_at, is_alone), 5):
            assert "r" in cluster.names
    assert [False, True, True, True] == begun
    assert not cluster.names
