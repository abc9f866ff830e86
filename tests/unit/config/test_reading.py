"""
One value as it was written, and the sentence where it is wrong.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from holdfast.config.catalogue import BYTES_MAX, SPELLINGS
from holdfast.config.reading import SHOWN_MAX, read_value
from holdfast.model.limits import MiB


def test_all_mistakes_are_reported_at_once(problems_of: Any) -> None:
    """
    Mistakes in the shape of some values do not hide mistakes in the relations of others.
    """
    problems = problems_of(
        stomp="nonsense",
        memory="12q",
        log_level="loud",
        copis=2,
        election_seconds_max=0.5,
    )
    assert [problem.split(":")[0] for problem in sorted(problems)] == [
        "copis",
        "election_seconds_max",
        "log_level",
        "memory",
        "stomp",
    ]


def test_an_unknown_key_names_the_nearest_known_one(problems_of: Any) -> None:
    """
    A typing mistake in a file is told, not silently ignored.
    """
    assert problems_of(copis=2) == ["copis: unknown setting; did you mean copies?"]


def test_a_value_out_of_range_is_told_the_range(problems_of: Any) -> None:
    """
    The range in the sentence is the one that is checked.
    """
    assert problems_of(copies=0) == ["copies: 0 is out of range; allowed: 1 to 15"]
    assert problems_of(memory="1k") == [
        f"memory: 1k is out of range; allowed: 16,777,216 to {BYTES_MAX:,}"
    ]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("connections", True, "true is not a number"),
        ("connections", 20.5, "20.5: input should be a valid integer"),
        ("connections", "many", "'many': input should be a valid integer"),
        ("connections", [1], r"\[1\]: input should be a valid integer"),
        ("connections", {"a": 1}, "{'a': 1}: input should be a valid integer"),
        ("connections", dt.date(2026, 1, 1), "input should be a valid integer"),
        ("connections", 10**30, "out of range; allowed: 16 to 1,000,000"),
        ("connections", 15, "15 is out of range; allowed: 16 to 1,000,000"),
        ("heartbeat_seconds", float("nan"), "nan: input should be a finite number"),
        ("heartbeat_seconds", "inf", "'inf': input should be a finite number"),
        ("heartbeat_seconds", False, "false is not a number"),
        ("heartbeat_seconds", 10**400, "finite number|out of range|valid number"),
        ("memory", "-1", "'-1' is not a size"),
        ("memory", 1.5, "1.5: input should be a valid integer"),
        ("memory", "9" * 5000, "out of range|valid integer|not a size"),
        ("default_persistent", "perhaps", "'perhaps': input should be a valid boolean"),
        ("default_persistent", 2, "2: input should be a valid boolean"),
        ("broker.dead_letter_queue", "", "its length in bytes is .*allowed: 1 to 1,024"),
        ("broker.dead_letter_queue", "\N{EURO SIGN}" * 400, "allowed: 1 to 1,024"),
        ("broker.dead_letter_queue", 7, "7: input should be a valid string"),
        ("data", 7, "7: is not a path"),
        ("name", "a b", "'a b': a name has 1 to 63 letters"),
        ("log_level", "loud", "'loud': input should be 'debug', 'info', 'warning' or 'error'"),
        ("memory", "9" * 19 + "t", f"out of range; allowed: 16,777,216 to {BYTES_MAX:,}"),
        ("memory", "\N{ARABIC-INDIC DIGIT ONE}MiB", "is not a size"),
        ("data", "", "'' is not a path; '.' is the current directory"),
        ("secret_file", "", "'' is not a path"),
        ("data", "a\0b", "it holds a zero character"),
        ("secret_file", "a\0b", "it holds a zero character"),
        ("name", True, "True is not a text"),
        ("name", dt.date(2026, 1, 1), "is not a text"),
        ("site", False, "False is not a text"),
        ("site", 0, "0 is not a text"),
        ("site", [], r"\[\] is not a text"),
        ("stomp", ["h:1"], "is not a text; write it as 'HOST:PORT'"),
        ("peers", {"host": "h", "port": 99_999}, "is not a text; write it as 'HOST:PORT'"),
        ("members", [{"name": True, "address": "h:1"}], "True is not a text"),
        ("members", [{"name": "a", "address": 5}], "5 is not a text; write it as 'HOST:PORT'"),
        ("members", [{"name": "a", "address": "h:1", "site": 0}], "0 is not a text"),
        ("stomp", 61613, "61613 is not a text; write it as 'HOST:PORT'"),
        ("stomp", "h:70000", "is not HOST:PORT with a port from 0 to 65535"),
    ],
)
def test_what_may_not_stand_there_is_one_clear_sentence(
    name: str, value: object, sentence: str
) -> None:
    """
    A wrong type, a wrong range, a wrong form: what it was, and what may stand there.
    """
    with pytest.raises(ValueError, match=sentence) as caught:
        read_value(SPELLINGS[name], value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["connections", "memory"])
def test_a_number_that_python_does_not_write_is_out_of_range(name: str) -> None:
    """
    A file may have it in hexadecimal digits.
    """
    with pytest.raises(ValueError, match="a number of thousands of digits is out of range; allow"):
        read_value(SPELLINGS[name], 1 << 20_000)


@pytest.mark.parametrize("name", ["connections", "memory"])
def test_a_wrong_value_is_not_told_at_length(name: str) -> None:
    """
    It may be a whole file that was put there by accident.
    """
    with pytest.raises(ValueError, match=r"valid integer|is not a size") as caught:
        read_value(SPELLINGS[name], "x" * 10_000)
    assert len(str(caught.value)) < 5 * SHOWN_MAX


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("memory", "64MiB", 64 * MiB),
        ("server.backlog_bytes_max", "1g", 1024 * MiB),
        ("connections", "20", 20),
        ("heartbeat_seconds", "0.5", 0.5),
        ("heartbeat_seconds", 1, 1.0),
        ("stomp_strict", "yes", True),
        ("site", "", ""),
        ("journal.reserve_bytes", 0, 0),
    ],
)
def test_values_are_read_from_texts_and_from_numbers(
    name: str, value: object, expected: object
) -> None:
    """
    Flags and variables are texts, a file has numbers.
    """
    found = read_value(SPELLINGS[name], value)
    assert (found, type(found)) == (expected, type(expected))
