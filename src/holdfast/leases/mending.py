"""
Damage in the cache is mended from the medium, one entry after the other.

Invariants:
    What was cleaned away concerns nobody any more.
    An entry stays damaged until its repair is durable.
"""

from __future__ import annotations

import logging
from typing import Any

from holdfast.errors import JournalFailedError, StoreError
from holdfast.journal.entry import Entry
from holdfast.journal.journal import Journal
from holdfast.leases.outlets import CacheWriter
from holdfast.leases.state import LeasedState

logger = logging.getLogger("holdfast.leases")

_RETRY_SECONDS = 1.0


class Mending:
    """The repair that is under way."""

    def __init__(self, state: LeasedState, journal: Journal, writer: CacheWriter) -> None:
        """Nothing is under way."""
        self._state = state
        self._journal = journal
        self._writer = writer
        self._job: Any = None
        self._index = 0
        self._told: set[int] = set()

    def go_on(self) -> None:
        """See whether the repair is done, and forget what is not in the cache any more."""
        state, journal = self._state, self._journal
        if self._job is not None and self._job.is_done:
            if journal.finish_repair(self._job):
                state.repaired_count += 1
                logger.info("entry %d was mended from the store", self._index)
            state.damaged.discard(self._index)
            self._job = None
            state.is_mending = False
        first, last = journal.first_index, journal.last_index
        state.damaged = {it for it in state.damaged if first <= it <= last}

    def fetched(self, entry: Entry) -> None:
        """The medium's copy has come."""
        index = entry.index
        if self._job is not None or index not in self._state.damaged:
            return
        try:
            job = self._journal.stage_repair(entry)
        except JournalFailedError:
            raise
        except StoreError as error:
            self.failed(index, error)
            return
        self._job, self._index = job, index
        self._state.is_mending = True
        self._writer.submit(job)

    def failed(self, index: int, error: StoreError) -> None:
        """This entry cannot be mended now, be the medium's own copy damaged as well."""
        self._state.mend_at = self._state.now + _RETRY_SECONDS
        if index not in self._told:
            self._told.add(index)
            logger.error("entry %d of the cache cannot be mended: %s", index, error)
