"""What can be read of the log: its end, older segments, and what is dead."""

from __future__ import annotations

import pytest

from holdfast.errors import CorruptEntryError, MissingEntriesError, StoreError, UnreachableError
from holdfast.leases.contract import Place
from holdfast.shared.page import PAGE_BYTES
from holdfast.shared.segments import SegmentReader
from trials.simulation.local_share import LocalShare, end_of, seal

BODIES = [bytes([65 + number]) * 3500 for number in range(8)]


@pytest.fixture
def share() -> LocalShare:
    return LocalShare()


def filled(share: LocalShare, count: int = 8):
    """A log of some entries over several segments."""
    log, holding = share.taken()
    entries = seal(holding.end, holding.epoch, *BODIES[:count])
    for entry in entries:
        share.now += 1
        log.append([entry])
    return log, entries


def test_a_waiter_reads_only_what_is_new(share: LocalShare, monkeypatch) -> None:
    """Once it has seen an entry, it never reads that one again to find the end."""
    log, entries = filled(share, 4)
    waiter = share.log()
    offset = waiter._view._tail.offset
    read = SegmentReader._read
    offsets: list[int] = []

    def note(self, at: int, size: int) -> bytes:
        offsets.append(at)
        return read(self, at, size)

    monkeypatch.setattr(SegmentReader, "_read", note)
    for _ in range(3):
        waiter.observe()
    log.append(seal(end_of(entries), 1, b"x"))

    assert waiter.observe().end.index == 5
    assert len(offsets) >= 4
    assert min(offsets) == offset


@pytest.mark.parametrize("bytes_max", [1, 3000, 9000, 10**9])
def test_all_is_read_in_order(share: LocalShare, bytes_max: int) -> None:
    """At least one at a time, and never more than was asked for where there is a choice."""
    _, entries = filled(share)
    waiter = share.log()
    found: list = []
    while len(found) < len(entries):
        more = waiter.entries(len(found), 8, bytes_max)
        assert len(more) == 1 or sum(len(it.raw) for it in more) <= bytes_max
        found += more

    assert found == entries
    assert waiter.entries(8, 8, bytes_max) == []
    assert waiter.entries(2, 5, 10**9) == entries[2:5]
    assert len(share.disk.list_directory(share.places.journal)) > 2


def test_what_was_dropped_is_missing(share: LocalShare) -> None:
    """The error says from where to where; what is left is read."""
    log, entries = filled(share)
    while log.drop_before(6):
        pass
    waiter = share.log()

    assert waiter.observe().first_index == 6
    with pytest.raises(MissingEntriesError, match="entries 3 to 5 are missing"):
        waiter.entries(2, 8, 10**9)
    assert waiter.entries(5, 8, 10**9) == entries[5:]


def test_a_lost_file_is_missing_entries(share: LocalShare) -> None:
    """A segment that is gone is told as the entries that are."""
    filled(share)
    name = share.disk.list_directory(share.places.journal)[0]
    share.disk.unlink(share.places.journal / name)

    with pytest.raises(MissingEntriesError) as caught:
        share.log().entries(0, 8, 10**9)
    assert caught.value.index == 1


def test_damage_in_the_middle_is_told(share: LocalShare) -> None:
    """An entry before the end whose bytes have rotted is not passed over."""
    filled(share)
    name = share.disk.list_directory(share.places.journal)[0]
    share.disk.flip_bit(share.places.journal / name, (PAGE_BYTES + 300) * 8)

    with pytest.raises(CorruptEntryError) as caught:
        share.log().entries(0, 8, 10**9)
    assert caught.value.index == 1
    assert caught.value.segment == name


def test_a_take_does_not_cut_off_what_was_confirmed(share: LocalShare) -> None:
    """Where rot ends the chain before what a beat calls sure, nobody takes over."""
    log, entries = filled(share, 4)
    log.renew()
    name = log.observe() and log._view._tail.name
    base = int(name[:20])
    share.disk.flip_bit(share.places.journal / name, (PAGE_BYTES + 300) * 8)

    with pytest.raises(CorruptEntryError, match="an entry that was confirmed is damaged") as caught:
        share.taken("b")
    assert caught.value.index == base
    assert len(entries) >= base


def test_a_torn_end_is_no_damage(share: LocalShare) -> None:
    """What was being written when its holder died ends the log (L15)."""
    log, entries = filled(share, 2)
    log.renew()
    torn = seal(end_of(entries), 1, b"t" * 3000)[0]
    tail = log.observe() and log._view._tail
    share.disk.open(share.places.journal / tail.name).write(torn.raw[:1024], tail.offset)

    other, holding = share.taken("b")
    assert holding.end == end_of(entries)
    assert other.entries(0, 9, 10**9) == entries


def test_an_entry_that_is_not_in_the_chain_ends_the_log(share: LocalShare) -> None:
    """Good checksums are not enough: it must follow on what stands before it."""
    log, entries = filled(share, 2)
    log.renew()
    tail = log.observe() and log._view._tail
    other = seal(Place(2, b"x" * 16), 1, b"other")[0]
    share.disk.open(share.places.journal / tail.name).write(other.raw, tail.offset)

    assert share.log().observe().end == end_of(entries)


def test_another_entry_in_the_place_of_a_sure_one_is_refused(share: LocalShare) -> None:
    """Two histories are not made one by guessing."""
    log, holding = share.taken()
    log.append(seal(holding.end, 1, b"one"))
    log.renew()
    name = log._view._tail.name
    other = seal(holding.end, 1, b"two")[0]
    share.disk.open(share.places.journal / name).write(other.raw, PAGE_BYTES)

    with pytest.raises(StoreError, match="entry 1 in /share/journal is not the one"):
        share.taken("b")


def test_a_segment_that_is_not_seen_yet_is_waited_for(share: LocalShare) -> None:
    """A name that the beat tells of is there: not to see it is no end of the log."""
    log, _ = filled(share, 2)
    name = log.observe() and log._view._tail.name
    share.disk.unlink(share.places.journal / name)

    with pytest.raises(UnreachableError, match="is named as the newest and cannot be seen"):
        share.log()


def test_a_beat_that_is_not_seen_yet_is_waited_for(share: LocalShare) -> None:
    """Behind an epoch that has begun there is a beat: not to see it is no empty log."""
    filled(share, 2)
    share.disk.unlink(share.places.beat(1))

    with pytest.raises(UnreachableError, match="beat-1 is named as the newest"):
        share.log()


def test_what_was_seen_before_its_sync_may_be_gone(share: LocalShare) -> None:
    """A waiter that reads it then is told to look anew; what is sure is damage (as above)."""
    log, entries = filled(share, 2)
    log.renew()
    tail = log.observe() and log._view._tail
    path, offset = share.places.journal / tail.name, tail.offset
    unsynced = seal(end_of(entries), 1, b"u" * 100)[0]
    share.disk.open(path).write(unsynced.raw, offset)
    waiter = share.log()
    assert waiter.observe().end.index == 3
    share.disk.open(path).write(bytes(len(unsynced.raw)), offset)

    with pytest.raises(UnreachableError, match=r"entry 3 is missing .* not yet sure"):
        waiter.entries(2, 3, 10**9)
    assert waiter.observe().end == end_of(entries)
