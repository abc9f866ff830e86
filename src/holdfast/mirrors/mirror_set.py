"""
Who of several mirrors has what was confirmed, and with which of them one may start or go on.

Each mirror holds a copy of the *set*: which members are active, that is, have all that was
confirmed. A set is replaced by the next one of a higher number, written on one member after
another; whoever starts judges by the copies that it finds. See decision record 0049 for why the
rules are these; trials/mirrors tries them with every accident there is.

Invariants:
    Confirmed is only what is on every active member of a set that *stands*: one that is written on
    all of them, and on at least half of each group from which it took over (`before`).
    A starter has more than half of the active members and of each such group. So whoever takes over
    from a group, and whoever else would start with it, have a member in common.
    A starter promises first, on all it found: what comes later than its number is not its own.
    A set whose writing was broken off is never ahead of one that was begun after it.

Values only: no file, no clock, no randomness; ids and marks are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from holdfast.errors import (
    ForeignMirrorError,
    MirrorHistoriesError,
    MirrorsLostError,
    MirrorsMissingError,
)

MirrorState = Literal["active", "joining", "failed", "disabled"]
Group = frozenset[str]


class Number(NamedTuple):
    """Which of two sets is the later one: that of the later start, then of the later event."""

    start: int
    event: int


NO_NUMBER: Final = Number(0, 0)


class Acceptance(NamedTuple):
    """An operator went on without members that would have been needed."""

    mark: str
    """Random, so that two of them are told apart."""

    after: Number
    """The number of the set that was accepted."""


@dataclass(frozen=True, slots=True)
class MirrorSet:
    """What one member knows of all."""

    set_id: str
    states: tuple[tuple[str, MirrorState], ...]
    """By member, sorted."""

    number: Number = NO_NUMBER
    before: tuple[Group, ...] = ()
    """Groups that may still start by an older set: none once this one is known to stand."""

    promised: int = 0
    """Whoever wrote this has let a start of this number begin."""

    accepted: tuple[Acceptance, ...] = ()
    begun_by: str = ""
    """Who began its start, where that is told: of two of one number elsewhere each has another."""

    @property
    def active(self) -> Group:
        """The members that have all that was confirmed."""
        return frozenset(member for member, state in self.states if state == "active")

    def state_of(self, member: str) -> MirrorState | None:
        """The state of a member, None if it is none."""
        return dict(self.states).get(member)

    def stands_on(self, written: Iterable[str]) -> bool:
        """Whether it stands where it is written on these members."""
        on = frozenset(written)
        return self.active <= on and all(2 * len(on & group) >= len(group) for group in self.before)

    def missing_to_start(self, found: Iterable[str]) -> Group:
        """The members of which more must be found; none if one may start with those."""
        there = frozenset(found)
        groups = [it for it in (self.active, *self.before) if 2 * len(it & there) <= len(it)]
        return frozenset().union(*groups) - there

    def with_states(self, changes: Mapping[str, MirrorState | None]) -> dict[str, MirrorState]:
        """Its members' states with these changes; None takes one out."""
        states = dict(self.states)
        for member, state in changes.items():
            if state is None:
                states.pop(member, None)
            else:
                states[member] = state
        return states


def set_fields(known: MirrorSet) -> dict[str, Any]:
    """Give a set as values that JSON has; `set_of` reads them."""
    return {
        "set": known.set_id,
        "states": dict(known.states),
        "number": known.number,
        "before": [sorted(group) for group in known.before],
        "promised": known.promised,
        "accepted": [[it.mark, it.after] for it in known.accepted],
        **({"begun_by": known.begun_by} if known.begun_by else {}),
    }


def set_of(fields: Mapping[str, Any]) -> MirrorSet:
    """
    Read a set from such values.

    Raises:
        KeyError: One is missing; likewise ValueError, TypeError or AttributeError for what is none.
    """
    return MirrorSet(
        fields["set"],
        tuple(sorted(fields["states"].items())),
        Number(*fields["number"]),
        tuple(frozenset(group) for group in fields["before"]),
        fields["promised"],
        tuple(Acceptance(mark, Number(*after)) for mark, after in fields["accepted"]),
        str(fields.get("begun_by", "")),
    )


def found_set(set_id: str, members: Iterable[str], joining: Iterable[str] = ()) -> MirrorSet:
    """Make the first set, of members that are alike, and of some that are yet to be filled."""
    states: dict[str, MirrorState] = dict.fromkeys(members, "active")
    states |= dict.fromkeys(joining, "joining")
    return MirrorSet(set_id, tuple(sorted(states.items())), Number(1, 1), promised=1)


