"""
A leased log in several databases that know nothing of each other: one broker's way to them.

Whoever holds the lease is the only one who writes, so nothing has to be ordered between databases:
each append goes to all of them at once, and is stored when all that are enabled have it. Which ones
are is written in each of them, by the rules that mirrored directories have. What one database is
with its fence, all of them together are by each of theirs.

Source: Cecchet, Marguerite, Zwaenepoel, "C-JDBC: Flexible Database Clustering Middleware" (2004),
RAIDb-1; decision record 0050.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from holdfast.errors import (
    CorruptEntryError,
    ForeignMirrorError,
    MirrorHistoriesError,
    MirrorsMissingError,
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
    TakeGoesOnError,
    Waiter,
)
from holdfast.leases.projection import Changes, MessageKey
from holdfast.raidb import founding
from holdfast.raidb.addresses import set_of
from holdfast.raidb.caretaker import Caretaker
from holdfast.raidb.copying import read_on
from holdfast.raidb.databases import STRAGGLER_SECONDS, Databases, named_each
from holdfast.raidb.lanes import Lanes
from holdfast.raidb.member import NOTHING, ActOf, Member, Row, Token
from holdfast.raidb.rates import Rates
from holdfast.raidb.settings import RaidbSettings
from holdfast.raidb.showing import Showing
from holdfast.raidb.sight import Sight, look, told_apart, told_by_each
from holdfast.raidb.taking import Taking
from holdfast.raidb.tenure import Tenure

logger = logging.getLogger("holdfast.raidb")

OPEN_SECONDS_MAX: Final = 60.0
"""Also for looking over the pages of large files."""
OPEN_PATIENCE_SECONDS: Final = 5.0
"""Once one database is open, others are waited for so long."""
REFUSING_SECONDS: Final = 10.0
"""A member that can be read and not be taken counts as one that is not there for so long; of one
whose entries are not read in time none are read for so long, where others have them."""
_CLOSE_SECONDS: Final = 2.0


class RaidbLog:
    """A `LeasedLog` in several databases."""

    is_fence = True
    """Each database judges what it is given, and what is stored is in all that count."""

    open_seconds = OPEN_SECONDS_MAX
    has_thread = False
    """Whether databases are filled by a thread of its own, which `open` starts."""

    def __init__(
        self,
        members: Sequence[Member],
        settings: RaidbSettings,
        *,
        lanes: Lanes,
        clock: Callable[[], float],
    ) -> None:
        """Take the databases; nothing is reached before `open`."""
        self.lease_seconds = max(it.lease_seconds for it in members)
        self.databases = Databases(members, lanes, clock)
        self.caretaker = Caretaker(self.databases, settings)
        self._settings = settings
        self._clock = clock
        self._tenure: Tenure | None = None
        self._given_back: Tenure | None = None
        """What was held and is to be given back, where that is not known to be done."""
        self._taking: Taking | None = None
        """What is being taken, over several calls."""
        self._sight: Sight | None = None
        self._epoch = 0
        """The highest that was ever seen from here."""
        self._identity = ""
        self._rates = Rates(clock)
        self._showing: Showing | None = None
        self._read_last: Place | None = None  # The entry that was read last.
        self._refusing: dict[str, float] = {}
        """Members that could be read and not be taken, and until when they are passed over."""
        self._late_to_read: dict[str, float] = {}
        """Members of which entries were not read in time, and until when others come first."""

    @property
    def member_timeout_seconds(self) -> float:
        """So long a database may fail before it is left out."""
        return self._settings.member_timeout_seconds

    @property
    def low_room(self) -> str:
        """Why nothing more is to be published: so many say it that the others may not go on."""
        tenure = self._tenure
        if tenure is None:
            return ""
        told = {it: why for it in tenure.active if (why := self.databases.low_room(it))}
        if not told or tenure.holding.may_go_on_without(told):
            return ""
        return "; ".join(told[it] for it in sorted(told))

    def message_bytes_max(self, sure_seconds: float) -> int:
        """Give the most that the slowest enabled database stores in its part of a lease; 0: any."""
        tenure = self._tenure
        return 0 if tenure is None else self._rates.bytes_max(tenure.active, sure_seconds)

    def open(self, *, may_lay_out: bool = True) -> Holding:
        """Reach the databases, refuse those that are not safe, found the set if there is none."""
        for member in self.databases.members:
            member.may_lay_out = may_lay_out
        rows = self.databases.read(self.open_seconds, OPEN_PATIENCE_SECONDS)
        if not any(it.written is not None for it in rows.values()) and not may_lay_out:
            raise self.databases.trouble()
        for member in self.databases.members:
            member.may_lay_out = True  # The log is there: what is new beside it is to be filled.
        founding.complete(self.databases, rows, self.open_seconds, self._clock)
        holding = self.observe(self.open_seconds)
        if self.has_thread:
            self.caretaker.start()
        return holding

    def identity(self) -> str:
        """Give the log's own id, that of the set."""
        return self._identity

    def facts(self) -> MediumFacts:
        """Tell what this is; waits for nothing."""
        members = self.databases.members
        return MediumFacts(
            kind=f"{len(members)} databases",
            place=", ".join(it.place for it in members),
            warnings=tuple(warning for it in members for warning in it.facts().warnings),
            members=self._states(),
        )

    def _states(self) -> tuple[tuple[str, str, str], ...]:
        tenure, sight = self._tenure, self._sight
        if tenure is None and sight is None:
            return ()
        known = sight.start.newest if sight is not None else None
        if tenure is not None:
            known = tenure.holding.current
        assert known is not None, "one of both is there"
        told = dict(known.states)
        new = {it: "new" for it in self.databases.ids if it not in told}
        return tuple(
            (it, self.databases.name(it), self._told(it, state))
            for it, state in sorted((told | new).items())
        )

    def _told(self, member: str, state: str) -> str:
        """A member's state, and behind a colon what there is to be said of it."""
        trouble = self.databases.troubles.get(self.databases.name(member))
        if state != "active" and trouble is not None:
            return f"{state}: {trouble}"
        taking = self._taking
        if taking is not None and (told := taking.told(member)):
            return f"{state}: {told}"
        lacking = 0 if self._tenure is None else self._tenure.lacking_bytes(member)
        if state == "active" and lacking:
            return f"{state}: {lacking:,} bytes behind the others"
        of = self.databases
        low = (of.astray(member) or of.low_room(member)) if state == "active" else ""
        return self.caretaker.state(member) or (f"{state}: {low}" if low else state)

    def observe(self, seconds_max: float) -> Holding:
        """Read the lease as it is now."""
        _, sight = self._look(seconds_max)
        return self._holding(sight)

    def _look(self, seconds_max: float) -> tuple[dict[str, Row], Sight]:
        """
        Read and judge all that answer, as they were after the set that counts was first seen.

        A row that was read before it may be of a member that was left out then, and has come back.
        """
        deadline = self._clock() + seconds_max
        rows, sight = self._look_once(seconds_max)
        while not sight.is_of_one_set(rows):
            before = sight.start.newest.number
            if self._clock() >= deadline:
                raise UnreachableError("which databases count changes as fast as it can be read")
            rows, sight = self._look_once(max(deadline - self._clock(), 0.05))
            if sight.start.newest.number == before:
                break
        return rows, sight

    def _look_once(self, seconds_max: float) -> tuple[dict[str, Row], Sight]:
        known = dict(self.databases.known)
        rows = self.databases.read(seconds_max, STRAGGLER_SECONDS)
        try:
            if not any(it.written is not None for it in rows.values()):
                raise self.databases.trouble()
            sight = self._judge(rows, known)
        except MirrorsMissingError as error:
            raise self._missing(error) from None
        except MirrorHistoriesError as error:
            raise told_apart(error, rows, self.databases.name) from None
        except ForeignMirrorError as error:
            raise self._foreign(error, rows) from None
        self._identity = self.databases.set_id = sight.start.newest.set_id
        self.lease_seconds = max(it.lease_seconds for it in self.databases.members)
        self._sight = sight
        self.databases.note_accepted(sight.start.newest)
        self._epoch = max(self._epoch, sight.holding.epoch)
        if self._tenure is not None and self._tenure.epoch < self._epoch:
            self._let_go()
        return rows, sight

    def _foreign(self, error: ForeignMirrorError, rows: Mapping[str, Row]) -> StoreError:
        """What is to be told of two sets, where it is not known which one is meant."""
        name, both = self.databases.name, (error.first, error.second)
        first, second = (f"{name(it)} ({set_of(rows[it])})" for it in both)
        told = ForeignMirrorError(first, second)
        if len(rows) == len(self.databases.members):
            return told
        # With those that are away it may be known which of them an address only leads to.
        return UnreachableError(f"{told} ({named_each(self.databases.troubles)})")

    def _judge(self, rows: dict[str, Row], known: dict[str, Row]) -> Sight:
        """Without what lately could not be taken, as if it were not there, if enough is left."""
        now = self._clock()
        willing = {it: row for it, row in rows.items() if self._refusing.get(it, now) <= now}
        if len(willing) < len(rows) and any(it.written is not None for it in willing.values()):
            with suppress(MirrorsMissingError):
                return look(willing, known)
        return look(rows, known)

    def _missing(self, error: MirrorsMissingError) -> UnreachableError:
        named = self.databases.named
        reasons = "; ".join(map(str, self.databases.troubles.values()))
        return UnreachableError(
            f"of the databases that must have all that was confirmed {named(error.missing)} cannot"
            f" be used, and {named(error.found) or 'none'} alone may lack messages: they are waited"
            f" for; if they are gone for good, 'holdfast mirror accept' goes on without them"
            f"{reasons and ' ('}{reasons}{reasons and ')'}"
        )

    def _holding(self, sight: Sight) -> Holding:
        """What was found, with an epoch that never goes back here."""
        is_begun = sight.start.stands and sight.holding.epoch == self._epoch
        holding = replace(sight.holding, epoch=self._epoch, is_begun=is_begun)
        tenure = self._tenure
        if tenure is not None:
            holding = replace(holding, end=tenure.end, sure=tenure.end)
        return holding

    def take(self, seen: Holding, claimant: Claimant, seconds_max: float) -> Holding | None:
        """
        Begin an epoch after the one `seen`, in all members that are needed for it.

        Raises:
            TakeGoesOnError: It is begun, and there was no time for all of it: the next take of the
                same claimant goes on with it, whatever it has seen.
        """
        deadline = self._clock() + seconds_max
        taking, self._taking = self._taking, None
        if taking is None or taking.claimant != claimant:
            taking = self._new_taking(seen, claimant, seconds_max)
        if taking is None:
            return None
        try:
            tenure = taking.go_on(deadline)
        except TakeGoesOnError:
            self._taking = taking
            raise
        except UnreachableError:
            if taking.refused_by:
                self._refusing[taking.refused_by] = self._clock() + REFUSING_SECONDS
            raise
        self._refusing.clear()
        if tenure is None:
            return None
        self._tenure, self._epoch = tenure, tenure.epoch
        self._given_back = None
        self._showing = Showing(self.databases, tenure, self._clock)
        self.caretaker.begin(tenure)
        return replace(
            seen,
            epoch=tenure.epoch,
            beat=seen.beat + 1,
            claimant=claimant,
            is_released=False,
            is_begun=True,
            end=tenure.end,
            sure=tenure.end,
        )

    def _new_taking(self, seen: Holding, claimant: Claimant, seconds_max: float) -> Taking | None:
        """What is to be taken, as it is now; None if that is not what was seen."""
        rows, sight = self._look(seconds_max)
        now = self._holding(sight)
        if (now.epoch, now.beat) != (seen.epoch, seen.beat):
            return None
        self._let_go()
        return Taking(
            databases=self.databases,
            settings=self._settings,
            clock=self._clock,
            start=sight.start,
            rows=rows,
            claimant=claimant,
            epoch=max(sight.start.number, self._epoch + 1),
            rates=self._rates,
        )

    def _let_go(self) -> None:
        self._tenure = self._showing = None
        self.caretaker.begin(None)

    def renew(self, seconds_max: float) -> Outcome:
        """Give a sign of life."""
        tenure = self._tenure
        if tenure is None:
            return Outcome.DEPOSED
        return self._judged(tenure.renew(self._after_admitting(tenure, seconds_max)))

    def release(self, seconds_max: float) -> None:
        """Give the lease back where it is ours still."""
        tenure = self._tenure or self._given_back
        if tenure is None:
            return
        self._let_go()
        self._given_back = tenure
        if not tenure.release(tenure.active, seconds_max):
            where = self.databases.named(tenure.active)
            raise UnreachableError(f"none of {where} is known to have taken the lease back")
        self._given_back = None

    def append(self, entries: list[Entry], seconds_max: float) -> Outcome:
        """Store these entries, all or none, in all databases that are enabled."""
        tenure = self._tenure
        if tenure is None:
            return Outcome.DEPOSED
        assert all(it.term == tenure.epoch for it in entries), "an entry is of its lease's epoch"
        return self._judged(tenure.append(entries, self._after_admitting(tenure, seconds_max)))

    def _after_admitting(self, tenure: Tenure, seconds_max: float) -> float:
        """Let a member that was filled count from now on; what is left of the time."""
        began = self._clock()
        self.caretaker.admit(tenure, seconds_max / 2)
        return seconds_max - (self._clock() - began)

    def _judged(self, outcome: Outcome) -> Outcome:
        if outcome is Outcome.DEPOSED:
            self._let_go()
        return outcome

    def entries(self, after: int, through: int, bytes_max: int, seconds_max: float) -> list[Entry]:
        """Read entries in order, of whichever active member has them whole."""
        if through <= after:
            return []
        deadline = self._clock() + seconds_max
        wrong: StoreError | None = None
        readable = self._readable()
        away = UnreachableError(f"no answer in time of {self.databases.named(readable) or 'any'}")
        is_one_away, apart = False, None
        for member in readable:
            left = deadline - self._clock()
            if left <= 0:
                raise away
            try:
                found = self.databases.entries(
                    member, after, through, bytes_max, left, held_under=self._held_under(member)
                )
                apart = apart or found
                last = self._read_last if after else NOTHING
                self._read_last = read_on(found, after, last, self.databases.name(member))
            except (MissingEntriesError, CorruptEntryError) as error:
                logger.warning("%s: %s", self.databases.name(member), error)
                self.caretaker.met(member, error.index)
                wrong = wrong or error
            except UnreachableError as error:
                is_one_away, away = True, error
                self._late_to_read[member] = self._clock() + REFUSING_SECONDS
            else:
                return found
        self._read_last = None  # It may be what was read before that is gone.
        # One that is away, or was left out, may have what others lack.
        if wrong is not None and not is_one_away and self._is_one_left_out():
            raise UnreachableError(f"{wrong}; a database that was left out may have it whole")
        if apart is not None and not is_one_away:
            return apart  # All say so: who reads them judges it.
        raise away if is_one_away or wrong is None else wrong

    def _held_under(self, member: str) -> Token | None:
        """Under what it is held as far as is known: a copy that its address leads to now is not."""
        if self._tenure is not None:
            return self._tenure.tokens.get(member)
        row = self.databases.known.get(member)
        return None if row is None else row.token

    def _is_one_left_out(self) -> bool:
        known = self._sight.start.newest if self._sight is not None else None
        if self._tenure is not None:
            known = self._tenure.holding.current
        return known is not None and any(state != "active" for _, state in known.states)

    def _readable(self) -> list[str]:
        """Those that may be read, and those last that did not answer lately."""
        now, late = self._clock(), self._late_to_read
        return sorted(self._with_entries(), key=lambda it: late.get(it, now) > now)

    def _with_entries(self) -> list[str]:
        if self._tenure is not None:
            whole = self._tenure.whole
            return [*whole, *(it for it in self._tenure.active if it not in whole)]
        return list(self._sight.by_length) if self._sight is not None else []

    def _at_rest(self) -> list[str]:
        """Those that are not still storing what others have."""
        return self._with_entries() if self._tenure is None else self._tenure.whole

    def drop_before(self, index: int, seconds_max: float) -> bool:
        """Forget entries before this one; a database that fails keeps them until the next time."""
        tenure = self._tenure
        if tenure is None:
            return False
        index = tenure.droppable(index)
        acts = {it: _drop(tenure.tokens[it], index) for it in tenure.whole}
        return any(self._of_any(acts, seconds_max))

    def tell(self, waiter: Waiter, seconds_max: float) -> None:
        """Let the others know of this broker, in each database."""
        self._of_any(dict.fromkeys(self._at_rest(), _tell(waiter)), seconds_max)

    def waiters(self, seconds_max: float) -> list[Waiter]:
        """Give all brokers that told of themselves, by name."""
        acts: dict[str, ActOf] = dict.fromkeys(
            self._at_rest(), lambda member, seconds: member.waiters(seconds)
        )
        return told_by_each(it for lines in self._of_any(acts, seconds_max) for it in lines)

    def forget(self, name: str, seconds_max: float) -> None:
        """Drop what the broker of this name told."""
        self._of_any(
            dict.fromkeys(self._at_rest(), lambda member, seconds: member.forget(name, seconds)),
            seconds_max,
        )

    def project(self, changes: Changes, seconds_max: float) -> Outcome:
        """Show this in each enabled database that was shown everything before."""
        showing = self._showing
        if showing is None:
            return Outcome.DEPOSED
        showing.project(changes, seconds_max)
        return Outcome.STORED

    def shown_keys(self, after: MessageKey, seconds_max: float) -> list[MessageKey]:
        """Read which messages have rows in all of them."""
        return [] if self._showing is None else self._showing.shown_keys(after, seconds_max)

    def _of_any(self, acts: dict[str, ActOf], seconds_max: float) -> list[Any]:
        """
        What came of it in those that did it, in the order of their ids.

        Raises:
            StoreError: None did.
        """
        found = self.databases.run(acts, seconds_max, STRAGGLER_SECONDS)
        done = [found[it] for it in sorted(found) if not isinstance(found[it], StoreError)]
        if not done:
            wrong = {self.databases.name(it): each for it, each in found.items()}
            raise UnreachableError(named_each(wrong) or "no database is known yet")
        return done

    def close(self) -> None:
        """Let go of the databases; does not give the lease back."""
        self.caretaker.close()
        self.databases.close(_CLOSE_SECONDS)


def _drop(token: Token, index: int) -> ActOf:
    return lambda member, seconds: member.drop(token, index, seconds)


def _tell(waiter: Waiter) -> ActOf:
    return lambda member, seconds: member.tell(waiter, seconds)
