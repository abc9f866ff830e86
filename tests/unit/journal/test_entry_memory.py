"""What the journal keeps in memory, and what it lets go."""

from __future__ import annotations

import pytest

from holdfast.journal.entry import FIRST_CHAIN, Entry, seal_entry
from holdfast.journal.entry_memory import EntryMemory
from holdfast.journal.settings import JournalSettings

SIZE = 1000
SETTINGS = JournalSettings(
    tail_cache_bytes=3 * SIZE, tail_needed_bytes_max=6 * SIZE, read_cache_bytes=2 * SIZE
)


def entry(index: int) -> Entry:
    return seal_entry(
        index=index,
        term=1,
        kind=0,
        timestamp=index,
        first_record=index,
        record_count=0,
        parts=[bytes(SIZE - 72)],
        previous_chain=FIRST_CHAIN,
    )


@pytest.fixture
def memory() -> EntryMemory:
    memory = EntryMemory(SETTINGS, 1)
    for index in range(1, 10):
        memory.add(entry(index))
    return memory


def held(memory: EntryMemory) -> list[int]:
    return [index for index in range(1, 10) if memory.find(index) is not None]


def test_what_is_not_durable_stays(memory: EntryMemory) -> None:
    """
    Whatever its size: it is nowhere else.
    """
    memory.shrink(stored=0)
    assert held(memory) == list(range(1, 10))
    memory.shrink(stored=2)
    assert held(memory) == list(range(3, 10))


def test_what_nobody_needs_goes_down_to_the_limit(memory: EntryMemory) -> None:
    """
    The oldest first.
    """
    memory.shrink(stored=9)
    assert held(memory) == [7, 8, 9]
    assert memory.bytes == 3 * SIZE


def test_what_somebody_is_about_to_ask_for_stays(memory: EntryMemory) -> None:
    """
    An entry larger than the limit would be read back from the disk else, in one turn of the loop.
    """
    memory.needed_from = 5
    memory.shrink(stored=9)
    assert held(memory) == [5, 6, 7, 8, 9]
    memory.needed_from = 9
    memory.shrink(stored=9)
    assert held(memory) == [7, 8, 9]


def test_what_is_needed_has_its_limit_too(memory: EntryMemory) -> None:
    """
    Whoever is far behind reads from the disk.
    """
    memory.needed_from = 1
    memory.shrink(stored=9)
    assert held(memory) == [4, 5, 6, 7, 8, 9]


def test_what_was_read_back_is_kept_for_a_while(memory: EntryMemory) -> None:
    """
    The one that was asked for last stays longest, and one stays whatever its size.
    """
    memory.shrink(stored=9)
    for index in (1, 2):
        memory.keep_read(entry(index))
    assert memory.find(1) is not None
    memory.keep_read(entry(3))
    assert held(memory) == [1, 3, 7, 8, 9]
    memory.forget_read(1)
    memory.forget_read(1)
    assert held(memory) == [3, 7, 8, 9]


def test_what_was_cut_or_dropped_is_forgotten(memory: EntryMemory) -> None:
    """
    Its index may stand for another entry soon, or for none.
    """
    memory.shrink(stored=9)
    memory.keep_read(entry(4))
    memory.forget_before(5)
    memory.forget_before(8)
    assert held(memory) == [8, 9]
    memory.forget_after(8, last=9)
    assert held(memory) == [8]
    assert memory.bytes == SIZE
    memory.keep_read(entry(3))
    memory.forget_after(2, last=8)
    assert held(memory) == []
    assert (memory.bytes, memory.first) == (0, 3)
