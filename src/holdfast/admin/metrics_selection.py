"""
What a scrape asks for: of which single queues samples are wanted.

Apart from what makes them, which is imported with the first scrape.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.admin.queue_pages import PAGE_COUNT_MAX
from holdfast.model.digits import read_digits

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PATTERN_LENGTH_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Selection:
    """Of which single queues samples are wanted; of none, if neither is given."""

    deepest: int = 0
    """So many with the most messages."""

    pattern: str = ""
    """Those with such names."""


NO_QUEUES: Final = Selection()


def read_selection(text: str) -> Selection:
    """
    Read what stands behind `?queues=`: `top:N`, or a pattern.

    Raises:
        ValueError: Neither; the sentence says what is expected.
    """
    if not text.startswith("top:"):
        if len(text) > PATTERN_LENGTH_MAX:
            raise ValueError(f"queues: a pattern has at most {PATTERN_LENGTH_MAX} characters")
        return Selection(pattern=text)
    count = read_digits(text.removeprefix("top:"))
    if count is None or not 1 <= count <= PAGE_COUNT_MAX:
        raise ValueError(f"queues: top:N with N from 1 to {PAGE_COUNT_MAX} is expected")
    return Selection(deepest=count)
