"""Tests of cli/lease_fields.py: an operator reads who writes the log and what is wrong with it."""

from __future__ import annotations

from typing import Any

from holdfast.admin.lease_status import CopyStatus, ElectorStatus, LeaseStatus
from holdfast.cli.lease_fields import lease_fields


def told(**fields: Any) -> dict[str, object]:
    """The table's lines by their names."""
    return dict(lease_fields(LeaseStatus(kind="SQLite", place="f", lease_seconds=5, **fields)))


def test_the_holder_says_how_long_it_holds_it() -> None:
    """And how much of the lease is left."""
    assert "held here for" in str(told(is_held=True, held_seconds=9, left_seconds=4)["lease"])
    assert "4.0 s left" in str(told(is_held=True, held_seconds=9, left_seconds=4)["lease"])


def test_who_waits_names_the_holder_and_its_silence() -> None:
    """Or says that nobody holds it."""
    assert "held by a, silent for 2.0 s" in str(told(holder="a", silent_seconds=2)["lease"])
    assert "held by nobody" in str(told()["lease"])


def test_what_is_wrong_has_a_line_of_its_own() -> None:
    """And none while nothing is."""
    copies = (CopyStatus(id="1", place="x", state="failed"),)
    found = told(trouble="no answer", refusal="full", warnings=("fsync is off",), copies=copies)

    assert "no answer" == found["store trouble"]
    assert "full" == found["store refuses"]
    assert "fsync is off" == found["store warning"]
    assert "1 failed, x" == found["copy"]
    assert {"store", "lease"} == set(told())


def test_an_elector_has_a_line_and_its_trouble_another() -> None:
    """Where it is, whom it elects and of whom; what it never said is not made up."""
    elector = ElectorStatus(
        kind="etcd", place="etcd://e/x", elected="a", line=("a", "b"), heard_seconds=0.1
    )
    assert "etcd, etcd://e/x, elects a of a, b" == told(elector=elector)["elector"]
    nobody = ElectorStatus(kind="etcd", place="etcd://e/x", heard_seconds=0.1, strangers=2)
    found = told(elector=nobody)
    assert "etcd, etcd://e/x, elects nobody" == found["elector"]
    assert "2 entries there are no broker's" == found["elector warning"]
    away = told(elector=ElectorStatus(kind="etcd", place="etcd://e/x", trouble="away"))
    assert "etcd, etcd://e/x" == away["elector"]
    assert "away" == away["elector trouble"]
