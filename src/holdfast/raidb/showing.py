"""
What several databases show to people: each that is enabled shows it, as one by itself would.

All that is told goes to those that have been told everything so far. One that misses some of it, as
it did not answer, was refused, still stored what the others had or has just come back, is told
nothing more; now and then all of them are begun with anew, which whoever tells learns by an error,
and then compares what is there. What is shown there in some only goes first: what of it lives is
told again to all.

Invariants:
    What is shown costs no database its place: nothing of it counts as a failure, and it goes by the
    second way to each, where what takes long goes on and holds up nothing that is stored. That is
    as far as the database itself goes: an append waits for whoever writes in it.
    In each it is written under the token that an append has, and not once a later entry is there.
    Tables and views are made by the first way only, which makes those on the lease as well.

Used by the thread of the holder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.projection import KEYS_MAX, Changes, MessageKey, Span
from holdfast.raidb.databases import BoundAct, Databases, named_each
from holdfast.raidb.member import ActOf
from holdfast.raidb.tenure import Tenure

SHOW_SECONDS_MAX: Final = 1.0
"""For one piece: an append waits behind it. One that needs more shows nothing new for a while."""
AGAIN_SECONDS: Final = 30.0
"""After one has missed something all is compared anew, at most so often at first."""
AGAIN_SECONDS_MAX: Final = 600.0


class Showing:
    """What the databases of one tenure show."""

    def __init__(self, databases: Databases, tenure: Tenure, clock: Callable[[], float]) -> None:
        """Whoever tells begins with all of it."""
        self._databases = databases
        self._tenure = tenure
        self._clock = clock
        self._told = set(tenure.active)
        """Those that were told everything."""
        self._why: dict[str, StoreError] = {}
        """Why others have missed something."""
        self._made: set[tuple[str, bool]] = set()
        """In which there is what queues are shown in, and (True) messages."""
        self._again_at = float("-inf")
        self._pause = AGAIN_SECONDS

    def project(self, changes: Changes, seconds_max: float) -> None:
        """
        Have it shown where all before is shown.

        Raises:
            StoreError: Some have missed something, or none shows it: all of it is to be told anew.
        """
        self._begin_anew_if_due()
        self._write(changes, self._targets(), seconds_max)

    def shown_keys(self, after: MessageKey, seconds_max: float) -> list[MessageKey]:
        """
        Give the rows of messages behind this one that are there everywhere; at least `KEYS_MAX`,
        if there are so many. Those that some only have are not there any more after it.

        Raises:
            StoreError: None shows anything, or it takes too long.
        """
        deadline = self._clock() + seconds_max
        common: list[MessageKey] = []
        while True:
            if self._clock() >= deadline:
                raise StoreError("what the databases show could not be compared in time")
            keys = self._keys(after, deadline - self._clock())
            full = [it[-1] for it in keys.values() if len(it) >= KEYS_MAX]
            through = min(full, default=None)
            known = [
                {key for key in it if through is None or key <= through} for it in keys.values()
            ]
            everywhere = set.intersection(*known)
            partial = set.union(*known) - everywhere
            if partial:
                changes = Changes(settled=tuple(spans_of(partial)))
                self._write(changes, list(keys), deadline - self._clock())
            common += sorted(everywhere)
            if through is None or len(common) >= KEYS_MAX:
                return common
            after = through

    def _begin_anew_if_due(self) -> None:
        now, tenure = self._clock(), self._tenure
        self._told.intersection_update(tenure.active)
        missed = [it for it in tenure.active if it not in self._told]
        if not any(not tenure.lacking_bytes(it) for it in missed) or now < self._again_at:
            return
        if now >= self._again_at + AGAIN_SECONDS_MAX:
            self._pause = AGAIN_SECONDS
        self._again_at = now + self._pause
        self._pause = min(2 * self._pause, AGAIN_SECONDS_MAX)
        self._told = set(tenure.active)
        why = {it: self._why.pop(it, StoreError("it has come back")) for it in missed}
        self._why.clear()
        raise StoreError(
            f"{self._named(why)}: it has missed some of what is shown, and all is compared anew"
        )

    def _targets(self) -> list[str]:
        """Those to be told more, without those that store something else just now."""
        tenure = self._tenure
        for it in tenure.active:
            if it in self._told and tenure.lacking_bytes(it):
                self._missed(it, UnreachableError("it was still storing what the others had"))
        return [it for it in tenure.active if it in self._told]

    def _write(self, changes: Changes, members: Iterable[str], seconds_max: float) -> None:
        bind, kind = self._databases.bind, changes.is_of_messages
        members = list(members)
        unmade = [it for it in members if (it, kind) not in self._made]
        made = self._done({it: bind(it, self._make_act(it, changes)) for it in unmade}, seconds_max)
        self._made |= {(it, kind) for it in made}
        ready = [it for it in members if (it, kind) in self._made]
        tokens = {it: self._tenure.tokens[it] for it in ready}
        acts = {it: bind(it, self._act(it, changes), beside=tokens[it]) for it in ready}
        self._done(acts, seconds_max)
        self._require_any()

    def _done(self, acts: Mapping[str, BoundAct], seconds_max: float) -> list[str]:
        """Do these, and give where that is done; the others have missed something."""
        # Given up, it would count as hanging: nothing else would be asked of it meanwhile.
        found = self._databases.run_bound(acts, seconds_max, leave_after=SHOW_SECONDS_MAX)
        done = []
        for it in acts:
            why = found.get(it, UnreachableError(f"it took more than {SHOW_SECONDS_MAX:g} s"))
            if isinstance(why, StoreError):
                self._missed(it, why)
            elif why:
                self._missed(it, StoreError(why))
            else:
                done.append(it)
        return done

    def _keys(self, after: MessageKey, seconds_max: float) -> dict[str, list[MessageKey]]:
        """Of each that answers, its rows."""
        act = _keys_after(after)
        tokens = {it: self._tenure.token(it) for it in self._targets()}
        acts = {it: self._databases.bind(it, act, beside=token) for it, token in tokens.items()}
        found = self._databases.run_bound(acts, seconds_max)
        for it, why in found.items():
            if isinstance(why, StoreError):
                self._missed(it, why)
        self._require_any()
        return {it: keys for it, keys in found.items() if not isinstance(keys, StoreError)}

    def _missed(self, member: str, why: StoreError) -> None:
        self._told.discard(member)
        self._made -= {(member, True), (member, False)}
        self._why[member] = why

    def _require_any(self) -> None:
        if not self._told:
            raise StoreError(f"no database shows anything: {self._named(self._why)}")

    def _named(self, why: Mapping[str, StoreError]) -> str:
        return named_each({self._databases.name(it): each for it, each in why.items()})

    def _make_act(self, member: str, changes: Changes) -> ActOf:
        token = self._tenure.tokens[member]
        return lambda it, seconds: it.make_shown(token, changes, seconds)

    def _act(self, member: str, changes: Changes) -> ActOf:
        token, last = self._tenure.tokens[member], self._tenure.end.index
        return lambda it, seconds: it.show(token, last, changes, seconds)


def _keys_after(after: MessageKey) -> ActOf:
    return lambda member, seconds: member.shown_keys(after, seconds)


def spans_of(keys: Iterable[MessageKey]) -> Iterable[Span]:
    """Give these as runs of neighbours."""
    first = last = None
    for key in sorted(keys):
        if first is not None and last is not None:
            if key == MessageKey(last.queue_number, last.sequence + 1):
                last = key
                continue
            yield Span(first.queue_number, first.sequence, last.sequence)
        first = last = key
    if first is not None and last is not None:
        yield Span(first.queue_number, first.sequence, last.sequence)
