"""
Reading a log with proof: every entry continues the chain of the one before it.

`LogSource` verifies checksums; here the chain hash is followed as well, so that what comes out is
this log and no other, without a gap. Also what else a pipeline must know of a log's ends.

Invariants:
    What `proven_blocks` gives is the asked range, whole and in order, or an error names the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Final

from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import CHAIN_BYTES, FIRST_CHAIN, HEADER, KIND_CONFIG, Entry
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, decode_segment_header, segment_name
from holdfast.model.digits import NAME_DIGITS, read_digits
from holdfast.replication.membership import Membership, decode_membership
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import NO_CHAIN, DamagedRange, LogPosition, LogSource
from holdfast.spark.log.store_log import StoreLog

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
    if isinstance(source, StoreLog):
        return source.chain_before(position.first_index) or NO_CHAIN
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
    covered = [index for name in names if (index := read_digits(name, NAME_DIGITS)) is not None]
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
