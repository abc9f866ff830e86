"""
A copy of a log in the making, in the rows of a database.

The row of `holdfast_meta` has another format until the copy is whole, so that no broker, of
whatever version, takes it for a log; a second row says of which source it is made. All rows that
begin it are inserted in one transaction, and it becomes whole in one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.leases.contract import Place
from holdfast.leases.copies import CopyPlan, another_copy, another_log
from holdfast.sql import layout, parts, schema, statements
from holdfast.sql.faults import Fault
from holdfast.sql.session import Session


def begin(session: Session, place: str, plan: CopyPlan, draw: Callable[[], str], at: int) -> bool:
    """
    Lay out what a copy begins with, unless it is there; whether it is to be finished yet.

    Args:
        draw: Gives 32 hexadecimal digits that nobody else has.
        at: Milliseconds by the wall, for people.

    Raises:
        StoreError: Another log is there, or a part of another copy; or tables that are not ours.
    """

    def insert() -> None:
        _insert_rows(session, plan, draw, at)

    identity = layout.with_others(
        session, lambda: layout.lay_out_with(session, place, insert, is_copying=True)
    )
    if identity != plan.identity:
        raise another_log(place, identity, plan.identity)
    if is_whole(session):
        return False
    if session.rows(statements.READ_MARK) != [(plan.mark,)]:
        raise another_copy(place)
    return True


def is_whole(session: Session) -> bool:
    """Whether what is there is an ordinary log."""
    return [row[0] for row in session.rows(statements.READ_META)] == [schema.FORMAT]


def finish(session: Session, tenure: dict[str, Any], end: Place) -> bool:
    """Make the copy whole, and give the lease back, if it is ours still; whether it was."""
    fence = {**tenure, "last": end.index, "chain": end.chain.hex()}
    with session.transaction():
        is_held = session.write(statements.FINISH_COPY, fence) == 1
        if is_held:
            formats = {"format": schema.FORMAT, "copying": schema.COPYING}
            session.write(statements.MAKE_WHOLE, formats)
            session.write(statements.DROP_MARK)
    return is_held


def _insert_rows(session: Session, plan: CopyPlan, draw: Callable[[], str], at: int) -> None:
    """All that a copy begins with; another one's rows are looked at afterwards."""
    behind = plan.begins_behind
    beginning = {
        "epoch": plan.epoch_before,
        "last": behind.index,
        "chain": behind.chain.hex(),
        "first": plan.first_index,
    }
    meta = {"format": schema.COPYING, "store_id": plan.identity}
    anchors = [] if plan.anchor is None else parts.split([plan.anchor], at)
    try:
        with session.transaction():
            session.write(
                statements.INSERT_LEASE, {"nobody": layout.NOBODY, "no_chain": layout.NOBODY}
            )
            session.write(statements.BEGIN_BEHIND, beginning)
            for row in anchors:
                session.write(statements.INSERT_ENTRY, row._asdict())
            session.write(statements.INSERT_META, {**meta, "member_id": draw()})
            session.write(statements.INSERT_MARK, {**meta, "mark": plan.mark})
    except session.errors as error:
        if session.fault(error) is not Fault.DUPLICATE:
            raise
        session.give_up()
