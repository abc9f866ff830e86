"""Tests of simulation/audits.py: what is asked of the log about who changed users and grants."""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.access import GrantKey, UserKey
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.records import PurgeRecord, Record
from trials.simulation.audits import Audits
from trials.simulation.history import ViolationError


def by(what: str) -> AuditRecord:
    return AuditRecord(1, "operator", "here", "put", what, "done")


def feed(audits: Audits, *records: Record) -> None:
    """Let these be one entry."""
    for record in records:
        audits.take(record, 7)
    audits.end_change(7)


def test_each_change_has_who_made_it_right_behind_it() -> None:
    """One that changes nothing may have it, too; what the cleaner writes again has nobody."""
    audits = Audits()
    grant = GrantRecord("a", "queue://b", 1)
    feed(audits, UserRecord("ann", "{}", 1), by("1"), grant, by("2"), PurgeRecord(1, 2))
    feed(audits, GrantRecord("a", "queue://b", 1), by("3"))
    feed(audits, UserRecord("ann", "{}", 1), GrantRecord("a", "queue://b", 1))
    keys = {what: change.key for what, change in audits.by_object.items()}
    key = GrantKey("a", "queue://b")
    assert keys == {"1": UserKey("ann"), "2": key, "3": key}
    assert audits.by_object["2"].record is grant


@pytest.mark.parametrize(
    "records",
    [
        [UserRecord("ann", "{}", 1)],
        [UserRecord("ann", "{}", 1), UserRecord("ben", "{}", 1), by("1")],
        [UserRecord("ann", "{}", 1), PurgeRecord(1, 2), by("1")],
    ],
)
def test_a_change_without_is_noticed(records: list[Record]) -> None:
    """At the end of its entry, and before whatever else stands behind it."""
    with pytest.raises(ViolationError, match=r"S15 \(audit\): entry 7 changes .*not say who did"):
        feed(Audits(), *records)


@pytest.mark.parametrize("records", [[by("1")], [UserRecord("ann", "{}", 1), by("1"), by("2")]])
def test_nobody_is_said_to_have_done_what_is_not_there(records: list[Record]) -> None:
    """Nor what another one did."""
    with pytest.raises(ViolationError, match=r"says \d was done, it is not"):
        feed(Audits(), *records)
