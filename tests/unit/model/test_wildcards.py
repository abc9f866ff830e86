"""Patterns of destinations: what they match, which says more, and which are none."""

from __future__ import annotations

from itertools import product

import pytest

from holdfast.errors import PolicyError
from holdfast.model.destination import Kind
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX
from holdfast.model.wildcards import parse_pattern


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("A.B", ["A.B"], ["A", "A.B.C", "A.b", "a.B", ""]),
        ("A.*", ["A.B", "A.", "A.>"], ["A", "A.B.C", "B.A"]),
        ("A.>", ["A", "A.B", "A.B.C", "A."], ["AB", "B.A", ""]),
        (">", ["A", "A.B", ""], []),
        ("*", ["A", "a*"], ["A.B"]),
        ("*.B.>", ["A.B", "x.B.c.d"], ["B", "A.C", "A"]),
        ("a*", ["a*"], ["a", "ab"]),
    ],
)
def test_what_a_pattern_means(pattern: str, matching: list[str], others: list[str]) -> None:
    """A star is one part, the end any number of parts; everything else is itself."""
    found = parse_pattern(pattern)
    assert [name for name in matching if not found.matches(Kind.QUEUE, name)] == []
    assert [name for name in others if found.matches(Kind.QUEUE, name)] == []
    assert not any(found.matches(Kind.TOPIC, name) for name in matching)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("orders", "queue://orders"),
        ("/queue/A.>", "queue://A.>"),
        (" queue:// A.* ", "queue://A.*"),
        ("topic://>", "topic://>"),
        ("/topic/A", "topic://A"),
    ],
)
def test_all_spellings_mean_one_pattern(written: str, canonical: str) -> None:
    """As ActiveMQ writes it, as a destination in STOMP, or as a bare name."""
    assert str(parse_pattern(written)) == canonical
    assert parse_pattern(written) == parse_pattern(canonical)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "0 bytes"),
        ("queue://", "0 bytes"),
        ("A.>.B", "stands at the end"),
        ("A>", "stands at the end"),
        (">.>", "stands at the end"),
        ("A,B", "no commas"),
        ("A\n", ""),
        ("A\nB", "control characters"),
        ("x" * (QUEUE_NAME_BYTES_MAX + 1), "1,025 bytes; allowed are 1 to 1,024"),
    ],
)
def test_what_is_no_pattern_is_told(written: str, why: str) -> None:
    """The sentence shows it, however long it is, and says what is allowed."""
    if not why:  # Blanks around it are no part of it.
        assert str(parse_pattern(written)) == "queue://A"
        return
    with pytest.raises(PolicyError, match=why) as raised:
        parse_pattern(written)
    assert len(str(raised.value)) < 250


def test_of_two_that_match_one_always_says_more() -> None:
    """So that all leaders judge alike, in whatever order the patterns were said."""
    texts = [".".join(parts) for size in (1, 2, 3) for parts in product("AB*", repeat=size)]
    patterns = [
        parse_pattern(text + end)
        for text in ["", *texts]
        for end in ("", ".>")[not text :]
        if text or end
    ] + [parse_pattern(">")]
    patterns = list(dict.fromkeys(patterns))
    for name in ("A", "A.B", "A.A", "A.B.A", "A.B.A.B"):
        ranks = [each.shape.rank for each in patterns if each.matches(Kind.QUEUE, name)]
        assert len(ranks) > 1
        assert len(set(ranks)) == len(ranks)


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("A.B", "A.*"),
        ("A.B", "A.B.>"),
        ("A.*", "A.>"),
        ("A.*", "*.B"),
        ("A.*.C", "A.>"),
        ("*.B.*", "*.*.>"),
        ("A.*", "A.*.>"),
        ("*", ">"),
    ],
)
def test_the_more_exact_pattern_says_more(more: str, less: str) -> None:
    """By its own parts, then by how far left they stand, then by whether it tells how many."""
    assert parse_pattern(more).shape.rank > parse_pattern(less).shape.rank
