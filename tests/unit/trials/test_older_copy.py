"""Tests of testing/older_copy.py: when the simulator may put an older copy of a disk back."""

from __future__ import annotations

from pathlib import Path

from holdfast.journal.ballot import Ballot, encode_ballot
from trials.simulation.older_copy import is_recognisable, newest_ballot

OWN = bytes(range(16))


def disk(*ballots: Ballot) -> dict[Path, bytes]:
    return {Path("/data/ballot"): b"".join(map(encode_ballot, ballots))}


def who_saw(edition: int) -> dict[Path, bytes]:
    return disk(Ballot(node_id=bytes(16), seen=((OWN, edition),)))


def test_the_newer_slot_rules() -> None:
    """Whichever place it has; a damaged one is no ballot, and neither is no file."""
    old, new = Ballot(node_id=OWN, sequence=4), Ballot(node_id=OWN, sequence=5)

    assert newest_ballot(disk(new, old)) == new
    assert newest_ballot(disk(old, new)) == new
    assert newest_ballot({Path("/data/ballot"): bytes(8192)}) is None
    assert newest_ballot({}) is None


def test_all_of_three_must_know_better() -> None:
    """With one that does not the copy would be a majority."""
    copy = disk(Ballot(node_id=OWN, edition=7))

    assert is_recognisable(copy, [who_saw(8), who_saw(9)], 3)
    assert not is_recognisable(copy, [who_saw(8), who_saw(7)], 3)
    assert not is_recognisable(copy, [who_saw(8), {}], 3)
    assert not is_recognisable({}, [who_saw(8), who_saw(9)], 3)


def test_one_of_five_may_be_unaware() -> None:
    """The copy and one more are no majority of five."""
    copy = disk(Ballot(node_id=OWN, edition=7))
    aware = [who_saw(8)] * 2

    assert is_recognisable(copy, [*aware, who_saw(8), {}], 5)
    assert not is_recognisable(copy, [*aware, {}, {}], 5)
