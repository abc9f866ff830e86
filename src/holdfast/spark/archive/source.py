"""
An archive seen as a source of entries, each rebuilt from its rows and proven by the chain.

Invariants:
    What is given is what was archived, byte for byte, or an error names the file.
    What the archive lacks is given as damage that says so, never left out in silence.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from holdfast.errors import (
    ArchiveError,
    DamagedManifestError,
    MissingEntriesError,
    RecordNotFoundError,
)
from holdfast.spark.archive.manifest_reader import MANIFESTS
from holdfast.spark.archive.manifests import ArchivedFile, Break, Catalogue
from holdfast.spark.archive.places import Options
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.entry_block import EntryBlock, cut_entries
from holdfast.spark.log.source import BLOCK_BYTES, DamagedRange, LogPosition

PART_BYTES: Final = 32 * 1024 * 1024
"""So much of an archive a task reads at least, as long as every core has something to do."""
PARTS_MIN: Final = 8
"""A read has so many tasks or more, if there are as many files."""

_OF_OTHER_LOGS: Final = frozenset({"chain", "cluster", "overlap"})
"""Breaks that leave open which of the entries are the log's: no gap shows where they stand."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some entries that one data file holds, both ends included."""

    file: ArchivedFile
    first_index: int
    last_index: int


@dataclass(frozen=True)
class ArchivedSource:
    """An archive as a source of entries, each rebuilt from its rows and proven by the chain."""

    archive: Archive
    catalogue: Catalogue = field(compare=False, repr=False)

    @classmethod
    def open(cls, path: str, options: Options = ()) -> ArchivedSource:
        """
        Read the manifests of the archive at a path.

        Raises:
            ArchiveError: There is none; or a manifest before or behind the rest cannot be read:
                what it has would be left out in silence; or some are not of one log.
        """
        return _checked(Archive.open(path, options))

    def position(self) -> LogPosition:
        """How far the archive goes."""
        return replace(self._end(), bases=part_bases(self.catalogue.files()))

    def _end(self) -> LogPosition:
        end = self.catalogue.last
        if end is None:
            return LogPosition(first_index=1, last_index=0)
        return LogPosition(
            first_index=self.catalogue.first_index,
            last_index=end.last_index,
            cluster_id=end.cluster_id,
            last_timestamp=end.last_timestamp,
        )

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        """
        Give these entries; what no range of the archive has as damage.

        Raises:
            RecordNotFoundError: The archive begins later.
            CorruptArchiveError: A file is missing, or not what was archived.
        """
        (part,) = self.parts([(first_index, last_index)])
        return part.blocks(first_index, last_index)

    def parts(self, ranges: Sequence[tuple[int, int]]) -> list[ArchivedFiles]:
        """What a task needs of the archive to read each of these ranges: it opens no manifest."""
        position = self._end()
        files, damaged = self.catalogue.files(), self.catalogue.damaged
        firsts = [file.first_index for file in files]
        lasts = [file.last_index for file in files]
        return [
            ArchivedFiles(
                self.archive,
                tuple(files[bisect_left(lasts, first) : bisect_right(firsts, last)]),
                position,
                tuple(it for it in damaged if it.first_index <= last and it.last_index >= first),
            )
            for first, last in ranges
        ]

    def stretches(self) -> list[tuple[int, int]]:
        """
        The ranges of entries that are there, as long as can be; one if nothing is missing.

        Raises:
            ArchiveError: A manifest cannot be read, so that it is not known what is missing.
        """
        for damaged in self.catalogue.damaged:
            raise _not_whole(self.archive, damaged)
        found: list[tuple[int, int]] = []
        for each in self.catalogue.ranges:
            if found and each.first_index == found[-1][1] + 1:
                found[-1] = (found[-1][0], each.last_index)
            else:
                found.append((each.first_index, each.last_index))
        return found

    def reopened(self) -> ArchivedSource:
        """
        Read the manifests again, for what was archived since.

        Raises:
            ArchiveError: They are not there any more, or cannot be read.
        """
        return _checked(self.archive)

    def queue_names(self) -> dict[int, str]:
        """The names of all queues that the archive knows."""
        return self.catalogue.queues

    def reach(self, from_index: int, bytes_max: int) -> int:
        """The last index such that entries from `from_index` on are about `bytes_max` together."""
        total, reached = 0, from_index
        for manifest in self.catalogue.ranges:
            if manifest.last_index < from_index:
                continue
            total += manifest.log_bytes
            if total > bytes_max and reached > from_index:
                break
            reached = manifest.last_index
        return min(reached, self.catalogue.last_index)


def _checked(archive: Archive) -> ArchivedSource:
    catalogue = archive.catalogue()
    for each in catalogue.breaks:
        if each.kind in _OF_OTHER_LOGS:
            raise ArchiveError(
                f"{archive} does not hold together: {each}. 'holdfast audit --archive' names"
                f" everything that is wrong; move the manifests away that do not belong to it"
            )
        is_inside = catalogue.first_index <= each.first_index <= catalogue.last_index
        is_inside = is_inside and each.last_index <= catalogue.last_index
        if each.kind == "manifest" and not is_inside:
            raise _not_whole(archive, each)
    if catalogue.is_empty:
        raise ArchiveError(f"{archive} holds no archive: there is no manifest in {MANIFESTS}")
    return ArchivedSource(archive, catalogue)


