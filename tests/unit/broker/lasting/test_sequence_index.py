"""
The arrays behind a queue against a plain dictionary.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.lasting.chunk import CHUNK_SIZE
from holdfast.broker.lasting.sequence_index import SequenceIndex

SEQUENCES = st.integers(1, 5 * CHUNK_SIZE) | st.integers(1, 1 << 40)


@given(st.lists(st.tuples(st.booleans(), SEQUENCES)), SEQUENCES, SEQUENCES)
def test_it_is_a_dictionary_in_order(steps, start, end) -> None:
    """
    Put, remove, look up, walk: as a sorted dictionary would.
    """
    index = SequenceIndex()
    model: dict[int, tuple[int, int]] = {}
    for number, (is_put, sequence) in enumerate(steps, start=1):
        size = number * 3
        if is_put:
            assert index.put(sequence, number, size) == (sequence not in model)
            model[sequence] = (number, model.get(sequence, (0, size))[1])
        else:
            lived = [sequence] if sequence in model else []
            assert index.remove([sequence]) == lived
            model.pop(sequence, None)
    assert index.live_count == len(model)
    assert index.live_bytes == sum(size for _, size in model.values())
    assert index.first() == min(model, default=0)
    assert all(index.record_number(sequence) == model[sequence][0] for sequence in model)
    assert list(index.sequences(start, end)) == [s for s in sorted(model) if start <= s < end]
    for sequence in (start, end):
        assert index.is_live(sequence) == (sequence in model)
    assert index.remove(list(model)) == list(model)
    assert not index.chunks
    assert (index.live_count, index.live_bytes) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 2 * CHUNK_SIZE), st.integers(1, 2 * CHUNK_SIZE))))
def test_a_run_is_put_as_each_of_it_would_be(runs) -> None:
    """
    Gaps between runs, and runs over the ends of chunks.
    """
    whole, single = SequenceIndex(), SequenceIndex()
    sequence = 1
    for gap, count in runs:
        sequence += gap
        sizes = [each % 7 for each in range(count)]
        whole.put_next(sequence, 3 * sequence, sizes)
        for place, size in enumerate(sizes):
            assert single.put(sequence + place, 3 * sequence + place, size)
        whole.remove(range(sequence, sequence + count, 3))
        single.remove(range(sequence, sequence + count, 3))
        sequence += count
    assert (whole.live_count, whole.live_bytes) == (single.live_count, single.live_bytes)
    assert list(whole.sequences(1, sequence)) == list(single.sequences(1, sequence))
    assert [(each.start, each.count, each.live) for each in whole.chunks.values()] == [
        (each.start, each.count, each.live) for each in single.chunks.values()
    ]
    for number, chunk in whole.chunks.items():
        assert chunk.record_numbers == single.chunks[number].record_numbers
        assert chunk.sizes == single.chunks[number].sizes


def test_dead_slots_are_zero() -> None:
    """
    Equal states have equal bytes, whatever was there before.
    """
    index = SequenceIndex()
    index.put(1, 7, 100)
    index.put(2, 8, 100)
    index.remove([1])
    chunk = index.chunks[0]
    dead = 1 - chunk.start
    assert (chunk.record_numbers[dead], chunk.sizes[dead], chunk.live[dead]) == (0, 0, 0)
    assert index.record_number(1) == 0


def test_one_old_message_pins_one_chunk() -> None:
    """
    A long history costs nothing once it is dead.
    """
    index = SequenceIndex()
    for sequence in range(1, 20 * CHUNK_SIZE):
        index.put(sequence, sequence, 1)
        if sequence != 5:
            index.remove([sequence])
    assert list(index.chunks) == [0]
    assert index.next_live(6, 1 << 50) == 1 << 50
    assert index.next_live(1, 1 << 50) == 5


class CountedChunks(dict):  # type: ignore[type-arg]
    """Counts how many chunks were looked at."""

    def __init__(self, chunks) -> None:
        super().__init__(chunks)
        self.looks = 0

    def __iter__(self):
        for number in super().__iter__():
            self.looks += 1
            yield number

    def get(self, number, default=None):
        self.looks += 1
        return super().get(number, default)

    def __getitem__(self, number):
        self.looks += 1
        return super().__getitem__(number)


def test_the_next_of_many_pinned_messages_is_near() -> None:
    """
    However many old messages pin a chunk each, finding the next looks at two of them.

    It went through all of them, sorted, for every message: 30,000 cost a second per thousand.
    """
    index = SequenceIndex()
    step = 3 * CHUNK_SIZE
    pinned = range(5, 5 + 2000 * step, step)
    for sequence in pinned:
        index.put(sequence, sequence, 1)
    index.chunks = chunks = CountedChunks(index.chunks)
    assert index.first() == pinned[0]
    assert list(index.sequences(1, pinned[-1] + 1)) == list(pinned)
    assert chunks.looks <= 3 * len(pinned)
    chunks.looks = 0
    for sequence in pinned:
        assert index.remove([sequence]) == [sequence]
        assert index.first() == (sequence + step if sequence != pinned[-1] else 0)
    assert chunks.looks <= 3 * len(pinned)


def test_a_queue_of_one_message_is_small() -> None:
    """
    Wherever its sequence stands: a hundred thousand such queues are an ordinary broker.
    """
    for sequence in (1, 300, 10**9 + 511):
        index = SequenceIndex()
        index.put(sequence, 1, 1)
        (chunk,) = index.chunks.values()
        assert len(chunk.live) == len(chunk.sizes) == len(chunk.record_numbers) == 1
        assert index.groups is None


@given(st.lists(SEQUENCES, max_size=60), SEQUENCES)
def test_detaching_a_beginning_is_removing_each(sequences, through) -> None:
    """
    Only in no time; what held them is given to be let go of, and is as it was.
    """
    whole, single = SequenceIndex(), SequenceIndex()
    for size, sequence in enumerate(sequences, start=1):
        whole.put(sequence, size, size)
        single.put(sequence, size, size)
    gone = [each for each in set(sequences) if each <= through]
    single.remove(gone)
    before = whole.live_count
    detached = whole.detach_through(through)
    assert before - whole.live_count == len(gone)
    assert {each for each in gone if each >> 9 in detached} == set(gone)
    assert (whole.live_count, whole.live_bytes) == (single.live_count, single.live_bytes)
    assert list(whole.sequences(1, 1 << 41)) == list(single.sequences(1, 1 << 41))


def test_chunks_beyond_a_purge_are_handed_over_whole() -> None:
    """
    A message each took 175 ms where 100,000 stood behind it; only the chunk of the border is split.
    """
    index = SequenceIndex()
    index.put_next(1, 1, [1] * 20 * CHUNK_SIZE)
    beyond = {number: chunk for number, chunk in index.chunks.items() if number > 3}
    detached = index.detach_through(3 * CHUNK_SIZE + 7)
    assert {number: index.chunks[number] for number in beyond} == beyond
    assert detached.keys() == {0, 1, 2, 3}
    assert index.live_count == index.live_bytes == 17 * CHUNK_SIZE - 7
    assert index.first() == 3 * CHUNK_SIZE + 8
    assert index.last() == 20 * CHUNK_SIZE


def test_groups_stay_with_what_lives() -> None:
    """
    A settled message's slot is zero, a purge keeps those of what it leaves, a copy has its own.
    """
    index = SequenceIndex()
    index.put_next(510, 1, [1] * 4)
    for sequence in (510, 512, 513):
        index.put_group_hash(sequence, sequence)
    index.put_group_hash(511, 0)
    assert [index.group_hash(each) for each in range(509, 515)] == [0, 510, 0, 512, 513, 0]
    copied = index.chunks[1].copy()
    index.remove([512])
    assert copied.group_hashes is not None
    assert list(copied.group_hashes) == [512, 513]
    assert index.group_hash(512) == 0
    index.detach_through(512)
    assert [index.group_hash(each) for each in range(509, 515)] == [0, 0, 0, 0, 513, 0]
    index.put(513, 99, 1)  # Written again by the cleaner.
    assert index.group_hash(513) == 513


def test_who_is_in_no_group_pays_nothing_for_it() -> None:
    """
    A plain queue has no column, and one with a few in groups none behind the last of them.
    """
    index = SequenceIndex()
    index.put_next(1, 1, [1] * 900)
    assert index.chunks[0].group_hashes is None
    index.put_group_hash(3, 7)
    assert index.chunks[0].group_hashes is not None
    assert (len(index.chunks[0].group_hashes), index.chunks[1].group_hashes) == (4, None)
