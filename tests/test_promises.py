"""
docs/reference/promises.md is held to the truth: it has every row and names only what exists.

Whether a row claims more than this run has shown is judged when the run is over, by
`python -m trials.promises --check`. What is known so far is rendered to
build/promises.md.
"""

from __future__ import annotations

from trials.promises.evidence import REPOSITORY, load
from trials.promises.table import PAGE, check_names, render, write


def test_the_promise_table_has_every_row_and_names_only_what_exists() -> None:
    """A fault without a row, a test or scenario that is gone: `make promises` writes it anew."""
    assert check_names(PAGE.read_text(encoding="utf-8")) == []


def test_what_was_shown_so_far_can_be_told() -> None:
    """The page of the evidence of today is whole, however much of it was run."""
    text = render(load())
    write(text, REPOSITORY / "build" / "promises.md")

    assert check_names(text) == []
