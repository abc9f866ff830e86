"""
The databases of one log, each known by its own id once it was read.

An id is found out by reading: an address may lead to another database tomorrow. One that leads to
a database of another set, or to one that another address leads to as well, is as good as one that
does not answer: what is stored twice there is stored once. Before anything stands in them that is
refused, since nobody can know then what was meant.

So what is asked of a member is asked of its id, by whichever way, at each connection anew. A copy
of a database has its id as well: a second way must find the lease there as this broker took it.

Invariants:
    Each row is of another member, and all those of a set are of one, once it is known.
    What was read of a database of another set is kept nowhere.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from holdfast.errors import (
    CorruptEntryError,
    MissingEntriesError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import HEADER_BYTES, Entry
from holdfast.leases.contract import Place
from holdfast.leases.seen import Seen, SeenFile
from holdfast.mirrors.mirror_set import MirrorSet
from holdfast.raidb.addresses import Addresses
from holdfast.raidb.between import CLOSING_SECONDS, Between, Pieces, header_in
from holdfast.raidb.histories import Histories
from holdfast.raidb.lanes import Act, IsEnough, Lanes
from holdfast.raidb.member import ActOf, AstrayError, Member, Row, Token, UnconnectedError

logger = logging.getLogger("holdfast.raidb")

HISTORY_SECONDS: Final = 1.0
"""So long it is waited for what tells of which history a member is."""
STRAGGLER_SECONDS: Final = 0.5
"""Once one has answered a question, others are waited for so long."""

BoundAct = tuple[str, Act] | None
"""With the way to its member; None where there is none."""


class Databases:
    """All members, and what was read of them last."""

    def __init__(
        self,
        members: Sequence[Member],
        lanes: Lanes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.members = list(members)
        self.known: dict[str, Row] = {}
        """The last row of each member that was ever read."""
        self.troubles: dict[str, StoreError] = {}
        """Why a place could not be read, the last time."""
        self.set_id = ""
        """
        Whose databases these are, as far as this broker knows; empty: those that most addresses
        lead to.
        """
        self.are_meant = False
        """An operator named them for a command: which log that is, those that answer say."""
        self.seen: Callable[[], Seen | None] = lambda: None
        """What this broker saw last as final."""
        self._seen_file: SeenFile | None = None
        self.histories = Histories(self._has_place)
        self._chains: dict[Member, tuple[tuple[int, int], bytes]] = {}
        """Of each member the chain value that was read there last, with its index and epoch."""
        self._misled: dict[Member, str] = {}
        """Members whose address leads to a wrong database, and what was logged of each."""
        self._astray: dict[Member, str] = {}
        """Ways that led elsewhere when something was asked by them last, and what was logged."""
        self._twins: dict[Member, Member] = {}
        """Of each member a second way to the same database, for what may take long."""
        self._unreached: set[Member] = set()
        """First ways that are not there: no other one may have the place of theirs."""
        self._between = Between(clock)
        self._clock = clock
        self.places: dict[str, str] = {}
        """Where each member is, or was said to be by others."""
        self._by_id: dict[str, Member] = {}
        self._lanes = lanes

    def follow(self, seen: SeenFile) -> None:
        """Go by what this broker knows of the log that it has served or followed so far."""
        if seen.last is not None:
            self.set_id = seen.last.identity
        self.seen = lambda: seen.last
        self._seen_file = seen

    def note_accepted(self, known: MirrorSet) -> None:
        """What this broker sees from now on comes after what an operator accepted of this set."""
        if self._seen_file is not None:
            self._seen_file.accepted = known.accepted[-1].mark if known.accepted else ""

    def add_twins(self, twins: Sequence[Member]) -> None:
        """
        Take a second way to each member, in their order.

        What is read to fill or to look over others goes by these: appends and signs of life would
        wait behind it else, and a member that is well would be left out for being read.
        """
        self._twins = dict(zip(self.members, twins, strict=True))

    @property
    def is_any_misled(self) -> bool:
        """Whether something stands in a database that was read, and is not counted."""
        return bool(self._misled)

    @property
    def ids(self) -> list[str]:
        """The members that were reached so far."""
        return sorted(self._by_id)

    def name(self, member: str) -> str:
        """What people call it."""
        return self.places.get(member, member)

    def low_room(self, member: str) -> str:
        """Why nothing more is to be published there, or nothing; waits for nothing."""
        found = self._by_id.get(member)
        return "" if found is None else found.low_room

    def astray(self, member: str) -> str:
        """Why what is asked of it does not come to it just now, or nothing; waits for nothing."""
        found = self._by_id.get(member)
        if found is None:
            return ""
        return self._astray.get(found, "") or self._astray.get(self._twins.get(found, found), "")

    def named(self, members: Iterable[str]) -> str:
        """The same of several."""
        return ", ".join(sorted(map(self.name, members)))

    def read(self, seconds_max: float, patience: float | None = None) -> dict[str, Row]:
        """
        Read the rows of all that answer.

        Whose address leads to a wrong one is left out, and its trouble tells why.

        Raises:
            StoreError: Two addresses lead to one database, and nothing stands in it of a set yet.
            UnreachableError: It is not known which of them are of the history of this log.
        """
        by_place = dict(enumerate(self.members))
        seen = self.seen()
        found = self._lanes.run(
            {self._key(it): it.read for it in by_place.values()}, seconds_max, patience
        )
        answers: dict[Member, Row] = {}
        for member in by_place.values():
            outcome = found[self._key(member)]
            if isinstance(outcome, StoreError):
                self.troubles[member.place] = outcome
            else:
                self.troubles.pop(member.place, None)
                answers[member] = outcome
        addresses = Addresses(len(self.members), self.set_id, are_meant=self.are_meant)
        # Of two ways to one database the one that led there before goes on.
        by_habit = sorted(answers, key=lambda it: self._by_id.get(answers[it].member) is not it)
        misled = addresses.leading_wrong({it: answers[it] for it in by_habit})
        try:
            of_one_log = {it: row for it, row in answers.items() if it not in misled}
            is_all = len(of_one_log) == len(self.members)
            misled |= self.histories.judge(of_one_log, is_all=is_all, seen=seen)
        finally:
            self._tell_misled(misled, answers)
        reached = {row.member: it for it, row in answers.items() if it not in misled}
        rows = {name: answers[it] for name, it in reached.items()}
        self._by_id = {k: v for k, v in self._by_id.items() if v not in answers} | reached
        self.known = self.known | rows
        for row in rows.values():
            if row.written is not None:
                self.places |= dict(row.written.places)
        self.places |= {member: it.place for member, it in self._by_id.items()}
        return rows

    def _has_place(self, member: Member, row: Row, place: Place) -> bool | None:
        """Whether this entry is in the log of a member; None where it does not say."""
        end, epoch = row.lease.end, row.lease.epoch
        if end.index <= place.index:
            return end == place
        if place.index < row.lease.first_index:
            return None
        what, chain = self._chains.get(member, ((0, 0), b""))
        if what == (place.index, epoch):
            return chain == place.chain

        def read(seconds: float) -> bytes:
            with member.reaching(row.member, row.token):
                raw = member.piece(place.index, 0, HEADER_BYTES, seconds)
                return header_in(raw, place.index, member.place).chain

        # By the way that appends go: of an entry no more than its header is read, however large it
        # is, and nobody waits long for it.
        key = self._key(member)
        found = self._lanes.run({key: read}, CLOSING_SECONDS, leave_after=HISTORY_SECONDS).get(key)
        if found is None or isinstance(found, StoreError):
            return None
        self._chains[member] = (place.index, epoch), found
        return bool(found == place.chain)

    def _tell_misled(
        self, misled: Mapping[Member, StoreError], answers: Mapping[Member, Row]
    ) -> None:
        for member, trouble in misled.items():
            self.troubles[member.place] = trouble
            if self._misled.get(member) != str(trouble):
                logger.error("%s; until then it counts as one that does not answer", trouble)
                self._misled[member] = str(trouble)
        for member in answers.keys() - misled.keys():
            if self._misled.pop(member, None) is not None:
                logger.info("%s leads to a database of its own again", member.place)

    def trouble(self) -> StoreError:
        """What is to be told where none could be read."""
        told = named_each(self.troubles) or "no database is laid out"
        if self.troubles and not any(
            isinstance(it, UnreachableError) for it in self.troubles.values()
        ):
            return StoreError(told)
        return UnreachableError(told)

    def run(
        self,
        acts: Mapping[str, ActOf],
        seconds_max: float,
        patience: float | None = None,
    ) -> dict[str, Any]:
        """Do something in several members at once; what came of each, or its error."""
        return self.run_bound(
            {it: self.bind(it, act) for it, act in acts.items()}, seconds_max, patience
        )

    def bind(self, member: str, act: ActOf, *, beside: Token | None = None) -> BoundAct:
        """
        Make an act of one member something that may be asked for again while it is under way.

        It comes to this member by its id, or to none: then it raises AstrayError.

        Args:
            beside: Hold up nothing else there; see `ask_beside`.
        """
        found = self._by_id.get(member)
        if found is None:
            return None
        twin = None if beside is None else self._twins.get(found)
        if twin is not None:
            return f"{self._key(found)}-beside", self._bound(act, twin, member, beside)
        return self._key(found), self._bound(act, found, member, beside)

    def _bound(self, act: ActOf, way: Member, member: str, token: Token | None) -> Act:
        first = self._by_id.get(member, way)

        def reach(seconds: float) -> Any:
            if way is not first and first in self._unreached:
                raise UnconnectedError(f"{way.place} has no place for a second connection")
            try:
                with way.reaching(member, token):
                    outcome = act(way, seconds)
            except UnconnectedError:
                if way is first:
                    self._give_place_to(first)
                raise
            except AstrayError as error:
                if self._astray.get(way) != str(error):
                    self._astray[way] = str(error)
                    logger.error("%s; nothing is asked of it there", error)  # noqa: TRY400 - the sentence says it all
                raise
            self._unreached.discard(way)
            if self._astray.pop(way, None) is not None:
                logger.info("%s leads to its own database again", way.place)
            return outcome

        return reach

    def _give_place_to(self, first: Member) -> None:
        """Let go of the second way to a database that lets the first one not in: it may have it."""
        twin = self._twins.get(first)
        if twin is None or first in self._unreached:
            return
        self._unreached.add(first)
        key = f"{self._key(first)}-beside"
        self._lanes.run({key: lambda _seconds: twin.close()}, CLOSING_SECONDS, leave_after=0)

    def run_bound(
        self,
        acts: Mapping[str, BoundAct],
        seconds_max: float,
        patience: float | None = None,
        is_enough: IsEnough | None = None,
        leave_after: float | None = None,
    ) -> dict[str, Any]:
        """
        Do what was bound before; what came of each, or its error.

        Args:
            is_enough: As `Lanes.run` has it, by member.
            leave_after: As `Lanes.run` has it.
        """
        found: dict[str, Any] = {}
        bound: dict[str, Act] = {}
        members: dict[str, str] = {}
        for it, pair in acts.items():
            if pair is None:
                found[it] = UnreachableError(
                    f"{self.name(it)} is none of the databases that this broker has reached: start"
                    f" it with a --store for each"
                )
            else:
                key, act = pair
                bound[key], members[key] = act, it

        def has_enough(outcomes: Mapping[str, Any]) -> bool:
            assert is_enough is not None, "it is asked for"
            return is_enough(found | {members[key]: each for key, each in outcomes.items()})

        outcomes = self._lanes.run(
            bound,
            max(seconds_max, 0.05),
            patience,
            None if is_enough is None else has_enough,
            leave_after,
        )
        return found | {members[key]: each for key, each in outcomes.items()}

    def ask(self, member: str, act: ActOf, seconds_max: float) -> Any:
        """
        Do something in one member.

        Raises:
            StoreError: What it raised.
        """
        outcome = self.run({member: act}, seconds_max)[member]
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    def ask_beside(
        self,
        member: str,
        act: ActOf,
        token: Token,
        seconds_max: float,
        *,
        may_go_between: bool = False,
    ) -> Any:
        """
        Do something in one member that holds up nothing else there.

        Args:
            token: Under what it is held: that way leads to it if it finds the same there.
            may_go_between: Where no second connection is let in, do it by the first one: what is
                asked is sure to take a moment only.

        Raises:
            AstrayError: It does not.
            UnconnectedError: No second connection is let in.
            StoreError: What it raised.
        """
        bound = self.bind(member, act, beside=token)
        outcome = self.run_bound({member: bound}, seconds_max)[member]
        is_refused = isinstance(outcome, UnconnectedError)
        if is_refused and may_go_between and self._is_reached(member):
            return self._ask_between(member, act, token)
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    def _is_reached(self, member: str) -> bool:
        """Whether there are two ways to it, of which the first one may do."""
        return self._by_id.get(member) in self._twins

    def _ask_between(self, member: str, act: ActOf, token: Token) -> Any:
        """Do what takes a moment only by the way that appends go."""
        found = self._by_id[member]
        bound = self._key(found), self._bound(act, found, member, token)
        outcome = self.run_bound({member: bound}, CLOSING_SECONDS)[member]
        if isinstance(outcome, StoreError):
            raise outcome
        return outcome

    def entries(
        self,
        member: str,
        after: int,
        through: int,
        bytes_max: int,
        seconds_max: float,
        *,
        held_under: Token | None = None,
        beside: Token | None = None,
        may_go_between: bool = False,
    ) -> list[Entry]:
        """
        Read entries of one member, at least one: those before the first that it has not whole.

        Args:
            held_under: It is held under this there; a copy of it is not.
            beside: Hold up nothing else there; the token of `ask_beside`.
            may_go_between: Where no second connection is let in read them in small pieces by the
                first one, between appends.

        Raises:
            MissingEntriesError: It has not the first one.
            CorruptEntryError: That one is damaged there.
        """
        act = self.reading(member, after, through, bytes_max, held_under)
        try:
            found: list[Entry] = (
                self.ask(member, act, seconds_max)
                if beside is None
                else self.ask_beside(member, act, beside, seconds_max)
            )
        except UnconnectedError:
            if beside is None or not may_go_between or not self._is_reached(member):
                raise
            return self._entries_between(member, after, through, beside, seconds_max)
        return found

    def _entries_between(
        self, member: str, after: int, through: int, token: Token, seconds_max: float
    ) -> list[Entry]:
        until = self._clock() + seconds_max
        pieces = self.pieces(member, after, through, token)
        try:
            act = next(pieces)
            while True:
                act = pieces.send(self._ask_between(member, act, token))
                if self._clock() >= until:
                    raise UnreachableError(f"entry {after + 1:,} did not come in {seconds_max:g} s")
        except StopIteration as done:
            found: list[Entry] = done.value
            return found

    def pieces(self, member: str, after: int, through: int, token: Token) -> Pieces:
        """Give what reads entries of one member by the way that appends go; see `between`."""
        return self._between.entries(
            member,
            self.name(member),
            after + 1,
            lambda bytes_max: self.reading(member, after, through, bytes_max),
            lambda it: it.reaching(member, token),
        )

    def reading(
        self, member: str, after: int, through: int, bytes_max: int, token: Token | None = None
    ) -> ActOf:
        """Give what reads entries of one member, held under this, as `entries` has it."""

        def read(it: Member, seconds: float) -> list[Entry]:
            if token is not None:
                with it.reaching(member, token):
                    return read_any(it, seconds)
            return read_any(it, seconds)

        def read_any(it: Member, seconds: float) -> list[Entry]:
            try:
                found = it.entries(after, through, bytes_max, seconds)
            except CorruptEntryError as error:
                if error.index <= after + 1:
                    raise
                found = it.entries(after, error.index - 1, bytes_max, seconds)
            if not found:
                raise MissingEntriesError(after + 1, through, self.name(member))
            return found

        return read

    def close(self, seconds_max: float) -> None:
        """Let all go."""
        acts = {self._key(it): lambda _seconds, it=it: it.close() for it in self.members}
        for it, twin in self._twins.items():
            acts[f"{self._key(it)}-beside"] = lambda _seconds, it=twin: it.close()
        self._lanes.run(acts, seconds_max)
        self._lanes.close()

    def _key(self, member: Member) -> str:
        return f"{self.members.index(member)}"


def named_each(errors: Mapping[str, StoreError]) -> str:
    """Give what errors say, each with the name that stands for where it happened."""
    told = {name: str(error) for name, error in errors.items()}
    return "; ".join(
        each if name in each else f"{name}: {each}" for name, each in sorted(told.items())
    )
