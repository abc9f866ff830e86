"""Whether the log of a witness is a beginning: what was cleaned, and what all data nodes held."""

from holdfast.model.records import CleanedRecord
from holdfast.replication import beginning
from holdfast.replication.beginning import Beginning
from holdfast.store.record_codec import encode_records


def trimmed(bench, entry_after, cleaned_through: int = 0, after: int = 0) -> int:
    """A log whose first segments are gone, with a cleaned record near its end; where it begins."""
    for _ in range(6):
        bench.state.log.append([entry_after(bench.journal, 2, message(6000))])
    if cleaned_through:
        body = b"".join(encode_records([CleanedRecord(cleaned_through)]))
        bench.state.log.append([entry_after(bench.journal, 2, message(10) + body)])
    for _ in range(after):
        bench.state.log.append([entry_after(bench.journal, 2, message(10))])
    bench.store()
    bench.journal.drop_before(bench.journal.segments()[2].base_index)
    return bench.journal.first_index


def message(size: int) -> bytes:
    """A record of another type."""
    return b"\x10\0\0\0" + size.to_bytes(4, "little") + bytes(size)


def test_a_whole_log_is_a_beginning(leading) -> None:
    """Nothing was ever dropped from it."""
    bench = leading("a", "b", "w:witness", name="w")

    assert Beginning().is_whole(bench.journal, 0)


def test_what_was_only_trimmed_lives_elsewhere(leading, entry_after) -> None:
    """Every data node held it once; nothing tells that it was written again."""
    bench = leading("a", "b", "w:witness", name="w")
    trimmed(bench, entry_after)

    assert not Beginning().is_whole(bench.journal, bench.journal.last_index)


def test_the_log_tells_what_was_cleaned(leading, entry_after) -> None:
    """All before its first entry must be: one entry less may be the one that lives."""
    short, enough = (leading("a", "b", "w:witness", name="w") for _ in range(2))
    first = trimmed(short, entry_after, cleaned_through=4)
    assert 6 == first
    trimmed(enough, entry_after, cleaned_through=5)

    assert not Beginning().is_whole(short.journal, short.journal.last_index)
    assert Beginning().is_whole(enough.journal, enough.journal.last_index)


def test_only_what_is_committed_tells_it(leading, entry_after) -> None:
    """Else it may be cut, and what it says was written again with it; a restart forgets how far."""
    bench = leading("a", "b", "w:witness", name="w")
    first = trimmed(bench, entry_after, cleaned_through=5)
    looked = Beginning()

    assert not looked.is_whole(bench.journal, first)
    assert looked.is_whole(bench.journal, bench.journal.last_index)
    assert Beginning().is_whole(bench.journal, first - 1)


def test_a_long_log_is_searched_in_steps(leading, entry_after, monkeypatch) -> None:
    """Nobody waits for all of it: one look, some bytes."""
    monkeypatch.setattr(beginning, "LOOK_BYTES", 1)
    bench = leading("a", "b", "w:witness", name="w")
    trimmed(bench, entry_after, cleaned_through=5, after=3)
    looked = Beginning()
    commit = bench.journal.last_index

    assert [False, False, False, True] == [looked.is_whole(bench.journal, commit) for _ in range(4)]


def test_a_damaged_entry_is_passed_over(leading, entry_after) -> None:
    """It proves nothing, and what stands before it may."""
    bench = leading("a", "b", "w:witness", name="w")
    trimmed(bench, entry_after, cleaned_through=5, after=1)
    place = bench.journal.place_of(bench.journal.last_index)
    bench.disk.flip_bit(place.path, place.byte * 8)
    bench.reopen()

    assert Beginning().is_whole(bench.journal, bench.journal.last_index)


def test_one_look_goes_through_a_few_hundred_entries_at_most(leading, entry_after) -> None:
    """Ten thousand small ones fit a MiB, and keep a witness that leads for 90 ms."""
    bench = leading("a", "b", "w:witness", name="w")
    trimmed(bench, entry_after, cleaned_through=5, after=1500)
    read, looked = [], Beginning()
    entry = bench.journal.entry
    bench.journal.entry = lambda index: read.append(index) or entry(index)

    is_found = False
    while not is_found:
        read.clear()
        is_found = looked.is_whole(bench.journal, bench.journal.last_index)
        assert 0 < len(read) <= 600


def test_a_long_entry_is_searched_in_steps(leading, entry_after, monkeypatch) -> None:
    """One of 100,000 records kept a witness that leads for 30 ms."""
    bench = leading("a", "b", "w:witness", name="w")
    trimmed(bench, entry_after)
    cleaned = b"".join(encode_records([CleanedRecord(5)]))
    bench.state.log.append([entry_after(bench.journal, 2, cleaned + message(1) * 100_000)])
    bench.store()
    seen, looked = [], Beginning()
    each = beginning.iterate_records

    def counted(body):
        for record in each(body):
            seen.append(record)
            yield record

    monkeypatch.setattr(beginning, "iterate_records", counted)
    commit = bench.journal.last_index
    is_found, most = False, 0
    while not is_found:
        before = len(seen)
        is_found = looked.is_whole(bench.journal, commit)
        most = max(most, len(seen) - before)
    assert 100_001 == len(seen)
    assert most <= beginning.LOOK_BYTES // 64
    assert looked._body == b""


def test_what_comes_meanwhile_is_looked_at_first(leading, entry_after, monkeypatch) -> None:
    """The newest record says most; the long entry before it is left."""
    monkeypatch.setattr(beginning, "LOOK_BYTES", 1)
    bench = leading("a", "b", "w:witness", name="w")
    trimmed(bench, entry_after)
    bench.state.log.append([entry_after(bench.journal, 2, message(1) * 10_000)])
    bench.store()
    looked = Beginning()
    for _ in range(2):
        assert not looked.is_whole(bench.journal, bench.journal.last_index)
    cleaned = b"".join(encode_records([CleanedRecord(5)]))
    bench.state.log.append([entry_after(bench.journal, 2, cleaned)])
    bench.store()

    assert looked.is_whole(bench.journal, bench.journal.last_index)
