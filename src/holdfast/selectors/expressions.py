"""
What the rules of the grammar become: functions of what a message says, put together once.

Each expression is a function that is given the values of a message by name. A condition gives True,
False or None, which is unknown, and the tables are SQL's: a false part makes `AND` false and a true
one `OR` true whatever the others are, `NOT` of the unknown is unknown.

Invariants:
    What is refused is refused here or before, with its column: no evaluation raises.
    No expression stands deeper than `DEPTH_MAX`, so evaluation has an end to its stack.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from operator import itemgetter
from typing import Final, TypeAlias

from holdfast.errors import SelectorError
from holdfast.selectors.like import Pattern
from holdfast.selectors.values import (
    Ordering,
    Truth,
    Value,
    calculated,
    equals,
    negated,
    ordered,
)

Values: TypeAlias = Mapping[str, Value]
"""What a message says, by name; None of a name of which it says nothing. It raises no KeyError."""

Evaluate: TypeAlias = Callable[[Values], Value]

DEPTH_MAX: Final = 64
"""How deep parentheses, NOT and signs may stand in each other."""

SEARCH_COUNT_MAX: Final = 16
"""How often one selector looks through a text, which takes up to 0.2 ms for the longest header."""

SCATTERED_SEARCH_COUNT: Final = 8
"""What looking for a part with a `_` between other characters counts: it takes up to 1.5 ms."""


class Kind(Enum):
    """What an expression gives, as far as its text tells."""

    ANY = "a value"
    TEXT = "a text"
    NUMBER = "a number"
    CONDITION = "a condition"


class Expression:
    """A part of a selector, ready to be evaluated."""

    __slots__ = (
        *("column", "demand", "depth", "evaluate", "is_literal", "kind", "name"),
        "search_count",
    )

    def __init__(
        self,
        evaluate: Evaluate,
        kind: Kind,
        column: int,
        *,
        within: Collection[Expression] = (),
        is_literal: bool = False,
        name: str | None = None,
        search_count: int = 0,
    ) -> None:
        self.evaluate = evaluate
        self.kind = kind
        self.column = column
        """Where it begins, counted from 1."""
        self.depth: int = 1 + max((each.depth for each in within), default=0)
        self.is_literal = is_literal
        self.name = name
        """What is asked for, if it is nothing but a name."""
        self.demand: tuple[str, str] | None = None
        """A name and the only text under it of which this can be true; None: there is none."""
        self.search_count: int = search_count + sum(each.search_count for each in within)
        """How often a text is looked through, for all that is in this one."""
        if self.depth > DEPTH_MAX:
            raise too_deep(column)
        if self.search_count > SEARCH_COUNT_MAX:
            raise SelectorError(
                f"texts would be looked through more than {SEARCH_COUNT_MAX} times"
                f" (LIKE '%…%'; with a _ inside it counts {SCATTERED_SEARCH_COUNT} times)",
                column=column,
            )


def too_deep(column: int) -> SelectorError:
    """Say that something stands too deep in others."""
    return SelectorError(f"more than {DEPTH_MAX} expressions stand in each other", column=column)


def literal(value: Value, kind: Kind, column: int) -> Expression:
    """Give what is written out."""
    return Expression(lambda _: value, kind, column, is_literal=True)


def named(name: str, column: int) -> Expression:
    """Give what a message says under a name."""
    return Expression(itemgetter(name), Kind.ANY, column, name=name)


def condition_of(part: Expression) -> Expression:
    """
    Give an expression as a condition: that of a value is whether it is true.

    Raises:
        SelectorError: It is a text or a number, whatever a message says.
    """
    if part.kind is Kind.CONDITION:
        return part
    if part.kind is not Kind.ANY:
        raise SelectorError(f"{part.kind.value} where a condition is expected", column=part.column)
    evaluate = part.evaluate
    return Expression(lambda values: equals(evaluate(values), True), Kind.CONDITION, part.column)


def negation(part: Expression, column: int) -> Expression:
    """NOT."""
    return _negated(condition_of(part), column)


def _negated(condition: Expression, column: int) -> Expression:
    evaluate = condition.evaluate

    def is_not(values: Values) -> Truth:
        truth = evaluate(values)
        return None if truth is None else not truth

    return Expression(is_not, Kind.CONDITION, column, within=(condition,))


def _joined(parts: list[Expression], decisive: bool) -> Expression:
    """Give AND or OR of several: the decisive outcome of one is that of all."""
    conditions = [condition_of(part) for part in parts]
    evaluations = [each.evaluate for each in conditions]

    def outcome(values: Values) -> Truth:
        result: Truth = not decisive
        for evaluate in evaluations:
            truth = evaluate(values)
            if truth is decisive:
                return decisive
            if truth is None:
                result = None
        return result

    return Expression(outcome, Kind.CONDITION, parts[0].column, within=conditions)


def conjunction(parts: list[Expression]) -> Expression:
    """AND."""
    found = _joined(parts, decisive=False)
    found.demand = next((each.demand for each in parts if each.demand is not None), None)
    return found


def disjunction(parts: list[Expression]) -> Expression:
    """OR."""
    return _joined(parts, decisive=True)


def equality(left: Expression, right: Expression, *, is_equal: bool) -> Expression:
    """`=` and `<>`."""
    first, second = left.evaluate, right.evaluate
    evaluate: Evaluate = lambda values: equals(first(values), second(values))  # noqa: E731 - two forms
    demand = None
    if left.name is not None and right.is_literal and right.kind is Kind.TEXT:
        # Most selectors are made of these.
        text = second({})
        evaluate = _is_text(first, text)
        demand = (left.name, str(text))
    found = Expression(evaluate, Kind.CONDITION, left.column, within=(left, right))
    found.demand = demand
    return found if is_equal else _negated(found, left.column)


def _is_text(read: Evaluate, text: Value) -> Evaluate:
    def is_text(values: Values) -> Truth:
        value = read(values)
        return value == text if type(value) is str else equals(value, text)

    return is_text


_ORDERINGS: Final[dict[str, Ordering]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def ordering(left: Expression, sign: str, right: Expression) -> Expression:
    """
    `<`, `<=`, `>` and `>=`.

    Raises:
        SelectorError: One of the two can be no number.
    """
    first, second = _ordered_operand(left, sign), _ordered_operand(right, sign)
    test = _ORDERINGS[sign]
    return Expression(
        lambda values: ordered(test, first(values), second(values)),
        Kind.CONDITION,
        left.column,
        within=(left, right),
    )


def _ordered_operand(part: Expression, sign: str) -> Evaluate:
    if part.kind in {Kind.TEXT, Kind.CONDITION}:
        raise SelectorError(
            f"{part.kind.value} has no order: numbers only are compared by {sign}",
            column=part.column,
        )
    return part.evaluate


def between(part: Expression, low: Expression, high: Expression, *, is_within: bool) -> Expression:
    """
    BETWEEN and NOT BETWEEN.

    Raises:
        SelectorError: One of the three can be no number.
    """
    value, least, most = (_ordered_operand(each, "BETWEEN") for each in (part, low, high))

    def is_between(values: Values) -> Truth:
        middle = value(values)
        above = ordered(operator.ge, middle, least(values))
        below = ordered(operator.le, middle, most(values))
        if above is False or below is False:
            return False
        return None if above is None or below is None else True

    found = Expression(is_between, Kind.CONDITION, part.column, within=(part, low, high))
    return found if is_within else _negated(found, part.column)


def likeness(part: Expression, pattern: Pattern, *, is_like: bool) -> Expression:
    """LIKE and NOT LIKE; what is no text is like none."""
    evaluate, matches = part.evaluate, pattern.matches

    def resembles(values: Values) -> Truth:
        value = evaluate(values)
        if value is None:
            return None
        return isinstance(value, str) and matches(value)

    searches = SCATTERED_SEARCH_COUNT * pattern.scattered_count or int(pattern.is_floating)
    found = Expression(
        resembles, Kind.CONDITION, part.column, within=(part,), search_count=searches
    )
    return found if is_like else _negated(found, part.column)


def membership(part: Expression, texts: frozenset[str], *, is_within: bool) -> Expression:
    """IN and NOT IN; of what is no text it is unknown."""
    evaluate = part.evaluate

    def is_one(values: Values) -> Truth:
        value = evaluate(values)
        return (value in texts) is is_within if isinstance(value, str) else None

    return Expression(is_one, Kind.CONDITION, part.column, within=(part,))


def nullness(part: Expression, *, is_null: bool) -> Expression:
    """IS NULL and IS NOT NULL, which are never unknown."""
    evaluate = part.evaluate
    return Expression(
        lambda values: (evaluate(values) is None) is is_null,
        Kind.CONDITION,
        part.column,
        within=(part,),
    )


def calculation(first: Expression, rest: list[tuple[str, Expression]]) -> Expression:
    """
    Give sums or products of several, from the left.

    Raises:
        SelectorError: One is a condition.
    """
    parts = [first, *(part for _, part in rest)]
    for part, sign in zip(parts, (rest[0][0], *(sign for sign, _ in rest)), strict=True):
        _require_operand(part, sign)
    start = first.evaluate
    steps = [(sign, part.evaluate) for sign, part in rest]

    def calculate(values: Values) -> Value:
        result = start(values)
        for sign, evaluate in steps:
            result = calculated(sign, result, evaluate(values))
        return result

    is_sum = all(sign == "+" for sign, _ in rest)
    kinds = {part.kind for part in parts}
    kind = Kind.NUMBER
    if is_sum and Kind.NUMBER not in kinds:
        kind = Kind.TEXT if kinds == {Kind.TEXT} else Kind.ANY
    return Expression(calculate, kind, first.column, within=parts)


def signed(sign: str, part: Expression, column: int) -> Expression:
    """
    Give a number with a sign before it.

    Raises:
        SelectorError: It is a condition.
    """
    _require_operand(part, sign)
    evaluate = part.evaluate
    if sign == "-":
        return Expression(
            lambda values: negated(evaluate(values)), Kind.NUMBER, column, within=(part,)
        )
    return Expression(
        lambda values: calculated("+", 0, evaluate(values)), Kind.NUMBER, column, within=(part,)
    )


def _require_operand(part: Expression, sign: str) -> None:
    if part.kind is Kind.CONDITION:
        raise SelectorError(
            f"a condition where a value is expected beside {sign}", column=part.column
        )
