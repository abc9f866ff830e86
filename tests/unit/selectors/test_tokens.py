"""The words of a selector: what they say, where they begin, and what is too much."""

from __future__ import annotations

import pytest

from holdfast.errors import SelectorError
from holdfast.selectors.tokens import LIST_COUNT_MAX, WORD_COUNT_MAX, Source, read_words


def words(text: str, **options: bool) -> list[tuple[str, object, int | None]]:
    return [
        (each.type, each.value, each.start_pos) for each in read_words(Source(text, 0, **options))
    ]


def values(text: str, **options: bool) -> list[object]:
    return [value for _, value, _ in words(text, **options)]


def test_each_word_has_its_kind_and_place() -> None:
    """Blanks and comments are no words."""
    assert words("a<> 'x' -- and so on\n/* or\nnot */>=(") == [
        ("NAME", "a", 0),
        ("EQUALITY", "<>", 1),
        ("TEXT", "x", 4),
        ("ORDER", ">=", 33),
        ("LEFT", "(", 35),
    ]


@pytest.mark.parametrize(
    ("written", "number"),
    [
        *(("0", 0), ("5", 5), ("5L", 5), ("5l", 5), ("0x1F", 31), ("0X1fL", 31), ("017", 15)),
        *((".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("1.5E-3", 0.0015), ("0.5", 0.5)),
        ("9223372036854775808", 1 << 63),
    ],
)
def test_numbers_are_written_as_in_java(written: str, number: float) -> None:
    """Decimal, hexadecimal, octal, with a point and with an exponent."""
    assert [number] == values(written)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("08", "'08' is no number"),
        ("5x", "'5x' is no number"),
        ("0x", "'0x' is no number"),
        ("1.2.3", "'1.2.3' is no number"),
        ("1e", "'1e' is no number"),
        ("9223372036854775809", "more than 64 bits"),
        ("1" * 5000, "more than 64 bits"),
        ("1e999", "too large"),
    ],
)
def test_what_is_no_number_is_refused(written: str, reason: str) -> None:
    """With the column where it begins."""
    with pytest.raises(SelectorError, match=reason) as caught:
        read_words(Source(f"a = {written}"))

    assert caught.value.column == 5


def test_texts_and_quoted_names_hold_their_quotes_doubled() -> None:
    """Names in double quotes may hold anything."""
    assert values("'it''s' ''") == ["it's", ""]
    assert values('"content-type" "say ""x"""') == ["content-type", 'say "x"']


def test_keywords_are_such_in_any_case_and_names_are_not() -> None:
    """A name that only begins like a keyword is a name."""
    kinds = [kind for kind, _, _ in words("and Or NOT android inn $x _y größe")]

    assert kinds == ["AND", "OR", "NOT", *["NAME"] * 5]


def test_a_hyphen_stands_in_a_name_where_it_was_asked_for() -> None:
    """Else it is a minus."""
    assert values("my-prop = 1") == ["my", "-", "prop", "=", 1]
    assert values("my-prop = 1", has_hyphens=True) == ["my-prop", "=", 1]


def test_a_list_is_one_word() -> None:
    """With blanks and comments between its texts; IN that has none behind it stays alone."""
    assert words("a in ( 'x' /* or */, 'it''s','x')")[2] == ("LIST", frozenset({"x", "it's"}), 5)
    assert [kind for kind, _, _ in words("a in (5)")] == ["NAME", "IN", "LEFT", "NUMBER", "RIGHT"]


@pytest.mark.parametrize("written", ["('x',)", "('x', )", "('x', y)", "('x' 'y')"])
def test_what_is_half_a_list_is_none(written: str) -> None:
    """A comma wants a text behind it, on each Python that is served."""
    assert "LIST" not in [kind for kind, _, _ in words(f"a IN {written}")]


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("a = 'x", 5, "a text is not closed by '"),
        ('a = "x', 5, 'a quoted name is not closed by "'),
        ("a /* = 5", 3, r"a comment is not closed by \*/"),
        ("a # b", 3, "unexpected character '#'"),
        ("a.b = 1", 2, 'a name with dots is written in double quotes: "a.b"'),
        ('a = ""', 5, "a quoted name is empty"),
        ("a OR xPath '//a'", 6, "XPATH is not served"),
        ("XQUERY", 1, "XQUERY is not served"),
        ("(" * 8192, 65, "more than 64 expressions"),
        ("+" * 8192, 501, "more than 500 words"),
        ("a LIKE '" + "%a" * 4000 + "'", 8, "more than 500 words, signs and wildcards"),
        ("a IN (" + ",".join(["'x'"] * 1001) + ")", 6, "a list of 1,001 texts; at most 1,000"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_column(
    text: str, column: int, reason: str
) -> None:
    """And what is too much as well, before anything is made of it."""
    with pytest.raises(SelectorError, match=reason) as caught:
        read_words(Source(text))

    assert caught.value.column == column
    assert f"selector, column {column}: " in str(caught.value)


def test_as_much_as_is_allowed_is_read() -> None:
    """The limits are the most that is taken, not the least that is refused."""
    assert len(read_words(Source("a " * WORD_COUNT_MAX))) == WORD_COUNT_MAX
    assert len(read_words(Source("(" * 64))) == 64
    texts = ",".join(f"'{number}'" for number in range(LIST_COUNT_MAX))
    assert len(read_words(Source(f"a IN ({texts})"))[2].value) == LIST_COUNT_MAX
