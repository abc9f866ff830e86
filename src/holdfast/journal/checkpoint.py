"""
The broker's state at one index, kept for a quick start. Disposable.

A checkpoint is written to a draft, synced, renamed, and read back before anyone relies on it. The
newest two are kept. One that is damaged is removed and reported, so that it takes no good one's
place; one that speaks of another log, or is of a version not known here, is ignored and reported.
Both cost start-up time, never data.

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
_NAME: Final = re.compile(r"([0-9]{20})\.checkpoint")
_DRAFT_SUFFIX: Final = ".tmp"
_KEPT_COUNT: Final = 2
_READ_BYTES: Final = 8 * 1024 * 1024

logger = logging.getLogger("holdfast.journal")


def checkpoint_name(index: int) -> str:
    """Return the file name of the checkpoint after entry `index`."""
    return f"{index:020d}.checkpoint"


def whole_checkpoints(directory: Path, disk: Disk) -> set[int]:
    """Return the indexes of the checkpoints of a data directory that can be read. Blocks."""
    return {it.index for it in CheckpointStore(directory, disk).readable()}


class DamagedCheckpointError(StoreError):
    """A checkpoint whose bytes are not those that were written: nobody can ever use it."""


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
        Write a checkpoint, durable and read back when this returns, and drop older ones but one.

        `first_index` is where the log began when the state was taken. Checkpoints above `index`,
        of a log that was longer once, are neither counted nor served by it: two of them are kept.

        Raises:
            StoreError: It could not be written or does not read back, and is removed; older ones
                are untouched.
        """
        path = self._directory / checkpoint_name(index)
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
        try:
            self._read(path)
        except StoreError:
            self._discard(path)
            raise
        self._drop_old(index)
        return path

    def load_newest(self, max_index: int, journal: Journal) -> Checkpoint | None:
        """
        Return the newest good checkpoint at or below `max_index` that belongs to this log.

        The log must reach back to it: entry `index + 1` is kept, or is the next one. Damaged ones
        that are met on the way are removed.
        """
        if not self._disk.exists(self._directory):
            return None
        for index in reversed(self._listed()):
            path = self._directory / checkpoint_name(index)
            try:
                checkpoint = self._read(path)
            except DamagedCheckpointError as error:
                self._ignore(index, f"{error}. It is removed")
                self._discard(path)
                continue
            except StoreError as error:
                self._ignore(index, str(error))
                continue
            if index > max_index:
                self._ignore(index, "it is newer than what is known to be committed")
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
        for index in reversed(self._listed()):
            try:
                yield self._read(self._directory / checkpoint_name(index))
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

    def _listed(self) -> list[int]:
        """Give the indexes; none where the directory cannot be read: they only save time."""
        try:
            return self._indexes()
        except OSError as error:
            self.problems.append(f"checkpoints are ignored: {error}")
            logger.warning("checkpoints are ignored: %s", error)
            return []

    def _indexes(self) -> list[int]:
        names = self._disk.list_directory(self._directory)
        return sorted(int(found.group(1)) for name in names if (found := _NAME.fullmatch(name)))

    def _ignore(self, index: int, problem: str) -> None:
        self.problems.append(f"checkpoint {index:,} is ignored: {problem}")
        logger.warning("checkpoint %d is ignored: %s", index, problem)

    def _drop_old(self, saved: int) -> None:
        try:
            indexes = self._indexes()
            below = [index for index in indexes if index <= saved]
            above = [index for index in indexes if index > saved]
            for index in below[:-_KEPT_COUNT] + above[:-_KEPT_COUNT]:
                self._disk.unlink(self._directory / checkpoint_name(index))
        except OSError as error:
            logger.warning("an old checkpoint cannot be removed: %s", error)

    def _discard(self, path: Path) -> None:
        try:
            self._disk.unlink(path)
        except OSError as error:
            logger.warning("%s, of no use, cannot be removed: %s", path.name, error)


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
        raise DamagedCheckpointError(f"{path} is cut short")
    magic, version, _, checksum, _, *place, length, chain, digest = _HEADER.unpack(header)
    index, term, record, first = place
    if magic != _MAGIC or version != _VERSION:
        raise StoreError(f"{path}: version {version} is not known to this program")
    if crc32c(header[:8] + bytes(4) + header[12:]) != checksum:
        raise DamagedCheckpointError(f"{path}: the header checksum is wrong")
    body = data[_HEADER.size :]
    if len(body) != length or blake2b(body, digest_size=16).digest() != digest:
        raise DamagedCheckpointError(f"{path}: the checksum of the state is wrong")
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
