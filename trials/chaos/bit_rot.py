"""
Rot in the files of a node: flipped bits, a log cut short, a folder that is an older copy.

Each function says what it did and where, so that a report can tell it and a test can wait until it
is mended. Bits are flipped in place, also under a running node; everything else wants a dead one.
If a `FaultyDisk` lies below, say `forget` to it afterwards, or a power cut may undo the rot.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.errors import CorruptEntryError
from holdfast.journal.ballot import SLOT_BYTES, decode_ballot
from holdfast.journal.entry import HEADER_BYTES, entry_bytes, parse_header
from holdfast.journal.segment import SEGMENT_HEADER_BYTES

if TYPE_CHECKING:
    from random import Random

_BLOCK_BYTES_USED: Final = 72
"""What the header block of a segment says stands in its first bytes; the rest is zeros."""


@dataclass(frozen=True, slots=True)
class Rot:
    """What was spoilt: `count` bytes of `path` from `byte` on, which said `before`."""

    what: str
    path: Path
    byte: int
    before: bytes
    count: int = 1

    def __str__(self) -> str:
        return f"{self.what} in {self.path.parent.name}/{self.path.name} at byte {self.byte:,}"


class _Place(NamedTuple):
    """An entry in a segment file; its header is good."""

    path: Path
    entry: int
    start: int
    body_length: int


def is_mended(rot: Rot) -> bool:
    """Tell whether the file says again what it said, or is not there any more."""
    try:
        with rot.path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), len(rot.before), rot.byte) == rot.before
    except FileNotFoundError:
        return True


def flip_bit(
    path: Path, randomness: Random, *, start: int = 0, end: int | None = None, what: str = ""
) -> Rot:
    """
    Flip one bit of a file from byte `start` to before `end`.

    Raises:
        LookupError: There is no byte.
    """
    with path.open("r+b", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        end = size if end is None else min(end, size)
        if start >= end:
            raise LookupError(f"{path} has no byte from {start:,} to {end:,}")
        place = randomness.randrange(start, end)
        before = os.pread(file.fileno(), 1, place)
        after = bytes([before[0] ^ 1 << randomness.randrange(8)])
        os.pwrite(file.fileno(), after, place)
    return Rot(what or "a flipped bit", path, place, before)


def flip_body(path: Path, randomness: Random) -> Rot:
    """
    Flip one bit in the body of some entry of a segment file.

    Raises:
        LookupError: No entry has a body.
    """
    return _flip_entry(_entries(path), randomness, "body")


def has_sealed_segment(data: Path) -> bool:
    """Tell whether a node's log has a segment that is full, where `rot_segment` may strike."""
    return len(list((data / "journal").glob("*.segment"))) > 1


def rot_segment(data: Path, randomness: Random, where: str = "body") -> Rot:
    """
    Flip one bit in a node's log.

    Args:
        where: "body" or "header" of some entry, or "block", the header block: all of a sealed
            segment, where a running node looks for rot; or "tail": anywhere in the last entry.

    Raises:
        LookupError: There is no such place yet.
    """
    segments = sorted((data / "journal").glob("*.segment"))
    if where == "tail":
        places = next((found for path in reversed(segments) if (found := _entries(path))), [])
        return _flip_entry(places[-1:], randomness, where)
    if len(segments) < 2:
        raise LookupError(f"{data} has no sealed segment yet")
    path = randomness.choice(segments[:-1])
    if where == "block":
        what = "a flipped bit of the header block"
        return flip_bit(path, randomness, end=_BLOCK_BYTES_USED, what=what)
    return _flip_entry(_entries(path), randomness, where)


