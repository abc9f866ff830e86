"""
Many manifests in one file, so that whoever opens a long archive reads one file and not thousands.

    _holdfast/snapshot.jsonl    a line that says what it is, then one line for each manifest

The manifests themselves stay the truth: a snapshot only spares reading those that a listing shows
to be the files they were, by name, size and time. Without it, or where a line of it is damaged,
they are read as ever. What goes or proves something (tidying, audit) reads all of them.

Pure: bytes and values. Reading and writing them is the business of `archive/store.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from hashlib import blake2b
from typing import Any, Final

from holdfast.spark.archive.manifests import ArchivedFile, Manifest

SNAPSHOT_NAME: Final = "snapshot.jsonl"
UNREAD_MIN: Final = 64
"""So many manifests are read one by one before a snapshot is worth its bytes."""

UNREAD_SHARE: Final = 32
"""Later one part in so many of all: what is written again and again stays a small part."""

_FORMAT: Final = 1
_OF_FILE: Final = tuple(it.name for it in fields(ArchivedFile))
_OF_MANIFEST: Final = tuple(
    it.name for it in fields(Manifest) if it.name not in {"files", "queues"}
)
_HEAD: Final = {"snapshot": _FORMAT, "manifest": list(_OF_MANIFEST), "file": list(_OF_FILE)}
"""What the values of a line are; a snapshot of other ones is not ours to read."""

_DIGEST_BYTES: Final = 16

Stamp = tuple[str, int, int]
"""What tells a file of a listing from another: its name, its bytes, when it was written."""

Known = dict[Stamp, Manifest]


def is_due(all_count: int, unread_count: int) -> bool:
    """Whether so many manifests are not in the snapshot that a new one is worth writing."""
    return unread_count > max(UNREAD_MIN, all_count // UNREAD_SHARE)


def encode_snapshot(known: Known) -> bytes:
    """Give the file for these manifests, in the order of their ranges; each line has its digest."""
    lines = [_line(_HEAD)]
    for (name, size, modified_at), manifest in sorted(known.items()):
        values = [getattr(manifest, it) for it in _OF_MANIFEST]
        files = [[getattr(file, it) for it in _OF_FILE] for file in manifest.files]
        queues = [[number, queue] for number, queue in sorted(manifest.queues.items())]
        lines.append(_line([name, size, modified_at, values, queues, files]))
    return b"".join(lines)


def decode_snapshot(data: bytes) -> Known:
    """Give the manifests of the lines that are as they were written; none of another format."""
    head, *lines = data.split(b"\n")
    if _parsed(head) != _HEAD:
        return {}
    return dict(_decoded(lines))


def is_of_later(data: bytes) -> bool:
    """Whether a later program wrote this snapshot: it reads it again, and we cannot."""
    head = _parsed(data.partition(b"\n")[0])
    return isinstance(head, dict) and head.get("snapshot", 0) > _FORMAT


def _line(values: Any) -> bytes:
    content = json.dumps(values, separators=(",", ":")).encode()
    return b"%s %s\n" % (_digest(content), content)


def _decoded(lines: Iterable[bytes]) -> Iterator[tuple[Stamp, Manifest]]:
    for line in lines:
        found = _parsed(line)
        if found is None:
            continue
        name, size, modified_at, values, queues, files = found
        yield (
            (name, size, modified_at),
            Manifest(
                files=tuple(ArchivedFile(**dict(zip(_OF_FILE, it, strict=True))) for it in files),
                queues=dict(queues),
                **dict(zip(_OF_MANIFEST, values, strict=True)),
            ),
        )


def _parsed(line: bytes) -> Any:
    digest, _, content = line.partition(b" ")
    return json.loads(content) if digest == _digest(content) else None


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=_DIGEST_BYTES).hexdigest().encode()
