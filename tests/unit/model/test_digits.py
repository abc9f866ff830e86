"""
Tests of model/digits.py: one spelling of a number, whoever writes it.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.digits import DIGITS_MAX, WHOLE_END, read_count, read_digits, read_whole

NO_DIGITS = ("", "-1", "+1", " 1", "1 ", "1_0", "1\n", "1.0", "0x1", "1e3", "\u0663", "\u00b2", "x")


@pytest.mark.parametrize("text", NO_DIGITS)
def test_what_int_takes_and_no_protocol_means_is_no_number(text: str) -> None:
    """
    Neither as text nor as bytes.
    """
    assert read_digits(text) is None
    assert read_digits(text.encode()) is None


def test_a_number_has_an_end() -> None:
    """
    CPython fails at 4,300 digits, and takes its time before.
    """
    longest = "9" * DIGITS_MAX
    assert read_digits(longest) == int(longest)
    assert read_digits(longest + "9") is None
    assert read_digits("1" * 10_000) is None
    assert read_digits("123", 2) is None


@pytest.mark.parametrize("text", [*NO_DIGITS, "0", "000", str(WHOLE_END)])
def test_a_count_begins_with_one_and_has_room_in_a_record(text: str) -> None:
    """
    What stands for how many, or for an entry.
    """
    assert read_count(text) is None
    assert (1, 7, WHOLE_END - 1) == tuple(map(read_count, ("1", "007", str(WHOLE_END - 1))))


@given(st.text(max_size=30) | st.binary(max_size=30))
def test_whatever_is_read_is_digits_alone(text: str | bytes) -> None:
    """
    And says what int() says.
    """
    number = read_digits(text)
    if number is not None:
        assert number == int(text)
        assert set(text if isinstance(text, bytes) else text.encode()) <= set(b"0123456789")


@given(st.integers(0, 10**19 - 1))
def test_every_number_comes_back(number: int) -> None:
    """
    As text and as bytes.
    """
    assert read_digits(str(number)) == read_digits(b"%d" % number) == number


def test_a_whole_number_out_of_json_is_one() -> None:
    """
    Not what int() would make of something else, and none that a ballot has no room for.
    """
    assert read_whole(0) == 0
    assert read_whole(WHOLE_END - 1) == WHOLE_END - 1
    assert read_whole(-1, least=-1) == -1
    for other in ("1", "1_0", 1.0, 1e999, True, None, [], b"1"):
        with pytest.raises(TypeError, match="no whole number"):
            read_whole(other)
    for number in (-1, WHOLE_END, 10**400):
        with pytest.raises(ValueError, match="out of all bounds"):
            read_whole(number)
