"""Which term each entry is of."""

from __future__ import annotations

from holdfast.journal.terms import TermTable


def table() -> TermTable:
    """Entries 1 to 4 of term 2, from 5 on of term 6."""
    made = TermTable([], [])
    made.begin(1, 2)
    made.begin(5, 6)
    return made


def test_an_entry_is_of_the_term_that_began_before_it() -> None:
    """What is before the first start is of the term before the log."""
    terms = table()
    assert [1, 2, 2, 6, 6] == [terms.at(index, 1) for index in (0, 1, 4, 5, 99)]


def test_a_cut_forgets_terms_that_began_after_it() -> None:
    """A term that begins with the last entry kept stays."""
    terms = table()
    terms.cut_after(5)
    assert 6 == terms.at(5, 1)
    terms.cut_after(4)
    assert (1, 2) == (len(terms), terms.at(5, 1))
    terms.clear()
    assert 0 == len(terms)


def test_one_entry_in_the_middle_is_of_another_term() -> None:
    """Those after it are what they were."""
    terms = table()
    assert 6 == terms.set(3, 4, 2, is_last=False)
    assert [2, 4, 2, 6] == [terms.at(index, 1) for index in (2, 3, 4, 5)]
