"""
The broker's state at one index, kept for a quick start. Disposable.

A checkpoint is written to a draft, synced, renamed, and read back before anyone relies on it. The
newest two are kept. One that is damaged, or speaks of another log, is ignored and reported: that
costs start-up time, never data.

Invariants:
    A file under its final name was complete and durable when it got that name.
    A checkpoint is used only if the journal has the same chain value at its index, and does not
    begin before the log of which it was taken: of one that was begun anew, and then given up for
    the log before it, it knows only what stood in that half.

Blocking and independent of the journal's threads; call `save` where waiting is fine.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from google_crc32c import value as crc32c

from holdfast.environment.disk import Disk
from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.journal import Journal

_MAGIC: Final = b"HFCP"
_VERSION: Final = 2
_HEADER: Final = struct.Struct("<4sHHIIQQQQQ16s16s")
CHECKPOINT_HEADER_BYTES: Final = _HEADER.size
"""So much of a file is about the log it was taken of; the rest is the state, equal on all nodes."""
_NAME: Final = re.compile(r"(\d{20})\.checkpoint")
_DRAFT_SUFFIX: Final = ".tmp"
_KEPT_COUNT: Final = 2
_READ_BYTES: Final = 8 * 1024 * 1024

logger = logging.getLogger("holdfast.journal")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State after entry `index`, whose term and chain value say of which log it speaks."""

    index: int
    term: int
    chain: bytes
    next_record_number: int
    first_index: int
    """Where the log began when this was taken."""

    body: bytes


class CheckpointStore:
    """The directory `checkpoints` of a data directory."""

    __slots__ = ("_directory", "_disk", "problems")

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._directory = directory / "checkpoints"
        self._disk = disk
        self.problems: list[str] = []
        """Why checkpoints were ignored, one sentence each."""

    def save(
        self,
        index: int,
        term: int,
        chain: bytes,
        next_record_number: int,
        first_index: int,
        parts: Sequence[bytes],
    ) -> Path:
        """
        Write a checkpoint, durable and read back when this returns, and drop all but two.

        `first_index` is where the log began when the state was taken.

        Raises:
            StoreError: It could not be written or does not read back; older ones are untouched.
        """
        path = self._directory / f"{index:020d}.checkpoint"
        draft = path.with_suffix(_DRAFT_SUFFIX)
        header = _encode_header(index, term, chain, next_record_number, first_index, parts)
        try:
            self._disk.make_directory(self._directory)
            self._write(draft, header, parts)
            self._disk.rename(draft, path)
            self._disk.sync_directory(self._directory)
        except OSError as error:
            self._discard(draft)
            raise StoreError(f"checkpoint {path.name} could not be written: {error}") from error
        self._read(path)
        self._drop_old()
        return path

    def load_newest(self, max_index: int, journal: Journal) -> Checkpoint | None:
        """
        Return the newest good checkpoint at or below `max_index` that belongs to this log.

        The log must reach back to it: entry `index + 1` is kept, or is the next one.
        """
        if not self._disk.exists(self._directory):
            return None
        for index in reversed(self._indexes()):
            if index > max_index:
                self._ignore(index, "it is newer than what is known to be committed")
                continue
            try:
                checkpoint = self._read(self._directory / f"{index:020d}.checkpoint")
            except StoreError as error:
                self._ignore(index, str(error))
                continue
            problem = _mismatch(checkpoint, journal)
            if problem is None:
                return checkpoint
            self._ignore(index, problem)
        return None

    def readable(self) -> Iterator[Checkpoint]:
        """Give the good checkpoints, newest first; whether the log agrees is not looked at."""
        if not self._disk.exists(self._directory):
            return
        for index in reversed(self._indexes()):
            try:
                yield self._read(self._directory / f"{index:020d}.checkpoint")
            except StoreError as error:
                self._ignore(index, str(error))

    def _write(self, draft: Path, header: bytes, parts: Sequence[bytes]) -> None:
        file = self._disk.open(draft, create=True)
        try:
            file.truncate(0)
            file.write(header, 0)
            offset = len(header)
            for part in parts:
                file.write(part, offset)
                offset += len(part)
            file.sync()
        finally:
            file.close()

    def _read(self, path: Path) -> Checkpoint:
        try:
            file = self._disk.open(path, writable=False)
            try:
                size = file.size()
                data = b"".join(
                    file.read(min(_READ_BYTES, size - offset), offset)
                    for offset in range(0, size, _READ_BYTES)
                )
            finally:
                file.close()
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error}") from error
        return _decode(path, data)

    def _indexes(self) -> list[int]:
        names = self._disk.list_directory(self._directory)
        return sorted(int(found.group(1)) for name in names if (found := _NAME.fullmatch(name)))

    def _ignore(self, index: int, problem: str) -> None:
        self.problems.append(f"checkpoint {index:,} is ignored: {problem}")
        logger.warning("checkpoint %d is ignored: %s", index, problem)

    def _drop_old(self) -> None:
        try:
            for index in self._indexes()[:-_KEPT_COUNT]:
                self._disk.unlink(self._directory / f"{index:020d}.checkpoint")
        except OSError as error:
            logger.warning("an old checkpoint cannot be removed: %s", error)

    def _discard(self, draft: Path) -> None:
        try:
            self._disk.unlink(draft)
        except OSError as error:
            logger.warning("a draft of a checkpoint cannot be removed: %s", error)


def _encode_header(
    index: int,
    term: int,
    chain: bytes,
    next_record_number: int,
    first_index: int,
    parts: Sequence[bytes],
) -> bytes:
    digest = blake2b(digest_size=16)
    length = 0
    for part in parts:
        digest.update(part)
        length += len(part)
    fields = (index, term, next_record_number, first_index, length, chain, digest.digest())
    header = _HEADER.pack(_MAGIC, _VERSION, 0, 0, _HEADER.size, *fields)
    checksum: int = crc32c(header)
    return header[:8] + checksum.to_bytes(4, "little") + header[12:]


def _decode(path: Path, data: bytes) -> Checkpoint:
    header = data[: _HEADER.size]
    if len(header) < _HEADER.size:
        raise StoreError(f"{path} is cut short")
    magic, version, _, checksum, _, *place, length, chain, digest = _HEADER.unpack(header)
    index, term, record, first = place
    if crc32c(header[:8] + bytes(4) + header[12:]) != checksum:
        raise StoreError(f"{path}: the header checksum is wrong")
    if magic != _MAGIC or version != _VERSION:
        raise StoreError(f"{path}: version {version} is not known to this program")
    body = data[_HEADER.size :]
    if len(body) != length or blake2b(body, digest_size=16).digest() != digest:
        raise StoreError(f"{path}: the checksum of the state is wrong")
    return Checkpoint(index, term, chain, record, first, body)


def _mismatch(checkpoint: Checkpoint, journal: Journal) -> str | None:
    """Say why this checkpoint cannot be used with this log, None if it can."""
    if not journal.first_index - 1 <= checkpoint.index <= journal.last_index:
        return (
            f"the log holds {journal.first_index:,} to {journal.last_index:,} and cannot"
            f" continue it"
        )
    if checkpoint.first_index > journal.first_index:
        return (
            f"it was made from a log that began with {checkpoint.first_index:,}, and this one"
            f" begins with {journal.first_index:,}"
        )
    try:
        chain = journal.chain_at(checkpoint.index)
    except CorruptEntryError as error:
        return f"the log is damaged there: {error}"
    if chain != checkpoint.chain:
        return "it was made from another log"
    return None
