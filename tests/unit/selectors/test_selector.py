"""Selectors as they are given: every line of the language's table, prefixes, limits, costs."""

from __future__ import annotations

import tracemalloc

import pytest

from holdfast.errors import SelectorError
from holdfast.selectors.grammar import prepare
from holdfast.selectors.selector import SELECTOR_BYTES_MAX, Selector
from holdfast.selectors.values import Value


class Said(dict[str, Value]):
    """What a message says; of other names nothing."""

    def __missing__(self, name: str) -> None:
        return None


MESSAGE = Said(
    {
        "a": "1",
        "price": "2.5",
        "region": "north",
        "urgent": "true",
        "text": "it's\n100% sure",
        "empty": "",
        "content-type": "text/plain",
        "my-prop": "x",
        "JMSPriority": 4,
        "JMSRedelivered": False,
    }
)


@pytest.mark.parametrize(
    ("text", "is_selected"),
    [
        # Literals.
        ("text = 'it''s\n100% sure'", True),
        ("a = 1 AND a = 1L AND a = 0x1 AND a = 01 AND a = 1. AND a = 1e0", True),
        ("price > .5", True),
        ("urgent = TRUE", True),
        ("urgent <> FALSE", True),
        ("empty = ''", True),
        # Keywords in any case, names as they are.
        ("not a = 2 aNd region In ('north')", True),
        ("A = 1", False),
        ("A IS NULL", True),
        # Comments.
        ("a = 1 -- or not\n AND /* never\n */ region = 'north'", True),
        # Quoted names.
        ("\"content-type\" = 'text/plain'", True),
        ('"a" = 1', True),
        # NOT binds looser than comparison.
        ("NOT a = 2", True),
        ("NOT a = 1", False),
        ("NOT a IN ('2', '3')", True),
        # Three values.
        ("missing = 1", False),
        ("NOT missing = 1", False),
        ("1 <> missing", False),
        ("missing <> 1", False),
        ("missing = missing", False),
        ("missing <> missing", False),
        ("missing = other", False),
        ("missing = 1 OR a = 1", True),
        ("missing = 1 AND a = 2", False),
        ("NOT (missing = 1 AND a = 2)", True),
        ("(missing = 1) IS NULL", True),
        ("missing IS NULL", True),
        ("missing IS NOT NULL", False),
        ("a IS NOT NULL", True),
        ("missing LIKE '%'", False),
        ("missing NOT LIKE 'x'", False),
        ("missing IN ('x')", False),
        ("missing NOT IN ('x')", False),
        ("missing BETWEEN 1 AND 2", False),
        ("missing NOT BETWEEN 1 AND 2", False),
        ("missing", False),
        ("NOT missing", False),
        # Kinds that do not meet.
        ("region = 5", False),
        ("region <> 5", True),
        ("region != 5", True),
        ("region < 5", False),
        ("region >= 5", False),
        ("JMSPriority = TRUE", False),
        ("JMSPriority <> TRUE", True),
        ("region = TRUE", False),
        ("region", False),
        ("urgent", True),
        ("NOT region", True),
        ("region < price", False),
        ("NOT region < text", True),
        # Texts that are numbers.
        ("price > 2", True),
        ("2 < price", True),
        ("price BETWEEN 2 AND 3", True),
        ("price NOT BETWEEN 2 AND 3", False),
        ("price = 2.50", True),
        ("price = '2.50'", False),
        ("JMSPriority = '4'", True),
        # Arithmetic.
        ("'2' + 1 = 3", True),
        ("a + 1 = 2", True),
        ("a + a = '11'", True),
        ("a + a + 0 = 11", True),
        ("a - a = 0", True),
        ("region + '!' = 'north!'", True),
        ("region + 1 = 'north1'", False),
        ("region * 2 IS NULL", True),
        ("JMSPriority / 3 = 1", True),
        ("JMSPriority % 3 = 1", True),
        ("-JMSPriority = -4", True),
        ("+a = 1", True),
        ("a / 0 = 1", False),
        ("NOT a / 0 = 1", False),
        ("a % 0 IS NULL", True),
        ("9223372036854775807 + 1 IS NULL", True),
        ("1e308 * 10 IS NULL", True),
        # LIKE.
        ("region LIKE 'n%th'", True),
        ("region LIKE 'n_rth'", True),
        ("region NOT LIKE 'n_th'", True),
        ("text LIKE '%100!% %' ESCAPE '!'", True),
        ("text LIKE 'it''s%sure'", True),
        ("JMSPriority LIKE '4'", False),
        ("JMSPriority NOT LIKE '4'", True),
        # IN.
        ("region IN ('south', 'north')", True),
        ("region NOT IN ('south')", True),
        ("JMSPriority IN ('4')", False),
        ("JMSPriority NOT IN ('4')", False),
        # Truths.
        ("JMSRedelivered = FALSE", True),
        ("NOT JMSRedelivered", True),
        ("(a = 1) = (region = 'north')", True),
        ("TRUE", True),
        ("FALSE", False),
        # Prefixes.
        ("convert_string_expressions:a = 1", True),
        ("hyphenated_props:my-prop = 'x'", True),
        ("convert_string_expressions:hyphenated_props:my-prop = 'x'", True),
        ("hyphenated_props:convert_string_expressions:my-prop = 'x'", True),
    ],
)
def test_a_message_is_selected_as_the_language_has_it(text: str, is_selected: bool) -> None:
    """Each line of the reference page's tables, with what ActiveMQ has otherwise."""
    assert Selector(text).matches(MESSAGE) is is_selected


def test_columns_count_the_prefix_too() -> None:
    """The client's developer looks at what was sent."""
    with pytest.raises(SelectorError, match="selector, column 22: unexpected '='") as caught:
        Selector("hyphenated_props:a = = b")

    assert caught.value.column == 22


def test_a_selector_has_at_most_8_kib() -> None:
    """In bytes, as it came."""
    fits = "a = '" + "ö" * ((SELECTOR_BYTES_MAX - 6) // 2) + "'"

    assert Selector(fits).text == fits
    with pytest.raises(SelectorError, match="it has 8,194 bytes; at most 8,192"):
        Selector(fits.replace("'ö", "'öö", 1))


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        " OR ".join(["a = 1"] * 125),
        " AND ".join(f"a{number} = b" for number in range(125)),
        "a = " + "-(" * 60 + "a" + ")" * 60,
        "a IN (" + ",".join(f"'{number}'" for number in range(1000)) + ")",
        " OR ".join(["a LIKE 'x_y%'"] * 70),
        "a LIKE '" + "a_" * 245 + "'",
    ],
)
def test_a_selector_is_charged_what_it_takes(text: str) -> None:
    """Memory for subscriptions is bounded by what they are charged."""
    prepare()
    Selector(text)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [Selector(text) for _ in range(10)]
    taken = (tracemalloc.get_traced_memory()[0] - before) // 10
    tracemalloc.stop()

    assert taken <= kept[0].cost_bytes


def test_what_it_takes_to_ask_is_told() -> None:
    """A few words count as little; looking through texts counts more."""
    assert Selector("a = 1").effort == 1
    assert Selector(" OR ".join(["a = 1"] * 125)).effort == 32
    assert Selector("a LIKE '%x%'").effort == 9
