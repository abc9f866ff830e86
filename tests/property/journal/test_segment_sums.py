"""
What the segments take together is kept as sums: whatever happens to a log, they are those of its
segments one by one.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

ACTIONS = ["append", "append", "append", "cut", "drop", "rot", "begin"]
steps = st.lists(st.tuples(st.sampled_from(ACTIONS), st.floats(0, 1)), min_size=3, max_size=20)


def take(log: LocalJournal, step: str, size: float) -> None:
    journal = log.journal
    index = journal.first_index + int(size * (journal.last_index - journal.first_index))
    if step == "append":
        log.append(bytes(1 + int(size * 12_000)))
    elif step == "begin":
        base = journal.last_index + 1 + int(size * 50)
        log.perform(journal.stage_reset(base, 1, b"c" * 16, 1_000_000))
        log.stored.clear()
    elif journal.last_index < journal.first_index:
        return
    elif step == "cut":
        log.truncate(index)
    elif step == "drop":
        journal.drop_before(index)
        log.writer.save_floor()
    elif index < journal.last_index:  # Of the last it cannot be told whether it was torn.
        rot_and_mend(log, index)


def rot_and_mend(log: LocalJournal, index: int) -> None:
    """The length of an entry is flipped, so its end is not known until it is mended."""
    place = log.journal.place_of(index)
    good = log.stored[index]
    log.close()
    for byte in range(24):
        log.disk.flip_bit(place.path, (place.byte + byte) * 8)
    log._open()
    for damage in log.journal.damage:
        check(log)
        assert damage.index == index
        assert log.repair(good)


def check(log: LocalJournal) -> None:
    table, segments = log.journal.table, log.journal.segments()
    assert len(segments) == len(table)
    assert sum(it.content_bytes for it in segments) == table.content_bytes
    assert table.file_bytes == sum(it.header.capacity for it in table)
    sealed = [it for it in segments[:-1] if it.sealed]
    assert len(sealed) == log.journal.sealed_count
    assert segments[0] == log.journal.oldest_segment()
    for index in range(log.journal.first_index - 1, log.journal.last_index + 2):
        expected = sum(it.bytes for it in segments if it.last_index >= index)
        assert expected == table.bytes_from(index)
        bases = [it.base_index for it in segments if it.base_index <= index]
        assert max(bases, default=segments[0].base_index) == table.base_of(index)


@given(steps)
def test_sums_are_those_of_the_segments(taken: list[tuple[str, float]]) -> None:
    """Appended, cut, dropped, begun anew, damaged and mended, read from disk and not."""
    log = LocalJournal(SimulatedDisk())
    check(log)
    for size in range(2_000, 10_000, 1_000):
        log.append(bytes(size))
    check(log)
    for step, size in taken:
        take(log, step, size)
        check(log)
    if not log.journal.damage:
        log.reopen()
        check(log)
