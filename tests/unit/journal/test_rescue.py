"""What one copy of a segment has whole where another one is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.journal.entry import parse_header, seal_entry
from holdfast.journal.rescue import read_bytes, rescued
from tests.unit.server.test_mirror_mending import A, B, in_one_segment, spoil, with_entries


def test_an_entry_that_does_not_join_is_not_taken() -> None:
    """What was left behind may have another one there: it was never confirmed."""
    machine, entries = with_entries()
    machine.open()
    machine.caretaker.disable(B)
    machine.kill()
    first, _ = in_one_segment(machine)
    path, start, size = machine.log.journal.place_of(first)
    header = parse_header(entries[first])
    other = seal_entry(
        index=first,
        term=header.term,
        kind=header.kind,
        timestamp=header.timestamp,
        first_record=header.first_record,
        record_count=header.record_count,
        parts=[b"another".ljust(header.body_length, b"!")],
        previous_chain=parse_header(entries[first - 1]).chain,
    )
    assert len(other.raw) == size
    there = B / "journal" / path.name
    content = machine.disks[B].content(there)
    machine.disks[B].replace_content(there, content[:start] + other.raw + content[start + size :])
    spoil(machine, A, first, first)
    here = A / "journal" / path.name

    assert rescued((here, machine.disks[A]), (there, machine.disks[B])) == []
    machine.disks[B].replace_content(there, content)
    assert rescued((here, machine.disks[A]), (there, machine.disks[B])) == [(start, entries[first])]


def test_only_segments_are_looked_at() -> None:
    """Other files are copied as they are."""
    machine, _ = with_entries()
    places = [(it / "ballot", machine.disks[it]) for it in (A, B)]
    assert rescued(places[0], places[1]) == []


def test_what_cannot_be_read_is_nothing() -> None:
    """Also a file that is not there."""
    machine, _ = with_entries()
    assert read_bytes(machine.disks[A], A / "nowhere", 0, 1) is None
    assert read_bytes(machine.disks[A], Path("/a/ballot"), 0, 4) == b"HFBL"


@pytest.mark.parametrize("also", [0, 1, 2])
def test_what_is_damaged_in_both_takes_no_neighbours(also: int) -> None:
    """At the front, in the middle and at the back of a run: the others of it are taken."""
    machine, entries = with_entries()
    first, last = in_one_segment(machine)
    assert last - first >= 2
    lost = (first, (first + last) // 2, last)[also]
    spoil(machine, A, first, last)
    spoil(machine, B, lost, lost)
    name = machine.log.journal.place_of(first)[0].name
    places = [(it / "journal" / name, machine.disks[it]) for it in (A, B)]

    found = [raw for _, raw in rescued(places[0], places[1])]
    assert found == [entries[it] for it in range(first, last + 1) if it != lost]


def test_what_is_damaged_in_the_other_behind_the_run_takes_nothing_before_it() -> None:
    """The next entry that both have whole says as well that the two went on alike."""
    machine, entries = with_entries()
    first, last = in_one_segment(machine)
    assert last - first >= 3
    last -= 2
    spoil(machine, A, first, last)
    spoil(machine, B, last, last + 1)
    name = machine.log.journal.place_of(first)[0].name
    places = [(it / "journal" / name, machine.disks[it]) for it in (A, B)]

    found = [raw for _, raw in rescued(places[0], places[1])]
    assert found == [entries[it] for it in range(first, last)]
