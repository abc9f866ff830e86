"""
A log in databases that is read beside whoever serves it: nothing is held, and nothing is written.

One database is read as it is, also if it is one of several: what it lacks or has rotten is for its
reader to find, not a reason to read nothing. Several are read as a waiting broker reads them: what
counts is what the newest set says, and an entry is taken from one that has it whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.environment.clock import boottime
from holdfast.errors import StoreError
from holdfast.leases.contract import Holding
from holdfast.leases.copies import no_log
from holdfast.raidb.lanes import ThreadLanes
from holdfast.raidb.member import Row
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.settings import RaidbSettings
from holdfast.raidb.sql_member import SqlMember
from holdfast.sql import layout
from holdfast.sql.session import Session
from holdfast.sql.sqlite_file import is_there

LOOK_SECONDS: Final = 10.0
"""For a first look; one that does not answer is waited for no longer."""
_PATIENCE_SECONDS: Final = 5.0
"""Once one of several has answered, others are waited for so long."""


class LookedDatabase(SqlMember):
    """One database, whose user need only have the right to read."""

    may_lay_out = False
    is_alone = True
    """Whether one of several is refused, as it may lack what the others have confirmed."""

    def open_existing(self) -> Holding:
        """
        Read the lease for the first time.

        Raises:
            StoreError: There is no log, or only a part of a copy of one; or it is one of several.
            UnreachableError: It cannot be reached now.
        """
        row = self.read(LOOK_SECONDS)
        if self.is_alone and row.written is not None:
            raise StoreError(
                f"{self.place} is one of several databases that hold the same log, and may lack"
                f" what the others have confirmed: name all of them"
            )
        # From now on a connection that leads to another log is refused.
        self._identity = row.log_id
        return row.lease

    def _row(self, session: Session) -> Row:
        if not self._is_laid_out:
            if layout.read_identity(session, self.place) is None:
                raise no_log(self.place)
            self._is_laid_out = True
        return super()._row(session)

    def read(self, seconds_max: float) -> Row:
        """Read the lease row as it is now; a file that is not there is not made."""
        if not self._url.hosts and not is_there(self._url.database):
            raise no_log(self.place)
        return super().read(seconds_max)


class LookedDatabases(RaidbLog):
    """Several databases that hold one log."""

    def __init__(self, members: Sequence[LookedDatabase]) -> None:
        """Take the databases; nothing is reached yet."""
        super().__init__(members, RaidbSettings(), lanes=ThreadLanes(), clock=boottime)
        self.databases.are_meant = True

    def open_existing(self) -> Holding:
        """
        Read the leases for the first time.

        Raises:
            StoreError: They hold no log, or not the same one.
            UnreachableError: Too few answer to know what was confirmed.
        """
        rows = self.databases.read(LOOK_SECONDS, _PATIENCE_SECONDS)
        if rows and not any(it.written is not None for it in rows.values()):
            raise StoreError(
                f"{self.databases.named(rows)} are databases each with a log of its own, and not"
                f" several that hold the same: name one of them"
            )
        return self.observe(LOOK_SECONDS)
