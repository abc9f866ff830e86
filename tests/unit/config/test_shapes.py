"""
The shape of each value, and the sentence where it is wrong.
"""

from __future__ import annotations

from typing import Any


def test_all_mistakes_are_reported_at_once(problems_of: Any) -> None:
    """
    Mistakes in the shape of some values do not hide mistakes in the relations of others.
    """
    problems = problems_of(
        stomp="nonsense",
        memory="12q",
        log_level="loud",
        copis=2,
        election_seconds_max=0.5,
    )
    assert [problem.split(":")[0] for problem in sorted(problems)] == [
        "copis",
        "election_seconds_max",
        "log_level",
        "memory",
        "stomp",
    ]


def test_an_unknown_key_names_the_nearest_known_one(problems_of: Any) -> None:
    """
    A typing mistake in a file is told, not silently ignored.
    """
    assert problems_of(copis=2) == ["copis: unknown setting; did you mean copies?"]


def test_a_value_out_of_range_is_told_the_range(problems_of: Any) -> None:
    """
    The range in the sentence is the one that is checked.
    """
    assert problems_of(copies=0) == ["copies: 0 is out of range; allowed: 1 to 15"]
    assert problems_of(memory="1k") == ["memory: 1k is out of range; allowed: 16,777,216 or more"]
