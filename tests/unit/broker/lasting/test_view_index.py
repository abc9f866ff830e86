"""
A topic's index and the views on it against plain sets: who needs which message.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.broker.lasting.sequence_index import CHUNK_SHIFT, CHUNK_SIZE
from holdfast.broker.lasting.topic_index import TopicIndex, bitmap_of
from holdfast.broker.lasting.view_index import ViewIndex

SMALL = st.integers(0, 1 << 16)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["join", "leave", "put", "put", "skip", "late", "remove", "remove", "detach", "again"]
        ),
        SMALL,
        SMALL,
    ),
    max_size=40,
)


class Model:
    """The same with sets, and the index beside it."""

    def __init__(self) -> None:
        self.index = TopicIndex()
        self.index.is_whole = True
        self.views: dict[int, ViewIndex] = {}
        self.needed: dict[int, set[int]] = {}
        self.sizes: dict[int, int] = {}
        self.priorities: dict[int, int] = {}
        self.returned: dict[tuple[int, int], Returned] = {}
        self.next_sequence = 1
        self.number = 0

    def view(self, choice: int) -> tuple[int, ViewIndex] | None:
        """Choose one."""
        if not self.views:
            return None
        number = sorted(self.views)[choice % len(self.views)]
        return number, self.views[number]

    def join(self, _a: int, _b: int) -> None:
        """Add one that needs what comes from now on."""
        self.number += 1
        slot = min(set(range(len(self.views) + 1)) - {each.slot for each in self.views.values()})
        view = ViewIndex(self.index, self.next_sequence, slot)
        self.index.close_below(self.next_sequence)
        view.join()
        self.index.takers[self.number] = self.index.by_slot[slot] = view
        self.views[self.number], self.needed[self.number] = view, set()

    def leave(self, a: int, _b: int) -> None:
        """End one."""
        found = self.view(a)
        if found is not None:
            number, view = found
            view.leave()
            del self.index.takers[number], self.index.by_slot[view.slot]
            del self.views[number], self.needed[number]

    def put(self, a: int, b: int) -> None:
        """Store some more for all."""
        if not self.views:
            return
        self.next_sequence += b % 3 * 300 if a % 5 == 0 else 0
        sizes = [each % 7 for each in range(1 + a % 40 * (15 if a % 3 == 0 else 1))]
        self.index.put_next(self.next_sequence, 3 * self.next_sequence, sizes)
        for size in sizes:
            self.sizes[self.next_sequence] = size
            self.priorities[self.next_sequence] = priority = (size + b) % 3 + 3
            self.index.put_priority(self.next_sequence, priority)
            for needed in self.needed.values():
                needed.add(self.next_sequence)
            self.next_sequence += 1

    def skip(self, a: int, b: int) -> None:
        """Store one that some do not need."""
        if not self.views:
            return
        self.put(0, b)
        skipping = [number for number in self.views if a >> number % 16 & 1]
        sequence = self.next_sequence - 1
        self.index.skip(sequence, bitmap_of(self.views[each].slot for each in skipping))
        for number in skipping:
            self.needed[number].discard(sequence)

    def late(self, a: int, b: int) -> None:
        """Store one that stands before others, as a replica learns of it that begins later."""
        sequence = 1 + a % (self.next_sequence + 50)
        if sequence >= self.next_sequence or self.index.is_live(sequence):
            return
        skipping = [number for number in self.views if b >> number % 16 & 1]
        needers = [each for each, view in self.views.items() if sequence >= view.begin]
        assert self.index.put(sequence, 3 * sequence, 5) == bool(needers)
        if not needers:
            return
        self.sizes[sequence] = 5
        self.priorities[sequence] = 4
        for number, view in self.views.items():
            if number not in skipping and sequence >= view.begin:
                self.needed[number].add(sequence)
        self.index.skip(sequence, bitmap_of(self.views[each].slot for each in skipping))

    def remove(self, a: int, b: int) -> None:
        """Let one be done with some, in order, or with every so many of them."""
        found = self.view(a)
        if found is not None:
            number, view = found
            needed = sorted(self.needed[number])
            some = needed[b % 3 :: 1 + a % 4][: 1 + b % 600]
            asked = [*some, *some[:1], self.next_sequence + 7, 1]
            gone = view.remove(asked)
            expected = [*some, *([1] if 1 in self.needed[number] and 1 not in some else [])]
            assert sorted(gone) == sorted(expected)
            self.needed[number].difference_update(expected)
            for each in expected:
                self.returned.pop((number, each), None)

    def detach(self, a: int, b: int) -> None:
        """Take much off one at once."""
        found = self.view(a)
        if found is not None:
            number, view = found
            through = b % self.next_sequence
            view.detach_through(through)
            self.needed[number] = {each for each in self.needed[number] if each > through}

    def again(self, a: int, b: int) -> None:
        """Let a message come back to one."""
        found = self.view(a)
        if found is not None and self.needed[found[0]]:
            number, view = found
            sequence = sorted(self.needed[number])[b % len(self.needed[number])]
            assert view.put_returned(sequence, Returned(1 + b % 9, 1, b))
            self.returned[number, sequence] = Returned(1 + b % 9, 1, b)

    def check(self) -> None:
        """Compare all that can be asked."""
        index = self.index
        living = set[int]().union(*self.needed.values())
        assert list(index.sequences(1, self.next_sequence)) == sorted(living)
        assert index.live_count == len(living)
        assert index.live_bytes == sum(self.sizes[each] for each in living)
        for number, chunk in index.chunks.items():
            # Of each: who takes from it, and for how many of these each message is none.
            assert chunk.takers == sum(view.takes(number) for view in self.views.values())
            for slot in chunk.slots():
                sequence = (number << CHUNK_SHIFT) + slot
                needers = sum(sequence in needed for needed in self.needed.values())
                assert chunk.done_at(slot) == chunk.takers - needers
        for number, view in self.views.items():
            needed = sorted(self.needed[number])
            assert list(view.sequences(1, self.next_sequence)) == needed
            assert view.live_count == len(needed)
            assert view.live_bytes == sum(self.sizes[each] for each in needed)
            assert view.first() == (needed[0] if needed else 0)
            assert view.last() >= (needed[-1] if needed else 0)
            for priority in (3, 4, 5):
                expected = [each for each in needed if self.priorities[each] == priority]
                assert list(walked(view, priority, self.next_sequence)) == expected
            asked = [*needed[:3], *sorted(living)[:3], self.next_sequence]
            assert [view.is_live(each) for each in asked] == [
                each in self.needed[number] for each in asked
            ]
            for sequence in needed[:5]:
                expected = self.returned.get((number, sequence), NEVER)
                assert view.returned(sequence) == expected


def walked(view: ViewIndex, priority: int, end: int) -> Iterator[int]:
    """Give what a view needs of one priority, as lanes ask for it."""
    sequence = view.next_live(1, end)
    while sequence < end:
        number = sequence >> CHUNK_SHIFT
        base = number << CHUNK_SHIFT
        slot = view.next_of(priority, number, sequence - base)
        assert slot < 0 or priority in view.priorities_from(number, sequence - base)
        while slot >= 0:
            yield base + slot
            slot = view.next_of(priority, number, slot + 1)
        sequence = view.next_live(base + CHUNK_SIZE, end)


START = [("join", 0, 0)]
OLD = [
    *START * 3,
    *[("put", 38, 0)] * 4,
    # One is done with all, one with every second, one with every third; the topic goes on.
    *[("remove", 0, 599)] * 4,
    ("put", 38, 0),
    *[("remove", 1 + 3 * 3, 599)] * 2,
    *[("remove", 2 + 3 * 2, 599)] * 2,
]


@given(st.sampled_from([START, OLD]), STEPS)
def test_each_needs_what_plain_sets_say_and_the_topic_what_any_needs(first, steps) -> None:
    """
    Subscriptions come, go and are done with messages in any order; some come late.
    """
    model = Model()
    for step, a, b in [*first, *steps]:
        getattr(model, step)(a, b)
        model.check()
    for number in list(model.views):
        model.leave(0, number)
    model.check()
    assert not model.index.chunks


def test_what_is_done_with_in_order_costs_no_flags_while_others_keep_it() -> None:
    """
    A hundred chunks that one is done with and another never begins are one stretch.
    """
    index = TopicIndex()
    index.is_whole = True
    quick, away = ViewIndex(index, 1, 0), ViewIndex(index, 1, 1)
    for view in (quick, away):
        view.join()
        index.takers[view.slot] = view
    for sequence in range(1, 100 * CHUNK_SIZE):
        index.put(sequence, sequence, 1)
        quick.remove([sequence])
    assert len(quick.chunks) <= 1
    assert len(quick.finished) == 1
    assert (quick.live_count, away.live_count) == (0, 100 * CHUNK_SIZE - 1)


@example([1, 0], set(), 0, 1)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=30),
    st.sets(st.integers(1, 30)),
    st.integers(0, 4),
    st.integers(0, 600),
)
def test_as_many_of_the_oldest_are_cut_as_it_takes(
    sizes: list[int], settled: set[int], count: int, size: int
) -> None:
    """
    By messages and by bytes, whatever it is done with before: through the first at which both are
    enough, and to the end of what there is if they never are.
    """
    index = TopicIndex()
    index.is_whole = True
    views = [ViewIndex(index, 1, slot) for slot in (0, 1)]
    for number, view in enumerate(views):
        view.join()
        index.takers[number] = index.by_slot[number] = view
    numbers = range(CHUNK_SIZE - 15, CHUNK_SIZE - 15 + len(sizes))  # Over the border of two chunks.
    for sequence, each in zip(numbers, sizes, strict=True):
        index.put(sequence, sequence, each)
    views[0].remove([numbers[0] + it for it in sorted(settled) if it < len(numbers)])
    needed = [it for it in numbers if views[0].is_live(it)]

    through, cut_count = views[0].cut(count, size, 10)

    gone = [it for it in needed if it <= through]
    assert cut_count == len(gone)
    kept = [it for it in needed if it > through]
    gone_bytes = sum(index.size(it) for it in gone)
    assert not kept or (len(gone) >= count and gone_bytes >= size)
    if gone:  # One less would not have been enough.
        before = gone_bytes - index.size(gone[-1])
        assert len(gone) - 1 < count or before < size
