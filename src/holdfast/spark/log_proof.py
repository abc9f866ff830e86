"""
Reading a log with proof: every entry continues the chain of the one before it.

`LogSource` verifies checksums; here the chain hash is followed as well, so that what comes out is
this log and no other, without a gap. Also what else a pipeline must know of a log's ends, and an
archive seen as a source of entries.

Invariants:
    What `proven_blocks` gives is the asked range, whole and in order, or an error names the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Final

from holdfast.errors import (
    ArchiveError,
    CorruptEntryError,
    MissingEntriesError,
    RecordNotFoundError,
)
from holdfast.journal.entry import (
    CHAIN_BYTES,
    FIRST_CHAIN,
    HEADER,
    KIND_CONFIG,
    Entry,
)
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, decode_segment_header, segment_name
from holdfast.replication.membership import Membership, decode_membership
from holdfast.spark.archive_store import MANIFESTS, Archive
from holdfast.spark.entry_block import EntryBlock, cut_entries
from holdfast.spark.log_directory import LogDirectory
from holdfast.spark.log_source import BLOCK_BYTES, DamagedRange, LogPosition, LogSource
from holdfast.spark.manifests import NO_CHAIN, Catalogue
from holdfast.spark.places import Options

_LINK: Final = Struct("<16sQQ16s")


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """What the entry at one end of a range says."""

    index: int
    term: int
    timestamp: int
    first_record: int
    next_record: int
    chain: str

    @classmethod
    def of(cls, block: EntryBlock, place: int) -> RangeEnd:
        """Read the header of one entry of a block."""
        fields = HEADER.unpack_from(block.buffer, int(block.starts[place]))
        return cls(
            fields[6], fields[7], fields[8], fields[9], fields[9] + fields[10], fields[12].hex()
        )


def blocks_of(source: LogSource, first_index: int, last_index: int) -> Iterator[EntryBlock]:
    """
    Give the entries of a range.

    Raises:
        CorruptEntryError: One is damaged or missing; it names the place.
    """
    expected = first_index
    for block in source.blocks(first_index, last_index):
        if isinstance(block, DamagedRange):
            raise block.error
        if not len(block):
            continue
        if block.first_index != expected:
            break
        expected = block.last_index + 1
        yield block
    if expected <= last_index:
        raise CorruptEntryError("the entry is missing", index=expected)


def proven_blocks(
    source: LogSource, first_index: int, last_index: int, chain: bytes | None
) -> Iterator[EntryBlock]:
    """
    Give the entries of a range, each proven to continue `chain`.

    With None the first entry is taken at its word.

    Raises:
        CorruptEntryError: One is damaged, missing, or does not continue the log.
    """
    for block in blocks_of(source, first_index, last_index):
        broken = broken_link(block, chain)
        if broken:
            raise CorruptEntryError("the chain hash does not continue the log", index=broken)
        chain = block.chains[-CHAIN_BYTES:]
        yield block


def broken_link(block: EntryBlock, chain: bytes | None) -> int:
    """Give the first entry of a block that does not continue the chain; 0 if all do."""
    buffer, chains = memoryview(block.buffer), block.chains
    starts, ends = block.body_starts.tolist(), block.body_ends.tolist()
    terms = block.field("term").tolist()
    pack, index = _LINK.pack, block.first_index
    place = 0
    if chain is None:
        chain, place = chains[:CHAIN_BYTES], 1
    for at in range(place, len(starts)):
        body = blake2b(buffer[starts[at] : ends[at]], digest_size=16).digest()
        chain = blake2b(pack(chain, index + at, terms[at], body), digest_size=16).digest()
        if chain != chains[at * CHAIN_BYTES : (at + 1) * CHAIN_BYTES]:
            return index + at
    return 0


def end_at(source: LogSource, index: int) -> RangeEnd:
    """
    Read one entry's header.

    Raises:
        CorruptEntryError: It is damaged or missing.
    """
    block = next(blocks_of(source, index, index))
    return RangeEnd.of(block, 0)


def chain_at(source: LogSource, index: int) -> str:
    """Give the chain value of an entry, hexadecimal."""
    return end_at(source, index).chain


def chain_before_log(source: LogSource, position: LogPosition) -> str:
    """Give the chain value before the first entry of a log; NO_CHAIN if the source cannot tell."""
    if position.first_index == 1:
        return FIRST_CHAIN.hex()
    told = str(getattr(position, "previous_chain", ""))
    if told:
        return told
    if isinstance(source, LogDirectory):
        path = source.journal / segment_name(position.first_index)
        with path.open("rb") as file:
            header = decode_segment_header(file.read(SEGMENT_HEADER_BYTES))
        if header is not None:
            return header.previous_chain.hex()
    return NO_CHAIN


def next_record_of(source: LogSource, position: LogPosition) -> int:
    """Give the number of the first record after a log's end."""
    if position.last_index < position.first_index:
        return 1
    return end_at(source, position.last_index).next_record


def newest_membership(source: LogSource, position: LogPosition) -> Membership | None:
    """Give the members that a log's newest CONFIG entry names."""
    bases = [*position.bases] or [position.first_index]
    last = position.last_index
    for base in reversed(bases):
        found: Entry | None = None
        if base > last:
            continue
        for block in blocks_of(source, base, last):
            kinds = block.field("kind").tolist()
            if KIND_CONFIG in kinds:
                place = len(kinds) - 1 - kinds[::-1].index(KIND_CONFIG)
                found = entry_at(block, place)
        if found is not None:
            return decode_membership(bytes(found.body))
        last = base - 1
    return None


def committed_index(directory: LogDirectory, position: LogPosition) -> int:
    """
    Give the last entry of a directory that is certain to be committed.

    A single node's whole log is. Of a member of a larger cluster, files alone tell only what a
    checkpoint covers: the entries behind it may not have reached a majority.
    """
    if position.last_index < position.first_index:
        return position.last_index
    membership = newest_membership(directory, position)
    if membership is None or len(membership.voters) <= 1:
        return position.last_index
    folder = Path(directory.path) / "checkpoints"
    names = [path.stem for path in folder.glob("*.checkpoint")] if folder.is_dir() else []
    covered = [int(name) for name in names if name.isdigit()]
    return min(max([position.first_index - 1, *covered]), position.last_index)


@dataclass(frozen=True)
class CommittedDirectory(LogDirectory):
    """A data directory as far as its entries are certain to be committed."""

    def position(self) -> LogPosition:
        """How far that is; see `committed_index`."""
        position = super().position()
        last = committed_index(LogDirectory(self.path), position)
        if last == position.last_index:
            return position
        timestamp = 0
        if last >= position.first_index:
            timestamp = end_at(LogDirectory(self.path), last).timestamp
        bases = tuple(base for base in position.bases if base <= last)
        return replace(position, last_index=last, last_timestamp=timestamp, bases=bases)


def entry_at(block: EntryBlock, place: int) -> Entry:
    """Give one entry of a block, whose checksums were verified when it was cut."""
    raw = block.raw(place)
    fields = HEADER.unpack_from(raw)
    return Entry(
        fields[6],
        fields[7],
        fields[2],
        fields[8],
        fields[9],
        fields[10],
        fields[12],
        raw,
        fields[11],
    )


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