class Start:
    """
    What a starter may go by: the newest set among the copies that it found.

    `promise` and then `begin` say what is to be written, each on all of `witnesses` before anything
    further; `holds` are the members whose data counts.
    """

    def __init__(self, copies: Mapping[str, MirrorSet]) -> None:
        """
        Judge these copies, by the member that holds each.

        Raises:
            ForeignMirrorError: They are of different sets.
            MirrorHistoriesError: Some went on apart from others, by an operator's word.
            MirrorsMissingError: Too few were found to be sure; the error has those that are missed.
        """
        self.copies = dict(copies)
        self.newest = newest_of(copies)
        there = frozenset(copies)
        self.stands = not self.newest.before or self._is_written_on_all()
        judged = replace(self.newest, before=()) if self.stands else self.newest
        missing = judged.missing_to_start(there)
        if missing:
            raise MirrorsMissingError(missing, judged.active & there)
        self.holds = judged.active & there
        """The found members that have all that was confirmed."""
        concerned = frozenset().union(judged.active, *judged.before)
        self.witnesses = concerned & there
        """The found members on which is to be written what this start does."""
        self._judged = judged

    @property
    def number(self) -> int:
        """The number of this start; no earlier one knew it."""
        return 1 + max(max(it.promised, it.number.start) for it in self.copies.values())

    def promise(self) -> dict[str, MirrorSet]:
        """What each witness is to hold before the next set is written on any."""
        number = self.number
        return {it: replace(self.copies[it], promised=number) for it in self.witnesses}

    def begin(self) -> MirrorSet:
        """The set to go on with, once the promises are durable: who was not found is failed."""
        judged, number = self._judged, self.number
        states = dict(judged.states)
        states |= dict.fromkeys(judged.active - self.holds, "failed")
        groups = dict.fromkeys((judged.active, *judged.before))
        return replace(
            judged,
            states=tuple(sorted(states.items())),
            number=Number(number, 1),
            before=tuple(groups),
            promised=number,
        )

    def _is_written_on_all(self) -> bool:
        newest = self.newest
        written = {member for member, copy in self.copies.items() if copy.number == newest.number}
        settled = any(not self.copies[member].before for member in written)
        return settled or newest.stands_on(written)


class Holding:
    """
    A set that is held: the changes that its holder makes.

    The holder writes what `change` gives on every member that it still writes to, and tells it with
    `written`. Only while `is_standing` may anything be confirmed.
    """

    def __init__(self, begun: MirrorSet) -> None:
        self.current = begun
        self.is_standing = False
        self._written: set[str] = set()

    def may_go_on_without(self, members: Iterable[str]) -> bool:
        """Whether enough would be left without these, that nobody could start without the rest."""
        current = self.current
        left = current.active - frozenset(members)
        groups = [current.active] if self.is_standing else [current.active, *current.before]
        return bool(left) and all(2 * len(left & group) >= len(group) for group in groups)

    def change(self, changes: Mapping[str, MirrorState | None]) -> MirrorSet:
        """
        Make the next set, which is to be written before anything more is confirmed.

        Raises:
            MirrorsLostError: So few active members are left that others could start without them.
        """
        current = self.current
        states = tuple(sorted(current.with_states(changes).items()))
        groups = dict.fromkeys((current.active, *current.before))
        if self.is_standing:
            groups = dict.fromkeys((current.active,))
        number = Number(current.number.start, current.number.event + 1)
        following = replace(current, states=states, number=number, before=tuple(groups))
        left = following.active
        # A member that was never written to by a set that stands may have been given up already.
        if not left or any(2 * len(left & group) < len(group) for group in groups):
            raise MirrorsLostError(current.active - left, left)
        self.current, self.is_standing = following, False
        self._written.clear()
        return following

    def written(self, members: Iterable[str]) -> None:
        """Tell on which members the present set is durable, beside those told before."""
        self._written.update(members)
        if self.current.stands_on(self._written):
            self.is_standing = True

    def settled(self) -> MirrorSet:
        """The present set as it may be written once it stands: others need not ask who was."""
        assert self.is_standing, "it may not be known everywhere"
        self.current = replace(self.current, before=())
        return self.current


def newest_of(copies: Mapping[str, MirrorSet]) -> MirrorSet:
    """
    Give the newest of these copies; where it stands in two versions, the one that says more.

    Raises:
        ForeignMirrorError: They are of different sets.
        MirrorHistoriesError: Some went on apart from others, by an operator's word.
    """
    first = next(iter(copies))
    for member, copy in copies.items():
        if copy.set_id != copies[first].set_id:
            raise ForeignMirrorError(first, member)
    top = max(copies, key=lambda it: (len(copies[it].accepted), copies[it].number))
    newest = copies[top]
    for member, copy in copies.items():
        if not _descends(newest, copy):
            raise MirrorHistoriesError(top, member)
    settled = [it for it in copies.values() if it.number == newest.number and not it.before]
    return settled[0] if settled and settled[0].accepted == newest.accepted else newest


def _descends(newest: MirrorSet, copy: MirrorSet) -> bool:
    """Whether the newest goes back to what this copy says, and not to what came apart from it."""
    count = len(copy.accepted)
    if newest.accepted[:count] != copy.accepted:
        return False
    return count == len(newest.accepted) or copy.number <= newest.accepted[count].after


def accept(copies: Mapping[str, MirrorSet], mark: str) -> MirrorSet:
    """
    Go on with the found members alone, whatever was confirmed on others: an operator's word.

    What is given up counts as failed. Members of a set that went on elsewhere are told by `mark`.

    Raises:
        ForeignMirrorError: They are of different sets.
        MirrorHistoriesError: Some went on apart from others.
        MirrorsLostError: None of those that were found is an active one.
    """
    newest = newest_of(copies)
    left = newest.active & frozenset(copies)
    if not left:
        raise MirrorsLostError(newest.active, left)
    states = dict(newest.states) | dict.fromkeys(newest.active - left, "failed")
    number = 1 + max(max(it.promised, it.number.start) for it in copies.values())
    return replace(
        newest,
        states=tuple(sorted(states.items())),
        number=Number(number, 1),
        before=(),
        promised=number,
        accepted=(*newest.accepted, Acceptance(mark, newest.number)),
    )
