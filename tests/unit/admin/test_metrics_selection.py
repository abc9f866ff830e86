"""
What a scrape may ask for.
"""

from __future__ import annotations

import pytest

from holdfast.admin.metrics_selection import PATTERN_LENGTH_MAX, Selection, read_selection


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("", Selection()),
        ("top:5", Selection(deepest=5)),
        ("orders.*", Selection(pattern="orders.*")),
        ("top", Selection(pattern="top")),
    ],
)
def test_single_queues_are_asked_for_by_number_or_by_name(text: str, selection: Selection) -> None:
    """
    Without either none has samples.
    """
    assert read_selection(text) == selection


@pytest.mark.parametrize("text", ["top:0", "top:x", "top:", "top:100000", "x" * 201])
def test_what_cannot_be_answered_is_refused(text: str) -> None:
    """
    The sentence says what is expected.
    """
    assert PATTERN_LENGTH_MAX < 201
    with pytest.raises(ValueError, match="queues: "):
        read_selection(text)
