"""
Filling a database that was left out, or is new, while the others are written.

It is taken first, as any member is, so that nothing late of an earlier holder is stored there any
more. What it has beyond what it shares with the log was never confirmed, and is cut off; if it
shares nothing, it is emptied. Then entries are copied from a member that has all. The last step is
the holder's own, between two batches: the rest is copied, and the next set names it.

Invariants:
    A member that a later epoch may have taken is taken only if our own lease was good after it was
    read: then nobody had begun a set in which it counts.
    What changed hands or was begun under another tenure is left alone.
    Nothing of it is read by anybody before the set names it.
"""

from __future__ import annotations

import logging
from enum import Enum

from holdfast.errors import (
    CorruptEntryError,
    MirrorError,
    MissingEntriesError,
    StoreError,
    UnreachableError,
)
from holdfast.leases.contract import Outcome, Place
from holdfast.mirrors.mirror_set import newest_of
from holdfast.raidb.copying import Copier
from holdfast.raidb.databases import Databases
from holdfast.raidb.member import NOTHING, AstrayError, Row, Token
from holdfast.raidb.settings import RaidbSettings
from holdfast.raidb.tenure import Tenure, seize_act

logger = logging.getLogger("holdfast.raidb")

PATIENCE_SECONDS_MAX = 160.0
"""For one piece that is copied: 64 MiB at 0.4 MiB a second."""
_WANT_OF_TIME = 0.8
"""What failed after so much of its time may have wanted more."""


class Step(Enum):
    """What one step came to."""

    MORE = "more"
    """There is more to do at once."""

    LATER = "later"
    """It is to be tried again a little later."""

    READY = "ready"
    """The rest is for the holder, between two batches."""


