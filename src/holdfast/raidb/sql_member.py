"""
A database of SQL as one of several that hold the same log.

Its tables are those of a database alone; the set stands in the lease row. It is written under a
token that the caller gives: a database that was left out and is filled again has another one than
those that were not. What is no append names the beat of the row that it was worked out from, so
that one that arrives late changes nothing.

Source: "Stores and fenced leases", section 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.errors import StoreError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Outcome, Place
from holdfast.leases.projection import Changes
from holdfast.raidb import set_text
from holdfast.raidb.member import (
    NOTHING,
    AstrayError,
    KnownSet,
    Row,
    Token,
    UnconnectedError,
    require_end,
)
from holdfast.sql import layout, parts, projection, statements
from holdfast.sql.lease_row import Held, fence_of, held_by, holding_of, seen_as
from holdfast.sql.log import SqlLog
from holdfast.sql.session import Session

_SEEN: Final = "id = 1 AND epoch = :epoch AND beat = :beat"
_HELD: Final = f"{statements.HELD} AND beat = :beat"
READ: Final = "SELECT members, " + statements.READ_LEASE.removeprefix("SELECT ")
FOUND: Final = (
    "UPDATE holdfast_lease SET members = :members, event = :event, beat = beat + 1"
    f" WHERE {_SEEN} AND members = ''"
)
SEIZE: Final = statements.TAKE.replace("epoch = epoch + 1", "epoch = :next")
WRITE_SET: Final = (
    f"UPDATE holdfast_lease SET members = :members, event = :event, beat = beat + 1 WHERE {_HELD}"
)
RENEW_AT: Final = f"{statements.RENEW} AND last_index = :last AND last_chain = :chain"
"""A sign of life of what ends where its holder knows that it does."""

READ_HOLDER: Final = "SELECT epoch, holder FROM holdfast_lease WHERE id = 1"
ADOPT: Final = "UPDATE holdfast_meta SET store_id = :store_id WHERE id = 1"
CUT: Final = (
    "UPDATE holdfast_lease SET last_index = :last, last_chain = :chain, first_index = :first,"
    f" beat = beat + 1 WHERE {_HELD}"
)
MEND: Final = f"{statements.RENEW} AND first_index <= :index AND last_index >= :index"
"""The fence of an entry that is written anew."""

FORGET_ALL: Final = "DELETE FROM holdfast_brokers"
SHOW: Final = f"{statements.RENEW} AND last_index <= :last"
"""As `statements.SHOW`; one that lags by majority shows what is told all the same."""

DELETE_ONE: Final = "DELETE FROM holdfast_entries WHERE idx = :index"
DELETE_BEHIND: Final = "DELETE FROM holdfast_entries WHERE idx > :last"
DELETE_THROUGH: Final = "DELETE FROM holdfast_entries WHERE idx <= :through"
_CLEARED_AT_ONCE: Final = 64
"""Entries."""


class SqlMember(SqlLog):
    """One of several databases."""

    may_be_replaced = True
    is_twin = False
    """Whether it only reads, beside the one that writes, which has looked over the database."""

    _is_laid_out = False
    _is_taken = False
    _leads_to = ""
    """Which member the connection leads to, as far as it says."""

    _meant = ""
    """Which one is meant by what is asked; empty: whichever is there."""

    _held_under: Token | None = None
    """Under what it must be held."""

    @property
    def place(self) -> str:
        """Its address, without a password."""
        return str(self._url)

    def read(self, seconds_max: float) -> Row:
        """Read the lease row as it is now; lay out the database first, if need be."""
        return self._link.run(seconds_max, self._row)

    def _greet(self, session: Session) -> None:
        """See that its settings keep what is stored; which database it is, its row says."""
        super()._greet(session)
        self._is_laid_out = False
        self._leads_to = layout.read_member(session)

    @contextmanager
    def reaching(self, member: str, token: Token | None = None) -> Iterator[None]:
        """Let what is asked inside be asked of this member only, held under this token."""
        self._meant, self._held_under = member, token
        made_count, is_connected = self._link.made_count, self._link.is_connected
        try:
            yield
        except AstrayError:
            raise
        except StoreError as error:
            if is_connected or self._link.made_count > made_count:
                raise
            raise UnconnectedError(str(error)) from error
        finally:
            self._meant, self._held_under = "", None

    def _admit(self, session: Session) -> None:
        """See that a connection leads to the member that is meant."""
        token = self._held_under
        self._require(self._meant)
        if token is None:
            return
        if session.rows(READ_HOLDER) != [(token.epoch, token.holder)]:
            raise AstrayError(
                f"by a new connection to {self.place} it is not held as it was: another broker has"
                f" taken it, or this address leads to a copy of it or to an older state now"
            )

    def _require(self, member: str) -> None:
        """
        See that the connection leads to this member, if one is named.

        Raises:
            AstrayError: Its address leads to another database now.
        """
        if member and self._leads_to != member:
            raise AstrayError(
                f"{self.place} leads to another database now than it did: see where this address"
                f" leads to"
            )

    def _row(self, session: Session) -> Row:
        if not self._is_laid_out:
            if not self.is_twin:
                session.check()
            draw = (lambda: self._randomness.bytes(16).hex()) if self.may_lay_out else None
            layout.lay_out(session, self.place, draw)
            self._is_laid_out = True
        rows = session.rows(READ)
        if not rows:
            self._read(session)  # It says what is gone.
        ((_, log_id, member),) = session.rows(statements.READ_META)
        self._leads_to = str(member)
        self._trust(session)
        lease = holding_of(rows[0][1:], self.place)
        if self._is_reached_by_several:
            self._safety.saw(lease.epoch, lease.beat)
        return Row(
            member=str(member),
            log_id=str(log_id),
            lease=lease,
            written=set_text.decode(rows[0][0], self.place),
        )

    @property
    def _is_reached_by_several(self) -> bool:
        """
        Whether its address has several hosts, of which one may be older than the others.

        One that is reached by itself and went back in time is filled again by the others.
        """
        return len(self._url.hosts) > 1

    def _note_written(self, tenure: Held, at: int) -> None:
        if self._is_reached_by_several:
            super()._note_written(tenure, at)

    def found(self, row: Row, written: KnownSet, seconds_max: float) -> None:
        """Write the first set, unless anything was done since the row was read."""
        values = {"epoch": row.lease.epoch, "beat": row.lease.beat, **_set_values(written)}

        def found(session: Session) -> None:
            with session.transaction():
                if session.write(FOUND, values) == 1:
                    session.write(ADOPT, {"store_id": written.known.set_id})

        self._link.run(seconds_max, found)

    def seize(self, row: Row, token: Token, claimant: Claimant, seconds_max: float) -> bool:
        """Let the token count here, unless anything was done since the row was read."""
        values = {
            **self._take_values(claimant),
            **seen_as(row.lease),
            "next": token.epoch,
        }

        def seize(session: Session) -> bool:
            self._require(token.member)
            if session.write(SEIZE, values) != 1:
                return False
            self._is_taken = self._row(session).is_held_by(token)
            return self._is_taken

        return self._link.run(seconds_max, seize)

    def _make_shown(self, session: Session) -> None:
        """Make the view on the lease, and the table of queues, as who took it."""
        if self._view is None and self._is_taken:
            self._tables = layout.make_projections(session)
            self._view = layout.make_view(session)

    def make_shown(self, token: Token, changes: Changes, seconds_max: float) -> str:
        """Make the tables, and the view on the lease; or tell why not."""

        def make(session: Session) -> str:
            self._require(token.member)
            # All is looked for anew: somebody may have dropped it, as the caller has seen.
            self._view, self._messages = None, projection.MessageTables()
            self._make_shown(session)
            return self._tables or self._messages.make(session, changes)

        return self._link.run(seconds_max, make)

    def show(self, token: Token, last_index: int, changes: Changes, seconds_max: float) -> str:
        """Write what is shown to people; or tell why not."""
        fence = {"at": self._at(), "last": last_index, **held_by(token)}

        def show(session: Session) -> str:
            self._require(token.member)
            is_written, refusal = projection.write_unless_refused(session, fence, changes, SHOW)
            return refusal if refusal or is_written else "another broker has taken it"

        return self._link.run(seconds_max, show)

    def write_set(
        self, token: Token, written: KnownSet, seconds_max: float, *, end: Place | None = None
    ) -> Outcome:
        """Replace the set."""
        wanted = _set_values(written)

        def write(session: Session) -> Outcome:
            self._require(token.member)
            row = self._row(session)
            if not self._is_ours(row, token):
                return Outcome.DEPOSED
            require_end(row, end, self.place)
            with session.transaction():
                if session.write(WRITE_SET, {**wanted, **_at(row, token)}) == 1:
                    session.write(ADOPT, {"store_id": written.known.set_id})
            found = self._row(session)
            if found.written == written:
                return Outcome.STORED
            raise UnreachableError(f"{self.place} was written by somebody else meanwhile")

        return self._link.run(seconds_max, write)

    def beat(self, token: Token, seconds_max: float, *, end: Place | None = None) -> Outcome:
        """Give a sign of life."""
        renew, ends = statements.RENEW, {}
        if end is not None:
            renew, ends = RENEW_AT, {"last": end.index, "chain": end.chain.hex()}

        def beat(session: Session) -> Outcome:
            self._require(token.member)
            values = {"at": self._at(), **held_by(token)}
            if session.write(renew, {**values, **ends}) == 1:
                self._wrote(session, token, values["at"])
                return Outcome.STORED
            row = self._row(session)
            if self._is_ours(row, token):
                require_end(row, end, self.place)
                is_more = end is not None and row.lease.end.index > end.index
                if is_more and session.write(statements.RENEW, values) == 1:
                    self._wrote(session, token, values["at"])
                    return Outcome.STORED
                raise StoreError(
                    f"{self.place} says that it is ours and lets nothing be written: it does not do"
                    f" what it is asked; look at it, or 'holdfast mirror disable' it"
                )
            return Outcome.DEPOSED

        return self._link.run(seconds_max, beat)

    def give_back(self, token: Token, seconds_max: float) -> None:
        """Give it back, if the token still counts."""
        self._is_taken = False
        self._link.run(seconds_max, lambda it: it.write(statements.RELEASE, held_by(token)))

    def store(
        self, token: Token, entries: list[Entry], before: Place, seconds_max: float
    ) -> Outcome:
        """Store entries of any epoch behind this end."""
        first, last = entries[0], entries[-1]
        at = self._at()
        rows = parts.split(entries, at)
        fence = fence_of(entries, before, token, at)

        def store(session: Session) -> Outcome:
            self._require(token.member)
            self._safety.require(session)
            if session.append(fence, rows):
                self._wrote(session, token, at)
                return Outcome.STORED
            row = self._row(session)
            if not self._is_ours(row, token):
                return Outcome.DEPOSED
            if row.lease.end == Place(last.index, last.chain):
                # What can be read may yet be undone, and what is written behind it not.
                values = {"at": at, **held_by(token)}
                is_held = session.write(statements.RENEW, values) == 1
                return Outcome.STORED if is_held else Outcome.DEPOSED
            found = f"entry {row.lease.end.index:,}"
            if row.lease.end.index == before.index:
                found = f"another entry {before.index:,} than the others"
            raise StoreError(
                f"{self.place} ends with {found}, and not before entry {first.index:,}: it was"
                f" changed by somebody else; empty it, and it is filled"
            )

        return self._link.run(seconds_max, store)

    def mend(self, token: Token, entry: Entry, seconds_max: float) -> Outcome:
        """Write one entry that is kept anew."""
        at = self._at()
        rows = parts.split([entry], at)
        values = {"at": at, "index": entry.index, **held_by(token)}

        def mend(session: Session) -> Outcome:
            self._require(token.member)
            self._safety.require(session)
            with session.transaction():
                if session.write(MEND, values) == 1:
                    session.write(DELETE_ONE, {"index": entry.index})
                    for row in rows:
                        session.write(statements.INSERT_ENTRY, row._asdict())
            is_ours = self._is_ours(self._row(session), token)
            return Outcome.STORED if is_ours else Outcome.DEPOSED

        return self._link.run(seconds_max, mend)

    def cut(self, token: Token, end: Place, seconds_max: float) -> Outcome:
        """Drop what comes behind this entry."""

        def cut(session: Session) -> Outcome:
            self._require(token.member)
            row = self._row(session)
            if not self._is_ours(row, token):
                return Outcome.DEPOSED
            first = min(row.lease.first_index, end.index + 1)
            return self._end_at(session, row, token, end, first)

        return self._link.run(seconds_max, cut)

    def clear(self, token: Token, first_index: int, seconds_max: float) -> Outcome:
        """Empty it, some entries at a time; the row says so once all are gone."""

        def clear(session: Session) -> Outcome:
            self._require(token.member)
            while True:
                row = self._row(session)
                if not self._is_ours(row, token):
                    return Outcome.DEPOSED
                (lowest,) = session.rows(statements.READ_FIRST)[0]
                if lowest is None:
                    end = Place(first_index - 1, NOTHING.chain)
                    return self._end_at(session, row, token, end, first_index)
                with session.transaction():
                    values = {"at": self._at(), **held_by(token)}
                    if session.write(statements.RENEW, values) == 1:
                        through = lowest + _CLEARED_AT_ONCE - 1
                        session.write(DELETE_THROUGH, {"through": through})

        return self._link.run(seconds_max, clear)

    def _end_at(self, session: Session, row: Row, token: Token, end: Place, first: int) -> Outcome:
        values = {"last": end.index, "chain": end.chain.hex(), "first": first}
        with session.transaction():
            if session.write(CUT, {**values, **_at(row, token)}) == 1:
                session.write(DELETE_BEHIND, {"last": end.index})
        found = self._row(session)
        if found.lease.end != end or not found.is_held_by(token):
            raise UnreachableError(f"{self.place} was written by somebody else meanwhile")
        return Outcome.STORED

    def forget_all(self, seconds_max: float) -> None:
        """Drop what all brokers told."""
        self._link.run(seconds_max, lambda it: it.write(FORGET_ALL))

    def piece(self, index: int, start: int, count: int, seconds_max: float) -> bytes:
        """Read so many bytes of an entry at most, of one of its rows."""
        part, first = divmod(start, parts.PART_BYTES)
        values = {"index": index, "part": part, "first": first + 1, "count": count}
        rows = self._link.run(seconds_max, lambda it: it.rows(statements.READ_PIECE, values))
        return bytes(rows[0][0]) if rows else b""

    def drop(self, token: Token, index: int, seconds_max: float) -> bool:
        """Forget entries before this one, so many at a time."""
        return self._drop(token, index, seconds_max)

    def _is_ours(self, row: Row, token: Token) -> bool:
        """
        Whether the token still counts.

        Raises:
            StoreError: It is another database than the one that was taken, or an older state of it.
        """
        if row.lease.epoch < token.epoch:
            raise StoreError(
                f"{self.place} is at epoch {row.lease.epoch:,} and was at {token.epoch:,}: it went"
                f" back in time, or is another database now"
            )
        return row.is_held_by(token)


def _set_values(written: KnownSet) -> dict[str, Any]:
    return {"members": set_text.encode(written), "event": written.known.number.event}


def _at(row: Row, token: Token) -> dict[str, Any]:
    return {**held_by(token), "beat": row.lease.beat}
