"""
A leased log in the rows of a database.

The fence is a write: every append changes the lease row, on the condition of epoch, holder and last
index, in the transaction that inserts the entry. Who finds no row to change reads the lease to tell
why. An append whose outcome was not known is simply sent again; where the row says that it was
stored, another write under the same condition is made before it is called so, since what can be
read may still be undone while a standby has not confirmed it, and what was written behind it not.

Source: "Stores and fenced leases", sections 4, 7.3 and 7.4; Kleppmann, "How to do distributed
locking" (2016).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

from holdfast.environment.clock import Clock, SystemClock
from holdfast.environment.randomness import Randomness, SystemRandomness
from holdfast.errors import (
    EntryRefusedError,
    MissingEntriesError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import Entry
from holdfast.leases.contract import (
    Claimant,
    Holding,
    MediumFacts,
    Outcome,
    Place,
    Waiter,
)
from holdfast.leases.copies import CopyPlan
from holdfast.leases.projection import Changes, MessageKey
from holdfast.model.limits import MiB
from holdfast.sql import layout, parts, projection, statements
from holdfast.sql.faults import Fault
from holdfast.sql.hosts import Hosts
from holdfast.sql.lease_row import (
    Held,
    Tenure,
    fence_of,
    held_by,
    holder_of,
    holding_of,
    is_held_by,
    seen_as,
)
from holdfast.sql.link import Connect, Link
from holdfast.sql.safety import Safety
from holdfast.sql.session import Session, UncertainError
from holdfast.sql.url import StoreUrl
from holdfast.sql.whereabouts import Whereabouts

OPEN_SECONDS_MAX: Final = 60.0  # also for looking over the pages of a large file
DROP_BYTES_MAX: Final = 64 * MiB
"""Of entries that are forgotten in one transaction."""
_SIZES_MAX: Final = 4096
"""Entries that are read or forgotten at once, however small they are."""


class SqlLog:
    """A `LeasedLog` in a database."""

    is_fence = True
    """The database judges each append, however late it arrives."""
    may_be_replaced = False
    """Whether what is at its address may become another database for good."""
    may_lay_out = True
    """Whether a log is begun where there is none; not by who knows it, or only looks."""
    low_room = ""

    def __init__(
        self,
        url: StoreUrl,
        session_type: type[Session],
        connect: Connect,
        *,
        allow_unsafe_database: bool = False,
        allow_unsafe_place: bool = False,
        randomness: Randomness | None = None,
        clock: Clock | None = None,
    ) -> None:
        """
        Take where it is; nothing is reached before `open`.

        Args:
            allow_unsafe_place: Open it also where its surroundings are unsafe.
        """
        self.lease_seconds = session_type.lease_seconds
        self._url = url
        self._randomness = SystemRandomness() if randomness is None else randomness
        self._clock = SystemClock() if clock is None else clock
        self._link = Link(
            url,
            session_type,
            connect,
            greet=self._greet,
            admit=self._admit,
            approach=self._approach,
            clock=self._clock.monotonic,
        )
        self._safety = Safety(
            self._link,
            is_overruled=allow_unsafe_database,
            may_be_anywhere=allow_unsafe_place,
            clock=self._clock.monotonic,
        )
        self._hosts = Hosts(
            self._link, is_overruled=allow_unsafe_database, clock=self._clock.monotonic
        )
        self._look_around = partial(session_type.look_around, url)
        self._whereabouts = Whereabouts(
            url, session_type, self._clock.monotonic, may_be_replaced=self.may_be_replaced
        )
        self._identity = ""
        self._kind = url.kind
        self._view: str | None = None
        """Why there is no view on the lease, or nothing; None: it was not looked at yet."""
        self._answered = 0
        """With which entry the last append ended that the database answered with an error."""
        self._tables = ""  # Why there are no tables to show anything in.
        self._messages = projection.MessageTables()
        self._tenure: Tenure | None = None
        self._is_given_back = False
        self._end = Place(0, bytes(16))
        """Where the log ends, as far as the holder knows."""
        self._last_at = 0
        self._plan: CopyPlan | None = None  # Of the copy that is to be finished yet.

    def open(self, *, may_lay_out: bool = True) -> Holding:
        """Reach the database, refuse it where it is not safe, lay it out if it is empty."""
        self.may_lay_out = may_lay_out
        return self._link.run(OPEN_SECONDS_MAX, self._open)

    @property
    def is_half_copy(self) -> bool:
        """Whether what was begun with `begin_copy` is to be finished yet."""
        return self._plan is not None

    def identity(self) -> str:
        """Give the log's own id, 32 hexadecimal digits, chosen when it was laid out."""
        return self._identity

    def message_bytes_max(self, sure_seconds: float) -> int:
        """Say nothing of it: there is one copy."""
        del sure_seconds
        return 0

    def facts(self) -> MediumFacts:
        """Tell what this is; waits for nothing."""
        unsafe = self._safety.warnings
        told = (self._link.warning, self._view, self._messages.no_views)
        warnings = (*unsafe, *filter(None, told))
        return MediumFacts(kind=self._kind, place=str(self._url), warnings=warnings)

    def observe(self, seconds_max: float) -> Holding:
        """Read the lease as it is now."""
        return self._link.run(seconds_max, self._read)

    def take(self, seen: Holding, claimant: Claimant, seconds_max: float) -> Holding | None:
        """Begin the epoch after the one `seen`."""
        values = {**self._take_values(claimant), **seen_as(seen)}

        def take(session: Session) -> Holding | None:
            if session.write(statements.TAKE_ALONE, values) != 1:
                self._refuse_one_of_several(session)
                self._read(session)  # Whether the row is there at all.
                return None
            holding = self._read(session)
            self.low_room = session.low_room()
            held_by = (holding.epoch, holder_of(holding))
            if held_by == (seen.epoch + 1, claimant.holder):
                self._hosts.write_down(session, self._identity)
            return holding if held_by == (seen.epoch + 1, claimant.holder) else None

        holding = self._link.run(seconds_max, take)
        if holding is not None:
            self._tenure = Tenure(holding.epoch, claimant.holder)
            self._end = holding.end
            self._is_given_back = False
        return holding

    def _take_values(self, claimant: Claimant) -> dict[str, Any]:
        """What a take writes of who takes it."""
        return {
            "holder": claimant.holder,
            "name": claimant.name,
            "address": claimant.admin,
            "stomp": claimant.stomp,
            "lease_ms": math.ceil(claimant.lease_seconds * 1000),
            "at": self._at(),
        }

    def renew(self, seconds_max: float) -> Outcome:
        """Give a sign of life."""
        tenure = self._held()
        if tenure is None:
            return Outcome.DEPOSED
        return self._link.run(seconds_max, lambda session: self._renew(session, tenure))

    def release(self, seconds_max: float) -> None:
        """Give the lease back if it is still ours."""
        tenure = self._tenure
        if tenure is None:
            return
        self._is_given_back = True
        self._link.run(seconds_max, lambda it: it.write(statements.RELEASE, held_by(tenure)))
        self._tenure = None

    def append(self, entries: list[Entry], seconds_max: float) -> Outcome:
        """Store these entries, all or none."""
        tenure = self._held()
        if tenure is None:
            return Outcome.DEPOSED
        last = entries[-1]
        assert self._plan or all(it.term == tenure.epoch for it in entries), (
            "an entry is of its lease's epoch, unless it is a copy"
        )
        at, end = self._at(), Place(last.index, last.chain)
        rows = parts.split(entries, at)
        fence = fence_of(entries, self._end, tenure, at)

        def append(session: Session) -> Outcome:
            self._safety.require(session)
            self._hosts.write_down(session, self._identity)
            if session.append(fence, rows):
                self._wrote(session, tenure, at)
                return Outcome.STORED
            return self._judge(session, tenure, end)

        try:
            outcome = self._link.run(seconds_max, append)
        except UnreachableError as error:
            if not self._is_answered_again(error, end.index):
                raise
            reason = f"{error}; others are taken"
            outcome = self._link.run(seconds_max, lambda it: self._refuse(it, tenure, end, reason))
        self._answered = 0
        if outcome is Outcome.STORED:
            self._end = end
        return outcome

    def _is_answered_again(self, error: UnreachableError, index: int) -> bool:
        """Whether the database has answered the same append with an error twice in turn."""
        is_answer = self._link.was_answered(error)
        is_again = is_answer and self._answered == index
        self._answered = index if is_answer else 0
        return is_again

    def _refuse(self, session: Session, tenure: Tenure, end: Place, reason: str) -> Outcome:
        """
        Refuse the append if the database lets the same lease be renewed, and has not stored it.

        Raises:
            EntryRefusedError: That is so.
        """
        holding = self._read(session)
        is_missing = is_held_by(holding, tenure) and holding.end.index < end.index
        if not is_missing:
            return self._judge(session, tenure, end)
        outcome = self._renew(session, tenure)
        if outcome is Outcome.STORED:
            raise EntryRefusedError(reason)
        return outcome

    def entries(self, after: int, through: int, bytes_max: int, seconds_max: float) -> list[Entry]:
        """Read entries in order from the one after `after`."""
        if through <= after:
            return []

        def read(session: Session) -> list[Entry]:
            values = {"after": after, "through": through}
            sizes = session.rows(statements.READ_SIZES, {**values, "count": _SIZES_MAX})
            last = parts.last_within(sizes, after, bytes_max)
            if last == after:
                raise MissingEntriesError(after + 1, after + 1, f"{parts.TABLE} of {self._url}")
            rows = session.rows(statements.READ_PARTS, {"after": after, "through": last})
            return parts.join(rows, after, last)

        return self._link.run(seconds_max, read)

    def drop_before(self, index: int, seconds_max: float) -> bool:
        """Forget entries before this one, so many at a time."""
        tenure = self._held()
        return False if tenure is None else self._drop(tenure, index, seconds_max)

    def _drop(self, tenure: Held, index: int, seconds_max: float) -> bool:
        held = held_by(tenure)

        def drop(session: Session) -> bool:
            (lowest,) = session.rows(statements.READ_FIRST)[0]
            if lowest is None:
                lowest = index
            values = {"after": lowest - 1, "through": index - 1, "count": _SIZES_MAX}
            sizes = session.rows(statements.READ_SIZES, values)
            last = parts.last_within(sizes, lowest - 1, DROP_BYTES_MAX)
            # Rows with a gap between them are dropped past it.
            first = min(max(last, lowest) + 1, index)
            at = self._at()
            is_held = session.clean({"first": first, "at": at, **held})
            if is_held:
                self._wrote(session, tenure, at)
            return is_held and first < index

        return self._link.run(seconds_max, drop)

    def tell(self, waiter: Waiter, seconds_max: float) -> None:
        """Let the others know of this broker."""
        claimant = waiter.claimant
        values = {
            "name": claimant.name,
            "holder": claimant.holder,
            "address": claimant.admin,
            "stomp": claimant.stomp,
            "known_level": waiter.known_level,
            "beat": waiter.beat,
            "applied_index": waiter.applied_index,
        }

        def tell(session: Session) -> None:
            self._make_shown(session)
            if session.write(statements.TELL_AGAIN, values):
                return
            try:
                session.write(statements.TELL_FIRST, values)
            except session.errors as error:
                if session.fault(error) is not Fault.DUPLICATE:
                    raise  # else another process of this name was first, just now
                session.write(statements.TELL_AGAIN, values)

        self._link.run(seconds_max, tell)

    def _make_shown(self, session: Session) -> None:
        """
        Make what is shown to people, if nobody did and the lease is ours: by one broker at a time.

        Two that make a view at two nodes of Galera wait for each other, and no change of any table
        is made in that cluster any more (MariaDB 10.11, galera 26.4).
        """
        if self._held() is not None:
            self._safety.write_down(session, self._identity)
        if self._view is None and self._held() is not None:
            self._tables = layout.make_projections(session)
            self._view = layout.make_view(session)

    def waiters(self, seconds_max: float) -> list[Waiter]:
        """Give all brokers that told of themselves, by name."""
        rows = self._link.run(seconds_max, lambda it: it.rows(statements.READ_BROKERS))
        return [
            Waiter(
                claimant=Claimant(holder=holder, name=name, admin=address, stomp=stomp),
                known_level=known_level,
                beat=beat,
                applied_index=applied_index,
            )
            for name, holder, address, stomp, known_level, beat, applied_index in rows
        ]

    def forget(self, name: str, seconds_max: float) -> None:
        """Drop what the broker of this name told."""
        self._link.run(seconds_max, lambda it: it.write(statements.FORGET, {"name": name}))

    def project(self, changes: Changes, seconds_max: float) -> Outcome:
        """Write over what the tables for people show, if the lease is ours still."""
        tenure = self._held()
        if tenure is None:
            return Outcome.DEPOSED
        at = self._at()
        fence = {"at": at, "last": self._end.index, **held_by(tenure)}

        def project(session: Session) -> Outcome | str:
            self._make_shown(session)
            if unmade := self._tables or self._messages.make(session, changes):
                raise StoreError(f"{self._url}: {unmade}")
            is_written, refusal = projection.write_unless_refused(session, fence, changes)
            # It is not noted that the row was written: what is shown may be undone by a crash.
            if is_written or refusal:
                return Outcome.STORED if is_written else refusal
            if is_held_by(self._read(session), tenure):
                raise UncertainError("the log does not end where this broker's last append did")
            return Outcome.DEPOSED

        found = self._link.run(seconds_max, project)
        if isinstance(found, str):
            raise StoreError(f"{self._url}: {found}")
        return found

    def shown_keys(self, after: MessageKey, seconds_max: float) -> list[MessageKey]:
        """Read which messages have rows."""
        return self._link.run(seconds_max, lambda it: projection.keys_after(it, after))

    def close(self) -> None:
        """Let go of the database; does not give the lease back."""
        self._link.close()

    def _at(self) -> int:
        """Milliseconds by the wall, for people who look at the rows; later with each write."""
        self._last_at = max(self._clock.wall_microseconds() // 1000, self._last_at + 1)
        return self._last_at

    def _wrote(self, session: Session, tenure: Held, at: int) -> None:
        """Note that the lease row was written under this, and is known to be."""
        self._note_written(tenure, at)
        self.low_room = session.low_room()

    def _note_written(self, tenure: Held, at: int) -> None:
        self._safety.wrote(tenure.epoch, at)

    def _draw(self) -> str:
        """32 hexadecimal digits that nobody else has."""
        return self._randomness.bytes(16).hex()

    def _held(self) -> Tenure | None:
        return None if self._is_given_back else self._tenure

    def _approach(self) -> None:
        """See where it is, before anything is opened there."""
        self._link.may_begin = self._whereabouts.approach(may_begin=self.may_lay_out)
        self._safety.approach(self._look_around())

    def _greet(self, session: Session) -> None:
        """See that a new connection leads to the same log, and to settings that keep it."""
        self._kind, self.lease_seconds = session.kind, session.lease_seconds
        if self._identity:
            self._safety.require_same(session, self._identity, is_copying=self.is_half_copy)
        self._hosts.greet(session)
        self._safety.greet(session)
        self._whereabouts.greet(session)

    def _trust(self, session: Session) -> None:
        """This connection leads to the log: what keeps a later one from it may pass."""
        self._link.is_trusted = True
        self._whereabouts.keep(session)

    def _admit(self, session: Session) -> None:
        """See that a connection leads where it is to lead, before anything is done by it."""

    def _open(self, session: Session) -> Holding:
        session.check()
        place = str(self._url)
        self._identity = layout.lay_out(session, place, self._draw if self.may_lay_out else None)
        self._refuse_one_of_several(session)
        layout.require_whole(session, place)
        self._trust(session)
        return self._read(session)

    def _refuse_one_of_several(self, session: Session) -> None:
        rows = session.rows(statements.READ_MEMBERS)
        if rows and rows[0][0]:
            raise StoreError(
                f"{self._url} is one of several databases that hold the same log: name all of them,"
                f" each with a --store"
            )

    def _read(self, session: Session) -> Holding:
        rows = session.rows(statements.READ_LEASE)
        if not rows:
            raise StoreError(
                f"the row of holdfast_lease in {self._url} is gone, so nothing tells where the log"
                f" ends and who writes it: stop all brokers and bring back a copy of the database"
            )
        holding = holding_of(rows[0], str(self._url))
        self._safety.saw(holding.epoch, holding.beat)
        return holding

    def _renew(self, session: Session, tenure: Tenure) -> Outcome:
        at = self._at()
        if session.write(statements.RENEW, {"at": at, **held_by(tenure)}) == 1:
            self._wrote(session, tenure, at)
            return Outcome.STORED
        holding = self._read(session)
        if is_held_by(holding, tenure):
            raise StoreError(
                f"the lease row of {self._url} says that it is ours and lets nothing be written:"
                f" the database does not do what it is asked; stop and look at it"
            )
        return Outcome.DEPOSED

    def _judge(self, session: Session, tenure: Tenure, end: Place) -> Outcome:
        """What became of an append whose fence found no row to change."""
        holding = self._read(session)
        if not is_held_by(holding, tenure):
            return Outcome.DEPOSED
        if holding.end == end:
            return self._renew(session, tenure)
        raise StoreError(
            f"the log in {self._url} ends with entry {holding.end.index:,} and nobody but this"
            f" broker may write it, which expected another end before entry {end.index:,}: the"
            f" lease row was changed by hand; compare with another copy"
        )
