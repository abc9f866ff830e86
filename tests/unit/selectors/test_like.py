"""LIKE: every kind of pattern, and that a hostile one costs no more than its text is long."""

from __future__ import annotations

import pytest

from holdfast.selectors.like import read_pattern


@pytest.mark.parametrize(
    ("pattern", "like", "unlike"),
    [
        ("abc", ["abc"], ["", "ab", "abcd", "ABC"]),
        ("", [""], ["a"]),
        ("a_c", ["abc", "a_c", "a\nc"], ["ac", "abbc"]),
        ("___", ["abc"], ["ab", "abcd"]),
        ("%", ["", "a", "a\nb"], []),
        ("a%", ["a", "abc", "a\n"], ["", "ba"]),
        ("%c", ["c", "abc"], ["cb"]),
        ("a%c", ["ac", "abc", "a\nc"], ["a", "c", "ab"]),
        ("aba%aba", ["abaaba", "abaxaba"], ["aba", "ababa"]),
        ("%b%", ["b", "abc"], ["ac", ""]),
        ("%ab%ab%", ["abab", "xabyabz"], ["ab", "aab"]),
        ("%_%", ["a"], [""]),
        ("%_b_%", ["abc", "xabcx"], ["bc", "ab", "b"]),
        ("%a_c%", ["abc", "xacabcx"], ["ac", "acb"]),
        ("%a_b__c%", ["a1b23c", "aaxb12c"], ["a1b2c"]),
        ("%%a%%", ["a", "bab"], ["b"]),
    ],
)
def test_patterns_match_as_in_sql(pattern: str, like: list[str], unlike: list[str]) -> None:
    """`_` is any one character, a line feed too, `%` any number of them; case counts."""
    read = read_pattern(pattern, None)

    assert like == [text for text in like + unlike if read.matches(text)]


@pytest.mark.parametrize(
    ("pattern", "escape", "like", "unlike"),
    [
        ("a!%", "!", ["a%"], ["a", "ab"]),
        ("a!_%", "!", ["a_", "a_b"], ["ab"]),
        ("a!!%", "!", ["a!", "a!b"], ["a", "a%"]),
        ("!ab", "!", ["ab"], ["!ab"]),
        ("a%%", "%", ["a%"], ["a"]),
        ("__a_%", "_", ["_a%"], ["xa"]),
        ("%x!_y%", "!", ["ax_yb"], ["axzyb"]),
    ],
)
def test_what_is_escaped_stands_for_itself(
    pattern: str, escape: str, like: list[str], unlike: list[str]
) -> None:
    """The escape may be any character, a wildcard too."""
    read = read_pattern(pattern, escape)

    assert like == [text for text in like + unlike if read.matches(text)]


@pytest.mark.parametrize("pattern", ["a!", "!", "!!!"])
def test_an_escape_of_nothing_is_refused(pattern: str) -> None:
    """The last character of a pattern escapes nothing."""
    with pytest.raises(ValueError, match=pattern):
        read_pattern(pattern, "!")


@pytest.mark.parametrize(
    ("pattern", "is_floating", "scattered_count"),
    [
        ("a%b", False, 0),
        ("a_b", False, 0),
        ("%a%", True, 0),
        ("%_a_%", True, 0),
        ("%a_b%", True, 1),
    ],
)
def test_a_pattern_tells_what_it_may_cost(
    pattern: str, is_floating: bool, scattered_count: int
) -> None:
    """Only what stands between two `%` is looked for."""
    read = read_pattern(pattern, None)

    assert (is_floating, scattered_count) == (read.is_floating, read.scattered_count)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("%" + "a%" * 4000 + "b%", "a" * 10_000),
        ("%" + "_a" * 4000 + "b%", "a" * 10_000),
        ("%" + "a_" * 500 + "aa_b%", "ab" * 5_000),
        ("%" + "a" * 49 + "b" + "a" * 49 + "%", "a" * 10_000),
    ],
)
def test_a_hostile_pattern_goes_through_its_text_once(pattern: str, text: str) -> None:
    """A regular expression would try each of the ways, and outlive this test's time."""
    assert not read_pattern(pattern, None).matches(text)
