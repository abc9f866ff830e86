"""
A log on a medium that several brokers reach, and the lease that says which of them writes it.

`LeasedLog` is what the driver asks of a directory on a shared drive, of a database, or of several
databases kept alike. The log is the same entries, with the same bytes, as on a node's own disk; the
epoch of the lease is the term of the entries that are appended under it.

What every medium promises:
    Fence: what `append` gave as STORED was written while no later epoch had begun, and is what
    every later `take` and `entries` sees. A late write of an earlier epoch is never seen by anyone.
    Once: the same append sent again, by the same epoch, is stored once. So an outcome that is not
    known (`UnreachableError`) is answered by sending the same again, never by looking.
    Sign of life: where the medium judges the epoch (`is_fence`), STORED was written after the call
    began, for the same append sent again too: a holder counts its lease from there, others from
    when they see the beat.
    Whole: of what one `append` got, all of it is there or nothing.
    Wall clocks and other machines' clocks decide nothing.

Blocking: everything here may wait for the medium, but at most about `seconds_max`, and is called on
one thread at a time. Nothing can be cancelled: a call ends by its bound.

Source: Gray, Cheriton, "Leases" (1989), with the fence that Kleppmann, "How to do distributed
locking" (2016), asks for: the medium judges the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from holdfast.errors import UnreachableError
from holdfast.journal.entry import Entry
from holdfast.model.limits import MiB

HOLDER_LENGTH = 32
"""A process is known by 16 random bytes, in hexadecimal: a name used twice must not hurt."""

ENTRIES_BYTES_MAX = 8 * MiB
"""What is read at once, unless one entry alone is longer."""


class Outcome(Enum):
    """What became of an append, where that is known."""

    STORED = "stored"
    """It is kept as the medium keeps things; it may be confirmed."""

    DEPOSED = "deposed"
    """Another epoch has begun: nothing of this one will be stored any more, but that whoever took
    it may have found this very append where a log is kept in several databases."""


class TakeGoesOnError(UnreachableError):
    """The lease is being taken, and that takes longer: the same again, at once, goes on with it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a log ends: its last entry and the chain after it; 0 and zeros if it is empty."""

    index: int
    chain: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Who wants to hold the lease, and how it is found by those that wait and by clients."""

    holder: str
    """`HOLDER_LENGTH` characters, new for each process."""

    name: str
    admin: str
    """Where its admin port listens, `host:port`: one that refuses is gone (a hint, no more)."""

    stomp: str
    lease_seconds: float = 0.0
    """So long after a sign of life it counts as the holder, as it itself does; 0 is not known."""

    known_index: int = 0
    """The last entry that it knows to be final: no take of its may undo what comes before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The lease, as it was read."""

    epoch: int
    """0 before anybody ever held it; one higher with each take."""

    beat: int
    """Changes with every append and renewal of the holder; compared for equality only."""

    claimant: Claimant | None
    """Who holds it, or held it last; None with epoch 0."""

    is_released: bool
    """Whether it was given back: it may be taken at once."""

    first_index: int
    """The first entry that is kept, one behind the last if none is."""

    end: Place
    """The last entry that can be seen. On a medium that is no fence a take may yet cut it off."""

    sure: Place
    """The last entry of which is known here that nothing can undo it; `end` where the fence is."""

    is_begun: bool = True
    """Whether the epoch is known to have begun for all: a take that was broken off may be forgotten
    again, where a log is kept in several databases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiter:
    """A broker that uses this log, as it told of itself."""

    claimant: Claimant
    """The length of its lease may be missing: it only counts of who holds one."""

    known_level: int
    """The newest level of the log's format that it knows."""

    beat: int
    """Changes each time it tells; one that does not change is away."""

    applied_index: int
    """Through which entry it follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediumFacts:
    """What the medium is, for people; without any password."""

    kind: str
    """What it is in a word or two: `PostgreSQL 15.18`, `directory`."""

    place: str
    """Where: a path, or an address without its password."""

    warnings: tuple[str, ...] = ()
    """A sentence for each thing that is unsafe and was allowed, or is wrong just now."""

    members: tuple[tuple[str, str, str], ...] = ()
    """(id, place, state) of each of its copies, where it keeps several."""


class LeasedLog(Protocol):
    """One medium. Made with its settings; nothing is reached before `open`."""

    is_fence: bool
    """
    Whether the medium itself judges each append, however late it arrives.

    Where it does not (files), what was stored is confirmed only while the holder's own clock still
    says that it holds the lease.
    """

    lease_seconds: float
    """How long a holder that is not heard of is waited for, if the settings do not say."""

    def open(self, *, may_lay_out: bool = True) -> Holding:
        """
        Reach the medium, refuse it if it cannot keep the promises, lay it out if it is new.

        Of several that do so at the same time all find the same.

        Args:
            may_lay_out: Whether one that is empty may be begun: not by a broker that knows its log,
                which may only not be there yet, as while a backup is brought back.

        Raises:
            StoreError: It is foreign, of another version, damaged or unsafe, or empty where no log
                may be begun; the sentence names what and where, and what to do.
            UnreachableError: It cannot be reached now.
        """
        ...

    def identity(self) -> str:
        """Give the log's own id, 32 hexadecimal digits, chosen when it was laid out."""
        ...

    def facts(self) -> MediumFacts:
        """Tell what this is; waits for nothing."""
        ...

    @property
    def low_room(self) -> str:
        """Why nothing more is to be published, though there is room to acknowledge; or nothing."""
        ...

    def message_bytes_max(self, sure_seconds: float) -> int:
        """
        Give the most that one message may have, so that each of its copies keeps up; waits not.

        0 where that is not known, or where there is one copy only: how long its appends take is
        seen from outside.
        """
        ...

    def observe(self, seconds_max: float) -> Holding:
        """
        Read the lease as it is now: what was read before is never given again.

        Raises:
            UnreachableError: It could not be read in time.
            StoreError: It is gone or makes no sense.
        """
        ...

    def take(self, seen: Holding, claimant: Claimant, seconds_max: float) -> Holding | None:
        """
        Begin the epoch after the one `seen`, unless there was a beat or a take since.

        What is given says where the log ends for good: all that an earlier epoch stored is in it.

        Returns:
            The lease as it is held now; None if it is not ours.

        Raises:
            TakeGoesOnError: It is begun, and more time is needed: the next take of the same
                claimant goes on with it, whatever it has seen.
            UnreachableError: It is not known whether it is taken: `observe` tells, and until it
                does nothing may be assumed.
            StoreError: It cannot be taken: the sentence says why, and what to do.
        """
        ...

    def renew(self, seconds_max: float) -> Outcome:
        """
        Give a sign of life.

        Raises:
            UnreachableError: It is not known whether it was given.
        """
        ...

    def release(self, seconds_max: float) -> None:
        """Give the lease back if it is still ours: nothing is stored under it any more."""
        ...

    def append(self, entries: list[Entry], seconds_max: float) -> Outcome:
        """
        Store these entries, which follow on the last one stored, all or none.

        Raises:
            AppendRefusedError: The medium refuses them and keeps nothing of them that counts: it is
                full, or they are too large. The lease is ours still; the same may be sent again.
            UnreachableError: The outcome is not known. Send the very same again.
            StoreError: Neither is the epoch another one nor the end ours: nothing may go on.
        """
        ...

    def entries(self, after: int, through: int, bytes_max: int, seconds_max: float) -> list[Entry]:
        """
        Read entries in order from the one after `after`, at least one if there is any.

        Their checksums are verified; how they follow on one another is the caller's to verify.

        Raises:
            MissingEntriesError: The first of them is not there any more, or a later one is missing.
            CorruptEntryError: One is damaged; the error names its place.
            UnreachableError: They could not be read in time.
        """
        ...

    def drop_before(self, index: int, seconds_max: float) -> bool:
        """
        Forget entries before this one, the oldest first, as much as is done in short time.

        Only by the holder. `first_index` says so before anything is gone.

        Returns:
            Whether something is left to forget.
        """
        ...

    def tell(self, waiter: Waiter, seconds_max: float) -> None:
        """Let the others know of this broker; one line for each name, the last one told."""
        ...

    def waiters(self, seconds_max: float) -> list[Waiter]:
        """Give all brokers that told of themselves, and were not forgotten, by name."""
        ...

    def forget(self, name: str, seconds_max: float) -> None:
        """Drop what the broker of this name told."""
        ...

    def close(self) -> None:
        """Let go of the medium; does not give the lease back."""
        ...
