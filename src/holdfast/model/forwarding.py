"""
Where what is sent to one destination goes instead, or as well: a composite destination's list.

`queue://A, topic://B when region = 'north'`: destinations with commas between, each perhaps with a
condition on the messages that go there, a selector. A comma within quotes or parentheses belongs to
the selector. Pure; nothing here knows whether a destination exists, or what a selector means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from holdfast.errors import DestinationError
from holdfast.model.advisories import is_advisory
from holdfast.model.destination import Destination, Kind, parse_destinations
from holdfast.model.limits import COMPOSITE_COUNT_MAX, QUEUE_NAME_BYTES_MAX
from holdfast.model.reserved_names import OWN_MARK

_MIRROR: Final = "VirtualTopic.Mirror."
"""What stands before the name of a queue in that of the topic that mirrors it."""

_KEPT_COUNT_MAX: Final = 1_024
"""So many lists are read once, for all destinations that a pattern means and whoever asks: one may
take 2 ms, and there are no more patterns than that."""

_WHEN: Final = re.compile(r"\s+when\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Forward:
    """One destination of several."""

    destination: Destination
    selector: str = ""
    """Which messages go there; empty: all."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """What happens to what is sent to one destination."""

    forwards: tuple[Forward, ...] = ()
    is_only: bool = True
    """It does not go to the destination itself, too."""
    keeps_unmatched: bool = False
    """But what goes nowhere else does."""
    is_mirrored: bool = False
    """A topic mirrors it, if anybody listens to that."""


def mirror_of(queue: str) -> Destination | None:
    """Give the topic that mirrors a queue of this name; None: it would have too long a name."""
    name = f"{_MIRROR}{queue}"
    return None if len(name.encode()) > QUEUE_NAME_BYTES_MAX else Destination(Kind.TOPIC, name)


def is_mirror(topic: str) -> bool:
    """Whether a topic of this name is one that mirrors a queue."""
    return topic.startswith(_MIRROR)


@lru_cache(_KEPT_COUNT_MAX)
def read_forwards(text: str) -> tuple[Forward, ...]:
    """
    Read a list of destinations, each perhaps with a selector.

    Raises:
        ValueError: One cannot be, or there are too many.
    """
    forwards = tuple(_read_one(item) for item in _items(text))
    if not forwards or len(forwards) > COMPOSITE_COUNT_MAX:
        raise ValueError(f"{len(forwards):,} destinations; allowed are 1 to {COMPOSITE_COUNT_MAX}")
    return forwards


def _items(text: str) -> Iterator[str]:
    """Give what stands between commas that stand neither in quotes nor in parentheses."""
    start = depth = 0
    quote = ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "," and not depth:
            yield text[start:place]
            start = place + 1
    if text[start:].strip():
        yield text[start:]


def _read_one(item: str) -> Forward:
    where, *rest = _WHEN.split(item.strip(), maxsplit=1)
    try:
        # As one of several, so that JMS' own prefixes are read.
        (found,) = parse_destinations(f"{where.strip()},")
    except DestinationError as error:
        raise ValueError(str(error)) from None
    if found.kind not in (Kind.QUEUE, Kind.TOPIC):
        raise ValueError(f"'{found}': only queues and topics outlast a connection")
    if found.options:
        raise ValueError(f"'{found}': a '?' begins options, which mean nothing here")
    if found.name.startswith(OWN_MARK):
        raise ValueError(f"'{found}': names that begin with '$' are the broker's own")
    if is_advisory(found.name):
        raise ValueError(f"'{found}': advisory messages are the broker's own")
    selector = rest[0].strip() if rest else ""
    if rest and not selector:
        raise ValueError(f"'{found}': behind 'when' a selector must follow")
    return Forward(found, selector)
