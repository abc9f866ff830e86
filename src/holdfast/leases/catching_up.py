"""
What was read of the log goes into the cache, or the cache begins anew where it is of another past.

Invariants:
    What goes into the cache follows on what is there: index, chain and record numbers.
    A cache that begins anew is told by `log_epoch`: all that was built from it goes as well.
"""

from __future__ import annotations

import logging

from holdfast.errors import StoreError
from holdfast.journal.journal import Journal
from holdfast.leases.orders import Report
from holdfast.leases.outlets import CacheWriter
from holdfast.leases.state import LeasedState

logger = logging.getLogger("holdfast.leases")


def take(state: LeasedState, journal: Journal, writer: CacheWriter, report: Report) -> None:
    """
    Take in what a reading found.

    Raises:
        StoreError: It does not follow on what is known.
    """
    if report.is_other:
        _begin_anew(state, journal, writer, report)
    entries = report.entries
    if not entries or entries[0].index != journal.last_index + 1:
        return
    if entries[0].first_record != journal.next_record_number:
        raise StoreError(
            f"entry {entries[0].index:,} of the store begins with record"
            f" {entries[0].first_record:,}, and the one before it ends with"
            f" {journal.next_record_number - 1:,}: it was changed by hand; compare with another"
            f" copy ('holdfast store verify')"
        )
    writer.submit(journal.stage(entries))
    state.commit_index = entries[-1].index


def _begin_anew(state: LeasedState, journal: Journal, writer: CacheWriter, report: Report) -> None:
    """Read the log from the first entry that is kept."""
    anchor = report.anchor
    is_fresh = journal.last_index < journal.first_index
    base = anchor.index + 1 if anchor else 1
    if is_fresh and base == journal.first_index == 1:
        return
    if not is_fresh:
        logger.warning("what this broker knows is not in the log any more: it reads it anew")
    if anchor is None:
        job = journal.stage_reset(1, 0, bytes(16), 1)
    else:
        job = journal.stage_reset(base, anchor.term, anchor.chain, anchor.next_record)
    writer.submit(job)
    state.log_epoch += 1
    state.damaged.clear()
    state.commit_index = state.taken_index = base - 1
    state.sure_index = -1