class Returning:
    """One member on its way back."""

    def __init__(
        self, databases: Databases, settings: RaidbSettings, tenure: Tenure, member: str
    ) -> None:
        """Nothing is done before the first step."""
        self.member = member
        self.tenure = tenure
        self.token: Token | None = None
        self.trouble = ""
        """Why it does not go on just now."""
        self.copied = self.to_copy = 0
        """Entries."""
        self.is_ready = False
        self._is_compared = False
        self._read_at = self._turn = 0
        self._patience = 0.0
        self._copying_since: float | None = None
        """A piece is under way: what fails now may have wanted time."""
        self._read: Row | None = None
        self._databases = databases
        self._settings = settings

    @property
    def _source(self) -> str:
        """The active member that is read from: the next one where that has not all of it whole."""
        whole = self.tenure.whole
        return whole[self._turn % len(whole)]

    def step(self, seconds_max: float) -> Step:
        """Do one small piece; never raises what another database does."""
        self._copying_since = None
        try:
            found = self._step(seconds_max)
        except StoreError as error:
            if str(error) != self.trouble:
                logger.info("%s is not filled: %s", self._databases.name(self.member), error)
            self.trouble = str(error)
            if isinstance(error, AstrayError | CorruptEntryError | MissingEntriesError):
                self._turn += 1  # Another one may have it whole.
            elif isinstance(error, UnreachableError) and self._was_late(seconds_max):
                # One entry is a piece, however long it is: a slow way to there takes its time. One
                # that does not even tell what it has is away, and is asked again and again.
                self._patience = min(2 * max(self._patience, seconds_max), PATIENCE_SECONDS_MAX)
            return Step.LATER
        self.is_ready = found is Step.READY
        if found is not Step.LATER:
            self.trouble = ""
        return found

    def _was_late(self, seconds_max: float) -> bool:
        """Whether what has failed now had too little time: what is refused at once had enough."""
        if self._copying_since is None:
            return False
        took = self.tenure.now() - self._copying_since
        return took >= _WANT_OF_TIME * max(seconds_max, self._patience)

    def _step(self, seconds_max: float) -> Step:
        row = self._row(self.member, seconds_max)
        if self.token is None or not row.is_held_by(self.token):
            self._is_compared = False
            return self._take(row, seconds_max)
        member = self._source
        end = self.tenure.known_end(member)  # By majority it may lag.
        source = self._row_beside(member, seconds_max)
        if end is not None and source.lease.end.index < end.index:
            raise AstrayError(f"{self._databases.name(member)} has not what it had: it is not read")
        if not self._is_compared:
            copier = Copier(self._databases, seconds_max, beside=self._beside(source.member))
            copier.require(self._compare(copier, row, source))
            return Step.MORE
        self._copying_since = self.tenure.now()
        patience = max(seconds_max, self._patience)
        beside = self._beside(source.member)
        copier = Copier(self._databases, patience, self.tenure.rates, beside=beside)
        return self._copy(copier, row, source)

    def _row(self, member: str, seconds_max: float) -> Row:
        row: Row = self._databases.ask(member, lambda it, left: it.read(left), seconds_max)
        return _of(member, row)

    def _row_beside(self, member: str, seconds_max: float) -> Row:
        """The same of a member that others use."""
        row: Row = self._databases.ask_beside(
            member,
            lambda it, left: it.read(left),
            self.tenure.token(member),
            seconds_max,
            may_go_between=True,
        )
        return _of(member, row)

    def _beside(self, source: str) -> dict[str, Token]:
        """Under what both are held."""
        assert self.token is not None, "it was taken"
        return {source: self.tenure.token(source), self.member: self.token}

    def _take(self, row: Row, seconds_max: float) -> Step:
        self._refuse_others(row)
        if row.is_new:
            return self._name(row, seconds_max)
        own, lease = self.tenure, row.lease
        before = self._read
        is_same = before is not None and (before.lease.epoch, before.lease.beat) == (
            lease.epoch,
            lease.beat,
        )
        if not is_same:
            self._read, self._read_at = row, own.begun_count
            return Step.LATER
        if own.proved_count <= self._read_at:
            return Step.LATER  # No write that began after the reading has succeeded yet.
        if own.is_begun_by_others(row):
            raise AstrayError(
                f"{self._databases.name(row.member)} has a set that others began, and this broker's"
                f" lease is good: its address leads to a copy that others went on with; see where"
                f" it leads to"
            )
        token = Token(max(own.epoch, lease.epoch + 1), own.claimant.holder, self.member)

        self._read = None
        if not self._databases.ask(self.member, seize_act(row, token, own.claimant), seconds_max):
            return Step.LATER
        self.token = token
        return Step.MORE

    def _name(self, row: Row, seconds_max: float) -> Step:
        """Let one where nothing was ever written say of which log it is, before it is taken."""
        written = self.tenure.written_set()
        self._databases.ask(self.member, lambda it, left: it.found(row, written, left), seconds_max)
        return Step.MORE

    def _refuse_others(self, row: Row) -> None:
        """
        See that it may be written over.

        Raises:
            MirrorError: It is of another log, or went on apart from this one.
        """
        copy, known = row.copy, self.tenure.holding.current
        if copy is not None:
            newest_of({"the log": known, self._databases.name(row.member): copy})
        elif not row.is_new:
            raise MirrorError(
                f"{self._databases.name(row.member)} has another log: empty it to have it filled"
            )

    def _compare(self, copier: Copier, row: Row, source: Row) -> Outcome:
        """Bring it to what it has in common with the log."""
        # What brokers told it is as old as the rest: one that was forgotten would be back.
        self._databases.ask(self.member, lambda it, left: it.forget_all(left), copier.seconds)
        end = copier.common_end(row, source)
        assert self.token is not None, "it was taken"
        token, first = self.token, source.lease.first_index
        if end is not None and end != row.lease.end:
            return self._cut(token, end, copier)
        if end is None and (row.lease.end.index, row.lease.first_index) != (first - 1, first):
            return self._clear(token, first, copier)
        self._is_compared = True
        self.to_copy = max(source.lease.end.index - row.lease.end.index, 0)
        self.copied = 0
        return Outcome.STORED

    def _cut(self, token: Token, end: Place, copier: Copier) -> Outcome:
        outcome: Outcome = self._databases.ask(
            self.member, lambda it, left: it.cut(token, end, left), copier.seconds
        )
        return outcome

    def _clear(self, token: Token, first: int, copier: Copier) -> Outcome:
        outcome: Outcome = self._databases.ask(
            self.member, lambda it, left: it.clear(token, first, left), copier.seconds
        )
        return outcome

    def _copy(self, copier: Copier, row: Row, source: Row) -> Step:
        """Copy one piece of what all active members have."""
        after, through = row.lease.end.index, self.tenure.end.index
        if after >= through:
            return Step.READY
        try:
            entries = copier.read(source.member, after, through, self._settings.copy_bytes)
        except MissingEntriesError:
            if after + 1 >= source.lease.first_index:
                raise  # It has lost it, or has it damaged.
            self._is_compared = False  # Cleaned away meanwhile.
            return Step.MORE
        assert self.token is not None, "it was taken"
        copier.require(copier.append(self.member, self.token, entries, row.lease.end))
        self._patience = 0.0
        self.copied += len(entries)
        self.to_copy = max(self.to_copy, self.copied + through - entries[-1].index)
        return Step.READY if entries[-1].index >= through else Step.MORE

    def finish(self, deadline_seconds: float) -> bool:
        """
        Copy the rest, between two batches; whether the member has everything now.

        Raises:
            StoreError: It cannot be done now.
        """
        assert self.token is not None, "it was taken"
        row = self._row(self.member, deadline_seconds)
        if not row.is_held_by(self.token):
            return False
        end = self.tenure.end
        source = self._source
        copier = Copier(self._databases, deadline_seconds, beside=self._beside(source))
        if row.lease.end.index < end.index:
            entries = copier.read(source, row.lease.end.index, end.index, self._settings.copy_bytes)
            copier.require(copier.append(self.member, self.token, entries, row.lease.end))
            last = Place(entries[-1].index, entries[-1].chain)
        else:
            last = row.lease.end
        return end in {last, NOTHING}


def _of(member: str, row: Row) -> Row:
    """
    See that a row is the member's.

    Raises:
        UnreachableError: It is not.
    """
    if row.member != member:
        raise UnreachableError("there is another database at its address now")
    return row
