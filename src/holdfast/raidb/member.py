"""
What a log that is kept in several databases asks of each of them.

A member is one database with the tables of a log. Its lease row also holds a copy of the *set*:
what it knows of all members. Whatever changes a member is done under a token, an epoch and a holder
that stand in its lease row, and does nothing once another one took it: that is the fence, and each
member has its own. What is not an append is bound to the row as it was read as well, so that what
arrives late changes nothing.

Blocking: every call may wait for the database, at most about `seconds_max`; on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

from holdfast.errors import StoreError, UnreachableError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Holding, MediumFacts, Outcome, Place, Waiter
from holdfast.leases.projection import Changes, MessageKey
from holdfast.mirrors.mirror_set import MirrorSet

NOTHING = Place(0, bytes(16))


class AstrayError(UnreachableError):
    """An address leads to another database than the one that is meant, or to a copy of it."""


class UnconnectedError(UnreachableError):
    """No connection could be made, so nothing was asked: it may be by one that there is."""


@dataclass(frozen=True, slots=True)
class Token:
    """Under what a member is written; its epoch is never below that of the log."""

    epoch: int
    holder: str
    member: str = ""
    """Of which member: an address that leads to another one is not written under it."""


@dataclass(frozen=True, slots=True)
class KnownSet:
    """What stands of the set in a member."""

    known: MirrorSet
    places: tuple[tuple[str, str], ...] = ()
    """Where each member stood when it was written, for people; nothing is decided by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A member's lease row, as it was read at one instant."""

    member: str
    """The member's own id, 32 hexadecimal digits, chosen when it was laid out."""

    log_id: str
    """The id of the log that it is of, or would be of alone."""

    lease: Holding
    written: KnownSet | None
    """None where it is of no set yet."""

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written here."""
        return self.written is None and self.lease.epoch == 0

    @property
    def token(self) -> Token | None:
        """Under what it was taken last, by whomever; None if it never was."""
        lease = self.lease
        if lease.claimant is None:
            return None
        return Token(lease.epoch, lease.claimant.holder, self.member)

    @property
    def copy(self) -> MirrorSet | None:
        """The set, with what this member has promised: no start below its epoch."""
        if self.written is None:
            return None
        known = self.written.known
        return replace(known, promised=max(known.promised, self.lease.epoch))

    def is_held_by(self, token: Token) -> bool:
        """Whether this token still counts here."""
        lease = self.lease
        holder = "" if lease.claimant is None else lease.claimant.holder
        return (lease.epoch, holder, lease.is_released) == (token.epoch, token.holder, False)


def require_end(row: Row, end: Place | None, place: str) -> None:
    """
    See that a member has what its holder knows that it has, if that is sure.

    It may have more: what was refused elsewhere, and is told to nobody.

    Raises:
        StoreError: It went back in time while nothing was sent, or its address leads elsewhere.
    """
    found = row.lease.end
    if end is not None and found != end and found.index <= end.index:
        another = f"entry {found.index:,}" if found.index != end.index else "another one"
        raise StoreError(
            f"{place} ends with {another}, and had entry {end.index:,}: it went back in time, or"
            f" this address leads to an older state or a copy of it now"
        )


class Member(Protocol):
    """One database. Made with its address; nothing is reached before the first call."""

    may_lay_out: bool
    """Whether it is laid out where it is empty; not by who only looks, or knows its log."""

    lease_seconds: float
    """How long a holder that is not heard of is waited for, if the settings do not say."""

    @property
    def place(self) -> str:
        """Its address, without a password."""
        ...

    @property
    def low_room(self) -> str:
        """As `LeasedLog.low_room`, of this database."""
        ...

    def facts(self) -> MediumFacts:
        """Tell what this is; waits for nothing."""
        ...

    def reaching(self, member: str, token: Token | None = None) -> AbstractContextManager[None]:
        """
        Let what is asked inside be asked of this member only, by its id.

        Args:
            token: It must be held under this as well: a copy of a database has its id, and was
                not taken.

        What is asked inside raises:
            AstrayError: The address leads to another one now; nothing was done there.
            UnconnectedError: There is no connection to it, and none could be made.
        """
        ...

    def read(self, seconds_max: float) -> Row:
        """
        Read the lease row as it is now; reach and lay out the database first, if need be.

        Raises:
            UnreachableError: It could not be read in time.
            StoreError: It is foreign, damaged or unsafe, or the row is gone.
        """
        ...

    def found(self, row: Row, written: KnownSet, seconds_max: float) -> None:
        """
        Write the first set, unless another one was written or anything else was done since.

        Raises:
            UnreachableError: It is not known whether it was done.
        """
        ...

    def seize(self, row: Row, token: Token, claimant: Claimant, seconds_max: float) -> bool:
        """
        Let the token count here from now on, unless anything was done since the row was read.

        Raises:
            UnreachableError: It is not known whether it was done.
        """
        ...

    def write_set(
        self, token: Token, written: KnownSet, seconds_max: float, *, end: Place | None = None
    ) -> Outcome:
        """
        Replace the set.

        Args:
            end: Where it is known to end; None: it is not sure.

        Raises:
            UnreachableError: It is not known whether it was done.
            StoreError: It ends elsewhere; nothing was done.
        """
        ...

    def beat(self, token: Token, seconds_max: float, *, end: Place | None = None) -> Outcome:
        """Give a sign of life; `end` and what is raised are those of `write_set`."""
        ...

    def give_back(self, token: Token, seconds_max: float) -> None:
        """Give it back, if the token still counts."""
        ...

    def store(
        self, token: Token, entries: list[Entry], before: Place, seconds_max: float
    ) -> Outcome:
        """
        Store entries of any epoch behind this end; as `LeasedLog.append` otherwise.

        Raises:
            StoreError: It ends elsewhere, or there with another history.
        """
        ...

    def mend(self, token: Token, entry: Entry, seconds_max: float) -> Outcome:
        """
        Write one entry that is kept anew, whatever is there of it; nothing if it was dropped.

        Raises:
            UnreachableError: It is not known whether it was done.
        """
        ...

    def cut(self, token: Token, end: Place, seconds_max: float) -> Outcome:
        """Drop what comes behind this entry. Raises UnreachableError where that is not known."""
        ...

    def clear(self, token: Token, first_index: int, seconds_max: float) -> Outcome:
        """Empty it, for a log whose first entry is this one; UnreachableError until it is done."""
        ...

    def entries(self, after: int, through: int, bytes_max: int, seconds_max: float) -> list[Entry]:
        """As `LeasedLog.entries`."""
        ...

    def piece(self, index: int, start: int, count: int, seconds_max: float) -> bytes:
        """
        Read bytes of one entry from this one on, as many at most, however large it is.

        Nothing is verified, and fewer may come: the entry has so few, or a row of it ends there.
        """
        ...

    def make_shown(self, token: Token, changes: Changes, seconds_max: float) -> str:
        """
        Make what these changes are shown in, where it is not there; or tell why not.

        Raises:
            UnreachableError: It is not known whether it was made.
            StoreError: It cannot be made.
        """
        ...

    def show(self, token: Token, last_index: int, changes: Changes, seconds_max: float) -> str:
        """
        Write what is shown to people, unless an entry behind this one is there; or tell why not.

        Raises:
            UnreachableError: It is not known whether it was written.
            StoreError: It cannot be written.
        """
        ...

    def shown_keys(self, after: MessageKey, seconds_max: float) -> list[MessageKey]:
        """As `Projection.shown_keys`."""
        ...

    def drop(self, token: Token, index: int, seconds_max: float) -> bool:
        """As `LeasedLog.drop_before`."""
        ...

    def tell(self, waiter: Waiter, seconds_max: float) -> None:
        """As `LeasedLog.tell`."""
        ...

    def waiters(self, seconds_max: float) -> list[Waiter]:
        """As `LeasedLog.waiters`."""
        ...

    def forget(self, name: str, seconds_max: float) -> None:
        """As `LeasedLog.forget`."""
        ...

    def forget_all(self, seconds_max: float) -> None:
        """Drop what all brokers told: it is old where the member was left out meanwhile."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


ActOf = Callable[[Member, float], Any]
"""Something that is done in one member, within so many seconds."""
