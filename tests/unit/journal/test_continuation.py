"""Bodies that look like the log: what a sender forged is never taken for what was stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.journal import continuation, entry
from holdfast.journal.ballot import Ballot
from holdfast.journal.continuation import Continuation, headers_in
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, Entry, seal_entry
from holdfast.journal.jobs import RUN_BYTES_MAX, BallotJob
from holdfast.journal.settings import JournalSettings, MiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Callable


def sealed(index: int, body: bytes, chain: bytes = FIRST_CHAIN, *, term: int = 1) -> Entry:
    return seal_entry(
        index=index,
        term=term,
        kind=KIND_RECORDS,
        timestamp=index,
        first_record=index,
        record_count=1,
        parts=[body],
        previous_chain=chain,
    )


def forged(first: int, count: int, *, term: int = 1) -> bytes:
    """What looks like entries from `first` on, each continuing the one before."""
    made = [sealed(first, b"forged" * 20, b"a sender's chain", term=term)]
    for index in range(first + 1, first + count):
        made.append(sealed(index, b"forged" * 20, made[-1].chain, term=term))
    return b"".join([it.raw for it in made])


def spoil(log: LocalJournal, index: int, at: int, data: bytes) -> None:
    """Put bytes into an entry's place, behind the journal's back."""
    place = log.journal.place_of(index)
    assert isinstance(log.disk, SimulatedDisk)
    image = log.disk.content(place.path)
    start = place.byte + at
    log.disk.replace_content(place.path, image[:start] + data + image[start + len(data) :])


def with_ballot(disk: SimulatedDisk, *, segment_bytes: int, resolve: bool = False) -> LocalJournal:
    settings = JournalSettings(spare_segments=0, segment_bytes=segment_bytes)
    log = LocalJournal(disk, settings=settings, resolve_unknown_tail=resolve)
    log.perform(BallotJob(Ballot(node_id=bytes(16), term=1)))
    return log


def test_entries_in_a_body_of_a_sealed_segment_are_not_found(disk: SimulatedDisk) -> None:
    """With the header lost, the body is searched; what stands there leads nowhere."""
    log = with_ballot(disk, segment_bytes=16384)
    log.append(b"one" * 100)
    log.append(forged(3, 8))
    for _ in range(30):
        log.append(b"more" * 200)
    assert len(log.journal.segments()) > 2
    spoil(log, 2, 30, b"?")
    log.close()
    log._open()
    assert [it.index for it in log.journal.damage] == [2]
    assert log.journal.last_index == 32
    assert log.journal.entry(3).body[:4] == b"more"


@pytest.mark.parametrize("is_stopped", [True, False])
def test_entries_in_a_body_of_the_last_segment_are_not_found(
    disk: SimulatedDisk, *, is_stopped: bool
) -> None:
    """The ballot states the chain of what was durable, and the written bytes end where they do."""
    log = with_ballot(disk, segment_bytes=MiB)
    log.append(b"one" * 100)
    log.append(b"x" * 1000 + forged(3, 4)[: 4 * 192])
    for _ in range(5):
        log.append(b"more" * 200)
    if is_stopped:
        log.writer.save_floor()
    spoil(log, 2, 30, b"?")
    log.journal.close()
    log._open()
    assert [it.index for it in log.journal.damage] == [2]
    assert log.journal.last_index == 7
    assert log.journal.entry(3).body[:4] == b"more"


def test_an_acknowledgement_in_a_body_does_not_become_the_last_entry(disk: SimulatedDisk) -> None:
    """Below the floor the last entry's header is lost: the body's entries are not what follows."""
    log = with_ballot(disk, segment_bytes=MiB)
    log.append(b"one" * 100)
    log.append(b"x" * (8 * 7) + forged(3, 4, term=900))
    log.writer.save_floor()
    spoil(log, 2, 30, b"?")
    log.journal.close()
    log._open()
    assert log.journal.last_index <= 2
    assert log.journal.unknown_term in {0, 1}


def test_a_torn_large_entry_is_torn_whatever_its_body_holds(disk: SimulatedDisk) -> None:
    """The sector with its header was never written; its body is full of what looks like entries."""
    log = with_ballot(disk, segment_bytes=16 * MiB)
    log.append(b"one" * 100)
    size = RUN_BYTES_MAX + MiB
    run = forged(3, size // len(forged(3, 1)), term=900)
    disk.cut_at = disk.operations + 3  # the announcement is two operations, then the entry
    job = log.stage(run)
    with pytest.raises(PowerCut):
        log.perform(job)
    place = log.journal.place_of(2)
    disk.power_cut()
    image = bytearray(disk.content(place.path))
    raw = log.journal.entry(2).raw
    image[place.byte : place.byte + len(raw)] = raw
    sector = (place.byte // 512 + 1) * 512
    image[place.byte : sector] = bytes(sector - place.byte)
    disk.replace_content(place.path, bytes(image))
    log._open()
    assert (log.journal.tail_state, log.journal.last_index) == ("torn", 1)
    assert log.journal.damage == []
    log.append(b"next")
    assert log.reopen().last_index == 2


def test_what_was_announced_is_forgotten_once_it_is_stored(disk: SimulatedDisk) -> None:
    """The place of a large entry says nothing of another one that comes there later."""
    log = with_ballot(disk, segment_bytes=16 * MiB)
    log.append(b"one")
    log.append(b"x" * (RUN_BYTES_MAX + 1))
    ballot = log.journal.ballot_file.current
    assert ballot is not None
    assert (ballot.durable_floor, ballot.large_index) == (2, 0)
    assert ballot.floor_chain == log.journal.last_chain


def test_the_term_of_a_lost_end_is_not_of_a_senders_choice(disk: SimulatedDisk) -> None:
    """Rotten at the end, nobody knows what it was: but of no later term than the ballot's."""
    log = with_ballot(disk, segment_bytes=MiB)
    log.append(b"one" * 100)
    log.append(b"x" * (8 * 7) + forged(3, 1, term=1 << 60) + b"end of the body")
    spoil(log, 2, 0, b"\xff" * 72)
    log.journal.close()
    log._open()
    assert log.journal.tail_state == "unknown"
    assert log.journal.unknown_through >= 2
    assert log.journal.unknown_term <= 1


