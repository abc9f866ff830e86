"""
The tables that a log's database shows to people: each queue as it was a few seconds ago.

They are written in a transaction of their own, whose first statement is a sign of life under the
lease: a fence as good as that of an append, so that nobody who was deposed writes over what its
successor shows. Changing or deleting rows here changes nothing of the broker.
"""

from __future__ import annotations

from dataclasses import astuple, fields
from typing import Final

from holdfast.leases.projection import Changes, QueueRow
from holdfast.sql import statements
from holdfast.sql.faults import Fault
from holdfast.sql.session import Session, Values

QUEUES: Final = "holdfast_queues"
COLUMNS: Final = tuple(it.name for it in fields(QueueRow))


def write(session: Session, fence: Values, changes: Changes) -> bool:
    """
    Write all of these or nothing; false if the lease is not ours any more, or the log went on.

    Args:
        fence: What `statements.SHOW` names.
    """
    with session.hasty():
        is_held = session.write(statements.SHOW, fence) == 1
        if is_held:
            _write(session, changes)
    return is_held


def write_unless_locked(session: Session, fence: Values, changes: Changes) -> tuple[bool, str]:
    """
    The same, and what the database says where others hold a lock on what is shown.

    Then nothing was done: who looks into a table must not hold up what is stored.
    """
    try:
        return write(session, fence, changes), ""
    except session.errors as error:
        if session.fault(error) is not Fault.BUSY:
            raise
        return False, " ".join(session.said(error).split())


def _write(session: Session, changes: Changes) -> None:
    if changes.queues:
        session.write_over(QUEUES, "number", COLUMNS, [astuple(it) for it in changes.queues])
    for number in changes.gone:
        session.write(statements.SHOW_QUEUE_DROPPED, {"number": number})
    if changes.stale_before:
        session.write(statements.SHOW_QUEUES_STALE, {"before": changes.stale_before})
