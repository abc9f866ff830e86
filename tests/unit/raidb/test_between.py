"""What is read between appends comes in pieces that are sure to be small."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from holdfast.errors import CorruptEntryError, MissingEntriesError, UnreachableError
from holdfast.journal.entry import FIRST_CHAIN, HEADER_BYTES, KIND_RECORDS, Entry, seal_entry
from holdfast.model.limits import KiB, MiB
from holdfast.raidb.between import (
    PIECE_BYTES_FIRST,
    PIECE_BYTES_MAX,
    PIECE_BYTES_MIN,
    Between,
    header_in,
)
from holdfast.raidb.member import ActOf, Member


def entry_of(count: int, index: int = 1) -> Entry:
    return seal_entry(
        index=index,
        term=1,
        kind=KIND_RECORDS,
        timestamp=1,
        first_record=0,
        record_count=1,
        parts=[bytes(range(256)) * (count // 256)],
        previous_chain=FIRST_CHAIN,
    )


class Slow:
    """A member's rows, and a way to them that takes its time."""

    def __init__(self, *entries: Entry, bytes_per_second: int = 100 * KiB) -> None:
        self.rows = {it.index: it.raw for it in entries}
        self.bytes_per_second = bytes_per_second
        self.now = 0.0
        self.took: list[int] = []
        self.between = Between(lambda: self.now)

    def piece(self, index: int, start: int, count: int, _seconds: float) -> bytes:
        return self._sent(self.rows.get(index, b"")[start : start + count])

    def _sent(self, raw: bytes) -> bytes:
        self.took.append(len(raw))
        self.now += len(raw) / self.bytes_per_second
        return raw

    def reading(self, entries: list[Entry]) -> Callable[[int], ActOf]:
        def reading(bytes_max: int) -> ActOf:
            def read(_it: Member, _seconds: float) -> list[Entry]:
                found = []
                while entries and sum(len(it.raw) for it in [*found, entries[0]]) <= bytes_max:
                    found.append(entries.pop(0))
                self._sent(b"".join(it.raw for it in found))
                return found

            return read

        return reading

    def read(self, *entries: Entry, index: int = 1) -> list[Entry]:
        pieces = self.between.entries("a", "the first", index, self.reading([*entries]), reaching)
        try:
            act = next(pieces)
            while True:
                act = pieces.send(act(self, 5.0))  # type: ignore[arg-type]
        except StopIteration as done:
            found: list[Entry] = done.value
            return found


def reaching(_it: Member) -> AbstractContextManager[None]:
    return nullcontext()


def test_a_large_entry_comes_in_pieces_of_a_moment_each() -> None:
    """The first ones are tiny, as nothing is known of the way; none takes longer than a moment."""
    large = entry_of(2 * MiB)
    slow = Slow(large)

    assert slow.read() == [large]
    assert slow.took[:2] == [HEADER_BYTES, PIECE_BYTES_FIRST]
    assert max(slow.took) <= 0.3 * slow.bytes_per_second
    quick = Slow(large, bytes_per_second=1 << 40)
    assert quick.read() == [large]
    assert max(quick.took) == PIECE_BYTES_MAX
    assert len(quick.took) < 10


def test_several_small_ones_come_at_once() -> None:
    """As many as go the way in a moment: one by one they would never catch up with the appends."""
    entries = [entry_of(1 * KiB, index) for index in range(1, 100)]
    slow = Slow(*entries)

    found = slow.read(*entries)
    assert found == entries[: len(found)]
    assert len(found) == 14
    more = slow.read(*entries[14:], index=15)
    assert len(more) > len(found)
    assert max(slow.took) <= 0.3 * slow.bytes_per_second


def test_a_way_that_got_slow_is_asked_for_less() -> None:
    """And one on which nothing came for as little as is ever asked for."""
    large = entry_of(512 * KiB)
    slow = Slow(large, bytes_per_second=MiB)
    slow.read()
    before = slow.between.piece_bytes("a")
    slow.bytes_per_second = 20 * KiB
    slow.read()
    assert slow.between.piece_bytes("a") == pytest.approx(0.3 * 20 * KiB, rel=0.01)
    assert before == pytest.approx(0.3 * MiB, rel=0.01)

    def hang(*_: object) -> Any:
        raise UnreachableError("it hangs")

    slow.piece = hang  # type: ignore[method-assign]
    with pytest.raises(UnreachableError):
        slow.read()
    assert slow.between.piece_bytes("a") == PIECE_BYTES_MIN


def test_what_is_damaged_or_gone_is_told_with_its_index() -> None:
    """As where it is read in one: another member is asked for it then."""
    large = entry_of(100 * KiB)
    slow = Slow(large)
    with pytest.raises(MissingEntriesError, match="entry 2 is missing from the first"):
        slow.read(index=2)
    slow.rows[3] = large.raw
    with pytest.raises(CorruptEntryError, match=r"holds entry 1 at .* \(entry 3\)"):
        slow.read(index=3)
    slow.rows[1] = large.raw[:-2000] + b"\1" + large.raw[-1999:]
    with pytest.raises(CorruptEntryError, match=r"body checksum .* of the first .* \(entry 1\)"):
        slow.read()
    slow.rows[1] = large.raw[:50_000]
    with pytest.raises(CorruptEntryError, match=r"cut short .* \(entry 1\)"):
        slow.read()


def test_a_header_is_judged_alone() -> None:
    """Its chain value is all that is wanted of an entry where two histories are held together."""
    entry = entry_of(4 * KiB, 7)
    assert header_in(entry.raw[:HEADER_BYTES], 7, "a").chain == entry.chain
    with pytest.raises(CorruptEntryError, match=r"header checksum .* \(entry 7\)"):
        header_in(entry.raw[:20] + b"\1" + entry.raw[21:HEADER_BYTES], 7, "a")
    with pytest.raises(CorruptEntryError, match=r"cut short .* \(entry 7\)"):
        header_in(entry.raw[:20], 7, "a")
