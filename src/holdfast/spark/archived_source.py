"""
An archive seen as a source of entries, each rebuilt from its rows and proven by the chain.

Invariants:
    What is given is what was archived, byte for byte, or an error names the file.
    What the archive lacks is given as damage that says so, never left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.errors import ArchiveError, MissingEntriesError, RecordNotFoundError
from holdfast.spark.archive_store import MANIFESTS, Archive
from holdfast.spark.entry_block import EntryBlock, cut_entries
from holdfast.spark.log_source import BLOCK_BYTES, DamagedRange, LogPosition
from holdfast.spark.manifests import Catalogue
from holdfast.spark.places import Options


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
            ArchiveError: There is none, or a manifest before or behind the rest cannot be read:
                what it has would be left out in silence.
        """
        return _checked(Archive.open(path, options))

    def position(self) -> LogPosition:
        """How far the archive goes."""
        end = self.catalogue.last
        if end is None:
            return LogPosition(first_index=1, last_index=0)
        return LogPosition(
            first_index=self.catalogue.first_index,
            last_index=end.last_index,
            cluster_id=end.cluster_id,
            bases=tuple(file.first_index for file in self.catalogue.files()),
            last_timestamp=end.last_timestamp,
        )

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        """
        Give these entries; what no range of the archive has as damage.

        Raises:
            RecordNotFoundError: The archive begins later.
            CorruptArchiveError: A file is missing, or not what was archived.
        """
        if first_index < self.catalogue.first_index and first_index <= last_index:
            raise RecordNotFoundError(
                f"entry {first_index:,} is not in {self.archive}, which begins with entry"
                f" {self.catalogue.first_index:,}"
            )
        expected = first_index
        for file in self.catalogue.files(first_index, last_index):
            if file.first_index > expected:
                yield self._missing(expected, file.first_index - 1)
            expected = file.last_index + 1
            raws: list[bytes] = []
            size, index = 0, max(file.first_index, first_index)
            for entry in self.archive.entries(file, first_index, last_index):
                raws.append(entry.raw)
                size += len(entry.raw)
                if size >= BLOCK_BYTES:
                    yield cut_entries(b"".join(raws), index)
                    index, raws, size = entry.index + 1, [], 0
            if raws:
                yield cut_entries(b"".join(raws), index)
        if expected <= last_index:
            yield self._missing(expected, last_index)

    def _missing(self, first_index: int, last_index: int) -> DamagedRange:
        fault = MissingEntriesError(first_index, last_index, str(self.archive))
        return DamagedRange(first_index, last_index, fault)

    def stretches(self) -> list[tuple[int, int]]:
        """The ranges of entries that are there, as long as can be; one if nothing is missing."""
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
        is_inside = catalogue.first_index <= each.first_index <= catalogue.last_index
        is_inside = is_inside and each.last_index <= catalogue.last_index
        if each.kind == "manifest" and not is_inside:
            raise ArchiveError(
                f"{archive} cannot be read whole: {each}. Bring that manifest back from a copy, or"
                f" move it away to read what is left"
            )
    if catalogue.is_empty:
        raise ArchiveError(f"{archive} holds no archive: there is no manifest in {MANIFESTS}")
    return ArchivedSource(archive, catalogue)
