"""The grammar: what stands behind what, what binds more, and what is said of the rest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.errors import SelectorError
from holdfast.selectors import grammar
from holdfast.selectors.grammar import parse, prepare
from holdfast.selectors.tokens import Source, read_words


def outcome(text: str, **values: object) -> object:
    class Said(dict[str, object]):
        def __missing__(self, name: str) -> None:
            return None

    return parse(read_words(Source(text)), text).evaluate(Said(values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUE OR TRUE AND FALSE", True),
        ("(TRUE OR TRUE) AND FALSE", False),
        ("NOT FALSE AND FALSE", False),
        ("NOT a = 1", False),
        ("NOT NOT a = 1", True),
        ("NOT a IS NULL", True),
        ("a + 2 * 3 = 7", True),
        ("(a + 2) * 3 = 9", True),
        ("10 - 2 - 3 = 5", True),
        ("100 / 10 / 5 = 2", True),
        ("- -a = 1", True),
        ("-a + 2 = 1", True),
        ("a BETWEEN 0 AND 2 AND a = 1", True),
        ("a = 1 = TRUE", None),
    ],
)
def test_what_binds_more(text: str, expected: object) -> None:
    """NOT less than a comparison, as in SQL; sums and products from the left."""
    if expected is None:
        with pytest.raises(SelectorError, match="unexpected '='"):
            outcome(text, a=1)
    else:
        assert outcome(text, a=1) is expected


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, "it ends too early; expected a value or NOT"),
        ("a = 1 AN b = 2", 7, "unexpected 'AN'; expected AND, OR or the end"),
        ("(a = 1", 7, r"it ends too early; expected \)"),
        ("a = 1)", 6, r"unexpected '\)'; expected the end"),
        ("a NOT = 1", 7, "unexpected '='; expected BETWEEN, LIKE or IN"),
        ("a = NULL", 5, "unexpected 'NULL'; expected a value"),
        ("a LIKE b", 8, "unexpected 'b'; expected a text in quotes"),
        ("a IN (1)", 6, r"expected a list of texts: \('a', 'b'\)"),
        ("a IS 5", 6, "unexpected '5'; expected NOT or NULL"),
        ("a = 'x' 'y'", 9, "unexpected \"'y'\"; expected AND, OR or the end"),
        ("a LIKE 'x' ESCAPE 'yz'", 19, "ESCAPE takes one character"),
        ("a LIKE 'x!' ESCAPE '!'", 8, "nothing stands behind the last escape"),
        ("REGEX('x', a)", 1, "function 'REGEX' is not served"),
        ("f()", 1, "function 'f' is not served"),
    ],
)
def test_what_does_not_belong_there_is_refused(text: str, column: int, reason: str) -> None:
    """The sentence says what would: its reader has no grammar at hand."""
    with pytest.raises(SelectorError, match=reason) as caught:
        parse(read_words(Source(text)), text)

    assert caught.value.column == column


def test_the_tables_are_made_once() -> None:
    """Else each SUBSCRIBE would pay for them."""
    prepare()
    parser = grammar._parser()
    prepare()

    assert parser is grammar._parser()


def test_lark_is_loaded_only_where_selectors_are_read() -> None:
    """A command that has none does not pay for it."""
    script = "import sys, holdfast.cli.main, holdfast.client; assert 'lark' not in sys.modules"

    subprocess.run([sys.executable, "-c", script], check=True)
