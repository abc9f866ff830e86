"""
How a start and an end may be written, and what to say to a name that is none of ours.

A place is an entry, the words of Spark's Kafka source, or an offset of a query as Spark shows it in
its progress and writes it into a checkpoint: a new query then goes on where another stopped.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from holdfast.errors import ConfigError
from holdfast.model.digits import read_count
from holdfast.spark.source.offsets import Taken, taken_of

_LIKENESS_MIN: Final = 0.6
"""Of a name that is suggested; difflib's own default."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a query starts or ends; an `index` of None is the end of the log on that side."""

    index: int | None = None
    is_latest: bool = False
    taken: Taken | None = None
    """The offset that says so, if it was one: it also tells which log it is of."""

    def __eq__(self, other: object) -> bool:
        """Two ways to write one entry are the same place."""
        if not isinstance(other, Place):
            return NotImplemented
        return (self.index, self.is_latest) == (other.index, other.is_latest)

    def __hash__(self) -> int:
        """As `__eq__` compares."""
        return hash((self.index, self.is_latest))


def starting_at(text: str) -> Place:
    """
    Return the first entry to read: `earliest`, `latest`, a number, or an offset to go on behind.

    Raises:
        ValueError: It is none of these.
    """
    if text in {"latest", "earliest"}:
        return Place(is_latest=text == "latest")
    taken = _offset(text)
    return Place(_count(text)) if taken is None else Place(taken.index + 1, taken=taken)


def ending_at(text: str) -> Place:
    """
    Return the last entry to read: `latest`, a number, or an offset up to which a query came.

    Raises:
        ValueError: It is none of these.
    """
    if text == "latest":
        return Place(is_latest=True)
    taken = _offset(text)
    if taken is None:
        return Place(_count(text))
    if not taken.index:
        raise ValueError("an offset behind entry 0 has nothing before it")
    return Place(taken.index, taken=taken)


def unknown_option(
    key: str, names: Iterable[str], aliases: Iterable[str], others: Iterable[str]
) -> str:
    """Say that there is no such option, and which was probably meant."""
    names, aliases = sorted(names), sorted(aliases)
    known = {_plain(name): name for name in (*others, *aliases, *names)}
    close = get_close_matches(_plain(key), known, n=1, cutoff=_LIKENESS_MIN)
    meant = f"did you mean {known[close[0]]}? There are" if close else "there are"
    return (
        f"{key}: there is no such option; {meant} {', '.join(names)}; in the words of the Kafka"
        f" source {', '.join(aliases)}; and for an archive in an object store {', '.join(others)}"
    )


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _offset(text: str) -> Taken | None:
    """Read an offset in JSON; None if it is no JSON object."""
    if not text.startswith("{"):
        return None
    try:
        return taken_of(json.loads(text))
    except (ConfigError, ValueError) as error:
        raise ValueError('expected an offset of Holdfast, such as {"index": 7}') from error


def _count(text: str) -> int:
    number = read_count(text)
    if number is None:
        raise ValueError("expected an entry's number from 1, earliest, latest, or an offset")
    return number
