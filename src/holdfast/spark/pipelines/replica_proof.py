"""
A part of one replica's log, proven: the chain followed through it, every break of it named.

A part lies within one segment, so that workers prove a log side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from holdfast.errors import BusyError, CorruptRecordError, HoldfastError, LinkLostError
from holdfast.journal.entry import CHAIN_BYTES
from holdfast.journal.record import RECORD_HEADER_BYTES
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, decode_segment_header, segment_name
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.fact_places import structures
from holdfast.spark.log.proof import broken_link, chain_at, chain_before_log
from holdfast.spark.log.record_table import RecordTable
from holdfast.spark.log.source import DamagedRange, LogPosition, LogSource
from holdfast.spark.log.store_log import StoreLog
from holdfast.spark.pipelines.findings import Finding
from holdfast.spark.worker_memory import keep_loaded
from holdfast.store.record_codec import CLEANED

_INDEX: Final = np.dtype([("index", "<u8")])


@dataclass(frozen=True, slots=True)
class Replica:
    """One copy of the log and what to call it."""

    name: str
    source: LogSource

    def __post_init__(self) -> None:
        if isinstance(self.source, LogDirectory):
            # What is missing at its beginning is a finding, told with the others.
            object.__setattr__(self, "source", replace(self.source, is_partial=True))


@dataclass(frozen=True, slots=True)
class Part:
    """A range of one replica, within one segment, to be proven."""

    replica: Replica
    first_index: int
    last_index: int
    log_first_index: int = 1
    """Where its log began as the audit was planned, also before where a hold keeps it from."""

    base: int = 0
    """Where its segment begins, if that is not `first_index`."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What proving a part showed."""

    replica: str
    first_index: int
    last_index: int
    chain_after: str
    entries: int
    bytes: int
    findings: tuple[Finding, ...]
    cleaned_through: int = 0
    """The highest index of which it says that everything up to it was written again."""


def prove(part: Part) -> Proof:
    """Follow the chain through a part and name every place where it breaks; runs in a worker."""
    keep_loaded()
    source, name = part.replica.source, part.replica.name
    findings: list[Finding] = []
    entries = size = 0
    last_chain = ""
    cleaned = 0
    findings += _damaged_header(part)
    chain = _chain_before(part)
    for block in source.blocks(part.first_index, part.last_index):
        if isinstance(block, DamagedRange):
            findings.append(_damage(name, block))
            chain, last_chain = None, ""
            continue
        if not len(block):
            continue
        entries += len(block)
        size += int(block.ends[-1] - block.starts[0])
        cleaned = max(cleaned, _cleaned_through(block))
        broken = broken_link(block, chain)
        if broken:
            reason = "the chain hash does not continue the log: it is not the entry that was here"
            findings.append(
                Finding(
                    where=name,
                    kind="damaged",
                    reason=reason,
                    place=_file_of(part),
                    first_index=broken,
                    last_index=broken,
                )
            )
        chain = block.chains[-CHAIN_BYTES:]
        last_chain = chain.hex()
    return Proof(
        name,
        part.first_index,
        part.last_index,
        last_chain,
        entries,
        size,
        tuple(findings),
        cleaned,
    )


def _file_of(part: Part) -> str:
    """The file that holds a part; a store's rows are in none."""
    if isinstance(part.replica.source, StoreLog):
        return ""
    return segment_name(part.base or part.first_index)


def _chain_before(part: Part) -> bytes | None:
    """
    The chain value that a part must continue; None if nobody can tell.

    Raises:
        LinkLostError: Nobody answers.
        BusyError: All who could tell are busy.
    """
    source = part.replica.source
    try:
        if part.first_index > part.log_first_index:
            return bytes.fromhex(chain_at(source, part.first_index - 1))
        if part.first_index == part.log_first_index:
            begin = LogPosition(first_index=part.first_index, last_index=part.last_index)
            return bytes.fromhex(chain_before_log(source, begin)) or None
    except (LinkLostError, BusyError):
        raise
    except (HoldfastError, OSError):
        pass  # that entry, or that file, is another finding
    return None


def _damaged_header(part: Part) -> list[Finding]:
    """A file's own header, which no entry's checksum covers."""
    source = part.replica.source
    if not isinstance(source, LogDirectory):
        return []
    path = source.journal / segment_name(part.first_index)
    try:
        with path.open("rb", buffering=0) as file:
            is_sound = decode_segment_header(file.read(SEGMENT_HEADER_BYTES)) is not None
    except OSError:
        return []  # it has no file of its own, or that is gone: told by its entries
    if is_sound:
        return []
    return [
        Finding(
            where=part.replica.name,
            kind="damaged",
            reason="the header of the file is damaged",
            place=path.name,
            first_index=part.first_index,
            last_index=part.first_index,
        )
    ]


def _cleaned_through(block: EntryBlock) -> int:
    """How far the records of a block say that the log was cleaned."""
    try:
        table = RecordTable(block)
    except CorruptRecordError:
        return 0  # its checksums are good: the account will say what makes no sense
    places = table.starts[table.types == CLEANED] + RECORD_HEADER_BYTES
    numbers = structures(block.buffer, places, _INDEX)["index"]
    return int(numbers.max()) if len(numbers) else 0


def _damage(name: str, damaged: DamagedRange) -> Finding:
    error = damaged.error
    return Finding(
        where=name,
        kind="missing" if error.reason == "the entry is missing" else "damaged",
        reason=error.reason,
        place=error.segment if error.segment != name else "",
        byte=error.byte,
        first_index=damaged.first_index,
        last_index=damaged.last_index,
    )
