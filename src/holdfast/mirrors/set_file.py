"""
The file `mirror-set` of a mirrored directory: which member it is, and what it knows of all.

Two checksummed slots of 4 KiB, written alternately: a power cut spoils at most the one that was
being written, and the other one still has what was known before. Beside the set it has where each
member stood when it was last seen, so that a sentence can name what is missing; nothing is decided
by that.

Invariants:
    Of two good slots the one with the higher sequence rules.
    A save is durable when it returns.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from google_crc32c import value as crc32c

from holdfast.environment.disk import Disk
from holdfast.errors import MirrorError
from holdfast.mirrors.mirror_set import MirrorSet, set_fields, set_of

FILE_NAME: Final = "mirror-set"
SLOT_BYTES: Final = 4096
MEMBER_COUNT_MAX: Final = 8
"""So many members, with their places, fit into a slot with room to spare."""

_MAGIC: Final = b"HFMS"
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<4sHHIIQ")
"""Magic, version, nothing, checksum, length, sequence."""
_PLACE_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class WrittenSet:
    """What stands in the file of one member."""

    member: str
    known: MirrorSet
    places: Mapping[str, str] = field(default_factory=dict)
    """Where each member stood, for people."""
    sequence: int = 0


def encode_slot(written: WrittenSet) -> bytes:
    """
    Return the slot of 4 KiB that holds this.

    Raises:
        MirrorError: It has more members than a slot has room for.
    """
    known = written.known
    text = json.dumps(
        {
            "member": written.member,
            **set_fields(known),
            "places": {
                member: place[-_PLACE_CHARACTERS_MAX:] for member, place in written.places.items()
            },
        },
        separators=(",", ":"),
    ).encode()
    if _HEADER.size + len(text) > SLOT_BYTES:
        raise MirrorError(
            f"the set of mirrors has {len(known.states)} members and a history that its file has no"
            f" room for: begin a new set with one of them, without its file {FILE_NAME}"
        )
    slot = bytearray(SLOT_BYTES)
    _HEADER.pack_into(slot, 0, _MAGIC, _VERSION, 0, 0, len(text), written.sequence)
    slot[_HEADER.size : _HEADER.size + len(text)] = text
    slot[8:12] = crc32c(bytes(slot)).to_bytes(4, "little")
    return bytes(slot)


def decode_slot(slot: bytes) -> WrittenSet | None:
    """Return what a slot holds, None if it is damaged or of an unknown version."""
    if len(slot) != SLOT_BYTES:
        return None
    magic, version, _, checksum, length, sequence = _HEADER.unpack_from(slot)
    if crc32c(slot[:8] + bytes(4) + slot[12:]) != checksum:
        return None
    if magic != _MAGIC or version != _VERSION or _HEADER.size + length > SLOT_BYTES:
        return None
    said: dict[str, Any] = json.loads(slot[_HEADER.size : _HEADER.size + length])
    known = set_of(said)
    return WrittenSet(said["member"], known, said["places"], sequence)


def read_set(directory: Path, disk: Disk) -> WrittenSet | None:
    """
    Return what the file of a directory says, None if it has none.

    Raises:
        MirrorError: The file is there and neither slot can be read.
        OSError: The disk cannot be read.
    """
    try:
        file = disk.open(directory / FILE_NAME, writable=False)
    except FileNotFoundError:
        return None
    try:
        slots = [decode_slot(file.read(SLOT_BYTES, place * SLOT_BYTES)) for place in (0, 1)]
    finally:
        file.close()
    good = [slot for slot in slots if slot is not None]
    if good:
        return max(good, key=lambda it: it.sequence)
    if not any(file_bytes(directory, disk)):
        return None  # It was about to be made when the process ended.
    raise MirrorError(
        f"both slots of {directory / FILE_NAME} are unreadable, so nobody knows whether this mirror"
        f" has everything: move it aside, not away, and give an empty directory in its place, which"
        f" is filled; if the others do not start without it, 'holdfast mirror accept' lets them"
    )


def file_bytes(directory: Path, disk: Disk) -> bytes:
    """Return the whole of the file as it is."""
    file = disk.open(directory / FILE_NAME, writable=False)
    try:
        return file.read(2 * SLOT_BYTES, 0)
    finally:
        file.close()


def write_set(directory: Path, disk: Disk, written: WrittenSet) -> None:
    """
    Put this into the slot whose turn it is, durably.

    Raises:
        OSError: The disk refused.
    """
    path = directory / FILE_NAME
    is_new = not disk.exists(path)
    file = disk.open(path, create=True)
    try:
        file.write(encode_slot(written), written.sequence % 2 * SLOT_BYTES)
        file.sync()
    finally:
        file.close()
    if is_new:
        disk.sync_directory(directory)
