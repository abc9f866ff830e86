"""
Holding the lease in several databases where an append is stored once most of them have it.

More than half of the active members are asked to have an entry, and more than half are needed to
take over: whoever takes it meets one that has it, and makes the others alike. The rest follow at
their own pace, so that one that is slow for a moment holds nobody up; one that lacks much is waited
for. The set itself is changed as ever: only between members that have all that was ever sent.

Invariants:
    What was stored is in more than half of the active members, and each has a prefix of the log.
    Whoever is kept or let in when the set changes has all that was ever sent.
    A sign of life is one in more than half of them that was begun after it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.journal.entry import Entry, bytes_of
from holdfast.leases.contract import Outcome, Place
from holdfast.leases.throughput import LARGE_BYTES
from holdfast.mirrors.mirror_set import MirrorState
from holdfast.model.limits import MiB
from holdfast.raidb.backlog import Backlog
from holdfast.raidb.databases import BoundAct
from holdfast.raidb.lanes import GRACE_SECONDS
from holdfast.raidb.tenure import SLOWEST_BYTES_PER_SECOND, Tenure, may_pass, refusal_of, renew_act

_LEVEL_SHARE = 0.5
"""Of the time there is, when the lease is given back."""
_JUST_SECONDS = 1.0
"""What was sent a moment ago is not told as missing."""
_USUAL_LEASE_SECONDS = 5.0
_BEHIND_SHARE = 0.5
"""Of a lease: when another one is lost, whoever lags is needed, and all wait until it has all."""
_BEHIND_BYTES_MIN = MiB
_ASKING_SHARE = 0.75
"""Of the time there is; the rest is for leaving somebody out."""


class _Call:
    """What has come of one append or renewal so far."""

    __slots__ = ("answered", "failed", "number", "refused")

    def __init__(self, number: int) -> None:
        self.number = number
        self.answered: set[str] = set()
        """Members that gave a sign of life which was begun in this call."""
        self.refused: dict[str, StoreError] = {}
        """Members that do not take what they were sent, and said so."""
        self.failed: dict[str, StoreError] = {}


class MajorityTenure(Tenure):
    """One epoch of one holder, confirmed by most."""

    @property
    def _lease_seconds(self) -> float:
        return self.claimant.lease_seconds or _USUAL_LEASE_SECONDS

    _known: Mapping[str, Backlog] = MappingProxyType({})

    @property
    def backlogs(self) -> Mapping[str, Backlog]:
        """What each active member is yet to store; who becomes one has everything."""
        known, active = self._known, self.active
        if known.keys() != set(active):
            self._known = {it: known.get(it) or Backlog(self.end) for it in active}
        return self._known

    @property
    def whole(self) -> list[str]:
        """The active members that have everything, as any thread may ask; or all of them."""
        known = self._known
        found = [it for it in self.active if it not in known or known[it].is_empty]
        return found or self.active

    def known_end(self, member: str) -> Place | None:
        """Where it ends, if it lacks nothing and nothing is under way there; for any thread."""
        backlog = self._known.get(member)
        is_sure = backlog is not None and backlog.is_empty and backlog.act is None
        return backlog.before if backlog is not None and is_sure else None

    def lacking_bytes(self, member: str) -> int:
        """How much of what was sent an active member is not known to have; asked by any thread."""
        backlog = self._known.get(member)
        if backlog is None or backlog.is_empty:
            return 0
        is_just_sent = not backlog.is_behind and self._clock() < backlog.sent_at + _JUST_SECONDS
        return 0 if is_just_sent else backlog.bytes

    def droppable(self, index: int) -> int:
        """Nothing is dropped anywhere that one lacks, nor what that follows on: it is compared."""
        lasts = [it.first_index - 1 for it in self.backlogs.values() if not it.is_empty]
        return min([index, *lasts])

    def append(self, entries: list[Entry], seconds_max: float) -> Outcome:
        """
        Store these entries in most of the active members.

        Raises:
            AppendRefusedError: All refuse them, or so many that the rest cannot go on alone: what
                that has of them counts for nobody.
            UnreachableError: Not enough are known to have them: the very same again.
        """
        deadline = self._clock() + seconds_max
        self.is_in_flight = True
        # Before anything is offered: whoever is to be kept in a set has all that was.
        if self.stand(deadline) is Outcome.DEPOSED:
            return Outcome.DEPOSED
        for backlog in self.backlogs.values():
            backlog.offer(entries)
        outcome = self._go_on(deadline, entries)
        if outcome is Outcome.STORED:
            self.is_in_flight = False
            self.end = Place(entries[-1].index, entries[-1].chain)
        return outcome

    def renew(self, seconds_max: float) -> Outcome:
        """Give a sign of life in most of the active members, and let the others catch up."""
        deadline = self._clock() + seconds_max
        if self.stand(deadline) is Outcome.DEPOSED:
            return Outcome.DEPOSED
        return self._go_on(deadline, [])

    def release(self, members: Iterable[str], seconds_max: float) -> int:
        """Give these back, once they are alike if that is soon; in how many it is known to be."""
        deadline = self._clock() + seconds_max
        if not self._is_level(self.active):
            self.level(seconds_max * _LEVEL_SHARE)
        return super().release(members, max(deadline - self._clock(), 0.05))

    def change(self, changes: Mapping[str, MirrorState | None]) -> None:
        """
        Make the next set, of members that have all that was ever sent.

        Raises:
            UnreachableError: One lacks something, or too few would be left.
        """
        kept = [it for it in self.active if changes.get(it, "active") == "active"]
        if not self._is_level(kept):
            raise UnreachableError("not all databases that are kept have everything yet")
        super().change(changes)

    def level(self, seconds_max: float) -> bool:
        """Wait until all active members have everything; whether they do."""
        return self._make_level(self._begin_call(), set(self.active), self._clock() + seconds_max)

    def _make_level(self, call: _Call, members: set[str], deadline: float) -> bool:
        """The same of these, as long as none of them fails."""
        while not self._is_level(members):
            may_go_on = members.isdisjoint(call.failed | call.refused)
            if not may_go_on or self._clock() >= deadline:
                return False
            if self._ask(call, deadline, lambda _: False) is Outcome.DEPOSED:
                return False
        return True

    def _is_level(self, members: Iterable[str]) -> bool:
        backlogs = self.backlogs
        return all(backlogs[it].is_empty for it in members)

    def _begin_call(self) -> _Call:
        self.begun_count += 1
        return _Call(self.begun_count)

    def _go_on(self, deadline: float, entries: list[Entry]) -> Outcome:
        """Let all go on storing what they lack, until enough of them are far enough."""
        call = self._begin_call()
        now = self._clock()
        bound = self._bound(deadline, max(map(_lacking, self.backlogs.values()), default=0))
        until = now + min(bound, (deadline - now) * _ASKING_SHARE)
        while not self._is_enough(call, entries):
            if self._clock() >= until or not self._acts(call):
                break
            if self._ask(call, until, partial(self._is_enough, call, entries)) is Outcome.DEPOSED:
                return Outcome.DEPOSED
        overdue = self._overdue(call)
        may_go_on = self.holding.may_go_on_without
        if not may_go_on(overdue):
            overdue = {it: each for it, each in overdue.items() if it not in call.refused}
        if overdue and may_go_on(overdue):
            call.failed |= overdue
            kept = set(self.active) - overdue.keys()
            if kept and self._make_level(call, kept, deadline):
                self.leave_out(overdue, self._clock() - self.timeout_seconds)
                if self.stand(deadline) is Outcome.DEPOSED:
                    return Outcome.DEPOSED
        if not self._is_enough(call, entries):
            raise self._why_not(call, entries)
        self.proved_count = call.number
        return self._settle(deadline)

    def _ask(self, call: _Call, until: float, is_enough: Callable[[set[str]], bool]) -> Outcome:
        """Ask all that are not known to fail in this call, until it is enough."""
        acts = self._acts(call)

        def is_to_end(found: Mapping[str, Any]) -> bool:
            if any(it is Outcome.DEPOSED for it in found.values()):
                return True
            stored = {it for it, each in found.items() if each is Outcome.STORED}
            # One that has more to do is told of it at once, whoever else is still at work.
            return any(self.backlogs[it].is_behind for it in stored) or is_enough(stored)

        found = self._databases.run_bound(acts, until - self._clock(), is_enough=is_to_end)
        if self.is_deposed(found, until):
            return Outcome.DEPOSED
        for it, each in found.items():
            self._heard(call, it, each)
        return Outcome.STORED

    def _acts(self, call: _Call) -> dict[str, BoundAct]:
        """What is to be asked of whom: what it lacks, or a sign of life."""
        acts = {}
        for it, backlog in self.backlogs.items():
            if it in call.failed:
                continue
            if backlog.act is None:
                batch = [] if it in call.refused else backlog.batch()
                if not batch and it in call.answered:
                    continue
                before = backlog.before
                act = (
                    self.append_act(it, batch, before)
                    if batch
                    else renew_act(self.tokens[it], self.known_end(it))
                )
                backlog.begin(self._databases.bind(it, act), call.number, self._clock())
                backlog.is_storing = bool(batch)
            acts[it] = backlog.act
        return acts

    def _heard(self, call: _Call, member: str, outcome: Any) -> None:
        backlog = self.backlogs[member]
        backlog.act = None
        if isinstance(outcome, StoreError):
            self._failing.setdefault(member, backlog.sent_at)
            is_refusal = isinstance(outcome, AppendRefusedError)
            (call.refused if is_refusal else call.failed)[member] = outcome
            return
        if backlog.is_storing:
            backlog.stored()
        if member not in call.refused:
            self._have_answered([member])
        if backlog.call == call.number:
            # One that was begun earlier may have been done before this call was begun.
            call.answered.add(member)

    def _is_enough(self, call: _Call, entries: list[Entry], stored: Iterable[str] = ()) -> bool:
        """
        Whether most have given a sign of life and have the entries, and nobody lacks too much.

        Args:
            stored: Those that have just stored what they were sent, or given a sign of life.
        """
        just, backlogs = set(stored), self.backlogs
        answered = {
            it
            for it, backlog in backlogs.items()
            if it in call.answered or (it in just and backlog.call == call.number)
        }
        if 2 * len(answered) <= len(backlogs):
            return False
        if not entries:
            return True
        lacking = [
            name
            for name, it in backlogs.items()
            if not (it.is_empty or (name in just and it.is_storing and not it.is_behind))
        ]
        return 2 * len(lacking) < len(backlogs) and not any(map(self._is_far_behind, lacking))

    def _is_far_behind(self, member: str) -> bool:
        """Whether one lacks more than it may, or than it makes up for in half a lease."""
        in_time = self.rates.stored_in(member, _BEHIND_SHARE * self._lease_seconds)
        bytes_max = self._settings.behind_bytes_max
        if in_time:
            bytes_max = min(bytes_max, max(in_time, _BEHIND_BYTES_MIN))
        return self.backlogs[member].bytes > bytes_max

    def _overdue(self, call: _Call) -> dict[str, StoreError]:
        """Those that have failed, been silent or lacked too much for long enough to be left out."""
        now, overdue = self._clock(), {}
        for it, backlog in self.backlogs.items():
            error = call.failed.get(it) or call.refused.get(it)
            is_silent = backlog.act is not None and now > backlog.sent_at + self._silence_seconds(
                _lacking(backlog)
            )
            is_far = backlog.bytes > self._settings.behind_bytes_max
            backlog.far_since = (backlog.far_since or now) if is_far else 0.0
            if error is not None:
                is_over = now - self._failing.get(it, now) >= self.timeout_seconds
                if is_over or not may_pass(error):
                    overdue[it] = error
            elif is_silent:
                overdue[it] = UnreachableError("it does not answer")
            elif is_far and now - backlog.far_since >= self.timeout_seconds:
                overdue[it] = UnreachableError("it is too slow: it lacks too much")
            if it in overdue:
                self._failing.setdefault(it, now - self.timeout_seconds)
        return overdue

    def _silence_seconds(self, count: int) -> float:
        """After so long one that was sent so many bytes does not answer."""
        slow = count / SLOWEST_BYTES_PER_SECOND if count >= LARGE_BYTES else 0.0
        return max(self.timeout_seconds, slow) + 2 * GRACE_SECONDS

    def _why_not(self, call: _Call, entries: list[Entry]) -> StoreError:
        """What is to be told where too few are far enough."""
        backlogs = self.backlogs
        wrong = call.failed | call.refused
        if entries and not self.holding.may_go_on_without(call.refused):
            is_alike = all(it.first_index == entries[0].index for it in backlogs.values())
            if is_alike and len(call.refused) == len(backlogs):
                for backlog in backlogs.values():
                    backlog.withdraw(entries)
                self.is_in_flight = False
            return refusal_of(call.refused.values())
        if len(wrong) < len(backlogs):
            if wrong:
                return self._unreachable(wrong)
            return UnreachableError("too few of the databases have answered in time")
        if not any(map(may_pass, wrong.values())):
            return StoreError("; ".join(map(str, wrong.values())))
        return self._unreachable(wrong)


def _lacking(backlog: Backlog) -> int:
    """How many bytes it was sent of which nothing is known."""
    return bytes_of(backlog.sent)
