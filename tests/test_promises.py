"""
docs/reference/promises.md is held to the truth: it has every row, names only what exists, and calls
nothing kept that a run of this product found broken.

What this run has shown is rendered beside it, to build/promises.md.
"""

from __future__ import annotations

from holdfast.testing.promises.evidence import REPOSITORY, load
from holdfast.testing.promises.table import PAGE, check, render, write


def test_the_promise_table_says_nothing_that_is_not_so() -> None:
    """Rows, names and statuses; `make promises` writes the page anew."""
    known = load()
    write(render(known), REPOSITORY / "build" / "promises.md")

    assert check(PAGE.read_text(encoding="utf-8"), known) == []
