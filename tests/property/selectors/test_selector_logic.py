"""
Selectors against an interpreter that is slow and plain, and against texts that nobody would write.

The interpreter works on the tree from which the text is written, and shares no line with the
product: numbers are fractions, LIKE tries every way, AND and OR are minimum and maximum.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import SelectorError
from holdfast.selectors.selector import Selector
from holdfast.selectors.values import Value

NAMES = ("a", "b", "c", "missing")
TEXTS = ("", "x", "xy", "5", "2.5", "-3", "true", "FALSE", "it's", "a%b", "x_\ny", "1e2")
COMPARISONS = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Said(dict[str, Value]):
    """What a message says; of other names nothing."""

    def __missing__(self, name: str) -> None:
        return None


@dataclass(frozen=True)
class Node:
    """A part of a selector: how it is written, and what it is made of."""

    kind: str
    text: str
    parts: tuple[Any, ...] = ()


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def name(text: str) -> Node:
    return Node("name", text, (text,))


literals = st.one_of(
    st.sampled_from(TEXTS).map(lambda text: Node("literal", quoted(text), (text,))),
    st.integers(0, 9).map(lambda number: Node("literal", str(number), (number,))),
    st.sampled_from([0.5, 2.5, 100.0]).map(lambda number: Node("literal", str(number), (number,))),
)
names = st.sampled_from(NAMES).map(name)


def calculations(operands: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    sums = st.builds(
        lambda left, sign, right: Node(
            "calculation", f"({left.text} {sign} {right.text})", (left, sign, right)
        ),
        operands,
        st.sampled_from("+-*/%"),
        operands,
    )
    signs = st.builds(
        lambda sign, part: Node("sign", f"{sign} {part.text}", (sign, part)),
        st.sampled_from("+-"),
        operands,
    )
    return st.one_of(sums, signs)


operands = st.recursive(st.one_of(literals, names), calculations, max_leaves=4)
numbers = st.one_of(
    names, st.integers(0, 9).map(lambda number: Node("literal", str(number), (number,)))
)
negations = st.sampled_from(["", "NOT "])

predicates = st.one_of(
    st.builds(
        lambda left, right: Node("=", f"{left.text} = {right.text}", (left, right)),
        operands,
        operands,
    ),
    st.builds(
        lambda left, right: Node("<>", f"{left.text} <> {right.text}", (left, right)),
        operands,
        operands,
    ),
    st.builds(
        lambda left, sign, right: Node(sign, f"{left.text} {sign} {right.text}", (left, right)),
        numbers,
        st.sampled_from(["<", "<=", ">", ">="]),
        numbers,
    ),
    st.builds(
        lambda part, no, low, high: Node(
            f"{no}between",
            f"{part.text} {no}BETWEEN {low.text} AND {high.text}",
            (part, low, high),
        ),
        numbers,
        negations,
        numbers,
        numbers,
    ),
    st.builds(
        lambda part, no, pattern: Node(
            f"{no}like",
            f"{part.text} {no}LIKE {quoted(pattern)} ESCAPE '!'",
            (part, pattern),
        ),
        operands,
        negations,
        st.text("xy%_5.\n", max_size=5),
    ),
    st.builds(
        lambda part, no, texts: Node(
            f"{no}in",
            f"{part.text} {no}IN ({', '.join(map(quoted, texts))})",
            (part, texts),
        ),
        operands,
        negations,
        st.lists(st.sampled_from(TEXTS), min_size=1, max_size=3),
    ),
    st.builds(
        lambda part, no: Node(f"{no}null", f"{part.text} IS {no}NULL", (part,)),
        operands,
        negations,
    ),
    names,
    st.sampled_from([True, False]).map(lambda truth: Node("literal", str(truth).upper(), (truth,))),
)


def compounds(conditions: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def joined(word: str, parts: list[Node]) -> Node:
        # AND binds more than OR, and NOT less than anything that is no condition.
        texts = [f"({part.text})" if part.kind in {"AND", "OR"} else part.text for part in parts]
        return Node(word, f" {word} ".join(texts), tuple(parts))

    return st.one_of(
        st.builds(
            joined, st.sampled_from(["AND", "OR"]), st.lists(conditions, min_size=2, max_size=3)
        ),
        conditions.map(
            lambda part: Node(
                "NOT",
                f"NOT ({part.text})" if part.kind in {"AND", "OR"} else f"NOT {part.text}",
                (part,),
            )
        ),
        st.builds(
            lambda left, right: Node("=", f"({left.text}) = ({right.text})", (left, right)),
            conditions,
            conditions,
        ),
    )


selectors = st.recursive(predicates, compounds, max_leaves=6)
values = st.one_of(
    st.sampled_from(TEXTS),
    st.integers(-3, 9),
    st.booleans(),
    st.none(),
    st.text("xy5. ", max_size=6),
)
messages = st.fixed_dictionaries({"a": values, "b": values, "c": values})


def slow_number(value: Any) -> Any:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value):
            return None
        return int(value) if re.fullmatch(r"[+-]?[0-9]+", value) else float(Decimal(value))
    return value


def slow_compare(sign: str, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return sign == "=" and left == right
    if isinstance(left, bool) or isinstance(right, bool):
        truths = {"true": True, "false": False}
        first, second = (
            truths.get(each.lower()) if isinstance(each, str) else each for each in (left, right)
        )
        are_truths = isinstance(first, bool) and isinstance(second, bool)
        return sign == "=" and are_truths and first == second
    first, second = slow_number(left), slow_number(right)
    if first is None or second is None:
        return False
    return COMPARISONS[sign](Fraction(first), Fraction(second))


def slow_calculate(left: Any, sign: str, right: Any) -> Any:
    if left is None or right is None:
        return None
    if sign == "+" and isinstance(left, str) and isinstance(right, str):
        return left + right
    first, second = slow_number(left), slow_number(right)
    if first is None or second is None or (sign in "/%" and second == 0):
        return None
    if isinstance(first, int) and isinstance(second, int):
        quotient = int(Fraction(first, second)) if sign in "/%" else 0
        result = {
            "+": first + second,
            "-": first - second,
            "*": first * second,
            "/": quotient,
            "%": first - second * quotient,
        }[sign]
        return result if -(2**63) <= result < 2**63 else None
    first, second = float(first), float(second)
    if sign == "%":
        return float(Fraction(first) - Fraction(second) * int(Fraction(first) / Fraction(second)))
    calculations = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
    result = calculations[sign](first, second)
    return result if math.isfinite(result) else None


def slow_like(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(slow_like(pattern[1:], text[cut:]) for cut in range(len(text) + 1))
    return bool(text) and pattern[0] in {"_", text[0]} and slow_like(pattern[1:], text[1:])


def inverse(truth: Any) -> Any:
    return None if truth is None else not truth


def slow_condition(node: Node, message: dict[str, Any]) -> Any:
    return slow_compare("=", slow_value(node, message), True)


RANKS = {False: 0, None: 1, True: 2}
BY_RANK = {rank: truth for truth, rank in RANKS.items()}


def slow_value(node: Node, message: dict[str, Any]) -> Any:
    kind, parts = node.kind, node.parts
    if kind == "name":
        return message.get(parts[0])
    if kind == "literal":
        return parts[0]
    if kind in {"AND", "OR"}:
        ranks = [RANKS[slow_condition(part, message)] for part in parts]
        return BY_RANK[min(ranks) if kind == "AND" else max(ranks)]
    if kind == "NOT":
        return inverse(slow_condition(parts[0], message))
    if kind.startswith("NOT "):
        if kind == "NOT in" and not isinstance(slow_value(parts[0], message), str):
            return None
        return inverse(slow_value(Node(kind.removeprefix("NOT "), node.text, parts), message))
    found = [slow_value(each, message) for each in parts if isinstance(each, Node)]
    if kind == "calculation":
        return slow_calculate(found[0], parts[1], found[1])
    if kind == "sign":
        return slow_calculate(0, parts[0], found[0])
    if kind == "between":
        ranks = [
            RANKS[slow_compare(">=", found[0], found[1])],
            RANKS[slow_compare("<=", found[0], found[2])],
        ]
        return BY_RANK[min(ranks)]
    if kind == "like":
        if found[0] is None:
            return None
        return isinstance(found[0], str) and slow_like(parts[1], found[0])
    if kind == "in":
        return found[0] in parts[1] if isinstance(found[0], str) else None
    if kind == "null":
        return found[0] is None
    if kind == "<>":
        return inverse(slow_compare("=", *found))
    return slow_compare(kind, *found)


@given(selectors, messages)
def test_a_selector_says_what_a_slow_interpreter_says(tree: Node, message: dict[str, Any]) -> None:
    """Whatever is written and whatever a message says: true, false and unknown alike."""
    selector = Selector(tree.text)

    expected = slow_condition(tree, message)
    assert selector._evaluate(Said(message)) is expected
    assert selector.matches(Said(message)) is (expected is True)


POOL = (
    *TEXTS,
    "-0.5",
    "7",
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    -7,
    5,
    2.5,
    -2.5,
    2**63 - 1,
    -(2**63),
    1e300,
)


def test_every_two_values_are_compared_and_calculated_as_slowly() -> None:
    """Kinds that meet, and that do not, signs and bounds: all pairs, under every sign."""
    for sign in COMPARISONS:
        selector = Selector(f"a {sign} b")
        for left, right in product(POOL, POOL):
            outcome = selector._evaluate(Said(a=left, b=right))
            assert outcome is slow_compare(sign, left, right), (left, sign, right)
    for sign in "+-*/%":
        selector = Selector(f"a {sign} b = c")
        for left, right in product(POOL, POOL):
            result = slow_calculate(left, sign, right)
            outcome = selector._evaluate(Said(a=left, b=right, c=result))
            assert outcome is (None if result is None else True), (left, sign, right)


WORDS = (
    *("a", "b", '"content-type"', "'x'", "'%x%'", "5", "0x1F", "1e3", "TRUE", "NULL", "NOT", "AND"),
    *(
        "OR",
        "IN",
        "('x')",
        "LIKE",
        "ESCAPE",
        "'!'",
        "BETWEEN",
        "IS",
        "=",
        "<>",
        "<",
        ">=",
        "+",
        "-",
    ),
    *(
        "*",
        "/",
        "%",
        "(",
        ")",
        ",",
        "--",
        "/*",
        "*/",
        "\n",
        "'",
        '"',
        "XPATH",
        "f(",
        ".",
        "#",
        "\0",
    ),
)
hostile_texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=30).map("".join),
)
hostile_values = st.one_of(
    values,
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=200),
    st.sampled_from(["9" * 5000, "1e999", "nan", "x" * 10_000]),
)


def read(text: str) -> Selector | SelectorError:
    try:
        return Selector(text)
    except SelectorError as error:
        return error


@given(
    hostile_texts,
    st.fixed_dictionaries({"a": hostile_values, "b": hostile_values}),
)
def test_any_text_is_read_or_refused_with_a_column_and_no_evaluation_fails(
    text: str, message: dict[str, Any]
) -> None:
    """What stands on the wire reaches the reader as it is."""
    found = read(text)

    if isinstance(found, SelectorError):
        assert 1 <= found.column <= len(text) + 1
    else:
        assert found.matches(Said(message)) in {True, False}


@pytest.mark.parametrize(
    "text",
    [
        "(" * 8192,
        "((" * 4096,
        "NOT " * 2048,
        "-(" * 4096,
        "a LIKE '" + "%a" * 4088 + "'",
        "a LIKE '" + "_%" * 4088 + "'",
        "a IN (" + "'x'," * 2040,
        "a IN ('x'" + " " * 8000,
        "'" * 8191,
        '"' * 8191,
        "/*" * 4096,
        "--" * 4096,
        "9" * 8192,
        "1" + "e" * 8191,
        "0x" + "f" * 8190,
        ".5" * 4096,
        "a" * 8192,
        "a=" * 4096,
        "\0" * 8192,
        "\u2028" * 2730,
    ],
)
def test_the_longest_of_hostile_texts_are_answered(text: str) -> None:
    """8 KiB of one thing: refused in a sentence, or a name that is not there."""
    found = read(text)

    if isinstance(found, SelectorError):
        assert 1 <= found.column <= len(text) + 1
        assert len(str(found)) < 300
    else:
        assert not found.matches(Said())
