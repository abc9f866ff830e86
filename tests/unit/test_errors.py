"""
Errors write their own sentences and have one root.
"""

from __future__ import annotations

import inspect

import pytest

from holdfast import errors
from holdfast.errors import (
    ConfigError,
    CorruptArchiveError,
    CorruptEntryError,
    HoldfastError,
    NotLeaderError,
    ProtocolError,
    RefusedError,
    SequenceGapError,
)

ALL = [
    each
    for _, each in inspect.getmembers(errors, inspect.isclass)
    if each.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", ALL)
def test_there_is_one_root(kind) -> None:
    """
    Whoever wants all of ours catches one class; each is drawn in the module's tree.
    """
    assert issubclass(kind, HoldfastError)
    assert kind.__name__ in (errors.__doc__ or "") or kind is HoldfastError


def test_refusals_have_codes_for_programs() -> None:
    """
    Short, stable, and no two alike.
    """
    codes = [each.code for each in ALL if issubclass(each, RefusedError)]
    assert len(set(codes)) == len(codes)
    assert ProtocolError("x").code == "protocol-error"
    assert ProtocolError("x", code="bad-escape").code == "bad-escape"


def test_sentences_carry_their_fields() -> None:
    """
    What happened, to which thing, what was expected.
    """
    gap = SequenceGapError("p", expected=4, found=9)
    assert "expected sequence 4, found 9" in str(gap)
    assert (gap.producer_id, gap.expected, gap.found) == ("p", 4, 9)
    assert str(CorruptEntryError("bad", segment="1", byte=5000, index=7)) == (
        "bad at segment 1 byte 5,000 (entry 7)"
    )
    assert str(CorruptEntryError("bad", byte=5)) == "bad at byte 5"
    assert "the leader is b" in str(NotLeaderError("b"))
    assert "no leader is known" in str(NotLeaderError())
    assert ConfigError(["one", "two"]).problems == ["one", "two"]


def test_the_reason_of_a_library_is_one_line() -> None:
    """
    What reads Parquet says it in several, which one by one would say nothing in a log.
    """
    error = CorruptArchiveError("cannot be read: Invalid data\n  in a header.\n", path="a/b")
    assert str(error) == "a/b: cannot be read: Invalid data in a header."
    assert error.reason == "cannot be read: Invalid data in a header."
