"""What is written again while the store takes no more than so much at once."""

from __future__ import annotations

import pytest

from holdfast.broker.outputs import size_of
from holdfast.model.records import MessageRecord, Record
from holdfast.server.storable import (
    SECONDS_MAX,
    SECONDS_MIN,
    NotStorableNowError,
    Patience,
    pieces,
)


def message(size: int) -> MessageRecord:
    return MessageRecord(1, 1, b"", bytes(size), size)


def test_without_a_limit_all_is_one_piece() -> None:
    """As the cleaner always wrote."""
    records: list[Record] = [message(10), message(1000)]
    assert list(pieces(records, 0)) == [(records, sum(map(size_of, records)))]
    assert list(pieces([], 0)) == list(pieces([], 100)) == []


def test_with_a_limit_no_piece_has_more() -> None:
    """In order, none left out; one that is about as large as the limit stands alone."""
    records: list[Record] = [message(size) for size in (300, 300, 300, 995, 10)]
    found = list(pieces(records, 1000))
    assert [it for piece, _ in found for it in piece] == records
    assert [len(piece) for piece, _ in found] == [2, 1, 1, 1]
    assert all(size <= 1000 or len(piece) == 1 for piece, size in found)


def test_what_is_larger_by_itself_is_told_before_anything_is_given() -> None:
    """Half of it written again would be in vain."""
    given = pieces([message(10), message(1001)], 1000)
    with pytest.raises(NotStorableNowError, match="1,001 bytes, and the store takes 1,000 now"):
        next(given)


def test_a_segment_is_left_alone_twice_as_long_each_time() -> None:
    """Another one is begun with at once."""
    patience, now, error = Patience(), 0.0, NotStorableNowError(9, 5)
    assert not patience.is_waiting(7, now)
    pauses = []
    for _ in range(8):
        patience.wait(7, now, error)
        began = now
        while patience.is_waiting(7, now):
            now += SECONDS_MIN
        pauses.append(now - began)
        assert not patience.is_waiting(8, began)
    assert pauses[:3] == [SECONDS_MIN, 2 * SECONDS_MIN, 4 * SECONDS_MIN]
    assert max(pauses) == pauses[-1] == SECONDS_MAX
    patience.wait(8, now, error)
    assert not patience.is_waiting(8, now + SECONDS_MIN)
