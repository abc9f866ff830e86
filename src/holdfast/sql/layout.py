"""
Making the tables of a log, and refusing those that are not this version's.

Two brokers may do so at once: whoever comes second finds what the first one made. The row of
`holdfast_meta` is the last thing written, together with that of the lease, so that a database in
which one is and the other is not was changed by somebody else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from sqlalchemy import Table

from holdfast.errors import StoreError
from holdfast.leases.copies import half_copy
from holdfast.sql import schema, statements
from holdfast.sql.faults import Fault
from holdfast.sql.session import Session

NOBODY = "0" * 32
_ATTEMPTS = 5

Result = TypeVar("Result")
_RACES = frozenset({Fault.DUPLICATE, Fault.BUSY})


def lay_out(session: Session, place: str, draw: Callable[[], str] | None) -> str:
    """
    Give the id of the log in this database; lay it out if there is none.

    Args:
        draw: Gives 32 hexadecimal digits that nobody else has; None if no log may be begun.

    Raises:
        StoreError: Its tables are of another version, of somebody else, or not whole, or its user
            may not do with them what a log needs; or there is no log, and none may be begun.
    """
    return with_others(session, lambda: _lay_out(session, place, draw))


def with_others(session: Session, action: Callable[[], Result]) -> Result:
    """Lay something out while others may do so too: what lost a race is done again."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return action()
        except session.errors as error:
            if session.fault(error) not in _RACES or attempt == _ATTEMPTS:
                raise
            session.give_up()
    raise AssertionError("the last attempt returns or raises")


def read_identity(session: Session, place: str, *, is_copying: bool = False) -> str | None:
    """
    Give the id of the log in this database; None if there is none yet.

    Raises:
        StoreError: It is of a version that is not known here, or a copy that is not whole, unless
            `is_copying`.
    """
    try:
        rows = session.rows(statements.READ_META)
    except session.errors as error:
        if session.fault(error) is Fault.NO_TABLE:
            return None
        raise
    if not rows:
        return None
    found, identity, _ = rows[0]
    if found == schema.COPYING:
        if not is_copying:
            raise half_copy(place)
    elif found != schema.FORMAT:
        raise StoreError(
            f"the tables of {place} have format {found}, and this version of Holdfast knows format"
            f" {schema.FORMAT} only: start the version that made them, or use another database;"
            f" nothing was changed"
        )
    return str(identity)


def read_member(session: Session) -> str:
    """Give the id of this database, as one of several that hold the same; empty if it has none."""
    try:
        rows = session.rows(statements.READ_META)
    except session.errors as error:
        if session.fault(error) is Fault.NO_TABLE:
            return ""
        raise
    return str(rows[0][2]) if rows else ""


def require_whole(session: Session, place: str) -> None:
    """
    See that the rows end where the lease says.

    Raises:
        StoreError: They do not, as after a backup that was brought back in part.
    """
    for last, first, there in session.rows(statements.READ_ENDS):
        if there != (last if first <= last else None):
            found = "none is there" if there is None else f"they end with {there:,}"
            raise StoreError(
                f"the lease row of {place} says that its entries end with {last:,}, and {found}: it"
                f" was changed by hand, or brought back in part; bring back a whole copy"
            )


def _lay_out(session: Session, place: str, draw: Callable[[], str] | None) -> str:
    if draw is not None:
        return lay_out_with(session, place, partial(_insert_rows, session, draw))
    if read_identity(session, place) is None:
        raise StoreError(
            f"{place} has no log, and this broker belongs to one: bring it back; to begin a new"
            f" one, give this broker an empty --data"
        )
    return lay_out_with(session, place, lambda: None)


def lay_out_with(
    session: Session, place: str, insert: Callable[[], None], *, is_copying: bool = False
) -> str:
    """Give the id of the log; where there is none, make the tables, and let `insert` begin it."""
    identity = read_identity(session, place, is_copying=is_copying)
    if identity is None:
        if not _is_there(session, schema.META):
            _refuse_foreign(session, place)
        session.lay_out(schema.creations(session.dialect))
    for _, probe in schema.probes():
        session.rows(probe)
    for change in schema.CHANGES:
        session.write(change)
    if identity is None:
        _refuse_remains(session, place)
        insert()
        identity = read_identity(session, place, is_copying=is_copying)
    if identity is None:
        raise StoreError(
            f"the row of {schema.META} in {place} is gone, and that of the lease is there: it was"
            f" changed by hand; bring back a whole copy"
        )
    return identity


def _refuse_foreign(session: Session, place: str) -> None:
    for table, _ in schema.probes():
        # Another broker may have begun just now: then the first of its tables is there as well.
        if _is_there(session, table) and not _is_there(session, schema.META):
            raise StoreError(
                f"{place} has a table {table} and no {schema.META}: it is not a log of Holdfast, or"
                f" not all of one; use another database, or bring back a whole copy"
            )


def _refuse_remains(session: Session, place: str) -> None:
    """A log whose rows are gone, and its entries not, must not begin again on top of them."""
    if session.rows(statements.READ_FIRST)[0][0] is not None and not session.rows(
        statements.READ_META
    ):
        raise StoreError(
            f"{place} has entries, and the row of {schema.META} that says whose is gone: it was"
            f" changed by hand; bring back a whole copy"
        )


def _is_there(session: Session, table: str) -> bool:
    try:
        session.rows(f"SELECT 1 FROM {table} WHERE 1 = 0")
    except session.errors as error:
        if session.fault(error) is Fault.NO_TABLE:
            return False
        raise
    return True


def _insert_rows(session: Session, draw: Callable[[], str]) -> None:
    """The rows of lease and log together; another broker's are as good."""
    try:
        with session.transaction():
            session.write(statements.INSERT_LEASE, {"nobody": NOBODY, "no_chain": NOBODY})
            session.write(
                statements.INSERT_META,
                {"format": schema.FORMAT, "store_id": draw(), "member_id": draw()},
            )
    except session.errors as error:
        if session.fault(error) is not Fault.DUPLICATE:
            raise
        session.give_up()


def make_projections(session: Session, tables: tuple[Table, ...] = schema.PROJECTIONS) -> str:
    """Make the tables that are only shown; why they were not made, or nothing."""
    for name, probe, creation in schema.projections(session.dialect, tables):
        try:
            if not _is_there(session, name):
                _make(session, name, creation)
            session.rows(probe)
        except session.errors as error:
            session.give_up()
            return f"the table {name} is of no use: {' '.join(str(error).split())}"
    return ""


def _make(session: Session, name: str, creation: str) -> None:
    """Make a table by itself; another broker that is quicker, just now, is as good."""
    try:
        session.write(creation)
    except session.errors:
        session.give_up()
        if not _is_there(session, name):
            raise


def make_message_views(session: Session) -> str:
    """Make the views on the tables of messages; why not all were made, or nothing."""
    refusals = [make_view(session, it, query) for it, query in schema.MESSAGE_VIEWS.items()]
    return "; ".join(it for it in refusals if it)


def make_view(
    session: Session, name: str = schema.LOCK_VIEW, query: str = schema.LOCK_QUERY
) -> str:
    """Make a view, that on the lease; why it was not made, or nothing. It is for people only."""
    if _is_there(session, name):
        return ""
    try:
        session.write(f"{session.view_creation} {name} AS {query}")
    except session.errors as error:
        session.give_up()
        if _is_there(session, name):
            return ""  # made by another one, just now
        return f"the view {name} could not be made: {' '.join(str(error).split())}"
    return ""
