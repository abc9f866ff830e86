"""Records inside a body: found exactly, nonsense named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptRecordError
from holdfast.journal.record import RECORD_HEADER, RecordPlaces, iterate_records

RECORDS = st.lists(
    st.tuples(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=50)), max_size=8
)


def frame(kind: int, flags: int, payload: bytes) -> bytes:
    return RECORD_HEADER.pack(kind, flags, 0, len(payload)) + payload


@given(RECORDS)
def test_records_are_found_in_order(records: list[tuple[int, int, bytes]]) -> None:
    """Type, flags and payload of each record come back as they were framed."""
    body = b"".join(frame(*record) for record in records)
    found = [(kind, flags, body[a:b]) for kind, flags, a, b in iterate_records(body)]
    assert found == records
    assert len(list(iterate_records(memoryview(body)))) == len(records)


@pytest.mark.parametrize(
    ("tail", "words"),
    [
        (b"\1\0\0", "cut short at byte 9"),
        (RECORD_HEADER.pack(1, 0, 0, 5) + b"abc", "byte 9 wants 5 bytes.*has 3 left"),
        (RECORD_HEADER.pack(1, 0, 7, 0), "reserved bits are set at byte 9"),
    ],
)
def test_nonsense_is_named_with_its_place(tail: bytes, words: str) -> None:
    """A body whose framing makes no sense raises an error that says where."""
    with pytest.raises(CorruptRecordError, match=words):
        list(iterate_records(frame(1, 2, b"x") + tail))


@given(st.binary(max_size=200))
def test_any_bytes_give_records_or_the_named_error(body: bytes) -> None:
    """Whatever the bytes, nothing but CorruptRecordError is raised and nothing is read twice."""
    end = 0
    try:
        for _, _, start, stop in iterate_records(body):
            assert start == end + RECORD_HEADER.size
            assert stop >= start
            end = stop
    except CorruptRecordError:
        return
    assert end == len(body)


class CountedBody(bytes):
    """Counts how often its length was asked: once for each walk."""

    walks = 0

    def __len__(self) -> int:
        CountedBody.walks += 1
        return super().__len__()


@given(RECORDS.filter(bool), st.data())
def test_one_record_is_found_without_the_rest(
    records: list[tuple[int, int, bytes]], data: st.DataObject
) -> None:
    """In any order, each as it was framed; only what stands before it is walked over, once."""
    body = b"".join(frame(*record) for record in records)
    places = RecordPlaces()
    wanted = data.draw(st.lists(st.integers(0, len(records) - 1), min_size=1))
    for count, place in enumerate(wanted, 1):
        kind, flags, start, end = places.find(body, place)
        assert (kind, flags, body[start:end]) == records[place]
        assert len(places) == max(wanted[:count]) + 1
    CountedBody.walks = 0
    places.find(CountedBody(body), wanted[0])
    assert CountedBody.walks == 0


@pytest.mark.parametrize("tail", [b"", b"\1\0\0", RECORD_HEADER.pack(1, 0, 0, 5) + b"abc"])
def test_a_record_that_is_not_there_is_named(tail: bytes) -> None:
    """Also one that is cut off, and each time."""
    places = RecordPlaces()
    body = frame(1, 2, b"x") + tail
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match="no whole record at byte 9"):
            places.find(body, 1)
    assert places.find(body, 0) == (1, 2, 8, 9)
