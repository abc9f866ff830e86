"""A hold is set, moved and renewed; the cluster is a list of what it was asked."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.spark import holds
from holdfast.spark.holds import Hold
from holdfast.spark.log_client import RemoteLog


class PaperCluster(RemoteLog):
    """It keeps the log from entry 20 on at the earliest."""

    asked: list[dict[str, Any]]

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        assert (method, path) == ("POST", "/holds/h")
        assert body is not None
        self.asked.append(body)
        return {"index": max(int(body["index"]), 20)}


@pytest.fixture
def cluster() -> PaperCluster:
    made = PaperCluster(("a:1",))
    object.__setattr__(made, "asked", [])
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
