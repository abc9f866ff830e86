"""
Which of several hosts of one URL is the database, and which is only like it.

A replica that takes writes, or a primary that comes back after a failover, has the same log id and
lease row: what is stored there the others never get, and two confirm. So the log says on which
server it is written, and how often that was promoted: PostgreSQL counts that itself (timelines), of
MariaDB and MySQL an operator says so.

Invariants:
    A host that is not the server that its rows name, or an older one, is never written through.
    A process that knows nothing yet has asked every host, or comes after a promotion.
    In a running process no setting overrules this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.errors import UnreachableError
from holdfast.sql import statements
from holdfast.sql.asking import Asking
from holdfast.sql.faults import Fault
from holdfast.sql.link import Link
from holdfast.sql.safety import cluster_written_down
from holdfast.sql.schema import FORMAT
from holdfast.sql.session import Session, Standing

if TYPE_CHECKING:
    from holdfast.environment.remote_server import Host

logger = logging.getLogger("holdfast.sql")

ASK_SECONDS: Final = 1.0
"""For each other host that is asked which it is; PostgreSQL's driver takes two."""
_FRACTION_TO_COME_BACK: Final = 1 / 3
"""Of what is left of a call: that is how long others are waited for that need not answer."""
_NEVER: Final = -1
"""The generation of a server that no log names."""
_SERVER_DIGITS: Final = 24


class _Seen(NamedTuple):
    """What a host is, and which server the log in it names."""

    standing: Standing
    written: tuple[str, int] | None

    @property
    def is_named(self) -> bool:
        """Whether its log says that it is written there."""
        return self.written is not None and self.written[0] == self.standing.server

    @property
    def generation(self) -> int:
        """How often there was a promotion before it was the one that is written."""
        if self.standing.timeline is not None:
            return self.standing.timeline
        return self.written[1] if self.written is not None and self.is_named else _NEVER

    @property
    def is_promoted(self) -> bool:
        """Whether that happened since its log was last taken there."""
        return self.is_named and self.written is not None and self.generation > self.written[1]


