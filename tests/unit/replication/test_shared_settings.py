"""Tests of replication/shared_settings.py: what must be alike, and what is said if it is not."""

from __future__ import annotations

import pytest

from holdfast.replication.settings import ReplicationSettings
from holdfast.replication.shared_settings import (
    REFUSED,
    WARNED,
    refused_difference,
    shared_settings,
    warned_differences,
)

OWN = shared_settings(ReplicationSettings(), 1 << 26)


def test_every_shared_setting_is_judged() -> None:
    """Whatever a node tells is either refused or warned of where it differs."""
    assert {*REFUSED, *WARNED} == set(OWN)


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("copies", 2, "copies is not given on a and 2 on b"),
        ("sites", 2, "sites is 1 on a and 2 on b"),
        ("election_seconds_min", 5.0, "election_seconds_min is 1.0 on a and 5.0 on b"),
        ("segment", 1 << 20, "segment is 67,108,864 on a and 1,048,576 on b"),
    ],
)
def test_what_breaks_a_promise_is_refused(setting: str, value: float, sentence: str) -> None:
    """In one sentence with both values and both names."""
    reason = refused_difference("a", OWN, "b", {**OWN, setting: value})

    assert reason.startswith(sentence)
    assert not warned_differences("a", OWN, "b", {**OWN, setting: value})


@pytest.mark.parametrize("setting", WARNED)
def test_what_costs_time_is_warned_of(setting: str) -> None:
    """It makes no link impossible."""
    theirs = {**OWN, setting: 7.5}

    assert "" == refused_difference("a", OWN, "b", theirs)
    (sentence,) = warned_differences("a", OWN, "b", theirs)
    assert f"{setting} is {OWN[setting]} on a and 7.5 on b" in sentence


def test_what_an_older_version_does_not_tell_is_no_difference() -> None:
    """Nor is what a newer one tells and this one does not know."""
    for theirs in ({}, {"newer": 3.0}, {**OWN, "newer": 3.0}):
        assert "" == refused_difference("a", OWN, "b", theirs)
        assert [] == warned_differences("a", OWN, "b", theirs)
