"""A log as a scan found it."""

from __future__ import annotations

from holdfast.journal.found_log import LogScan


def test_terms_are_kept_where_they_begin() -> None:
    """An entry of the same term adds nothing; what is learned of an entry again replaces it."""
    found = LogScan()
    for index, term in ((1, 1), (2, 1), (3, 4)):
        found.note_term(index, term)
    assert (found.term_starts, found.term_values, found.last_term) == ([1, 3], [1, 4], 4)
    found.note_term(3, 5)
    assert (found.term_starts, found.term_values, found.last_term) == ([1, 3], [1, 5], 5)
