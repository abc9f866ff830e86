"""Expressions: the tables of three values, and what is refused before any message is asked."""

from __future__ import annotations

import operator
from typing import Any

import pytest

from holdfast.errors import SelectorError
from holdfast.selectors import expressions
from holdfast.selectors.expressions import (
    DEPTH_MAX,
    SEARCH_COUNT_MAX,
    Expression,
    Kind,
    condition_of,
    literal,
    named,
)
from holdfast.selectors.like import read_pattern

TRUE = literal(True, Kind.CONDITION, 1)
FALSE = literal(False, Kind.CONDITION, 1)
UNKNOWN = Expression(lambda _: None, Kind.CONDITION, 1)
NAME = named("a", 1)
TEXT = literal("x", Kind.TEXT, 7)
NUMBER = literal(5, Kind.NUMBER, 7)


def outcome(part: Expression, value: object = None) -> object:
    return part.evaluate({"a": value})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (TRUE, TRUE, True, True),
        (TRUE, FALSE, False, True),
        (TRUE, UNKNOWN, None, True),
        (FALSE, FALSE, False, False),
        (FALSE, UNKNOWN, False, None),
        (UNKNOWN, UNKNOWN, None, None),
    ],
)
def test_and_is_false_of_one_or_is_true_of_one(
    left: Expression, right: Expression, both: object, either: object
) -> None:
    """The tables of SQL-92, 8.12, whichever stands first."""
    for parts in ([left, right], [right, left]):
        assert outcome(expressions.conjunction(parts)) is both
        assert outcome(expressions.disjunction(parts)) is either


@pytest.mark.parametrize(("part", "expected"), [(TRUE, False), (FALSE, True), (UNKNOWN, None)])
def test_not_of_the_unknown_is_unknown(part: Expression, expected: object) -> None:
    """SQL-92, 8.12."""
    assert outcome(expressions.negation(part, 1)) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), ("true", True), ("False", False), ("x", False), (5, False), (True, True)],
)
def test_a_value_is_a_condition_where_it_is_true(value: object, expected: object) -> None:
    """A header that says `true` is one; any other text is not true."""
    assert outcome(condition_of(NAME), value) is expected


@pytest.mark.parametrize("part", [TEXT, NUMBER, expressions.signed("-", NAME, 7)])
def test_a_text_or_a_number_is_no_condition(part: Expression) -> None:
    """Whatever a message says it can never be true: that is a mistake."""
    for build in (condition_of, lambda each: expressions.negation(each, 1)):
        with pytest.raises(SelectorError, match="where a condition is expected") as caught:
            build(part)
        assert caught.value.column == 7


@pytest.mark.parametrize("other", [TEXT, literal(True, Kind.CONDITION, 7)])
def test_only_numbers_have_an_order_and_a_literal_that_is_none_is_refused(
    other: Expression,
) -> None:
    """Whatever a message says it would be false."""
    with pytest.raises(SelectorError, match="has no order: numbers only are compared by <"):
        expressions.ordering(NAME, "<", other)
    with pytest.raises(SelectorError, match="compared by BETWEEN") as caught:
        expressions.between(NAME, NUMBER, other, is_within=True)
    assert caught.value.column == 7


def test_a_condition_is_no_operand() -> None:
    """There is nothing to add to a truth."""
    with pytest.raises(SelectorError, match=r"beside \+"):
        expressions.calculation(NAME, [("+", TRUE)])
    with pytest.raises(SelectorError, match="beside -"):
        expressions.signed("-", TRUE, 1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), ("x", True), ("y", False), (5, False), (True, False)],
)
def test_a_name_beside_a_text_is_what_equality_says(value: object, expected: object) -> None:
    """The quick way for texts has the outcome of the slow one."""
    quick = expressions.equality(NAME, TEXT, is_equal=True)
    slow = expressions.equality(TEXT, NAME, is_equal=True)

    assert outcome(quick, value) is outcome(slow, value) is expected


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (5, 1, 9, True),
        ("5", 5, 5, True),
        (0, 1, 9, False),
        (None, 1, 9, None),
        (0, 1, None, False),
        (5, 1, None, None),
        (10, None, 9, False),
        ("x", 1, 9, False),
    ],
)
def test_between_is_both_of_its_comparisons(
    value: object, low: Any, high: Any, expected: object
) -> None:
    """One that is false decides, though the other be unknown."""
    bounds = [Expression(lambda _, each=each: each, Kind.ANY, 1) for each in (low, high)]

    assert outcome(expressions.between(NAME, *bounds, is_within=True), value) is expected
    opposite = None if expected is None else not expected
    assert outcome(expressions.between(NAME, *bounds, is_within=False), value) is opposite


