"""
How brokers are written down in a line, whatever keeps it: by names that only a broker makes.

A name is the holder's id, a dash, and what the elector adds so that no two are alike. What has
another name was put there by somebody else: it is counted, told, and stands in no line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from holdfast.leases.elector import LINE_COUNT_MAX, Line

_NAME: Final = re.compile(r"(?P<holder>[0-9a-f]{32})-(?P<rest>[0-9a-f-]{1,20})")


def holder_of(name: str) -> str:
    """Who wrote this name; empty if no broker did."""
    found = _NAME.fullmatch(name)
    return "" if found is None else found["holder"]


def line_of(names: Iterable[str], sure_seconds: float) -> Line:
    """
    The line that these names are, the first of each broker.

    Args:
        names: In the order of their coming.
        sure_seconds: See `Line`.
    """
    holders: dict[str, None] = {}
    strangers = 0
    for name in names:
        holder = holder_of(name)
        if holder:
            holders[holder] = None
        else:
            strangers += 1
    return Line(
        holders=tuple(holders)[:LINE_COUNT_MAX], sure_seconds=sure_seconds, strangers=strangers
    )
