"""Comparing two logs, and copying one into the other."""

from __future__ import annotations

import pytest

from holdfast.errors import CorruptEntryError, MissingEntriesError, UnreachableError
from holdfast.journal.entry import parse_entry
from holdfast.leases.contract import Outcome, Place
from holdfast.raidb.copying import Copier, read_on
from holdfast.raidb.member import NOTHING, Row, Token
from tests.unit.raidb.several import Several


@pytest.fixture
def several() -> Several:
    several = Several(2)
    writer = several.writer()
    writer.append(*(b"%d" % number for number in range(1, 11)))
    return several


def copier(several: Several) -> Copier:
    return Copier(several.reached(), 3.0)


def rows(several: Several) -> tuple[Row, Row]:
    return several.databases[0].row(), several.databases[1].row()


def shorten(several: Several, index: int, chain: bytes | None = None) -> None:
    """Let the second one end there, with an entry of another past if a chain is given."""
    database = several.databases[1]
    for it in [it for it in database.rows if it > index]:
        del database.rows[it]
    database.end = Place(index, chain or database.history.get(index, bytes(16)))


@pytest.mark.parametrize("index", [0, 1, 5, 10])
def test_a_beginning_is_in_common_as_a_whole(several: Several, index: int) -> None:
    """The shorter one's end is where they part."""
    shorten(several, index)
    first, second = rows(several)

    assert copier(several).common_end(second, first) == second.lease.end
    assert copier(several).common_end(first, second) == second.lease.end


@pytest.mark.parametrize("parted", range(1, 10))
def test_two_that_parted_have_in_common_what_came_before(several: Several, parted: int) -> None:
    """Found by halves, wherever it is."""
    database = several.databases[1]
    for index in range(parted + 1, 11):
        other = Several(1)
        writer = other.writer()
        writer.append(*(b"other %d" % number for number in range(index)))
        database.rows[index] = other.databases[0].rows[index]
    database.end = Place(10, b"\7" * 16)
    first, second = rows(several)

    found = copier(several).common_end(second, first)
    assert found == Place(parted, several.databases[0].history[parted])


def test_two_that_parted_at_once_share_the_beginning(several: Several) -> None:
    """An empty log is what all begin with, unless it was dropped."""
    shorten(several, 1, b"\7" * 16)
    first, second = rows(several)
    assert copier(several).common_end(second, first) == NOTHING

    several.databases[0].first_index = 3
    first, second = rows(several)
    assert copier(several).common_end(second, first) is None


def test_entries_are_copied_under_a_token(several: Several) -> None:
    """Under one that counts; under another one nothing is."""
    holder = several.databases[1].claimant
    assert holder is not None
    shorten(several, 4)
    end = several.databases[1].end
    entries = copier(several).read("a-member", 4, 8, 1000)
    wrong = copier(several).append("b-member", Token(9, holder.holder), entries, end)
    assert wrong is Outcome.DEPOSED

    done = copier(several).append("b-member", Token(1, holder.holder), entries, end)
    assert done is Outcome.STORED
    assert several.databases[1].end == Place(8, several.databases[0].history[8])


def test_what_is_not_there_is_told(several: Several) -> None:
    """Missing entries, and a member that another one took."""
    with pytest.raises(MissingEntriesError):
        copier(several).read("a-member", 10, 12, 100)
    with pytest.raises(UnreachableError, match="another broker"):
        copier(several).require(Outcome.DEPOSED)
    copier(several).require(Outcome.STORED)


def test_what_is_read_piece_by_piece_is_held_against_what_was_read_last(several: Several) -> None:
    """Where that stands right before it; else the first one begins, and the others follow on it."""
    entries = [parse_entry(several.databases[0].rows[index]) for index in range(1, 11)]
    last = Place(4, entries[3].chain)
    for known in (last, None, Place(2, bytes(16))):
        assert read_on(entries[4:], 4, known, "a") == Place(10, entries[9].chain)
    assert read_on(entries, 0, NOTHING, "a") == Place(10, entries[9].chain)
    with pytest.raises(CorruptEntryError) as found:
        read_on(entries[4:], 4, Place(4, b"\7" * 16), "a")
    assert found.value.index == 5
    with pytest.raises(CorruptEntryError) as found:
        read_on([entries[4], *entries[6:]], 4, None, "a")
    assert found.value.index == 6
