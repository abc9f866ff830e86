"""Following the chain, and the ends of logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import CorruptEntryError
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.entry import KIND_CONFIG
from holdfast.model.records import QueueRecord
from holdfast.replication.membership import Member, Membership, encode_membership
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.proof import (
    CommittedDirectory,
    RangeEnd,
    broken_link,
    chain_at,
    chain_before_log,
    entry_at,
    newest_membership,
    next_record_of,
    proven_blocks,
)
from trials.pipeline.written_log import WrittenLog, block_of, message, sealed

FIRST = bytes(16)


def members(count: int) -> bytes:
    names = tuple(Member(f"n{number}", f"h:{number}") for number in range(count))
    return encode_membership(Membership(names, cluster_id="ab" * 16))


def test_a_good_chain_has_no_broken_link() -> None:
    """
    Every entry continues the one before.
    """
    block = block_of([QueueRecord(1, "q")], [message(1, 1)], [message(1, 2)])

    assert 0 == broken_link(block, FIRST)
    assert 0 == broken_link(block, None)
    assert 1 == broken_link(block, b"x" * 16)
    assert (2, block.chains[16:32].hex()) == (
        RangeEnd.of(block, 1).index,
        RangeEnd.of(block, 1).chain,
    )


def test_an_entry_is_given_as_it_was_sealed() -> None:
    """
    An entry cut from a block is the one that was sealed.
    """
    batches = ([QueueRecord(1, "q")], [message(1, 1)])

    assert sealed(*batches) == [entry_at(block_of(*batches), place) for place in (0, 1)]


def test_a_directory_is_read_with_proof(tmp_path: Path) -> None:
    """
    A range comes whole; a wrong chain before it, and an entry behind the end, are errors.
    """
    with WrittenLog(tmp_path / "log") as log:
        log.put(QueueRecord(1, "q"))
        log.put(message(1, 1), message(1, 2))
        log.put(message(1, 3))
    source = LogDirectory(str(tmp_path / "log"))
    position = source.position()
    first = chain_at(source, 1)

    (block,) = proven_blocks(source, 2, 3, bytes.fromhex(first))

    assert (2, 2) == (len(block), block.first_index)
    assert (FIRST.hex(), 5) == (
        chain_before_log(source, position),
        next_record_of(source, position),
    )
    with pytest.raises(CorruptEntryError, match="does not continue"):
        list(proven_blocks(source, 2, 3, FIRST))
    with pytest.raises(CorruptEntryError):
        list(proven_blocks(source, 2, 4, None))


def test_only_what_a_checkpoint_covers_is_certain_in_a_cluster(tmp_path: Path) -> None:
    """
    The end of one member's files may never have reached a majority.
    """
    with WrittenLog(tmp_path / "log") as log:
        log.put(kind=KIND_CONFIG, body=members(3))
        second = log.put(QueueRecord(1, "q"))
        log.put(message(1, 1))
        CheckpointStore(tmp_path / "log", RealDisk()).save(2, 1, second.chain, 2, 1, [b"state"])
    # Somebody's file, with a name whose every character is a digit and which is no number.
    (tmp_path / "log" / "checkpoints" / "\u00b2.checkpoint").touch()
    source = LogDirectory(str(tmp_path / "log"))

    membership = newest_membership(source, source.position())
    position = CommittedDirectory(str(tmp_path / "log")).position()

    assert membership is not None
    assert 3 == len(membership.voters)
    assert (2, second.timestamp) == (position.last_index, position.last_timestamp)


def test_a_single_nodes_end_is_certain(tmp_path: Path) -> None:
    """
    With one voter what is stored is committed.
    """
    with WrittenLog(tmp_path / "log") as log:
        log.put(kind=KIND_CONFIG, body=members(1))
        log.put(QueueRecord(1, "q"))

    assert 2 == CommittedDirectory(str(tmp_path / "log")).position().last_index
