"""
A selector: a text that was read, ready to be asked of messages.

Before the text a prefix may stand, as in ActiveMQ: `convert_string_expressions:` asks for what is
done anyway, `hyphenated_props:` lets a hyphen stand in a name.
"""

from __future__ import annotations

from typing import Final

from lark import Token

from holdfast.errors import SelectorError
from holdfast.selectors.expressions import Values
from holdfast.selectors.grammar import parse
from holdfast.selectors.tokens import Source, read_words

SELECTOR_BYTES_MAX: Final = 8 * 1024

_CHARACTER_COST_BYTES: Final = 64
_WORD_COST_BYTES: Final = 250
"""What they become in memory, a character of a list or a pattern too: more than was measured."""

_WITH_VALUES: Final = frozenset(
    {"EQUALITY", "FACTOR", "LIST", "NAME", "NUMBER", "ORDER", "QUOTED", "SIGN", "TEXT"}
)
"""Words of which it matters how they were written, not only what they are."""

_HYPHENATED: Final = "hyphenated_props:"
_PREFIXES: Final = ("convert_string_expressions:", _HYPHENATED)


class Selector:
    """A condition on what messages say."""

    __slots__ = (
        *("_evaluate", "condition", "cost_bytes", "demand", "effort", "text"),
        "__weakref__",
    )

    def __init__(self, text: str) -> None:
        """
        Read it.

        Raises:
            SelectorError: It cannot be read, or is too long; the column counts all of the text.
        """
        size = len(text.encode())
        if size > SELECTOR_BYTES_MAX:
            raise SelectorError(
                f"it has {size:,} bytes; at most {SELECTOR_BYTES_MAX:,}",
                column=SELECTOR_BYTES_MAX + 1,
            )
        self.text = text
        words = read_words(_source(text))
        whole = parse(words, text)
        self._evaluate = whole.evaluate
        self.demand = whole.demand
        """A name and the only text under it that it can be true of; None: there is none."""
        self.condition = _condition(words)
        """The same text for all that differ in blanks, comments and the case of keywords only."""
        self.effort = 1 + len(words) // 16 + 8 * whole.search_count
        """What asking it takes at most, in steps of about five microseconds."""
        self.cost_bytes = _CHARACTER_COST_BYTES * size + _WORD_COST_BYTES * len(words)
        """About what it takes of memory."""

    def matches(self, values: Values) -> bool:
        """Whether the condition is true of a message; where it is unknown it is not."""
        return self._evaluate(values) is True


def _condition(words: list[Token]) -> str:
    written = []
    for word in words:
        value = word.value
        if isinstance(value, frozenset):
            value = sorted(value)
        written.append(f"{word.type}:{value!r}" if word.type in _WITH_VALUES else word.type)
    return " ".join(written)


def _source(text: str) -> Source:
    start, has_hyphens = 0, False
    while prefix := next((each for each in _PREFIXES if text.startswith(each, start)), None):
        start += len(prefix)
        has_hyphens |= prefix == _HYPHENATED
    return Source(text, start, has_hyphens)
