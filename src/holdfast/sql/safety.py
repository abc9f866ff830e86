"""
Whether a database keeps what it says is stored, as far as it can be asked.

Its settings are looked at with each connection and now and then, since some may be changed at any
time. Of several hosts one that would lose something is left for one that would not. And what lay in
a cluster of Galera once is in that cluster: a node that has left it, or is looked at by itself, has
the rows of then, its lease row among them, and would let a second broker confirm.

A node that began the cluster anew while the others run says that it is in the same one: what gives
it away is that its lease row is older than what was read, or written, before.

Invariants:
    A log that is known to be in a cluster is written through a node of that cluster only.
    No connection is used on which the lease is older than this process has seen it.
    Where it is is judged before anything is opened there: SQLite writes as it opens and closes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.sql import layout, statements
from holdfast.sql.faults import Fault
from holdfast.sql.link import Link, UnsafeHostError
from holdfast.sql.schema import FORMAT
from holdfast.sql.session import Session, Surroundings

logger = logging.getLogger("holdfast.sql")

OLDER_SECONDS: Final = 15.0
"""So long a newer state of a database is waited for."""
LOOK_SECONDS: Final = 5.0
"""Settings of the database by which commits may be lost are looked at again so often."""
SEARCH_SECONDS: Final = 15.0
"""Where no host was safe another one is looked for so often."""


class Safety:
    """Judges the connections of one log."""

    def __init__(
        self,
        link: Link,
        *,
        is_overruled: bool,
        clock: Callable[[], float],
        may_be_anywhere: bool = False,
    ) -> None:
        """
        Take whose connections they are.

        Args:
            is_overruled: An operator allows settings that are unsafe.
            may_be_anywhere: He allows surroundings that are unsafe.
        """
        self._link = link
        self._is_overruled = is_overruled
        self._may_be_anywhere = may_be_anywhere
        self._clock = clock
        self._unsafe: tuple[str, ...] = ()
        """What is unsafe in its settings, for people."""
        self._around: tuple[str, ...] = ()
        """The same of where it is."""
        self._refusal = ""
        """Why nothing may be stored; empty if it may."""
        self._looked_at = 0.0
        self._searched_at = 0.0
        """When all hosts were gone through last."""
        self._cluster = ""
        """The cluster that the log is known to be in; empty: none so far."""
        self._is_written_down = False
        self._newest = (0, 0)
        """The newest epoch and beat of the lease that were read."""
        self._older_since: float | None = None
        """Since when each host that was reached had an older lease than was known."""
        self._written = (0, 0)
        """The epoch under which this process wrote the lease row last, and the time it gave it."""

    def saw(self, epoch: int, beat: int) -> None:
        """Note what the lease row says."""
        self._newest = max(self._newest, (epoch, beat))

    def wrote(self, epoch: int, at: int) -> None:
        """Note that the lease row was written, with this time, which is later each time."""
        self._written = (epoch, at)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is unsafe, for people; may be asked by any thread."""
        return (*self._around, *self._unsafe)

    def approach(self, found: Surroundings) -> None:
        """
        Judge where it is, before anything is opened there: to be refused must not change it.

        Raises:
            UnsafeHostError: What is stored there may be lost, though it was served from before.
            StoreError: The same, and it was not.
        """
        if found.unsafe and not self._may_be_anywhere:
            allowed = "allow it with 'allow_unsafe_database' (a command: --allow-unsafe)"
            reason = f"{'; '.join(found.unsafe)}; or {allowed}"
            raise UnsafeHostError(reason) if self._link.is_trusted else StoreError(reason)
        around = (*found.unsafe, *found.told)
        for it in around:
            if it not in self._around:
                logger.warning(it)
        self._around = around

    def greet(self, session: Session) -> None:
        """
        Judge a new connection.

        Raises:
            UnsafeHostError: There may be another host, which keeps what it stores.
            StoreError: There is none, and the database has not been served from yet.
        """
        reason = self._look(session)
        if reason and self._link.is_choosy:
            raise UnsafeHostError(reason)
        self._searched_at = self._clock()
        if reason and not self._link.is_trusted:
            raise StoreError(f"{reason}; change that, or allow it with 'allow_unsafe_database'")
        self._require_cluster(session)
        self._require_newest(session)

    def require_same(self, session: Session, identity: str, *, is_copying: bool) -> None:
        """
        See that a new connection leads to the log that was opened, which has this id.

        Raises:
            UnreachableError: It does not, and the log was served from: it is the address that leads
                elsewhere now, and may lead back at any moment.
            StoreError: The same, and it was not.
        """
        try:
            found = layout.read_identity(session, str(self._link.url), is_copying=is_copying)
        except StoreError as error:
            has = f"what cannot be used now: {error}; it is not"
            raise self._astray(has, identity) from error
        if found is None:
            has = "no log now (if its tables were dropped bring back a backup), not"
            raise self._astray(has, identity)
        if found != identity:
            raise self._astray(f"another log now ({found}) than", identity)

    def _astray(self, has: str, identity: str) -> StoreError:
        sentence = f"{self._link.place} has {has} the one that was opened ({identity})"
        if not self._link.is_trusted:
            return StoreError(sentence)
        return UnreachableError(f"{sentence}: see where this address leads to; it is tried again")

    def _require_newest(self, session: Session) -> None:
        """
        See that the lease there is no older than it was.

        Where it is so on each host that is reached for a while, a backup was brought back, or a
        standby that lacked some beats has taken over: then who looks at the log may say whether
        anything is lost. Not in a cluster: there others may use a node that this one does not.

        Raises:
            UnsafeHostError: It is older.
        """
        if self._newest == (0, 0):
            return
        rows = session.rows(statements.READ_AGE)
        if not rows:
            return
        epoch, beat, at = rows[0]
        known = f"epoch {self._newest[0]:,}, beat {self._newest[1]:,} was read"
        is_older = (epoch, beat) < self._newest
        if epoch == self._written[0] and at < self._written[1]:
            is_older, known = True, f"{self._written[1] - at:,} ms later it was written"
        if not is_older:
            self._older_since = None
            return
        if self._older_since is None:
            self._older_since = self._clock()
        told = (
            f"{self._link.place} went back in time: its lease is of epoch {epoch:,}, beat {beat:,},"
            f" and {known}"
        )
        if session.cluster:
            raise UnsafeHostError(f"{told}; if there is no newer one any more, restart all brokers")
        if self._clock() < self._older_since + OLDER_SECONDS:
            raise UnsafeHostError(f"{told}; a newer one is waited for")
        logger.warning("%s; there is no newer one: what is in the log decides", told)
        self._older_since = None
        self._newest = self._written = (0, 0)

    def _look(self, session: Session) -> str:
        """Why nothing may be stored with the settings as they are now; or nothing."""
        self._looked_at = self._clock()
        place, unsafe = self._link.place, session.unsafe_settings()
        self._unsafe = tuple(f"{place}: {it}" for it in unsafe)
        is_refused = unsafe and not self._is_overruled
        sentence = f"{place} would lose what was confirmed: {'; '.join(unsafe)}"
        self._refusal = sentence if is_refused else ""
        return self._refusal

    def require(self, session: Session) -> None:
        """
        See now and then that the settings are what they were.

        Raises:
            AppendRefusedError: They would lose what is stored now.
            UnsafeHostError: The same, and there may be another host that would not.
        """
        if self._clock() >= self._looked_at + LOOK_SECONDS:
            self._look(session)
        if self._refusal:
            self._looked_at = -LOOK_SECONDS
            now = self._clock()
            # One that was away when all others were unsafe may be back.
            is_time = self._link.has_others and now >= self._searched_at + SEARCH_SECONDS
            if self._link.may_leave or is_time:
                self._searched_at = now
                self._link.leave()
                raise UnsafeHostError(self._refusal)
            error = AppendRefusedError(f"{self._refusal}; nothing is stored until that is changed")
            error.keeps_lease = True
            raise error

    def _require_cluster(self, session: Session) -> None:
        """
        See that the connection leads into the cluster that the log is in.

        Raises:
            UnsafeHostError: It does not.
        """
        if session.cluster is None:
            return
        known = self._cluster or cluster_written_down(session)
        if known and session.cluster != known:
            where = f"in another one ({session.cluster})" if session.cluster else "in none"
            reason = f"{self._link.place} is {where}, and its log is in the Galera cluster {known}"
            if not self._is_overruled:
                raise UnsafeHostError(
                    f"{reason}: what is stored there now others never get. Let the node join again;"
                    f" if the log is to go on without that cluster, start once with"
                    f" 'allow_unsafe_database'"
                )
            logger.warning("%s: it may lack what was stored since, or have what nobody has", reason)
        self._cluster = session.cluster

    def write_down(self, session: Session, identity: str) -> None:
        """Write into the database which cluster it is in, as who holds the lease."""
        if self._is_written_down or session.cluster is None:
            return
        known = cluster_written_down(session)
        if known and known != session.cluster:
            session.write(statements.DROP_CLUSTER)
        if session.cluster and known != session.cluster:
            values = {"format": FORMAT, "store_id": identity, "cluster": session.cluster}
            session.write(statements.INSERT_CLUSTER, values)
        self._is_written_down = True


def cluster_written_down(session: Session) -> str:
    """In which cluster the log says that it is; empty: in none."""
    try:
        rows = session.rows(statements.READ_CLUSTER)
    except session.errors as error:
        if session.fault(error) is not Fault.NO_TABLE:
            raise
        return ""
    return str(rows[0][0]) if rows else ""