def read_bytes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count the bytes over which a checksum is computed."""
    total = 0

    def count(data: bytes) -> int:
        nonlocal total
        total += len(data)
        return original(data)

    original = entry.crc32c
    for module in (entry, continuation):
        monkeypatch.setattr(module, "crc32c", count)
    return lambda: total


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_body_of_headers_is_searched_in_linear_time(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch, *, is_sealed: bool
) -> None:
    """Each header claims all the bytes behind it; each byte is read a bounded number of times."""
    log = with_ballot(disk, segment_bytes=MiB)
    size, raw = 256 * 1024, bytearray()
    while len(raw) < size:
        index = 3 + len(raw) // 72
        rest = max(0, (size - len(raw)) // 72 * 72 - 72)
        header = bytearray(sealed(index, b"").raw[:72])
        header[52:56] = rest.to_bytes(4, "little")
        header[8:12] = bytes(4)
        header[8:12] = entry.crc32c(bytes(header)).to_bytes(4, "little")
        raw += header
    log.append(b"one")
    log.append(bytes(raw))
    if is_sealed:
        log.append(b"x" * (MiB - 4096 - 100))
    spoil(log, 2, 30, b"?")
    log.close()
    counted = read_bytes(monkeypatch)
    log._open()
    assert counted() < 12 * MiB + 12 * size
    assert [it.index for it in log.journal.damage] == [2]
    assert log.journal.unknown_through in {0, 2}


def test_headers_are_found_in_their_places_only() -> None:
    """A header stands at a multiple of 8 and has a good checksum."""
    first = sealed(1, b"abc")
    second = sealed(2, b"defg", first.chain)
    data = first.raw + b"HFE1" + bytes(4) + second.raw + b"1" + second.raw
    found = [(place, fields.entry_index) for place, fields in headers_in(data, 0, len(data))]
    assert found == [(0, 1), (len(first.raw) + 8, 2)]


def test_a_run_is_followed_back_as_far_as_the_chain_proves_it() -> None:
    """From the entry that is known to the first one whose successor vouches for it."""
    chain, entries = FIRST_CHAIN, []
    for index in range(1, 6):
        entries.append(sealed(index, b"body %d" % index, chain))
        chain = entries[-1].chain
    data = bytearray(b"".join(it.raw for it in entries))
    size = len(entries[0].raw)
    data[2 * size + 74] ^= 1  # the third one's body
    candidates = Continuation(bytes(data), 0, len(data))
    found = candidates.proven(8, lambda it: it[6] > 1, lambda it: it[12] == chain)
    assert found is not None
    # Its header is proven by the fourth; what stood before it is not.
    assert (found[0], found[1][6]) == (2 * size, 3)
    assert candidates.proven(8, lambda _: True, lambda it: it[12] == bytes(16)) is None
    after = candidates.after(8, 3, entries[2].chain)
    assert after is not None
    assert after[1][6] == 4
    assert candidates.after(8, 3, bytes(16)) is None
    ending = candidates.ending(8, lambda it: it[6] > 1)
    assert ending is not None
    assert ending[1][6] == 3
    assert candidates.ending(8, lambda it: it[6] > 1, last_index=4) is None
