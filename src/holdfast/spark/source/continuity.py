"""
Whether a log is still the one that a query has read: the same cluster, and the same entries.

A cluster that was restored has another identity. One that was promoted by force keeps its identity
and may have lost entries: where a query stands there are others then, or none yet. Going on would
pass over new entries or take them for old ones, so the chain value is compared, which stands for
everything before it.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import RecordNotFoundError, StoreError
from holdfast.journal.entry import FIRST_CHAIN
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.proof import broken_link, chain_before_log
from holdfast.spark.log.source import LogPosition, LogSource
from holdfast.spark.source.offsets import Taken

ADVICE: Final = (
    "To read this log give the query a new checkpointLocation, and start_time or start_index if it"
    " is not to begin with the oldest entry"
)


def taken_at(source: LogSource, position: LogPosition, index: int) -> Taken:
    """Say everything that is known of the place behind entry `index`."""
    chain = chain_after(source, position, index)
    return Taken(index, position.cluster_id, position.generation, chain)


def check_cluster(taken: Taken, position: LogPosition) -> None:
    """
    Make sure that a checkpoint is of the cluster that is read.

    Raises:
        StoreError: It is another one's.
    """
    known, found = taken.cluster_id, position.cluster_id
    if known and found and known != found:
        raise StoreError(
            f"the checkpoint is of cluster {known}, the log of cluster {found}: the address is"
            f" another cluster's, or the cluster was restored. {ADVICE}"
        )


def check_continues(source: LogSource, position: LogPosition, taken: Taken) -> None:
    """
    Make sure that what was taken is what the log holds up to there.

    Nothing is proven where neither the last entry taken nor the one behind it is in the log.

    Raises:
        StoreError: The log is another cluster's, or has other entries there.
        LinkError: No node answers.
    """
    check_cluster(taken, position)
    if not taken.chain or not taken.index:
        return
    index = taken.index
    chain = chain_after(source, position, index)
    if chain == taken.chain:
        return
    if not chain:
        # The entry itself was cleaned away; the one behind it proves it as well.
        block = _entry(source, position, index + 1)
        if block is None or not broken_link(block, bytes.fromhex(taken.chain)):
            return
    raise StoreError(
        f"the log of cluster {position.cluster_id[:8]} is not the one that the checkpoint is of:"
        f" behind entry {index:,} it goes on otherwise. The cluster was promoted by force, or put"
        f" back to an older copy, and entries that this query has read are not in it any more."
        f" {ADVICE}"
    )


def shorter_log_error(taken: Taken, position: LogPosition) -> StoreError:
    """Return the error for a cluster that lost entries by a promotion and stays behind."""
    return StoreError(
        f"the log ends with entry {position.last_index:,}, before entry {taken.index:,} that the"
        f" checkpoint has taken: the cluster was promoted by force (generation"
        f" {position.generation}, the checkpoint is of {taken.generation}) and lost the entries"
        f" between. {ADVICE}"
    )


def chain_after(source: LogSource, position: LogPosition, index: int) -> str:
    """Give the chain value of an entry; empty if the log cannot tell it."""
    if index == 0:
        return FIRST_CHAIN.hex()
    if index + 1 == position.first_index:
        return chain_before_log(source, position)
    block = _entry(source, position, index)
    return "" if block is None else block.chains.hex()


def _entry(source: LogSource, position: LogPosition, index: int) -> EntryBlock | None:
    if not position.first_index <= index <= position.last_index:
        return None
    try:
        block = next(iter(source.blocks(index, index)), None)
    except RecordNotFoundError:
        return None  # cleaned away just now
    return block if isinstance(block, EntryBlock) and len(block) else None