@pytest.mark.parametrize(
    ("value", "like", "within"),
    [("x", True, True), ("y", False, False), (5, False, None), (None, None, None)],
)
def test_like_and_in_want_texts(value: object, like: object, within: object) -> None:
    """A number is like no text; whether it is among texts is unknown, as in ActiveMQ."""
    pattern = read_pattern("x%", None)
    texts = frozenset({"x"})
    inverse = {True: False, False: True, None: None}

    assert outcome(expressions.likeness(NAME, pattern, is_like=True), value) is like
    assert outcome(expressions.likeness(NAME, pattern, is_like=False), value) is inverse[like]  # type: ignore[index]
    assert outcome(expressions.membership(NAME, texts, is_within=True), value) is within
    assert outcome(expressions.membership(NAME, texts, is_within=False), value) is inverse[within]  # type: ignore[index]


def test_whether_something_is_null_is_never_unknown() -> None:
    """Also of what is worked out: no result is null."""
    quotient = expressions.calculation(NUMBER, [("/", NAME)])

    assert outcome(expressions.nullness(NAME, is_null=True)) is True
    assert outcome(expressions.nullness(NAME, is_null=False), "") is True
    assert outcome(expressions.nullness(quotient, is_null=True), 0) is True


def test_sums_are_worked_out_from_the_left() -> None:
    """Two texts are joined before a number comes; then their text is read as one."""
    total = expressions.calculation(NAME, [("+", NAME), ("+", NUMBER)])

    assert outcome(total, "1") == 16
    assert total.kind is Kind.NUMBER
    assert expressions.calculation(TEXT, [("+", TEXT)]).kind is Kind.TEXT
    assert expressions.calculation(NAME, [("+", NAME)]).kind is Kind.ANY


def test_what_stands_too_deep_is_refused() -> None:
    """Evaluation goes as deep as that: it must not run out of stack."""
    part = TRUE
    for _ in range(DEPTH_MAX - 1):
        part = expressions.negation(part, 3)

    assert outcome(part) is False
    with pytest.raises(SelectorError, match="more than 64 expressions stand in each other"):
        expressions.negation(part, 3)


def test_what_looks_through_texts_too_often_is_refused() -> None:
    """A pattern at its ends costs nothing, one of several parts eight times that of one."""
    patterns = {"x%": 0, "%x%": 1, "%x_y%": 8, "%x%x_y%x_y%": 16}
    counts = {
        text: expressions.likeness(NAME, read_pattern(text, None), is_like=True).search_count
        for text in patterns
    }
    one = expressions.likeness(NAME, read_pattern("%x%", None), is_like=True)

    assert counts == patterns
    assert expressions.disjunction([one] * SEARCH_COUNT_MAX).search_count == SEARCH_COUNT_MAX
    with pytest.raises(SelectorError, match="looked through more than 16 times"):
        expressions.disjunction([one] * (SEARCH_COUNT_MAX + 1))


def test_each_order_is_its_own() -> None:
    """Four signs, four tests."""
    numbers = (4, 5, 6)
    tests = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    for sign, test in tests.items():
        part = expressions.ordering(NAME, sign, NUMBER)
        assert [outcome(part, each) for each in numbers] == [test(each, 5) for each in numbers]