def _not_whole(archive: Archive, damaged: Break) -> ArchiveError:
    return ArchiveError(
        f"{archive} cannot be read whole: {damaged}. Bring that manifest back from a copy, or move"
        f" it away to read what is left"
    )


@dataclass(frozen=True)
class ArchivedFiles:
    """Some data files of an archive as a source: so much of it is sent to a task."""

    archive: Archive
    files: tuple[ArchivedFile, ...]
    planned_at: LogPosition
    """How far the archive went when they were chosen."""
    damaged: tuple[Break, ...] = ()
    """Manifests that cannot be read, which had what no file of these has."""

    def position(self) -> LogPosition:
        """How far the archive went; only what these files hold can be read here."""
        return self.planned_at

    def pieces(self, first_index: int, last_index: int) -> Iterator[FilePart | DamagedRange]:
        """
        Give the files that hold these entries, and as damage what no file holds.

        Files that were merged since they were chosen, and are gone, are given as what they are now.

        Raises:
            RecordNotFoundError: The archive begins later.
        """
        begins = self.planned_at.first_index
        if first_index < begins and first_index <= last_index:
            raise RecordNotFoundError(
                f"entry {first_index:,} is not in {self.archive}, which begins with entry"
                f" {begins:,}"
            )
        for piece in self._pieces(first_index, last_index):
            if isinstance(piece, FilePart) and not self.archive.has(piece.file):
                span = piece.first_index, piece.last_index
                (part,) = ArchivedSource(self.archive, self.archive.catalogue()).parts([span])
                yield from part._pieces(*span)  # noqa: SLF001 - our own kind
            else:
                yield piece

    def _pieces(self, first_index: int, last_index: int) -> Iterator[FilePart | DamagedRange]:
        """Give the parts of a range that these files hold, and what is between them as damage."""
        expected = first_index
        for file in self.files:
            first, last = max(file.first_index, first_index), min(file.last_index, last_index)
            if first > last:
                continue
            yield from self._lacking(expected, first - 1)
            yield FilePart(file, first, last)
            expected = last + 1
        yield from self._lacking(expected, last_index)

    def _lacking(self, first_index: int, last_index: int) -> Iterator[DamagedRange]:
        """Tell of entries that no file has why: nobody knows of them, or a manifest is damaged."""
        expected = first_index
        for each in sorted(self.damaged, key=lambda it: it.first_index):
            first, last = max(each.first_index, expected), min(each.last_index, last_index)
            if first > last:
                continue
            if first > expected:
                yield _missing(self.archive, expected, first - 1)
            error = DamagedManifestError(first, last, str(self.archive), each.reason)
            yield DamagedRange(first, last, error)
            expected = last + 1
        if expected <= last_index:
            yield _missing(self.archive, expected, last_index)

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        """
        Give these entries; what no file has as damage.

        Raises:
            RecordNotFoundError: The archive begins later.
            CorruptArchiveError: A file is missing, or not what was archived.
        """
        for piece in self.pieces(first_index, last_index):
            if isinstance(piece, DamagedRange):
                yield piece
            else:
                yield from self._rebuilt(piece)

    def _rebuilt(self, part: FilePart) -> Iterator[EntryBlock]:
        raws: list[bytes] = []
        size, index = 0, part.first_index
        for entry in self.archive.entries(part.file, part.first_index, part.last_index):
            raws.append(entry.raw)
            size += len(entry.raw)
            if size >= BLOCK_BYTES:
                yield cut_entries(b"".join(raws), index)
                index, raws, size = entry.index + 1, [], 0
        if raws:
            yield cut_entries(b"".join(raws), index)

    def queue_names(self) -> dict[int, str]:
        """
        The names of all queues that the archive knows: its manifests are read, once.

        Raises:
            ArchiveError: One cannot be read, which may have had more.
        """
        return _queue_names(self.archive, self.planned_at)

    def reach(self, from_index: int, bytes_max: int) -> int:
        """The last index of these files such that they are about `bytes_max` together."""
        total, reached = 0, from_index
        for file in self.files:
            if file.last_index < from_index:
                continue
            total += file.bytes
            if total > bytes_max and reached > from_index:
                break
            reached = file.last_index
        return reached


@lru_cache(maxsize=4)
def _queue_names(archive: Archive, planned_at: LogPosition) -> dict[int, str]:
    """By what a task was planned on: an archive that has grown since may know more names."""
    catalogue = archive.catalogue()
    for damaged in catalogue.damaged:
        raise _not_whole(archive, damaged)
    return catalogue.queues


def _missing(archive: Archive, first_index: int, last_index: int) -> DamagedRange:
    fault = MissingEntriesError(first_index, last_index, str(archive))
    return DamagedRange(first_index, last_index, fault)


def part_bases(files: Sequence[ArchivedFile]) -> tuple[int, ...]:
    """Give where parts begin: each is one large file, or several small ones in a row."""
    wanted = min(PART_BYTES, sum(file.bytes for file in files) // PARTS_MIN)
    found: list[int] = []
    size = 0
    for file in files:
        if not found or size >= wanted:
            found.append(file.first_index)
            size = 0
        size += file.bytes
    return tuple(found)
