"""Tests of admin/lease_metrics.py: what an alarm on the lease of a shared log reads."""

from __future__ import annotations

from dataclasses import replace

from holdfast.admin.lease_metrics import lease_metrics
from holdfast.admin.lease_status import CopyStatus, ElectorStatus, LeaseStatus


def values(lease: LeaseStatus) -> dict[str, float]:
    """Each metric without labels by its name."""
    return {
        sample.name: sample.value
        for metric in lease_metrics(lease)
        for sample in metric.samples
        if not sample.labels
    }


def test_a_holder_says_for_how_long_it_is_and_will_be() -> None:
    """So that one sees who is active, since when, and how near its lease is to its end."""
    lease = LeaseStatus(
        kind="SQLite", place="f", lease_seconds=5, is_held=True, held_seconds=60, left_seconds=4
    )

    found = values(lease)
    assert 1 == found["holdfast_lease_held"]
    assert 60 == found["holdfast_lease_held_seconds"]
    assert 4 == found["holdfast_lease_left_seconds"]
    assert 1 == found["holdfast_shared_store_reached"]
    assert 0 == found["holdfast_shared_store_refusing"]


def test_a_broker_that_waits_says_how_silent_it_is() -> None:
    """And whether the store answers and takes anything."""
    lease = LeaseStatus(
        kind="SQLite", place="f", lease_seconds=5, silent_seconds=3, trouble="no", refusal="full"
    )

    found = values(lease)
    assert 0 == found["holdfast_lease_held"]
    assert 3 == found["holdfast_lease_silent_seconds"]
    assert 0 == found["holdfast_shared_store_reached"]
    assert 1 == found["holdfast_shared_store_refusing"]


def test_each_copy_has_a_line_with_its_state() -> None:
    """A failed one is found by its label."""
    copies = (
        CopyStatus(id="1", place="x", state="enabled"),
        CopyStatus(id="2", place="y", state="failed"),
    )
    lease = LeaseStatus(kind="several", place="", lease_seconds=5, copies=copies)

    states = [
        (sample.labels["id"], sample.labels["state"])
        for metric in lease_metrics(lease)
        for sample in metric.samples
        if "state" in sample.labels
    ]
    assert [("1", "enabled"), ("2", "failed")] == states


def test_an_elector_says_whether_it_answers_and_whom_it_elects() -> None:
    """A broker without one has no such metric: an alarm on it would fire for nothing."""
    lease = LeaseStatus(kind="SQLite", place="f", lease_seconds=5)
    assert not [name for name in values(lease) if "elector" in name]
    elector = ElectorStatus(kind="etcd", place="etcd://e/x", trouble="away", is_elected=True)
    found = values(replace(lease, elector=elector))

    assert 0 == found["holdfast_elector_reached"]
    assert 1 == found["holdfast_elector_elected"]
