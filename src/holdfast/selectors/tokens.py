"""
The words of a selector: names, texts, numbers, signs, keywords, with their columns.

What is too much is found here, before anything is made of it: the text is gone through once, by one
pattern.

Keywords are such in any case, names are told apart by theirs. Blanks and comments, `-- to the end
of the line` and `/* between these */`, mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from lark import Token
from lark.lexer import Lexer

from holdfast.errors import SelectorError
from holdfast.selectors.expressions import DEPTH_MAX, too_deep
from holdfast.selectors.values import INTEGER_MAX

WORD_COUNT_MAX: Final = 500
"""Words and signs, a list of texts being one, and wildcards of patterns: reading takes about 10
microseconds for each."""

LIST_COUNT_MAX: Final = 1000
"""Texts in one list."""

_KEYWORDS: Final = frozenset(
    {
        *("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS"),
        *("LIKE", "NOT", "NULL", "OR", "TRUE"),
    }
)
_NOT_SERVED: Final = frozenset({"XPATH", "XQUERY"})

_SPACE: Final = r"(?:\s+|--[^\n]*|/\*(?s:.*?)\*/)"
# In groups that are not entered again: what is repeated possessively takes, before Python 3.11.5, a
# part of what does not match as well.
_SPACES: Final = rf"(?>{_SPACE}*)"
_TEXT: Final = r"'(?>(?:[^']++|'')*)'"
_WORDS: Final = re.compile(
    rf"""
    (?P<space>{_SPACE})
    | (?P<TEXT>{_TEXT})
    | (?P<QUOTED>"(?>(?:[^"]++|"")*)")
    | (?P<NUMBER>0[xX][\w$]* | \.?[0-9](?:[eE][+-]|[\w$.])*)
    | (?P<EQUALITY><>|!=|=)
    | (?P<ORDER><=|>=|<|>)
    | (?P<SIGN>[+-])
    | (?P<FACTOR>[*/%])
    | (?P<LEFT>\()
    | (?P<RIGHT>\))
    | (?P<COMMA>,)
    """,
    re.VERBOSE,
)
_LIST: Final = re.compile(
    rf"{_SPACES}(\({_SPACES}{_TEXT}{_SPACES}(?>(?:,{_SPACES}{_TEXT}{_SPACES})*)\))"
)
_LISTED: Final = re.compile(rf"{_SPACE}|({_TEXT})")
_NAME: Final = re.compile(r"(?:[^\W\d]|\$)[\w$]*")
_HYPHENATED_NAME: Final = re.compile(r"(?:[^\W\d]|\$)[\w$-]*")
_WHOLE: Final = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*))[lL]?"
)
_DECIMAL: Final = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?")
_DIGITS_MAX: Final = 64
_BASES: Final = {"hex": 16, "octal": 8, "decimal": 10}


class Source(NamedTuple):
    """A text to be read, from a place on."""

    text: str
    start: int = 0
    has_hyphens: bool = False
    """Whether a hyphen may stand in a name, and so is no minus there."""


class Words(Lexer):
    """Hands the words of a selector to lark, as they were read before."""

    def __init__(self, lexer_conf: Any) -> None:
        """Take the configuration of a lexer, of which nothing is needed."""

    def lex(self, words: list[Token]) -> Iterator[Token]:  # type: ignore[override]
        """Give them."""
        return iter(words)


def read_words(source: Source) -> list[Token]:
    """
    Cut a selector into words.

    Raises:
        SelectorError: There is something that is none, or too much.
    """
    words: list[Token] = []
    wildcard_count = 0
    for token in _tokens(source):
        if token.type == "TEXT" and words and words[-1].type == "LIKE":
            wildcard_count += token.value.count("%") + token.value.count("_")
        words.append(token)
        if len(words) + wildcard_count > WORD_COUNT_MAX:
            raise SelectorError(
                f"more than {WORD_COUNT_MAX} words, signs and wildcards", column=column_of(token)
            )
    return words


def column_of(token: Token) -> int:
    """Give where a token begins, counted from 1."""
    assert token.start_pos is not None, "every token of ours knows its place"
    return token.start_pos + 1


def _tokens(source: Source) -> Iterator[Token]:
    text, place, _ = source
    name_at = (_HYPHENATED_NAME if source.has_hyphens else _NAME).match
    depth = 0
    while place < len(text):
        found = name_at(text, place)
        kind = "NAME"
        if found is None:
            found = _WORDS.match(text, place)
            if found is None or (found[0] == "/" and text.startswith("/*", place)):
                raise _unreadable(text, place)
            kind = found.lastgroup or ""
        elif (keyword := found[0].upper()) in _KEYWORDS:
            kind = keyword
        elif keyword in _NOT_SERVED:
            raise SelectorError(f"{keyword} is not served", column=place + 1)
        if kind != "space":
            depth += (kind == "LEFT") - (kind == "RIGHT")
            if depth > DEPTH_MAX:
                raise too_deep(place + 1)
            yield _token(kind, _value(kind, found[0], place), place)
        place = found.end()
        if kind == "IN" and (listed := _LIST.match(text, place)):
            place = listed.start(1)
            yield _token("LIST", _list(listed[1], place), place)
            place = listed.end()


def _token(kind: str, value: Any, place: int) -> Token:
    """Give a token; as lark has it, a text, too, which of a list is not asked for."""
    token = Token(kind, "", start_pos=place)
    token.value = value
    return token


def _unreadable(text: str, place: int) -> SelectorError:
    """Say what is wrong where no token begins."""
    character = text[place]
    unclosed = {
        "'": "a text is not closed by '",
        '"': 'a quoted name is not closed by "',
        "/": "a comment is not closed by */",
    }
    reason = unclosed.get(character, f"unexpected character {character!r}")
    if character == ".":
        reason += '; a name with dots is written in double quotes: "a.b"'
    return SelectorError(reason, column=place + 1)


def _value(kind: str, word: str, place: int) -> Any:
    """Give what a token says: of a text or a quoted name what stands between the quotes."""
    if kind == "TEXT":
        return word[1:-1].replace("''", "'")
    if kind == "QUOTED":
        if len(word) == len('""'):
            raise SelectorError("a quoted name is empty", column=place + 1)
        return word[1:-1].replace('""', '"')
    return _number(word, place) if kind == "NUMBER" else word


def _number(word: str, place: int) -> int | float:
    whole = _WHOLE.fullmatch(word)
    if whole is not None:
        digits = whole[whole.lastgroup or ""]
        value = int(digits, _BASES[whole.lastgroup or ""]) if len(digits) <= _DIGITS_MAX else None
        # One more than there is may stand behind a minus.
        if value is None or value > INTEGER_MAX + 1:
            raise SelectorError("a whole number of more than 64 bits", column=place + 1)
        return value
    if _DECIMAL.fullmatch(word) is None:
        shown = word if len(word) <= _DIGITS_MAX else f"{word[:_DIGITS_MAX]}…"
        raise SelectorError(f"{shown!r} is no number", column=place + 1)
    decimal = float(word)
    if decimal == float("inf"):
        raise SelectorError("a number that is too large", column=place + 1)
    return decimal


def _list(listed: str, place: int) -> frozenset[str]:
    texts = [each[1:-1].replace("''", "'") for each in _LISTED.findall(listed) if each]
    if len(texts) > LIST_COUNT_MAX:
        raise SelectorError(
            f"a list of {len(texts):,} texts; at most {LIST_COUNT_MAX:,}", column=place + 1
        )
    return frozenset(texts)
