"""
Which of very many queues an answer tells of, found in slices.

    page        in the order of their names, so many behind a given one
    survey      the sums over all
    deepest     those with the most messages
    matching    those whose names fit a pattern

Nothing is remembered between two answers: a page begins behind a name, not at a place in a list, so
queues that come and go in between move nothing, and any node can give the next one.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from holdfast.admin.slices import Slices
from holdfast.admin.status import QueueDepth

PAGE_COUNT_MAX: Final = 1_000
"""Queues in one answer."""

PAGE_NAME_BYTES_MAX: Final = 256 * 1024
"""What their names take, together; a page ends before that, but holds one queue."""

_NAMES_AT_ONCE: Final = 512
_PATTERN_NAMES_AT_ONCE: Final = 32
_PATTERN_LENGTH_AT_ONCE: Final = 320
"""To try a pattern at each place of a name takes up to 3 µs for each character of the pattern, with
a name of 1 KiB: so many characters are tried between two looks at the clock, one or more names."""
_CANDIDATES_MAX: Final = 2 * PAGE_COUNT_MAX


@dataclass(frozen=True, slots=True)
class Page:
    """Names in their order, and behind which the next page begins; None if this is the last."""

    names: list[str]
    next: str | None


async def page(names: Iterable[str], after: str, count: int, slices: Slices) -> Page:
    """
    Find the first names behind one.

    Args:
        names: All there are, in no order, none twice.
        after: Where the page before ended; empty for the first page.
    """
    found: list[str] = []
    end: str | None = None  # What is not before it is not of this page.
    async for some in slices.some(names, _NAMES_AT_ONCE):
        if end is None:
            found += [name for name in some if name > after]
        else:
            found += [name for name in some if after < name < end]
        if len(found) > _CANDIDATES_MAX:
            found.sort()
            del found[count + 1 :]
            end = found[-1]
    found.sort()
    kept = _fitting(found[:count])
    return Page(found[:kept], found[kept - 1] if kept < len(found) else None)


def _fitting(names: list[str]) -> int:
    size = 0
    for count, name in enumerate(names):
        size += len(name.encode())
        if count and size > PAGE_NAME_BYTES_MAX:
            return count
    return len(names)


@dataclass(slots=True)
class Survey:
    """All queues together."""

    count: int = 0
    messages: int = 0
    unacknowledged: int = 0
    consumers: int = 0
    bytes: int = 0
    messages_max: int = 0
    """Of the one that has the most."""

    deepest: list[str] = field(default_factory=list)
    """Those with the most messages, in the order of their names, as many as were asked for."""


async def survey(queues: Iterable[QueueDepth | None], deepest: int, slices: Slices) -> Survey:
    """Look at all queues once; None is a look that takes long."""
    found = Survey()
    most: list[tuple[int, str]] = []
    least = 0
    async for some in slices.some(queues):
        seen = [it for it in some if it is not None]
        if not seen:
            continue
        found.count += len(seen)
        found.messages += sum([it.messages for it in seen])
        found.unacknowledged += sum([it.unacknowledged for it in seen])
        found.consumers += sum([it.consumers for it in seen])
        found.bytes += sum([it.bytes for it in seen])
        found.messages_max = max(found.messages_max, *[it.messages for it in seen])
        if deepest:
            most += [(it.messages, it.name) for it in seen if it.messages >= least]
            if len(most) > deepest + _CANDIDATES_MAX:
                most.sort(reverse=True)
                del most[deepest:]
                least = most[-1][0]
    found.deepest = sorted(name for _, name in sorted(most, reverse=True)[:deepest])
    return found


async def matching(names: Iterable[str], pattern: str, slices: Slices) -> tuple[list[str], int]:
    """
    Find names that fit a pattern: `*` for anything, `?` for a character, `[abc]` for one of some.

    Returns:
        The first in the order of names, at most PAGE_COUNT_MAX; and how many others there are.
    """
    is_fitting = re.compile(fnmatch.translate(pattern)).match
    at_once = min(_PATTERN_NAMES_AT_ONCE, _PATTERN_LENGTH_AT_ONCE // max(len(pattern), 1)) or 1
    found: list[str] = []
    count = 0
    async for some in slices.some(names, at_once):
        fitting = [name for name in some if is_fitting(name)]
        count += len(fitting)
        found += fitting
        if len(found) > _CANDIDATES_MAX:
            found.sort()
            del found[PAGE_COUNT_MAX:]
    found.sort()
    del found[PAGE_COUNT_MAX:]
    return found, count - len(found)
