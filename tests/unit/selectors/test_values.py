"""Values of selectors: kinds that meet and do not, the unknown, arithmetic without a result."""

from __future__ import annotations

import operator

import pytest

from holdfast.selectors.values import (
    INTEGER_MAX,
    INTEGER_MIN,
    JOINED_CHARACTERS_MAX,
    Value,
    calculated,
    equals,
    negated,
    number_of,
    ordered,
    truth_of,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("017", 17),
        ("2.5", 2.5),
        ("5.", 5.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("9223372036854775807", INTEGER_MAX),
        ("-9223372036854775808", INTEGER_MIN),
        ("9223372036854775808", 9223372036854775808.0),
        *((text, None) for text in ("", " 5", "5 ", "1_0", "nan", "inf", "1e999", "0x1F", "5L")),
        *((text, None) for text in ("٣", "five", "1,5", "--5", "1" * 101, "9" * 5000)),
    ],
)
def test_a_text_says_a_number_or_none(text: str, number: Value) -> None:
    """What Python would read as well, and no program writes, is no number."""
    assert number == number_of(text)
    assert type(number) is type(number_of(text))


@pytest.mark.parametrize(
    ("text", "truth"),
    [("true", True), ("TRUE", True), ("False", False), ("yes", None), ("", None), ("1", None)],
)
def test_a_text_says_a_truth_or_none(text: str, truth: bool | None) -> None:
    """Only the two words do, in any case."""
    assert truth is truth_of(text)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("a", "a", True),
        ("a", "A", False),
        ("5", "5.0", False),
        ("5", 5, True),
        (5.0, "5", True),
        ("2.5", 2.5, True),
        ("five", 5, False),
        (5, 5.0, True),
        (INTEGER_MAX, float(INTEGER_MAX), False),
        ("true", True, True),
        ("TRUE", True, True),
        ("no", False, False),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (True, False, False),
        (None, 5, None),
        ("a", None, None),
        (None, None, None),
    ],
)
def test_values_are_equal_by_kind(left: Value, right: Value, expected: bool | None) -> None:
    """A text is read as what it meets; kinds that do not meet are unequal; unknown stays so."""
    assert expected is equals(left, right)
    assert expected is equals(right, left)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("2.5", 2, True),
        (3, "2.5", True),
        ("10", 9, True),
        ("10", "9", False),
        ("b", "a", False),
        ("b", 1, False),
        (True, 0, False),
        (2, 1, True),
        (1, 2, False),
        (None, 2, None),
        ("a", None, None),
    ],
)
def test_only_numbers_have_an_order(left: Value, right: Value, expected: bool | None) -> None:
    """A text beside a number is read as one; two texts have no order."""
    assert expected is ordered(operator.gt, left, right)


@pytest.mark.parametrize(
    ("left", "sign", "right", "expected"),
    [
        ("2", "+", 1, 3),
        ("a", "+", "b", "ab"),
        ("2", "+", "1", "21"),
        ("2", "-", "1", 1),
        ("a", "-", "b", None),
        ("a", "+", 1, None),
        (True, "+", 1, None),
        (7, "/", 2, 3),
        (-7, "/", 2, -3),
        (7, "/", -2, -3),
        (7.0, "/", 2, 3.5),
        (7, "%", 3, 1),
        (-7, "%", 3, -1),
        (-7.5, "%", 2, -1.5),
        (7, "/", 0, None),
        (7.0, "/", 0.0, None),
        (7, "%", 0, None),
        (7.5, "%", 0, None),
        (INTEGER_MAX, "+", 1, None),
        (INTEGER_MIN, "/", -1, None),
        (INTEGER_MAX, "*", INTEGER_MAX, None),
        (1e308, "*", 10, None),
        (-1e308, "-", 1e308, None),
        (None, "+", 1, None),
        ("a", "+", None, None),
    ],
)
def test_arithmetic_without_a_result_is_unknown(
    left: Value, sign: str, right: Value, expected: Value
) -> None:
    """Whole numbers stay whole as in Java; nothing overflows or raises."""
    assert expected == calculated(sign, left, right)
    assert type(expected) is type(calculated(sign, left, right))


def test_a_joined_text_has_a_limit() -> None:
    """Five hundred joins of the longest header must not cost the loop its time."""
    half = "x" * (JOINED_CHARACTERS_MAX // 2)

    assert half + half == calculated("+", half, half)
    assert calculated("+", half, half + "x") is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, -5), (2.5, -2.5), ("5", -5), ("x", None), (True, None), (None, None), (INTEGER_MIN, None)],
)
def test_a_number_changes_its_sign(value: Value, expected: Value) -> None:
    """Also one that is a text; the least whole number has no other."""
    assert expected == negated(value)
