"""
Whether what a database says of its set is of the history that this broker knows.

A copy of a database has its ids; where others have served it, its set was begun later than any that
there is here, and looks like the newest. But a start is promised by every member that counts in its
set, before that set is written anywhere. So where one that counts in it has not promised it, either
the set is of another history, or that one went back in time. What was seen as final tells which: it
is in whatever counts in a set that was begun after it. So do signs of life that go on under an
earlier start. Of two starts of one number each set says who began it (decision record 0077).

Invariants:
    A member is not counted only where it lacks what is known to be final and another one has it, or
    where somebody holds the others under a start that it says is over.
    Where it is not known which of them is right nobody goes by any of them.
    Nobody is told to empty a database that may be the only one with what is in it: not where no
    other one was seen to have more, nor where an operator let brokers go on with it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from holdfast.errors import MirrorError, UnreachableError
from holdfast.leases.contract import Place
from holdfast.leases.seen import Seen
from holdfast.mirrors.mirror_set import MirrorSet, Start
from holdfast.raidb.member import AstrayError, Member, Row

Rows = Mapping[Member, Row]
HasPlace = Callable[[Member, Row, Place], bool | None]
"""Whether an entry is in a member's log, with its chain value; None where it does not say."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A set that somebody who counts in it has not promised."""

    start: int
    begun_by: str
    beats: Mapping[str, tuple[int, int]]
    """Epoch and beat of those who had not, when it was met."""


@dataclass(frozen=True, slots=True)
class _Verdict:
    """That a member is of another history, with all that was begun there since."""

    start: int
    begun_by: str
    accepted_count: int
    """Not once an operator let brokers go on with it: then all else may be gone."""

    error: AstrayError


