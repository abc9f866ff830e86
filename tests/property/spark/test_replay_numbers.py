"""
Numbers of a replay against a target on paper: whatever each run's source lacks, nothing is taken
for something else, and what was sent keeps its number where nothing is missing before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.spark.pipelines import replay_numbers
from holdfast.spark.pipelines.replay_numbers import Beginning, Stretches
from holdfast.spark.pipelines.replay_sender import first_copies

Row = SimpleNamespace
Range = tuple[int, int]
ENTRIES = 40


@pytest.fixture(autouse=True, scope="module")
def _blocks_of_four():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_numbers, "BLOCK_SEQUENCES", 4)
        yield


def written(seed: int) -> list[Row]:
    """A log of a message an entry, on three queues, under leaders that follow each other."""
    chance = Random(seed)
    term, following = 1, {1: 1, 2: 1, 3: 1}
    originals: list[Row] = []
    rows: list[Row] = []
    for index in range(1, ENTRIES + 1):
        term += chance.random() < 0.1
        if originals and chance.random() < 0.25:
            old = chance.choice(originals)
            queue, sequence, stored_us = old.queue_number, old.sequence, old.stored_us
        else:
            queue = chance.choice([1, 1, 2, 3])
            following[queue] += chance.choice([0, 0, 0, 7])
            sequence, stored_us = following[queue], index
            following[queue] += 1
        row = Row(
            log_index=index,
            ordinal=0,
            queue_number=queue,
            sequence=sequence,
            term=term,
            stored_us=stored_us,
            rewritten=stored_us != index,
        )
        originals += [] if row.rewritten else [row]
        rows.append(row)
    return rows


def seen_of(rows: Sequence[Row], parts: Sequence[Range]) -> tuple[list[Row], Stretches]:
    """What a source of these entries has, and what is known of where each part begins."""
    beginnings: list[Beginning] = []
    lacking: list[Range] = []
    expected = 1
    for first, last in parts:
        if first > expected:
            lacking.append((expected, first - 1))
        sequences: dict[int, int] = {}
        for row in rows:
            if first <= row.log_index <= last and not row.rewritten:
                sequences.setdefault(row.queue_number, row.sequence)
        beginnings.append(Beginning(first, sequences, tuple(lacking) if beginnings else ()))
        expected = last + 1
    kept = [row for row in rows if any(a <= row.log_index <= b for a, b in parts)]
    return kept, Stretches(tuple(beginnings))


class PaperTarget:
    """Stores each number of a producer once, and looks what it takes for a repetition."""

    def __init__(self) -> None:
        self.stored: dict[str, list[Range]] = {}

    def replay(self, rows: Sequence[Row], parts: Sequence[Range], chosen: frozenset[Range]) -> None:
        """One run, as the sender numbers it."""
        kept, stretches = seen_of(rows, parts)
        picked = [row for row in kept if (row.queue_number, row.sequence) in chosen]
        if stretches.is_whole:
            picked = [row for row in picked if not row.rewritten]
        names: dict[str, str] = {}
        sent: Counter[str] = Counter()
        for row in first_copies(picked, stretches):
            block = stretches.block(row.log_index, row.queue_number, row.sequence)
            block += f"-{row.term}"
            name = names.setdefault(block, f"{block}-{row.stored_us}")
            stored = self.stored.setdefault(name, [])
            message = row.queue_number, row.sequence
            sent[name] += 1
            if sent[name] <= len(stored):
                assert message == stored[sent[name] - 1], "a message is taken for another"
            else:
                stored.append(message)

    def times(self) -> Counter[Range]:
        """How often each message is stored."""
        return Counter(message for stored in self.stored.values() for message in stored)


@st.composite
def ranges(draw: st.DrawFn) -> list[Range]:
    """What a source may have of the log."""
    cuts = sorted(draw(st.sets(st.integers(1, ENTRIES + 1), min_size=2, max_size=6)))
    pairs = [(a, b - 1) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]
    # A hole between them, or they were one.
    return [pair for at, pair in enumerate(pairs) if not at or pair[0] > pairs[at - 1][1] + 1]


def chosen_of(rows: Sequence[Row], seed: int) -> frozenset[Range]:
    chance = Random(seed)
    messages = sorted({(row.queue_number, row.sequence) for row in rows})
    return frozenset(message for message in messages if chance.random() < 0.6)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.lists(ranges(), min_size=1, max_size=4))
def test_no_message_is_taken_for_another(seed: int, choice: int, runs: list[list[Range]]) -> None:
    """So each that any of the sources had is stored, in whatever order they are read."""
    rows = written(seed)
    chosen = chosen_of(rows, choice)
    target = PaperTarget()
    for parts in runs:
        target.replay(rows, parts, chosen)
    had = {
        (row.queue_number, row.sequence) for parts in runs for row in seen_of(rows, parts)[0]
    } & chosen
    assert had == set(target.times())


@settings(max_examples=100)
@given(
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    ranges(),
    st.integers(1, ENTRIES),
    st.integers(1, 9),
)
def test_a_hole_behind_what_was_sent_doubles_nothing(
    seed: int, choice: int, parts: list[Range], end: int, hole: int
) -> None:
    """An archive that fell behind goes on without what was cleaned: the rest keeps its numbers."""
    rows = written(seed)
    chosen = chosen_of(rows, choice)
    before = [(first, min(last, end)) for first, last in parts if first <= end] or [(1, end)]
    end = before[-1][1]
    after = [*before, (end + hole + 1, ENTRIES)] if end + hole < ENTRIES else before
    target = PaperTarget()
    for each in (before, after, before, after):
        target.replay(rows, each, chosen)
    assert set(target.times().values()) <= {1}
