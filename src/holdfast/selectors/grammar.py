"""
The grammar of selectors, and what reads by it.

It is that of JMS, where NOT binds less than a comparison, as in SQL. The tables of the parser are
made once (`prepare`): that takes as long as reading a thousand selectors.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedToken

from holdfast.errors import SelectorError
from holdfast.selectors import expressions
from holdfast.selectors.expressions import Expression, Kind, condition_of
from holdfast.selectors.like import read_pattern
from holdfast.selectors.tokens import Words, column_of

_GRAMMAR: Final = r"""
%declare AND BETWEEN COMMA EQUALITY ESCAPE FACTOR FALSE IN IS LEFT LIKE LIST NAME NOT NULL NUMBER
%declare OR ORDER QUOTED RIGHT SIGN TEXT TRUE

?start: disjunction
?disjunction: conjunction (OR conjunction)*
?conjunction: condition (AND condition)*
?condition: NOT condition -> negation
    | predicate
?predicate: sum
    | sum EQUALITY sum -> equality
    | sum ORDER sum -> ordering
    | sum [NOT] BETWEEN sum AND sum -> between
    | sum [NOT] LIKE TEXT [ESCAPE TEXT] -> likeness
    | sum [NOT] IN LIST -> membership
    | sum IS [NOT] NULL -> nullness
?sum: product
    | product (SIGN product)+ -> calculation
?product: unary
    | unary (FACTOR unary)+ -> calculation
?unary: SIGN unary -> signed
    | primary
?primary: TEXT -> text
    | NUMBER -> number
    | TRUE -> truth
    | FALSE -> truth
    | NAME -> named
    | QUOTED -> named
    | NAME LEFT (disjunction (COMMA disjunction)*)? RIGHT -> function
    | LEFT disjunction RIGHT -> grouped
"""

_EXPECTED: Final = {
    "NAME": "a value",
    "AND": "AND",
    "OR": "OR",
    "NOT": "NOT",
    "EQUALITY": "=, <>",
    "ORDER": "<, <=, >, >=",
    "BETWEEN": "BETWEEN",
    "LIKE": "LIKE",
    "IN": "IN",
    "IS": "IS",
    "NULL": "NULL",
    "LIST": "a list of texts: ('a', 'b')",
    "ESCAPE": "ESCAPE",
    "COMMA": "a comma",
    "RIGHT": ")",
    "$END": "the end",
}
"""What may be expected, in words; of all that a value may begin with the name stands for all."""


_SHOWN_CHARACTERS: Final = 20


@v_args(inline=True)
class _Builder(Transformer[Token, Expression]):
    """Makes an expression of each rule, as it is recognized."""

    def disjunction(self, *parts: Any) -> Expression:
        return expressions.disjunction(list(parts[::2]))

    def conjunction(self, *parts: Any) -> Expression:
        return expressions.conjunction(list(parts[::2]))

    def negation(self, word: Token, part: Expression) -> Expression:
        return expressions.negation(part, column_of(word))

    def equality(self, left: Expression, sign: Token, right: Expression) -> Expression:
        return expressions.equality(left, right, is_equal=sign.value == "=")

    def ordering(self, left: Expression, sign: Token, right: Expression) -> Expression:
        return expressions.ordering(left, sign.value, right)

    def between(
        self,
        part: Expression,
        negated: Token | None,
        _between: Token,
        low: Expression,
        _and: Token,
        high: Expression,
    ) -> Expression:
        return expressions.between(part, low, high, is_within=negated is None)

    def likeness(
        self,
        part: Expression,
        negated: Token | None,
        _like: Token,
        pattern: Token,
        _word: Token | None,
        escape: Token | None,
    ) -> Expression:
        if escape is not None and len(escape.value) != 1:
            raise SelectorError("ESCAPE takes one character", column=column_of(escape))
        try:
            read = read_pattern(pattern.value, None if escape is None else escape.value)
        except ValueError:
            raise SelectorError(
                "nothing stands behind the last escape of the pattern", column=column_of(pattern)
            ) from None
        return expressions.likeness(part, read, is_like=negated is None)

    def membership(
        self, part: Expression, negated: Token | None, _in: Token, texts: Token
    ) -> Expression:
        return expressions.membership(part, texts.value, is_within=negated is None)

    def nullness(
        self, part: Expression, _is: Token, negated: Token | None, _null: Token
    ) -> Expression:
        return expressions.nullness(part, is_null=negated is None)

    def calculation(self, first: Expression, *rest: Any) -> Expression:
        steps = [(sign.value, part) for sign, part in zip(rest[::2], rest[1::2], strict=True)]
        return expressions.calculation(first, steps)

    def signed(self, sign: Token, part: Expression) -> Expression:
        return expressions.signed(sign.value, part, column_of(sign))

    def text(self, token: Token) -> Expression:
        return expressions.literal(token.value, Kind.TEXT, column_of(token))

    def number(self, token: Token) -> Expression:
        return expressions.literal(token.value, Kind.NUMBER, column_of(token))

    def truth(self, token: Token) -> Expression:
        return expressions.literal(token.type == "TRUE", Kind.CONDITION, column_of(token))

    def named(self, token: Token) -> Expression:
        return expressions.named(token.value, column_of(token))

    def function(self, name: Token, *_: Any) -> Expression:
        raise SelectorError(f"function {name.value!r} is not served", column=column_of(name))

    def grouped(self, _left: Token, part: Expression, _right: Token) -> Expression:
        return part


@cache
def _parser() -> Lark:
    return Lark(
        _GRAMMAR,
        parser="lalr",
        lexer=Words,
        transformer=_Builder(),
        maybe_placeholders=True,
    )


def prepare() -> None:
    """Make the tables of the parser, unless they are made: a tenth of a second of work."""
    _parser()


def parse(words: list[Token], text: str) -> Expression:
    """
    Read the words of `text` as a condition.

    Raises:
        SelectorError: They are none, or too much of one.
    """
    try:
        whole: Any = _parser().parse(words)
    except UnexpectedToken as error:
        raise _unexpected(error, text) from None
    return condition_of(whole)


def _unexpected(error: UnexpectedToken, text: str) -> SelectorError:
    token: Token = error.token
    # Not `expected`, which has also what would be refused next.
    accepted = error.accepts or set()
    wanted = [words for kind, words in _EXPECTED.items() if kind in accepted]
    if "TEXT" in accepted and "NAME" not in accepted:
        wanted.append("a text in quotes")
    expected = f"{', '.join(wanted[:-1])} or {wanted[-1]}" if wanted[1:] else "".join(wanted)
    if token.type == "$END":
        return SelectorError(f"it ends too early; expected {expected}", column=len(text) + 1)
    column = column_of(token)
    word = text[column - 1 :].split(None, 1)[0][:_SHOWN_CHARACTERS]
    return SelectorError(f"unexpected {word!r}; expected {expected}", column=column)
