"""
Producer numbers: no gap under one id, no number twice.
"""

from __future__ import annotations

from itertools import count

import pytest

from holdfast.client.sequence import ProducerSequence, is_one
from holdfast.errors import ProducerForgottenError, SequenceGapError


def made() -> ProducerSequence:
    ids = count(1)
    return ProducerSequence(lambda: f"p{next(ids)}")


def test_numbers_count_from_one() -> None:
    """And the header line names the id."""
    sequence = made()
    assert [sequence.next() for _ in range(3)] == [1, 2, 3]
    assert sequence.line == b"producer-id:p1\n"


def test_a_refused_number_is_used_again() -> None:
    """The broker has not stored it, and wants it next."""
    sequence = made()
    for _ in range(5):
        sequence.next()
    sequence.refused(3, "store-full")
    assert (sequence.id, sequence.next()) == ("p1", 3)


def test_a_gap_begins_anew() -> None:
    """The broker does not know this producer any more."""
    sequence = made()
    sequence.next()
    for name, code in (("p2", SequenceGapError.code), ("p3", ProducerForgottenError.code)):
        sequence.refused(1, code)
        line = b"producer-id:%b\n" % name.encode()
        assert (sequence.id, sequence.line, sequence.next()) == (name, line, 1)


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        ("/queue/a", True),
        ("/queue/a.b?consumer.prefetchSize=1,2", False),
        ("/topic/a*b", True),
        ("/queue/a.*", False),
        ("/topic/a.> ?consumer.prefetchSize=1", False),
        ("/queue/a,/topic/b", False),
    ],
)
def test_several_destinations_are_told_from_one(destination: str, expected: bool) -> None:
    """Where there may be several, each message says where it comes from."""
    assert is_one(destination) is expected