class Hosts:
    """Judges to which host a connection leads, for one log."""

    def __init__(self, link: Link, *, is_overruled: bool, clock: Callable[[], float]) -> None:
        """Take whose connections they are; `is_overruled`: an operator takes the first he finds."""
        self._link = link
        self._asking = Asking(lambda host: link.glance(host, ASK_SECONDS, _look), clock)
        self._is_overruled = is_overruled
        self._known: _Seen | None = None
        self._known_at: Host | None = None
        self._highest = _NEVER
        self._to_write: tuple[str, int] | None = None
        """What the log is to say of where it is written, if it does not yet."""

    def greet(self, session: Session) -> None:
        """
        Judge a new connection.

        Raises:
            UnreachableError: It is not known to lead to the one that counts.
        """
        self._to_write = None
        if not self._link.has_others or session.cluster:
            return
        if session.cluster is not None and cluster_written_down(session):
            return  # judged by that
        here = _look(session)
        if here is None:
            return
        place = self._link.place
        if not here.standing.is_writable:
            raise UnreachableError(f"{place} is read-only, as a replica is")
        objection, generation = self._objection(session, here), max(here.generation, 0)
        if objection:
            if not self._is_overruled or self._link.is_trusted:
                raise UnreachableError(f"{place} {objection}")
            logger.warning("%s %s: it is used, as an operator allows it", place, objection)
            if here.standing.timeline is None:
                generation = max(self._highest, here.written[1] if here.written else 0) + 1
        written = (here.standing.server, generation)
        if written != here.written:
            self._to_write = written
        self._known = _Seen(here.standing, written)
        self._known_at = self._link.host

    def write_down(self, session: Session, identity: str) -> None:
        """Let the log say on which server it is written, before anything is confirmed there."""
        if self._to_write is None:
            return
        server, generation = self._to_write
        values = {"format": FORMAT, "store_id": identity, "server": f"{server}{generation:08x}"}
        try:
            with session.transaction():
                session.write(statements.DROP_SERVER)
                session.write(statements.INSERT_SERVER, values)
        except session.errors as error:
            if session.fault(error) is not Fault.DUPLICATE:
                raise
            session.give_up()  # another broker has just written the same
        self._to_write = None

    def _objection(self, session: Session, here: _Seen) -> str:
        """Why nothing may be stored by this connection; or nothing."""
        if here.written is not None and not here.is_named:
            return self._other_than_written(session, here, here.written[0])
        known, must_answer = self._known, not here.is_promoted
        if known is not None:
            is_same = known.standing.server == here.standing.server
            is_moved = here.standing.timeline is None and here.is_named
            if (is_same or is_moved) and here.generation > known.generation:
                must_answer = False
            elif not is_same:
                changed = self._changed(session, here, known.standing.server)
                return f"is another server than the one that was used{changed}, which is waited for"
            elif here.generation < known.generation:
                return (
                    f"went on as it was before another host took over (timeline"
                    f" {here.generation}, and {known.generation} was seen): stop it, and make it a"
                    f" standby of the new one"
                )
            elif (
                self._link.host == self._known_at
                or here.standing.instance == known.standing.instance
            ):
                must_answer = False
        return self._objection_of_others(here, must_answer=must_answer)

    def _other_than_written(self, session: Session, here: _Seen, written: str) -> str:
        changed = self._changed(session, here, written)
        return (
            f"is another server than the one that its rows name{changed}: a replica of that, or a"
            f" copy. Make replicas read-only (read_only); if the log is to go on with this server"
            f" for good, stop all brokers and the other server, and start once with"
            f" 'allow_unsafe_database'"
        )

    def _changed(self, session: Session, here: _Seen, written: str) -> str:
        known = None if self._known is None else self._known.standing
        changed = session.changed(written, here.standing, known)
        return f" ({changed}: if it is the same server, let it be as it was)" if changed else ""

    def _objection_of_others(self, here: _Seen, *, must_answer: bool) -> str:
        seconds = self._link.seconds_left * (1 if must_answer else _FRACTION_TO_COME_BACK)
        silent = []
        answers = self._asking.ask(self._link.others, seconds, spares_silent=not must_answer)
        for host, there in answers:
            if isinstance(there, UnreachableError):
                silent.append(str(there))
                continue
            if there is None:
                continue
            self._highest = max(self._highest, there.generation)
            if objection := _compared(here, there, host):
                return objection
        if not silent or not must_answer:
            return ""
        return (
            f"may be one that another host has taken over from, as not all answer"
            f" ({'; '.join(silent)}): let them answer, or take what is gone for good out of the URL"
            f" of --store"
        )


def _look(session: Session) -> _Seen | None:
    """What this host is; None: such a database cannot be told from its copies."""
    standing = session.standing()
    if standing is None:
        return None
    try:
        rows = session.rows(statements.READ_SERVER)
    except session.errors as error:
        if session.fault(error) is not Fault.NO_TABLE:
            raise
        rows = []
    text = str(rows[0][0]) if rows else ""
    return _Seen(standing, _parsed(text) if text else None)


def _parsed(text: str) -> tuple[str, int]:
    server, generation = text[:_SERVER_DIGITS], text[_SERVER_DIGITS:]
    try:
        return server, int(generation, 16)
    except ValueError:
        return "", _NEVER  # changed by hand: it names no server


def _compared(here: _Seen, there: _Seen, host: Host) -> str:
    """Why not this one but another host that answers may be the one that counts; or nothing."""
    mine, other = here.standing, there.standing
    if mine.server == other.server:
        if there.generation > here.generation:
            return (
                f"is older than {host}, which has taken over (timeline {there.generation}, and"
                f" {here.generation} here): stop this one, and make it a standby of the other"
            )
        is_twice = mine.instance != other.instance and other.is_writable
        if not is_twice or there.generation < here.generation:
            return ""
        return _both(host)
    if not other.is_writable or (here.is_named and not there.is_named):
        return ""
    if here.is_named and mine.timeline is None and there.generation != here.generation:
        if there.generation < here.generation:
            return ""
        return f"is older than {host}, with which the log was gone on with: stop this one"
    return _both(host)


def _both(host: Host) -> str:
    return (
        f"and {host} both take writes, and are two servers: what one stores the other may never"
        f" get. Make the one that is a replica read-only (read_only; of PostgreSQL a standby), or"
        f" take what is not this log's out of the URL of --store"
    )
