"""
Making the members that were taken alike, however much one lacks and however slow the way to it is.

Whoever has taken them copies the longest log to the others, in pieces as large as each stores soon,
and gives signs of life in all of them meanwhile: so it goes on for as long as it gets on, over many
calls. One that can be spared is left out instead. What was in flight when the last holder ended, in
so few that it cannot have been confirmed, is copied where that is soon done; else it is cut off.

Invariants:
    Nothing is cut off that more than half of the active members may have.
    What is cut off is one append of the last epoch at most, large, and behind all that this broker
    knows to be final: a database that was put back to an older state takes nothing with it.
    Before anything is cut off all are taken anew: nothing late is stored after it.
    A member that another broker has taken ends it.
    What is copied follows by chain on what is there, and ends with the end of the longest log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, Final

from holdfast.errors import (
    CorruptEntryError,
    MirrorHistoriesError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import Entry, bytes_of
from holdfast.leases.contract import Outcome, Place
from holdfast.mirrors.mirror_set import MirrorSet
from holdfast.model.limits import KiB, MiB
from holdfast.raidb.between import CLOSING_SECONDS
from holdfast.raidb.copying import require_unbroken
from holdfast.raidb.databases import BoundAct, Databases
from holdfast.raidb.member import NOTHING, ActOf, AstrayError, Row, Token, UnconnectedError
from holdfast.raidb.rates import Rates
from holdfast.raidb.tenure import Tenure, cut_act, read_act, renew_act, seize_act, store_act

logger = logging.getLogger("holdfast.raidb")

COPYING_SHARE: Final = 0.5
"""Of the time that a take has at first, for what one member lacks: one that lacks more is left out
and filled while the others serve, where it can be spared."""
PATIENCE_SECONDS_MAX: Final = 160.0
"""For one entry, where nobody can be spared: 64 MiB at 0.4 MiB a second."""
CUT_BYTES_MIN: Final = 64 * KiB
"""What is smaller is never cut off."""
IN_FLIGHT_BYTES_MAX: Final = MiB
"""One append has so much at most, or is one entry."""
_PIECE_BYTES_MIN: Final = 64 * KiB
_PIECE_BYTES_MAX: Final = 4 * MiB
_PIECE_SECONDS: Final = 0.5
_GROWTH_MAX: Final = 4
_BEAT_SECONDS_MAX: Final = 2.0
_LEAST_SECONDS: Final = 0.05
"""With less time it is gone on with in the next call."""
_BEATS: Final = 4
"""Signs of life in the time of a lease."""
_TAKES_MAX: Final = 3
"""What comes late to a member while it is taken anew is seen by the next try."""
_WANT_OF_TIME: Final = 0.8
"""What failed after so much of its time may have wanted more."""

Steps = Generator[None, None, Any]
"""Something that takes as many calls as it needs: where it yields the time of one is over."""


class Levelling:
    """The members of one take on their way to being alike."""

    def __init__(
        self,
        databases: Databases,
        clock: Callable[[], float],
        rates: Rates,
        *,
        tenure: Tenure,
        rows: Mapping[str, Row],
        newest: MirrorSet,
    ) -> None:
        """
        Nothing is asked before the first step; `begin_call` comes before each.

        Args:
            tenure: Under which they were taken.
            rows: Those of the active members, as they were when they were taken.
            newest: The set that they were judged by.
        """
        self.deadline = self._call_seconds = 0.0
        self._databases = databases
        self._clock = clock
        self._rates = rates
        self._tenure = tenure
        self._rows = rows
        self._newest = newest
        self._ends = {it: row.lease.end for it, row in rows.items()}
        self._sizes = dict.fromkeys(rows, _PIECE_BYTES_MIN)
        self._piece: list[Entry] = []
        """What was read last."""
        self._compared: set[str] = set()
        """Those of which is known that their log is the beginning of the longest."""
        self._sent: dict[str, Token] = {}
        """Under what a member was taken anew, where the answer may have been lost."""
        longest = max(rows.values(), key=lambda it: it.lease.end.index)
        tenure.end = longest.lease.end
        self._sources = [it for it in sorted(rows) if self._ends[it] == tenure.end]
        self._beating: dict[str, BoundAct] = {}
        self._beaten_at: dict[str, float] = {}
        self._beat_seconds = (tenure.claimant.lease_seconds or 5.0) / _BEATS
        self._copied_bytes = 0

    def begin_call(self, deadline: float) -> None:
        """The next steps have until then."""
        self.deadline = deadline
        self._call_seconds = deadline - self._clock()

    def told(self, member: str) -> str:
        """What is to be told of a member that is copied to; asked by any thread."""
        row, end = self._rows.get(member), self._ends.get(member)
        if row is None or end is None or end.index >= self._tenure.end.index:
            return ""
        first, last = row.lease.end.index, self._tenure.end.index
        share = 100 * (end.index - first) // (last - first)
        return (
            f"gets entries {first + 1:,} to {last:,} before anybody serves: {share} %,"
            f" {self._copied_bytes:,} bytes so far"
        )

    def steps(self) -> Steps:
        """
        Make them alike, and leave out who can be spared.

        Raises:
            MirrorHistoriesError: Two have different logs.
            UnreachableError: It does not get on.
        """
        failed: dict[str, StoreError] = {}
        for member in sorted(self._rows):
            share = (self.deadline - self._clock()) * COPYING_SHARE
            try:
                yield from self._compare(member)
                yield from self._lengthen(member, self._clock() + share)
            except MirrorHistoriesError:
                raise
            except StoreError as error:
                failed[member] = error
        if not failed or self._are_spared(failed):
            return
        if (yield from self._cut_what_was_in_flight(failed)):
            failed = {it: why for it, why in failed.items() if self._ends[it] != self._tenure.end}
            if not failed or self._are_spared(failed):
                return
        yield from self._lengthen_the_needed(failed)

    def _are_spared(self, failed: Mapping[str, StoreError]) -> bool:
        """Leave these out, if enough are left."""
        if not self._tenure.holding.may_go_on_without(failed):
            return False
        self._tenure.leave_out(failed, self._clock())
        return True

    def _lengthen_the_needed(self, failed: dict[str, StoreError]) -> Steps:
        """Copy for as long as it takes, until those that are left can be spared."""
        nearest = sorted(failed, key=lambda it: -self._ends[it].index)
        for member in nearest:
            if not isinstance(failed[member], UnreachableError):
                continue
            logger.warning(
                "%s lacks entries and cannot be spared: it gets them before anybody serves",
                self._databases.name(member),
            )
            try:
                yield from self._look_again(member)
                if member not in self._compared:
                    yield from self._compare(member)
                yield from self._lengthen(member, None)
            except MirrorHistoriesError:
                raise
            except StoreError as error:
                failed[member] = error
                continue
            del failed[member]
            if not failed or self._are_spared(failed):
                return
        told = "; ".join(f"{self._databases.name(it)}: {failed[it]}" for it in sorted(failed))
        raise UnreachableError(
            f"{told}: without that too few databases are left; put that right, or, if one is gone"
            f" for good, go on without it ('holdfast mirror accept')"
        )

    def _compare(self, member: str) -> Steps:
        """See that its log is the beginning of the longest."""
        end, source = self._ends[member], self._rows[self._sources[0]].lease
        there: bytes | None = None
        if end.index == source.end.index:
            there = source.end.chain
        elif end.index == 0:
            there = NOTHING.chain if source.first_index <= 1 else None
        elif source.first_index <= end.index:
            read = yield from self._read(end.index - 1, end.index, 1, self._left())
            there = read[0].chain
        if there is None:
            raise UnreachableError(
                f"it ends with entry {end.index:,}, which was cleaned away elsewhere: empty it, and"
                f" it is filled"
            )
        if there != end.chain:
            name = self._databases.name
            raise MirrorHistoriesError(
                name(self._sources[0]), name(member), f"entry {end.index:,} is another one"
            )
        self._compared.add(member)

    def _lengthen(self, member: str, until: float | None) -> Steps:
        """Copy what it lacks until then; or without an end as long as it gets on."""
        patience = self._call_seconds
        came_to = self._ends[member]
        while self._ends[member].index < self._tenure.end.index:
            seconds = patience if until is None else until - self._clock()
            if seconds <= 0:
                raise UnreachableError("there was no time for all of it")
            began = self._clock()
            try:
                entries = yield from self._next_piece(member, seconds)
                began = self._clock()
                yield from self._store(member, entries, seconds)
            except UnreachableError:
                took = self._clock() - began
                if until is not None or took < _WANT_OF_TIME * seconds:
                    raise
                if patience >= PATIENCE_SECONDS_MAX:
                    raise
                patience = min(2 * patience, PATIENCE_SECONDS_MAX)
                self._sizes[member] = _PIECE_BYTES_MIN
                yield from self._look_again(member)
            if self._ends[member] != came_to:
                came_to, patience = self._ends[member], self._call_seconds
        if self._ends[member] != self._tenure.end:
            raise UnreachableError("it ends with another entry than the others: it is read anew")

    def _next_piece(self, member: str, seconds: float) -> Steps:
        """Read what is to be stored next."""
        after, size = self._ends[member].index, self._sizes[member]
        piece = self._piece
        if not piece or not piece[0].index <= after + 1 <= piece[-1].index:
            through = self._tenure.end.index
            piece = self._piece = yield from self._read(after, through, size, seconds)
        rest = piece[after + 1 - piece[0].index :]
        try:
            require_unbroken(rest[:1], self._ends[member], self._databases.name(self._sources[0]))
        except CorruptEntryError:
            self._piece = []
            raise
        count, taken = bytes_of(rest[:1]), 1
        while taken < len(rest) and count + bytes_of(rest[taken : taken + 1]) <= size:
            count += bytes_of(rest[taken : taken + 1])
            taken += 1
        return rest[:taken]

    def _store(self, member: str, entries: list[Entry], seconds: float) -> Steps:
        began, count = self._clock(), bytes_of(entries)
        act = store_act(self._tenure.tokens[member], entries, self._ends[member])
        act = self._rates.measured(member, act, count)
        outcome = yield from self._ask(member, act, seconds)
        if outcome is not Outcome.STORED:
            if self._is_lost(member):
                raise UnreachableError("another broker has taken it")
            return
        last = entries[-1]
        self._ends[member] = Place(last.index, last.chain)
        self._copied_bytes += count
        took = max(self._clock() - began, 1e-3)
        size = min(int(count / took * _PIECE_SECONDS), _GROWTH_MAX * self._sizes[member])
        self._sizes[member] = max(_PIECE_BYTES_MIN, min(size, _PIECE_BYTES_MAX))

    def _read(self, after: int, through: int, bytes_max: int, seconds: float) -> Steps:
        """Read entries of the longest log, of whichever member has them whole."""
        is_beside = True
        while True:
            source = self._sources[0]
            if source in self._sent:
                yield from self._look_again(source)
            token = self._tenure.tokens[source]
            try:
                if is_beside:
                    act = self._databases.reading(source, after, through, bytes_max, token)
                    found = yield from self._ask(source, act, seconds, beside=token)
                else:
                    found = yield from self._read_between(source, after, through, seconds)
                require_unbroken(found[1:], Place(after + 1, found[0].chain), source)
            except (AstrayError, UnconnectedError):
                if is_beside:
                    is_beside = False  # The way by which it was taken leads to it still.
                elif len(self._sources) > 1:
                    del self._sources[0]
                    is_beside = True
                else:
                    raise
            except CorruptEntryError:
                if len(self._sources) == 1:
                    raise
                del self._sources[0]
            else:
                return found

    def _read_between(self, source: str, after: int, through: int, seconds: float) -> Steps:
        """Read them by the connection by which it was taken, which must not be closed for that."""
        until, token = self._clock() + seconds, self._tenure.tokens[source]
        pieces = self._databases.pieces(source, after, through, token)
        try:
            act = next(pieces)
            while True:
                act = pieces.send((yield from self._ask(source, act, CLOSING_SECONDS)))
                if self._clock() >= until:
                    raise UnreachableError(f"entry {after + 1:,} did not come in {seconds:g} s")
                yield from self._beat_between(source)
        except StopIteration as done:
            return done.value

    def _beat_between(self, source: str) -> Steps:
        """Who is read piece by piece gets its signs of life as well."""
        due = self._beaten_at.setdefault(source, self._clock()) + self._beat_seconds
        if self._clock() >= due and source not in self._beating:
            beat = _beat(self._tenure.tokens[source])
            outcome = yield from self._ask(source, beat, CLOSING_SECONDS)
            self._are_beaten({source: outcome})

    def _look_again(self, member: str) -> Steps:
        """How far it has come, where that is not known."""
        row: Row = yield from self._ask(member, read_act, self._left())
        is_ours = row.is_held_by(self._tenure.tokens[member])
        if not is_ours and not self._is_lost(member):
            is_ours = row.is_held_by(self._tenure.tokens[member])
        if row.member != member or not is_ours:
            raise UnreachableError(f"another broker has taken {self._databases.name(member)}")
        self._ends[member] = row.lease.end
        return row

    def _take_anew(self, member: str) -> Steps:
        """
        Let nothing be stored any more that was sent so far, and see where it ends.

        What was to be copied there and is late would fit again behind what is left after a cut.
        """
        for _ in range(_TAKES_MAX):
            row = yield from self._look_again(member)
            token = self._tenure.tokens[member]
            token = replace(token, epoch=token.epoch + 1)
            act = seize_act(row, token, self._tenure.claimant)
            self._sent[member] = token
            if (yield from self._ask(member, act, self._left())):
                self._hold(member, token)
                return
        raise UnreachableError(f"{self._databases.name(member)} is written all the time")

    def _is_lost(self, member: str) -> bool:
        """Whether a token that counts no more gave way to another broker's, and not to our own."""
        sent = self._sent.get(member)
        if sent is None:
            return True
        self._hold(member, sent)
        return False

    def _hold(self, member: str, token: Token) -> None:
        """It was taken under this; a sign of life of the token before says nothing any more."""
        self._tenure.tokens[member] = token
        self._sent.pop(member, None)
        self._beating.pop(member, None)

    def _cut_what_was_in_flight(self, failed: Mapping[str, StoreError]) -> Steps:
        """
        Cut off what nobody can have been told of; whether that is done, and no more than that.

        What was confirmed is in more than half of those that were active then, and whoever is
        active since has it: so what half of them or fewer may have was not. Who lacks more than
        that gets the rest as before, or is left out.
        """
        most = len(self._newest.active) // 2 + 1
        away = len(self._newest.active) - len(self._rows)
        if most <= away or not self._compared.issuperset(self._rows):
            return False
        if not (yield from self._is_large_append(self._sure_index(most - away))):
            return False
        try:
            for member in sorted(self._rows):
                yield from self._take_anew(member)
        except StoreError as error:
            logger.info("what was in flight cannot be cut off now: %s", error)
            return False
        last = self._tenure.end.index
        if all(it.index == last for it in self._ends.values()):
            return True  # What was late has come.
        sure = self._sure_index(most - away)
        if not (yield from self._is_large_append(sure)):
            return False
        target = yield from self._place_of(sure)
        for member in sorted(it for it, end in self._ends.items() if end.index > target.index):
            act = cut_act(self._tenure.tokens[member], target)
            if (yield from self._ask(member, act, self._left())) is not Outcome.STORED:
                raise UnreachableError("another broker has taken it")
            self._ends[member] = target
        self._tenure.end = target
        self._piece = [it for it in self._piece if it.index <= target.index]
        named = ", ".join(f"{self._databases.name(it)}: {error}" for it, error in failed.items())
        logger.warning(
            "entries %s to %s, which nobody was told to be stored, are cut off as they cannot be"
            " copied (%s)",
            f"{target.index + 1:,}",
            f"{last:,}",
            named,
        )
        return True

    def _sure_index(self, count: int) -> int:
        """Through where nothing is cut: what so many have, and what is known to be final."""
        # Who only reads the log takes for final what more than half have, whoever put it there.
        ends = sorted((it.index for it in self._ends.values()), reverse=True)
        return max(ends[count - 1], self._tenure.claimant.known_index)

    def _place_of(self, index: int) -> Steps:
        """The place of this index in the longest log."""
        for end in self._ends.values():
            if end.index == index:
                return end
        read = yield from self._read(index - 1, index, 1, self._left())
        return Place(index, read[0].chain)

    def _is_large_append(self, after: int) -> Steps:
        """
        Whether what comes behind this is of one append of the last epoch, and of some size.

        What is small is copied, however slow the way, and waits for room: one that was put back to
        an older state by a little must not take it with it.
        """
        through = self._tenure.end.index
        piece = self._piece
        if not piece or piece[0].index > after + 1 or piece[-1].index < through:
            try:
                piece = yield from self._read(after, through, IN_FLIGHT_BYTES_MAX, self._left())
            except StoreError:
                return False
        rest = [it for it in piece if it.index > after]
        size = bytes_of(rest)
        is_one = len(rest) == 1 or size <= IN_FLIGHT_BYTES_MAX
        epoch = self._newest.number.start
        return (
            is_one
            and size > CUT_BYTES_MIN
            and rest[-1].index == through
            and all(it.term == epoch for it in rest)
        )

    def _left(self) -> float:
        return max(self.deadline - self._clock(), _LEAST_SECONDS)

    def _ask(
        self, member: str, act: ActOf, seconds: float, *, beside: Token | None = None
    ) -> Steps:
        """Do something in one member, and give signs of life in all the others meanwhile."""
        bound = self._databases.bind(member, act, beside=beside)
        until = self._clock() + seconds
        while True:
            if self.deadline - self._clock() < _LEAST_SECONDS:
                yield
            acts = {"": bound, **self._beats(member)}
            left = until - self._clock()
            wait = min(self._left(), self._beat_seconds)
            found = self._databases.run_bound(
                acts, left, leave_after=wait, is_enough=lambda it: "" in it
            )
            self._are_beaten(found)
            if "" in found:
                if isinstance(found[""], StoreError):
                    raise found[""]
                return found[""]

    def _beats(self, but: str) -> dict[str, BoundAct]:
        """Signs of life that are due."""
        now = self._clock()
        for it in self._tenure.tokens:
            is_due = now >= self._beaten_at.setdefault(it, now) + self._beat_seconds
            if is_due and it not in self._beating:
                self._beating[it] = self._databases.bind(it, _beat(self._tenure.tokens[it]))
        return {it: act for it, act in self._beating.items() if it != but}

    def _are_beaten(self, found: Mapping[str, Any]) -> None:
        for it in found:
            if it:
                self._beating.pop(it, None)
                self._beaten_at[it] = self._clock()
            if it and found[it] is Outcome.DEPOSED and self._is_lost(it):
                raise UnreachableError(f"another broker has taken {self._databases.name(it)}")


def _beat(token: Token) -> ActOf:
    act = renew_act(token)
    return lambda member, seconds: act(member, min(seconds, _BEAT_SECONDS_MAX))
