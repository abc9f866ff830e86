"""The contract of what elects: its values."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from holdfast.leases.elector import LINE_COUNT_MAX, ElectorFacts, Line, Reading
from holdfast.model.limits import MEMBERS_MAX


def test_a_line_without_a_session_of_ours_makes_nothing_sure() -> None:
    """Who only reads it has no session that counts."""
    assert 0.0 == Line(holders=("a" * 32,)).sure_seconds


def test_a_reading_is_never_changed() -> None:
    """It goes from one thread to another."""
    reading = Reading(began=1.0, ended=2.0, is_willing=True, trouble="away")
    assert reading.line is None
    with pytest.raises(FrozenInstanceError):
        reading.trouble = ""  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        ElectorFacts(kind="etcd", place="h").place = "i"  # type: ignore[misc]


def test_no_log_has_as_many_brokers_as_a_line_is_read() -> None:
    """What is behind that may be left out."""
    assert LINE_COUNT_MAX > MEMBERS_MAX