class Histories:
    """What one broker knows of them."""

    def __init__(self, has_place: HasPlace) -> None:
        """`has_place` may ask a database."""
        self._has_place = has_place
        self._claims: dict[Member, _Claim] = {}
        self._apart: dict[Member, _Verdict] = {}
        """Those that are of another history."""
        self._holder = ""
        """The process that takes here; empty while it has taken nothing."""
        self._own_starts: set[int] = set()
        self._untaken: dict[Member, Row] = {}
        """Each as it was before it was taken here, which promises nothing to others."""

    def take(self, holder: str, epoch: int) -> None:
        """This process begins to take members, under this epoch."""
        self._holder = holder
        self._own_starts.add(epoch)

    def judge(
        self, rows: Rows, *, is_all: bool, seen: Seen | None = None
    ) -> dict[Member, AstrayError]:
        """
        Give those of these rows that are of another history, and why.

        Args:
            rows: Of one set, by the way that led there.
            is_all: Whether no address leads anywhere else, or nowhere.
            seen: What this broker knew to be final before they were read: what became final since
                need not be in them.

        Raises:
            UnreachableError: It is not known which of them are.
        """
        left = {it: row for it, row in rows.items() if row.written is not None}
        for member, row in left.items():
            if not self._is_taken_here(row):
                self._untaken[member] = row
        found: dict[Member, AstrayError] = {}
        for member in (self._claims.keys() | self._apart.keys()) & (rows.keys() - left.keys()):
            self._forget(member)
        while left:
            apart, undecided = self._judge_once(left, seen, is_all=is_all)
            if not apart:
                if undecided is not None:
                    raise undecided
                break
            found |= apart  # Without it the others may agree.
            left = {it: row for it, row in left.items() if it not in apart}
        if left:
            self._require_what_is_final(left, seen, is_all=is_all)
        return found

    def _require_what_is_final(self, rows: Rows, seen: Seen | None, *, is_all: bool) -> None:
        """
        See that what somebody would start with may have what this broker saw last as final.

        Else the newest set among them may be one that the log went on from since, by others that
        are away. What does not count in that set is not asked: it lacks the end, and says nothing.

        Raises:
            UnreachableError: None of those has it, and others may, or do.
        """
        if seen is None or not seen.place.index:
            return
        try:
            start = Start({row.member: _known(row) for row in rows.values()})
        except MirrorError:
            return  # Nobody starts with these: who looks at them says what is missing.
        if start.newest.set_id != seen.identity:
            return
        counting = {it: row for it, row in rows.items() if row.member in start.holds}
        if any(self._has_place(it, row, seen.place) is not False for it, row in counting.items()):
            return
        rest = {it: row for it, row in rows.items() if it not in counting}
        having = {it: row for it, row in rest.items() if self._has_place(it, row, seen.place)}
        if having or not is_all:  # Else it is the log that went back: whoever saw it refuses it.
            is_accepted = _is_accepted_since(start.newest, seen)
            raise _lacking(counting, having, seen.place, is_accepted=is_accepted)

    def _judge_once(
        self, rows: Rows, seen: Seen | None, *, is_all: bool
    ) -> tuple[dict[Member, AstrayError], UnreachableError | None]:
        apart: dict[Member, AstrayError] = {}
        undecided: UnreachableError | None = None
        for member, row in rows.items():
            others = {it: each for it, each in rows.items() if it is not member}
            try:
                error = self._why_apart(member, row, others, seen, is_all=is_all)
            except UnreachableError as unknown:
                undecided = unknown
                continue
            if error is not None:
                apart[member] = error
        return apart, undecided

    def _why_apart(
        self, member: Member, row: Row, others: Rows, seen: Seen | None, *, is_all: bool
    ) -> AstrayError | None:
        known = self._apart.get(member)
        if known is not None:
            is_of_it = _start(row) > known.start or _is_begun_as(row, known)
            if (
                is_of_it
                and not _is_held_as_any(row, others)
                and len(_known(row).accepted) == known.accepted_count
            ):
                return known.error
            self._forget(member)
        unpromised = {
            it: each for it, each in others.items() if not self._has_promised(it, each, row)
        }
        place = self._final(row, seen)
        has = None if place is None else self._has_place(member, row, place)
        is_unsure = False
        if place is not None and has is False:
            lacked = f"it lacks entry {place.index:,}, which is final"
            if any(self._has_place(it, each, place) for it, each in unpromised.items()):
                return self._told_apart(member, row, others, lacked)
            if self._has_what_was_final(row, others, seen):
                said = [self._has_place(it, each, place) for it, each in others.items()]
                if any(said):
                    return self._told_apart(member, row, others, lacked)
                is_unsure = None in said
                if is_all and not is_unsure:
                    return None  # It is the log that went back: whoever saw it refuses it.
        if not unpromised:
            self._claims.pop(member, None)
            if is_unsure:
                raise UnreachableError(
                    f"{member.place} lacks what is final, and {_named(others)} do not say whether"
                    f" they have it: they are asked again"
                )
            return None
        if is_all and place is not None and has:
            lacking = [self._has_place(it, each, place) is False for it, each in unpromised.items()]
            if all(lacking):
                return None  # It is the others that went back.
        if self._are_held_all_the_same(member, row, unpromised):
            told = (
                f"a broker holds {_named(unpromised)}, which never let start {_start(row):,} begin"
            )
            return self._told_apart(member, row, others, told)
        raise UnreachableError(
            f"{member.place} has a set of start {_start(row):,}, which {_named(unpromised)} never"
            f" let begin: either its address leads to a copy that others went on with, or the"
            f" others went back in time. Put the address right; or, if the others were put back"
            f" from a backup, stop the brokers and go on without the others, which are filled then:"
            f" name what is right to 'holdfast mirror accept', or, where nothing is missing for"
            f" that, start the brokers once with those alone"
        )

    def _is_taken_here(self, row: Row) -> bool:
        return bool(self._holder) and _holder(row) == self._holder

    def _has_promised(self, member: Member, row: Row, begun: Row) -> bool:
        start = _start(begun)
        is_begun_here = start in self._own_starts
        if begun.lease.epoch == start:
            is_begun_here = is_begun_here and self._is_taken_here(begun)
        if self._is_taken_here(row) and row.lease.epoch > start and not is_begun_here:
            row = self._untaken.get(member, row)
        return has_promised(row, begun)

    def _told_apart(self, member: Member, row: Row, others: Rows, told: str) -> AstrayError:
        error = _apart(member, row, others, told)
        self._claims.pop(member, None)
        known = _known(row)
        self._apart[member] = _Verdict(_start(row), known.begun_by, len(known.accepted), error)
        return error

    def _forget(self, member: Member) -> None:
        self._claims.pop(member, None)
        self._apart.pop(member, None)

    @staticmethod
    def _final(row: Row, seen: Seen | None) -> Place | None:
        """What this broker saw last as final, where this one counts: it may be asked for it."""
        known = _known(row)
        is_of_it = seen is not None and seen.identity == known.set_id and seen.place.index > 0
        return seen.place if seen is not None and is_of_it and row.member in known.active else None

    @staticmethod
    def _has_what_was_final(row: Row, others: Rows, seen: Seen | None) -> bool:
        """
        Whether all that was final before its start must be in it, since it counts in that set.

        Not where it is not the newest; nor where an operator went on without others.
        """
        known = _known(row)
        if seen is None or seen.epoch_max is None or known.number.start <= seen.epoch_max:
            return False  # By majority one that counts may lack what was stored since.
        copies = [_known(it) for it in others.values()]
        return all(
            it.number.start <= known.number.start and len(it.accepted) >= len(known.accepted)
            for it in copies
        )

    def _are_held_all_the_same(self, member: Member, row: Row, unpromised: Rows) -> bool:
        """Whether somebody gave signs of life in those since it was met."""
        beats = {it.member: (it.lease.epoch, it.lease.beat) for it in unpromised.values()}
        claim, start = self._claims.get(member), _start(row)
        if claim is None or not (claim.start < start or _is_begun_as(row, claim)):
            self._claims[member] = _Claim(start, _known(row).begun_by, beats)
            return False
        before = claim.beats
        moved = [
            epoch
            for it, (epoch, beat) in beats.items()
            if it in before and before[it][0] == epoch and before[it][1] < beat
        ]
        # Two of one start may each be held by somebody: the more of them are right.
        is_earlier = any(epoch < start for epoch in moved)
        return is_earlier or 2 * len(moved) > len(_known(row).active)


