"""
Answers that come in pages, put together by whoever asks for them.

A node says behind what the next page begins. Whoever listens where a node was, or a node that is
broken, may say the same for ever, or always something else: then a command would never end, and
keep what it was told until its memory is full. So each page must begin behind the one before, as
names and numbers are ordered, and all of them together have a bound.

Invariants:
    Each mark is behind the one before it.
    No more is kept than `PAGES_BYTES_MAX`, as JSON, and no more pages are asked for than there
    are of a node with millions of queues.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from holdfast.errors import LinkLostError
from holdfast.model.limits import GiB

PAGES_COUNT_MAX: Final = 100_000
"""A page has a thousand queues, or 256 that have the longest names."""

PAGES_BYTES_MAX: Final = GiB

PAGES_SECONDS_MAX: Final = 600.0
"""A hundred thousand queues take seconds, on a busy node some tens of them."""

_SHOWN_MAX: Final = 80


class Pages:
    """The pages of one answer, as they come."""

    __slots__ = ("_after", "_bytes", "_clock", "_count", "_ends_at", "_seconds_max", "_whose")

    def __init__(
        self,
        whose: object,
        *,
        seconds_max: float = PAGES_SECONDS_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Await the first page.

        Args:
            whose: Who is asked, as it is told.
            seconds_max: So long all of them may take; infinite where a page is work of hours.
            clock: Seconds.
        """
        self._whose = whose
        self._clock = clock
        self._seconds_max = seconds_max
        self._ends_at = clock() + seconds_max
        self._after: str | int | None = None
        self._bytes = self._count = 0

    def next_behind(self, page: dict[str, Any]) -> str | int | None:
        """
        Take a page, and give behind what the next one begins; None: it is the last.

        Raises:
            LinkLostError: It leads nowhere, or there is no end of them.
        """
        after: object = page.get("next")
        if not after:
            return None
        if not _is_behind(after, self._after):
            raise self._wrong(
                f"behind the page that ends with {str(self._after or '')[:_SHOWN_MAX]!r} comes one"
                f" that ends with {str(after)[:_SHOWN_MAX]!r}, which is not further on"
            )
        assert isinstance(after, str | int), "it is behind another one"
        self._after = after
        self._count += 1
        self._bytes += len(json.dumps(page))
        if self._count >= PAGES_COUNT_MAX:
            raise self._wrong(f"its pages have no end: there were {self._count:,}")
        if self._bytes >= PAGES_BYTES_MAX:
            raise self._wrong(f"its pages have no end: there were {self._bytes:,} bytes")
        if self._clock() >= self._ends_at:
            raise self._wrong(f"its pages have no end: they came for {self._seconds_max:,.0f} s")
        return after

    def _wrong(self, what: str) -> LinkLostError:
        return LinkLostError(
            f"{self._whose} does not answer as a node does: {what}; see who listens there, or ask"
            f" another node"
        )


def _is_behind(after: object, known: str | int | None) -> bool:
    if isinstance(after, str):
        return known is None or (isinstance(known, str) and after > known)
    if isinstance(after, bool) or not isinstance(after, int):
        return False
    return known is None or (isinstance(known, int) and after > known)


def all_pages(
    ask: Callable[[str], dict[str, Any]], path: str, what: str, *, whose: object
) -> dict[str, Any]:
    """
    Give all pages of an answer as if it were one.

    Args:
        ask: Gives the answer to a path.
        path: Of the first page.
        what: The list that goes on from page to page.
        whose: Who is asked, as it is told.

    Raises:
        LinkLostError: They lead nowhere, or have no end.
    """
    pages = Pages(whose)
    answer = more = ask(path)
    while (after := pages.next_behind(more)) is not None:
        sign = "&" if "?" in path else "?"
        more = ask(f"{path}{sign}after={quote(str(after), safe='')}")
        answer[what] += more[what]
    answer.pop("next", None)
    return answer
