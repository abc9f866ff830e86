"""A large batch becomes an entry step by step, and the same entry as at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.journal.entry import FIRST_CHAIN, seal_entry
from holdfast.journal.entry_body import PIECE_BYTES, EntryBody
from holdfast.model.records import AcknowledgeRecord, MessageRecord, Record
from holdfast.store.record_codec import encode_records
from holdfast.store.sealing import Sealing

SIZES = st.lists(
    st.one_of(
        st.integers(0, 300),
        st.sampled_from([PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES]),
        st.integers(PIECE_BYTES, 4 * PIECE_BYTES),
    ),
    max_size=12,
)


def message(number: int, size: int) -> MessageRecord:
    return MessageRecord(1, number, b"", b"%d" % (number % 10) * size, size)


def sealed(records: list[Record], size_bytes: int) -> tuple[bytes, int]:
    """The entry's bytes, and in how many steps they came."""
    body = EntryBody(size_bytes)
    sealing = Sealing(body, records)
    while sealing.step():
        pass
    entry = body.seal(
        index=1,
        term=1,
        kind=0,
        timestamp=1,
        first_record=1,
        record_count=len(records),
        previous_chain=FIRST_CHAIN,
    )
    return entry.raw, sealing.step_count


def at_once(records: list[Record]) -> bytes:
    entry = seal_entry(
        index=1,
        term=1,
        kind=0,
        timestamp=1,
        first_record=1,
        record_count=len(records),
        parts=encode_records(records),
        previous_chain=FIRST_CHAIN,
    )
    return entry.raw


@given(SIZES, st.integers(0, 1 << 20))
def test_the_entry_is_the_same(sizes: list[int], size_bytes: int) -> None:
    """
    Byte by byte, whatever its records are and whatever was thought of their size.
    """
    records: list[Record] = [message(number, size) for number, size in enumerate(sizes, 1)]
    records.append(AcknowledgeRecord(1, [1, 2, 3]))
    raw, _ = sealed(records, size_bytes)
    assert raw == at_once(records)


def test_a_step_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    However large the records are, and however many: so much is hashed in one step, and no more.
    """
    added: list[int] = []
    add = EntryBody.add

    def watched(self: EntryBody, piece: bytes) -> None:
        added.append(len(piece))
        add(self, piece)

    monkeypatch.setattr(EntryBody, "add", watched)
    _, step_count = sealed([message(1, 100 * PIECE_BYTES), message(2, 10)], 0)
    assert max(added) <= 2 * PIECE_BYTES
    assert step_count >= 100
    assert step_count >= len(added)
    added.clear()
    _, step_count = sealed([message(number, 40) for number in range(10_000)], 0)
    assert step_count >= 10_000 // 128
    assert step_count >= len(added)
