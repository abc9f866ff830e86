"""
The broker's state at a start: from the newest checkpoint that can be used, else from nothing.

What is missing then is applied from the log, as on every node. Damage is told of here, with its
place, before anybody meets it; a single node with damage that it would have to apply does not
start, for there is nobody to repair it from.
"""

from __future__ import annotations

import structlog

from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import FormatLevelError, StoreError
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.damage import MISSING_FILE, Damage
from holdfast.journal.journal import Journal

log = structlog.get_logger("holdfast.server")


def restore(
    journal: Journal, files: CheckpointStore, settings: BrokerSettings, *, is_alone: bool
) -> tuple[BrokerState, int]:
    """
    Give the state, and behind which entry it stands.

    Raises:
        StoreError: A single node's log is damaged where it is needed. The journal is closed then.
        FormatLevelError: The log has reached a level that this node does not know. As before.
    """
    for damage in journal.damage:
        log.error("damage in the log", **place(damage))
    checkpoint = files.load_newest(journal.last_index, journal)
    state, index = BrokerState(settings), journal.first_index - 1
    if checkpoint is not None and checkpoint.index >= index:
        try:
            state = decode_state(checkpoint.body, settings)
            index = checkpoint.index
        except FormatLevelError:
            journal.close()
            raise
        except StoreError as error:
            log.warning("checkpoint ignored", index=checkpoint.index, reason=str(error))
    if is_alone:
        _require_whole(journal, index)
    return state, index


def _require_whole(journal: Journal, applied_index: int) -> None:
    for damage in journal.damage:
        # Messages below a checkpoint are still read from the log.
        if damage.index > applied_index or damage.reason == MISSING_FILE:
            journal.close()
            raise StoreError(
                f"entry {damage.index:,} is damaged ({damage.reason}) in segment"
                f" {damage.segment} at byte {damage.byte:,}, and this single node has"
                f" no peer to repair it from. Nothing was changed. See 'holdfast store"
                f" verify {journal.directory}'; restore the file from a copy"
            )


def place(damage: Damage) -> dict[str, str | int]:
    """Where it is, as the log tells it."""
    return {
        "segment": damage.segment,
        "byte": damage.byte,
        "index": damage.index,
        "reason": damage.reason,
    }