def has_promised(row: Row, begun: Row) -> bool:
    """
    Tell whether a member let the start begin whose set another one has, as far as it says.

    One that does not count in that set was not asked.
    """
    copy, known = row.copy, _known(begun)
    if copy is None or row.member not in known.active or row.member == begun.member:
        return True
    start = known.number.start
    if copy.promised < start:
        return False
    if copy.number.start == start and (copy.begun_by or known.begun_by):
        return copy.begun_by == known.begun_by
    if row.lease.epoch != start or not (known.begun_by or begun.lease.epoch == start):
        return True  # What it promised before it was taken again is not known.
    return _holder(row) == (known.begun_by or _holder(begun))


def _is_begun_as(row: Row, met: _Claim | _Verdict) -> bool:
    """Whether its set is of the start that was met there before: two may have one number."""
    return (_start(row), _known(row).begun_by) == (met.start, met.begun_by)


def _is_held_as_any(row: Row, others: Rows) -> bool:
    """Whether it is held by who holds another one: then it was taken by one of these brokers."""
    return bool(_holder(row)) and any(_holder(it) == _holder(row) for it in others.values())


def _known(row: Row) -> MirrorSet:
    assert row.written is not None, "those without were left out"
    return row.written.known


def _holder(row: Row) -> str:
    return "" if row.lease.claimant is None else row.lease.claimant.holder


def _start(row: Row) -> int:
    return _known(row).number.start


def _named(rows: Rows) -> str:
    return ", ".join(sorted(it.place for it in rows))


def _is_accepted_since(newest: MirrorSet, seen: Seen) -> bool:
    """Whether an operator went on without others after that was seen, as far as is known."""
    if not newest.accepted:
        return False
    if seen.accepted is None:
        return newest.accepted[-1].after.start >= seen.epoch
    return newest.accepted[-1].mark != seen.accepted


def _lacking(counting: Rows, having: Rows, place: Place, *, is_accepted: bool) -> UnreachableError:
    """What is to be told where brokers would start with what lacks an entry that is final."""
    lacked = f"entry {place.index:,}, which this broker saw as final"
    if not is_accepted:
        where = f" ({_named(having)} has it, and does not count)" if having else ""
        return UnreachableError(
            f"{_named(counting)} lack {lacked}{where}: the other databases are waited for. If all"
            f" of them are gone for good, give every broker empty ones in their place: it says then"
            f" what is lost"
        )
    told = (
        f"an operator let brokers go on with {_named(counting)} alone ('holdfast mirror accept'),"
        f" without {lacked}"
    )
    elsewhere = "If that was done elsewhere, the address leads to a copy: put it right."
    if having:
        return UnreachableError(
            f"{told} and {_named(having)} has. {elsewhere} If it was done here, one of the two"
            f" histories is to be given up: take the --store of what is not to go on from all"
            f" brokers"
        )
    return UnreachableError(
        f"{told}. {elsewhere} If it was done here, and the others are gone for good, what only they"
        f" had is lost: to go on without it remove last-seen from the --data of each broker that"
        f" says this"
    )


def _apart(member: Member, row: Row, others: Rows, told: str) -> AstrayError:
    beside = f" than {_named(others)}" if others else ""
    why = f"{member.place} has another history{beside}: {told}"
    accepted_count = len(_known(row).accepted)
    if any(len(_known(it).accepted) < accepted_count for it in others.values()):
        return AstrayError(
            f"{why}, and an operator let brokers go on with it alone ('holdfast mirror accept')."
            f" If that was done elsewhere, this address leads to a copy: put it right. If it was"
            f" done here, one of the two histories is to be given up: start all brokers without the"
            f" --store of those that are not to go on"
        )
    return AstrayError(
        f"{why}. This address leads to a copy that others went on with, or to an older state: put"
        f" it right; if it is right, and nothing is wanted of what is there, empty that database,"
        f" and it is filled"
    )
