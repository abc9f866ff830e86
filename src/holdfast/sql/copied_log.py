"""
A log in a database to which another one can be copied, and which can be read where it is.

What brokers need of a log is in `sql.log`; this is what `leases.copies` asks beside it. How a copy
begins and becomes whole stands in `sql.copying`.
"""

from __future__ import annotations

from holdfast.errors import StoreError
from holdfast.leases.contract import Holding, Outcome
from holdfast.leases.copies import CopyPlan, epochs_used_up, no_log
from holdfast.sql import copying, layout
from holdfast.sql.lease_row import held_by, is_held_by
from holdfast.sql.log import OPEN_SECONDS_MAX, SqlLog
from holdfast.sql.session import Session, UncertainError
from holdfast.sql.sqlite_file import is_there


class CopiedSqlLog(SqlLog):
    """A `CopiedLog` in a database."""

    def open_existing(self) -> Holding:
        """Open the log that is there; nothing is laid out."""
        place = str(self._url)
        if not self._url.hosts and not is_there(self._url.database):
            raise no_log(place)  # SQLite would make an empty file of that name

        def look(session: Session) -> Holding:
            found = layout.read_identity(session, place)
            if found is None:
                raise no_log(place)
            self._identity = found
            self._refuse_one_of_several(session)
            layout.require_whole(session, place)
            return self._read(session)

        return self._link.run(OPEN_SECONDS_MAX, look)

    def begin_copy(self, plan: CopyPlan) -> Holding:
        """Open the database for a copy: lay it out, or go on with what was begun."""
        place = str(self._url)

        def begin(session: Session) -> Holding:
            session.check()
            is_half = copying.begin(session, place, plan, self._draw, self._at())
            self._refuse_one_of_several(session)
            layout.require_whole(session, place)
            self._identity, self._plan = plan.identity, plan if is_half else None
            self._trust(session)
            return self._read(session)

        return self._link.run(OPEN_SECONDS_MAX, begin)

    def finish_copy(self, seconds_max: float) -> Outcome:
        """Make the copy an ordinary log, and give the lease back."""
        tenure, plan = self._held(), self._plan
        if plan is None:
            return Outcome.STORED
        if tenure is None:
            return Outcome.DEPOSED
        if tenure.epoch <= plan.epoch:
            raise epochs_used_up(str(self._url))

        def finish(session: Session) -> Outcome:
            if copying.is_whole(session):
                return Outcome.STORED
            if copying.finish(session, held_by(tenure), plan.end):
                if not copying.is_whole(session):
                    raise UncertainError("the copy was made whole, and is not")
                return Outcome.STORED
            holding = self._read(session)
            if is_held_by(holding, tenure):
                raise StoreError(
                    f"the copy in {self._url} ends with entry {holding.end.index:,}, and should end"
                    f" with entry {plan.end.index:,}: empty it, and copy again"
                )
            return Outcome.DEPOSED

        outcome = self._link.run(seconds_max, finish)
        self._tenure = None
        if outcome is Outcome.STORED:
            self._plan = None
        return outcome
