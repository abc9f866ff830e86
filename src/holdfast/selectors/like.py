"""
LIKE: patterns in which `_` stands for any one character and `%` for any number of them.

A pattern is cut at its `%` into segments. The first and the last stand at the ends of the text;
each between is looked for where the one before has ended, and the first place is as good as any. So
a text is gone through once, whatever the pattern: there is nothing to try again, as a regular
expression would.

A segment between two `%` with `_` inside is found by its longest part without. Where that is often
there and the rest never beside it, all places are worked out at once, a bit for each character.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

_TRIES_MAX: Final = 16
"""Places that are looked at one by one, before all are at once."""

_HELD: Final = {"%": "\ud800", "_": "\ud801"}
"""What stands for an escaped wildcard while a pattern is cut up: halves of pairs, which no UTF-8 is
decoded to."""

_given = re.compile(r"[^_]+").finditer


class Part(NamedTuple):
    """Characters of a segment that are given, and how far from its beginning."""

    offset: int
    text: str


class Segment(NamedTuple):
    """What stands between two `%`: so many characters, some of them given."""

    length: int
    parts: tuple[Part, ...]

    def stands_at(self, text: str, place: int) -> bool:
        """Whether it stands there; the text is long enough."""
        return all(text.startswith(part.text, place + part.offset) for part in self.parts)


class Pattern:
    """A pattern that was read."""

    __slots__ = ("_between", "_first", "_last", "_length_min")

    def __init__(self, segments: list[Segment]) -> None:
        self._first = segments[0]
        self._last = segments[-1] if len(segments) > 1 else None
        self._between = [each for each in segments[1:-1] if each.length]
        self._length_min = sum(each.length for each in segments)

    @property
    def is_floating(self) -> bool:
        """Whether something is looked for all over the text."""
        return any(each.parts for each in self._between)

    @property
    def scattered_count(self) -> int:
        """Segments that are looked for and are not of one piece."""
        return sum(len(each.parts) > 1 for each in self._between)

    def matches(self, text: str) -> bool:
        """Whether the whole text is like this."""
        length = len(text)
        first, last = self._first, self._last
        if last is None:
            return length == first.length and first.stands_at(text, 0)
        end = length - last.length
        if length < self._length_min or not first.stands_at(text, 0):
            return False
        if not last.stands_at(text, end):
            return False
        place = first.length
        for segment in self._between:
            found = _find(segment, text, place, end)
            if found < 0:
                return False
            place = found + segment.length
        return place <= end


def read_pattern(pattern: str, escape: str | None) -> Pattern:
    """
    Read a pattern; the character behind `escape` stands for itself.

    Raises:
        ValueError: Nothing stands behind the last escape.
    """
    if escape is not None:
        pattern = _held(pattern, escape)
    return Pattern([_segment(each) for each in pattern.split("%")])


def _held(pattern: str, escape: str) -> str:
    """Put something else in place of what is escaped."""
    pieces = pattern.split(escape)
    held = [pieces[0]]
    place = 1
    while place < len(pieces):
        piece = pieces[place]
        if piece:
            held.append(_HELD.get(piece[0], piece[0]) + piece[1:])
        elif place + 1 < len(pieces):  # Two of them in a row stand for one.
            place += 1
            held.append(_HELD.get(escape, escape) + pieces[place])
        else:
            raise ValueError(pattern)
        place += 1
    return "".join(held)


def _segment(written: str) -> Segment:
    parts = [Part(found.start(), _free(found[0])) for found in _given(written)]
    return Segment(len(written), tuple(parts))


def _free(text: str) -> str:
    for wildcard, held in _HELD.items():
        text = text.replace(held, wildcard)
    return text


def _find(segment: Segment, text: str, place: int, end: int) -> int:
    """Give the first place of a segment, from `place` on and before `end`; -1 if there is none."""
    parts = segment.parts
    if place + segment.length > end:
        return -1
    if not parts:
        return place
    offset, longest = max(parts, key=_length_of)
    last = end - segment.length + offset + len(longest)
    look = partial(text.find, longest)
    if len(parts) == 1:
        found = look(place + offset, last)
        return found - offset if found >= 0 else -1
    at = place + offset
    for _ in range(_TRIES_MAX):
        found = look(at, last)
        if found < 0 or segment.stands_at(text, found - offset):
            return found - offset if found >= 0 else -1
        at = found + 1
    return _find_at_once(segment, text, at - offset, end)


def _length_of(part: Part) -> int:
    return len(part.text)


def _find_at_once(segment: Segment, text: str, place: int, end: int) -> int:
    """As `_find`, however often its parts are there: by bits, one for each place of the text."""
    places = _places(text[place:end], {each for part in segment.parts for each in part.text})
    fits = (1 << max(end - place - segment.length + 1, 0)) - 1
    for part in segment.parts:
        for distance, character in enumerate(part.text, part.offset):
            fits &= places[character] >> distance
            if not fits:
                return -1
    return place + (fits & -fits).bit_length() - 1


def _places(text: str, wanted: set[str]) -> dict[str, int]:
    """Give the places of some characters: bit n of a number is set where the n-th is that one."""
    bits = {character: bytearray(len(text) // 8 + 1) for character in wanted}
    find: Callable[[str], bytearray | None] = bits.get
    for place, character in enumerate(text):
        found = find(character)
        if found is not None:
            found[place >> 3] |= 1 << (place & 7)
    return {character: int.from_bytes(each, "little") for character, each in bits.items()}