def rot_ballot(data: Path, randomness: Random, *, is_total: bool = False) -> Rot:
    """
    Flip one bit of the newer slot of the ballot, or one in each: then the node has amnesia.

    Raises:
        LookupError: There is no ballot yet.
    """
    path = data / "ballot"
    if not path.exists():
        raise LookupError(f"{data} has no ballot yet")
    found = path.read_bytes()
    slots = [decode_ballot(found[at : at + SLOT_BYTES]) for at in (0, SLOT_BYTES)]
    newest = max((0, 1), key=lambda place: getattr(slots[place], "sequence", -1))
    if is_total:
        _flip_slot(path, randomness, 1 - newest)
    return _flip_slot(path, randomness, newest)


def rot_checkpoint(data: Path, randomness: Random) -> Rot:
    """
    Flip one bit of the newest checkpoint.

    Raises:
        LookupError: There is none yet.
    """
    found = sorted((data / "checkpoints").glob("*.checkpoint"))
    if not found:
        raise LookupError(f"{data} has no checkpoint yet")
    return flip_bit(found[-1], randomness, what="a flipped bit")


def cut_tail(data: Path, count: int) -> Rot:
    """
    Cut the newest segment file off `count` bytes before the end of its last entry.

    The header block stays, so that at most the entries of one segment are gone.

    Raises:
        LookupError: It has no entry.
    """
    segments = sorted((data / "journal").glob("*.segment"))
    places = next((found for path in reversed(segments) if (found := _entries(path))), [])
    if not places:
        raise LookupError(f"{data} has no entry yet")
    last = places[-1]
    past = last.start + HEADER_BYTES + last.body_length
    start = max(past - count, SEGMENT_HEADER_BYTES)
    lost = [place.entry for place in places if place.start + entry_bytes(place.body_length) > start]
    with last.path.open("r+b", buffering=0) as file:
        before = os.pread(file.fileno(), past - start, start)
        os.ftruncate(file.fileno(), start)
    what = f"the end cut off (entries {lost[0]:,} to {lost[-1]:,})"
    return Rot(what, last.path, start, before, past - start)


def older_copy(data: Path, to: Path) -> None:
    """Copy the folder of a node that does not run, to be rolled back to later."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(data, to, symlinks=True)


def roll_back(copy: Path, data: Path) -> Rot:
    """Make the folder of a dead node what it was when `older_copy` was taken; `copy` stays."""
    wipe(data)
    shutil.copytree(copy, data, symlinks=True, dirs_exist_ok=True)
    return Rot("an older copy of the whole folder", data, 0, b"", 0)


def wipe(data: Path) -> Rot:
    """Remove everything in the folder of a dead node; the folder itself stays."""
    if data.is_dir():
        for path in data.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    return Rot("nothing left", data, 0, b"", 0)


def _flip_slot(path: Path, randomness: Random, place: int) -> Rot:
    start = place * SLOT_BYTES
    what = f"a flipped bit of slot {place}"
    return flip_bit(path, randomness, start=start, end=start + SLOT_BYTES, what=what)


def _flip_entry(places: list[_Place], randomness: Random, where: str) -> Rot:
    if where == "body":
        places = [place for place in places if place.body_length]
    if not places:
        raise LookupError(f"there is no entry whose {where} could rot")
    place = randomness.choice(places)
    body = place.start + HEADER_BYTES
    start = body if where == "body" else place.start
    end = body if where == "header" else body + place.body_length
    what = f"a flipped bit of entry {place.entry:,} ({where})"
    return flip_bit(place.path, randomness, start=start, end=end, what=what)


def _entries(path: Path) -> list[_Place]:
    """Where the entries of a segment file are, up to the first whose header is not good."""
    places: list[_Place] = []
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return places  # segments are removed under our eyes
    start = SEGMENT_HEADER_BYTES
    while start + HEADER_BYTES <= len(found):
        try:
            fields = parse_header(found, start)
        except CorruptEntryError:
            break
        index, body_length = fields.entry_index, fields.body_length
        if start + entry_bytes(body_length) > len(found):
            break
        places.append(_Place(path, index, start, body_length))
        start += entry_bytes(body_length)
    return places
