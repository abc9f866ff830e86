"""
Counting records of TLS by their heads, however they are cut on their way.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.transport.tls_records import RecordCount


def record(size: int) -> bytes:
    return b"\x17\x03\x03" + size.to_bytes(2, "big") + b"\xff" * size


@given(
    st.lists(st.integers(0, 600), max_size=40),
    st.lists(st.integers(1, 900), min_size=1),
    st.integers(1, 50),
)
def test_each_record_is_counted_once(sizes: list[int], cuts: list[int], count_max: int) -> None:
    """
    Heads cut in two, several records in a piece, a record over many pieces, empty ones; and never
    more at once than were asked for.
    """
    data = memoryview(b"".join(map(record, sizes)))
    counter, found, at, turn = RecordCount(), 0, 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        count, followed = counter.take(data[at : at + size], count_max)
        assert count <= count_max
        assert followed == min(size, len(data) - at) or count == count_max
        found, at, turn = found + count, at + followed, turn + 1
    assert found == len(sizes)
