"""
The tables that a log's database shows to people: each queue as it was a few seconds ago.

They are written in a transaction of their own, whose first statement is a sign of life under the
lease: a fence as good as that of an append, so that nobody who was deposed writes over what its
successor shows. Changing or deleting rows here changes nothing of the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from holdfast.leases.projection import (
    KEYS_MAX,
    Changes,
    MessageKey,
    MessageRow,
    QueueRow,
    Span,
    SubscriptionRow,
)
from holdfast.sql import layout, schema, statements
from holdfast.sql.faults import Fault
from holdfast.sql.session import Session, Values

QUEUES: Final = "holdfast_queues"
COLUMNS: Final = tuple(it.name for it in fields(QueueRow))
MESSAGES: Final = "holdfast_messages"
MESSAGE_COLUMNS: Final = tuple(it.name for it in fields(MessageRow))
MESSAGE_KEY: Final = ("queue_number", "sequence")
SUBSCRIPTIONS: Final = "holdfast_subscriptions"
SUBSCRIPTION_COLUMNS: Final = tuple(it.name for it in fields(SubscriptionRow))
_REFUSALS: Final = {
    Fault.BUSY: "others hold a lock on the tables that show it",
    Fault.UNKNOWN: "the tables that show it take it not",
}
_SPANS_AT_ONCE: Final = (64, 8, 1)
"""So many in one statement, the last as often as is needed: each number is a text of its own."""


class MessageTables:
    """Makes what shows messages when they are told of on a connection for the first time."""

    def __init__(self) -> None:
        self.no_views = ""
        """Why there are no views on them."""
        self._made_on: Session | None = None

    def make(self, session: Session, changes: Changes) -> str:
        """Make the tables that these changes need; why they were not made, or nothing."""
        if self._made_on is session or not changes.is_of_messages:
            return ""
        refusal = layout.make_projections(session, schema.MESSAGES)
        if not refusal:
            self.no_views = layout.make_message_views(session)
            # After an error there is another connection: somebody may have dropped them.
            self._made_on = session
        return refusal


def write(
    session: Session, fence: Values, changes: Changes, statement: str = statements.SHOW
) -> bool:
    """
    Write all of these or nothing; false if the lease is not ours any more, or the log went on.

    Args:
        fence: What the statement names.
        statement: What is to change a row first.
    """
    with session.hasty():
        is_held = session.write(statement, fence) == 1
        if is_held:
            _write(session, changes)
    return is_held


def write_unless_refused(
    session: Session, fence: Values, changes: Changes, statement: str = statements.SHOW
) -> tuple[bool, str]:
    """
    The same, and why nothing was done where the database refuses it, or others hold a lock on it.

    Who looks into a table, or has put something on it, must not hold up what is stored.
    """
    try:
        return write(session, fence, changes, statement), ""
    except session.errors as error:
        why = _REFUSALS.get(session.fault(error))
        if why is None:
            raise
        return False, f"{why}: {' '.join(session.said(error).split())}"


def _write(session: Session, changes: Changes) -> None:
    if changes.queues:
        rows = [_row(session, it, COLUMNS) for it in changes.queues]
        session.write_over(QUEUES, ("number",), COLUMNS, rows)
    for number in changes.gone:
        session.write(statements.SHOW_QUEUE_DROPPED, {"number": number})
    if changes.stale_before:
        session.write(statements.SHOW_QUEUES_STALE, {"before": changes.stale_before})
    if changes.is_of_messages:
        _write_messages(session, changes)


def _write_messages(session: Session, changes: Changes) -> None:
    spans = list(changes.settled)
    while spans:
        most = next(it for it in _SPANS_AT_ONCE if len(spans) >= it or it == 1)
        _delete(session, spans[:most])
        del spans[:most]
    rows = [_row(session, it, MESSAGE_COLUMNS) for it in changes.messages]
    _write_over(session, MESSAGES, MESSAGE_KEY, MESSAGE_COLUMNS, rows)
    told = [_row(session, it, SUBSCRIPTION_COLUMNS) for it in changes.subscriptions]
    _write_over(session, SUBSCRIPTIONS, ("number",), SUBSCRIPTION_COLUMNS, told)
    for number in changes.ended:
        session.write(statements.SHOW_SUBSCRIPTION_ENDED, {"number": number})
    if changes.subscriptions_stale_before:
        before = {"before": changes.subscriptions_stale_before}
        session.write(statements.SHOW_SUBSCRIPTIONS_STALE, before)


def _write_over(
    session: Session,
    table: str,
    key: Sequence[str],
    columns: Sequence[str],
    rows: list[tuple[object, ...]],
) -> None:
    """In powers of two: of each number of rows there is a text of its own."""
    while rows:
        count = 1 << (len(rows).bit_length() - 1)
        session.write_over(table, key, columns, rows[:count])
        del rows[:count]


def _row(session: Session, shown: object, columns: Sequence[str]) -> tuple[object, ...]:
    """As `astuple`, which copies bodies; in signs that the database has."""
    values = (getattr(shown, it) for it in columns)
    return tuple(session.shown(it) if isinstance(it, str) else it for it in values)


def _delete(session: Session, spans: list[Span]) -> None:
    places = " OR ".join(f"({statements.SPAN.format(it)})" for it in range(len(spans)))
    values: dict[str, int] = {}
    for place, span in enumerate(spans):
        values |= {
            f"queue{place}": span.queue_number,
            f"first{place}": span.first,
            f"last{place}": span.last,
        }
    session.write(f"{statements.SHOW_MESSAGES_STALE} {places}", values)


def keys_after(session: Session, after: MessageKey) -> list[MessageKey]:
    """Give the rows of messages that are there behind this one, in order, so many at most."""
    values = {"queue": after.queue_number, "after": after.sequence, "most": KEYS_MAX}
    # Two: not every database goes by an index where one condition says both.
    rows = session.rows(statements.READ_KEYS, values)
    if len(rows) < KEYS_MAX:
        further = {"queue": after.queue_number, "most": KEYS_MAX - len(rows)}
        rows += session.rows(statements.READ_KEYS_FURTHER_ON, further)
    return [MessageKey(*it) for it in rows]
