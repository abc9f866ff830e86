"""Tests of replication/tellings.py: once, and then seldom."""

from __future__ import annotations

from holdfast.replication.tellings import Tellings


def test_what_lasts_is_told_at_growing_intervals() -> None:
    """At once, then after 10, 20, 40 and at last every 40 seconds; each sentence by itself."""
    tellings = Tellings(10.0, 40.0)

    told = [now for now in range(200) if tellings.is_due("b", "no", now)]

    assert [0, 10, 30, 70, 110, 150, 190] == told
    assert tellings.is_due("b", "other", 191)


def test_sentences_that_alternate_are_told_once_each() -> None:
    """As where both sides of a pair refuse, each with a reason of its own."""
    tellings = Tellings(10.0, 40.0)

    assert 2 == sum(tellings.is_due("b", "one" if n % 2 else "other", n / 100) for n in range(500))


def test_what_comes_after_a_link_is_news() -> None:
    """Of that member only."""
    tellings = Tellings(10.0, 40.0)
    for whom in "bc":
        tellings.is_due(whom, "no", 0.0)
    tellings.forget("b")

    assert [True, False] == [tellings.is_due(whom, "no", 1.0) for whom in "bc"]


def test_only_so_many_are_remembered() -> None:
    """The one told longest ago goes first."""
    tellings = Tellings(10.0, 40.0, count_max=2)
    for whom in "bcd":
        tellings.is_due(whom, "no", 0.0)

    assert [True, False] == [tellings.is_due(whom, "no", 1.0) for whom in "bd"]
