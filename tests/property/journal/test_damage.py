"""Whatever rots or is cut off, recovery says exactly what is fine, torn, unknown or damaged."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import Entry, parse_entry
from holdfast.journal.journal import Journal
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import SEGMENT_HEADER_BYTES
from holdfast.journal.settings import JournalSettings, KiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

SIZES = st.lists(st.sampled_from([0, 1, 30, 300, 700, 1500, 3000]), min_size=2, max_size=14)


class Sealed:
    """A log on a simulated disk, stopped; what it held, and the files as they were."""

    def __init__(self, sizes: list[int], *, is_floor_known: bool) -> None:
        self.disk = SimulatedDisk()
        settings = JournalSettings(segment_bytes=8 * KiB)
        self.log = LocalJournal(self.disk, settings=settings, resolve_unknown_tail=False)
        chance = random.Random(sum(sizes))
        self.entries: dict[int, Entry] = {}
        for size in sizes:
            entry = self.log.append(chance.randbytes(size), b"\1second")
            self.entries[entry.index] = entry
        self.floor = self.entries[len(sizes)].index if is_floor_known else 0
        if is_floor_known:
            self.log.writer.save_floor()
        self.paths = [it.path for it in self.log.journal.segments()]
        self.places = {i: self.log.journal.place_of(i) for i in self.entries}
        self.images = {path: self.disk.content(path) for path in self.paths}
        # A kill, not a clean stop: the floor stays where it is.
        self.log.journal.close()

    def open(self) -> Journal:
        self.log._open()
        return self.log.journal

    def owner(self, path: object, byte: int) -> int | None:
        """The entry that byte belongs to."""
        for index, place in self.places.items():
            if place.path == path and place.byte <= byte < place.byte + place.size:
                return index
        return None


def check_good(sealed: Sealed, journal: Journal, damaged: set[int], last: int) -> None:
    assert journal.last_index == last
    for index in range(1, last + 1):
        if index in damaged:
            with pytest.raises(CorruptEntryError) as caught:
                journal.entry(index)
            place = sealed.places[index]
            found = (caught.value.index, caught.value.segment, caught.value.byte)
            assert found == (index, place.path.name, place.byte)
        else:
            assert journal.entry(index) == sealed.entries[index]


@given(SIZES, st.booleans(), st.randoms(use_true_random=False))
@pytest.mark.promise("F18", "F19")
def test_one_flipped_bit_is_found_placed_and_repaired(
    sizes: list[int], is_floor_known: bool, chance: random.Random
) -> None:
    """One bit anywhere: that entry alone is damaged, or the end unknown; repair mends it."""
    sealed = Sealed(sizes, is_floor_known=is_floor_known)
    path = chance.choice(sealed.paths)
    end = max(
        [it.byte + it.size for it in sealed.places.values() if it.path == path],
        default=SEGMENT_HEADER_BYTES,
    )
    bit = chance.randrange(end * 8)
    sealed.disk.flip_bit(path, bit)
    hit = sealed.owner(path, bit // 8)
    journal = sealed.open()
    newest = len(sizes)
    if hit is None:
        assert journal.damage == []
        check_good(sealed, journal, set(), newest)
    elif hit == newest and not is_floor_known:
        assert journal.tail_state == "unknown" and journal.unknown_through == newest
        check_good(sealed, journal, set(), newest - 1)
        sealed.log.perform(journal.stage([sealed.entries[newest]]))
    elif hit == newest and journal.last_index < newest:
        # The header is gone and nothing comes after it: that it is missing is known.
        assert [it.index for it in journal.damage] == [newest] * len(journal.damage)
        assert journal.damage and journal.unknown_through == newest
        sealed.log.perform(journal.stage([sealed.entries[newest]]))
    else:
        assert [it.index for it in journal.damage] == [hit]
        assert journal.tail_state == "clean"
        check_good(sealed, journal, {hit}, newest)
        sealed.log.repair(sealed.entries[hit])
        assert journal.damage == []
    check_good(sealed, journal, set(), newest)
    assert {it: sealed.disk.content(it) for it in sealed.paths} == sealed.images
    assert sealed.log.reopen().damage == []


@given(SIZES, st.booleans(), st.randoms(use_true_random=False))
@pytest.mark.promise("F19")
def test_with_two_flipped_bits_and_a_bad_page_no_stored_entry_is_forgotten(
    sizes: list[int], has_bad_page: bool, chance: random.Random
) -> None:
    """
    Near the end of the log, no floor known: every entry is good, damaged, or among those that the
    node says it may have stored; and those are no more than the spoilt bytes could hold.
    """
    sealed = Sealed(sizes, is_floor_known=False)
    path = sealed.paths[-1]
    end = len(sealed.images[path].rstrip(b"\0"))
    for _ in range(2):
        if end > SEGMENT_HEADER_BYTES:
            sealed.disk.flip_bit(path, chance.randrange(SEGMENT_HEADER_BYTES * 8, end * 8))
    if has_bad_page and end > SEGMENT_HEADER_BYTES:
        sealed.disk.make_unreadable(path, chance.randrange(SEGMENT_HEADER_BYTES, end) // 512)
    found = scan_log(path.parent, sealed.disk)
    known = max(found.last_index, found.tail.through)
    newest = len(sizes)
    assert newest <= known <= newest + has_bad_page * (4096 // 72 + 1)
    for index in range(1, min(found.last_index, newest) + 1):
        is_damaged = index in {it.index for it in found.damage}
        place = sealed.places[index]
        image = sealed.disk.content(place.path)[place.byte : place.byte + place.size]
        assert is_damaged or image == sealed.entries[index].raw


@given(SIZES, st.booleans(), st.randoms(use_true_random=False))
@pytest.mark.promise("F22")
def test_a_file_cut_short_is_torn_unknown_or_missing_never_silently_shorter(
    sizes: list[int], is_floor_known: bool, chance: random.Random
) -> None:
    """Bytes cut from the newest file: above the floor a torn or unknown end, below it damage."""
    sealed = Sealed(sizes, is_floor_known=is_floor_known)
    path = sealed.paths[-1]
    length = chance.randrange(SEGMENT_HEADER_BYTES, len(sealed.images[path]))
    sealed.disk.replace_content(path, sealed.images[path][:length])
    whole = [
        index
        for index, it in sealed.places.items()
        if it.path != path or _is_whole(sealed.images[path][:length], it.byte, it.size)
    ]
    newest, last = len(sizes), max(whole, default=0)
    journal = sealed.open()
    if last == newest:
        assert journal.damage == [] and journal.tail_state == "clean"
    elif is_floor_known:
        # With a good header and a lost body the entry keeps its place; else it is missing.
        assert journal.damage and newest in {journal.unknown_through, journal.last_index}
        assert all(last < it.index <= newest for it in journal.damage)
    else:
        assert journal.damage == []
        assert journal.unknown_through in (0, last + 1)
    check_good(sealed, journal, {it.index for it in journal.damage}, journal.last_index)
    for index in range(last + 1, newest + 1):
        if index <= journal.last_index:
            sealed.log.repair(sealed.entries[index])
        else:
            sealed.log.perform(journal.stage([sealed.entries[index]]))
    check_good(sealed, journal, set(), newest)
    assert journal.damage == [] and journal.unknown_through == 0
    assert {it: sealed.disk.content(it) for it in sealed.paths} == sealed.images


def _is_whole(data: bytes, start: int, size: int) -> bool:
    """What is cut off reads as zeros; an entry that ends in zeros may survive that."""
    try:
        parse_entry(data.ljust(start + size, b"\0"), start)
    except CorruptEntryError:
        return False
    return True


@given(SIZES, st.randoms(use_true_random=False))
def test_garbage_behind_the_last_entry_harms_nothing(
    sizes: list[int], chance: random.Random
) -> None:
    """Any bytes after the last entry: every entry is kept; the end is cut or stays unknown."""
    sealed = Sealed(sizes, is_floor_known=True)
    newest = sealed.places[len(sizes)]
    path, start = newest.path, newest.byte + newest.size
    image = sealed.images[path]
    count = chance.randrange(len(image) - start + 1)
    sealed.disk.replace_content(
        path, image[:start] + chance.randbytes(count) + image[start + count :]
    )
    journal = sealed.open()
    assert journal.damage == []
    assert journal.unknown_through in (0, len(sizes) + 1)
    check_good(sealed, journal, set(), len(sizes))
    entry = sealed.log.append(b"next")
    assert journal.tail_state != "unknown"
    assert sealed.log.reopen().entry(entry.index) == entry
