"""
What a leader tells in its log of the others: who dies, returns, falls behind, and the majority.

Each is told once when it begins and once when it ends. A node that has just come to lead gives the
others a moment to be there; one that stopped leading tells on until somebody else leads, as the
loss of the majority is what ended its lead. Pure: times are arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import structlog

from holdfast.replication.quorum import majority
from holdfast.replication.status import MemberView

log = structlog.get_logger("holdfast.server")

_LOOK_SECONDS = 0.5
_GRACE_SECONDS = 3.0
"""Whoever was never there since this node leads is told of after this time."""
_BEHIND_SECONDS = 10.0
_BEHIND_ENTRIES = 10_000
"""Where the time is not at hand."""
_LEVEL_SECONDS = 1.0
"""A member that was behind has caught up below this."""
_VOTING = frozenset({"voter", "witness"})


class Group(Protocol):
    """Who is watched: the driver."""

    @property
    def leader(self) -> str | None: ...
    def members_at_hand(self) -> Sequence[MemberView]: ...


class MemberWatch:
    """Looks at the members while this node leads."""

    def __init__(self, name: str, group: Group) -> None:
        self._name = name
        self._group = group
        self._seen_at = float("-inf")
        self._since = float("-inf")
        self._is_watching = False
        self._met: set[str] = set()
        self._dead: dict[str, float] = {}
        """And since when."""
        self._behind: set[str] = set()
        self._has_majority = True

    def step(self, now: float) -> None:
        """Look, if it is time to."""
        if now - self._seen_at >= _LOOK_SECONDS:
            self._seen_at = now
            self.look(self._group.leader, self._group.members_at_hand(), now)

    def look(self, leader: str | None, members: Sequence[MemberView], now: float) -> None:
        """See what is new, and tell it."""
        is_leading = leader == self._name
        if not is_leading and not (self._is_watching and leader is None):
            self._is_watching = False
            return
        if not self._is_watching:
            self._begin(now)
        others = [it for it in members if it.name != self._name and it.kind != "fenced"]
        for name in self._dead.keys() - {it.name for it in others}:
            del self._dead[name]
        for member in others:
            self._look_at(member, now)
            if is_leading:
                self._measure(member)
        self._count(members)

    def _begin(self, now: float) -> None:
        self._is_watching, self._since = True, now
        self._met, self._dead, self._behind = set(), {}, set()
        self._has_majority = True

    def _look_at(self, member: MemberView, now: float) -> None:
        name = member.name
        if member.connected:
            self._met.add(name)
            since = self._dead.pop(name, None)
            if since is not None:
                log.info("a member is back", member=name, away_seconds=round(now - since, 1))
            return
        is_expected = name not in self._met and now < self._since + _GRACE_SECONDS
        if name in self._dead or is_expected:
            return
        seen = member.last_seen_seconds
        self._dead[name] = now - (seen or 0.0)
        self._behind.discard(name)
        log.warning(
            "a member is dead",
            member=name,
            kind=member.kind,
            address=member.address,
            last_seen="not since this node started" if seen is None else f"{seen:.1f} s ago",
        )

    def _measure(self, member: MemberView) -> None:
        name, seconds, entries = member.name, member.lag_seconds, member.lag_entries
        if not member.connected or entries is None:
            return
        if seconds is None:
            seconds = _BEHIND_SECONDS if entries >= _BEHIND_ENTRIES else _LEVEL_SECONDS
        if seconds >= _BEHIND_SECONDS and name not in self._behind:
            self._behind.add(name)
            log.warning(
                "a member falls behind",
                member=name,
                entries=entries,
                seconds="many" if member.lag_seconds is None else round(seconds, 1),
            )
        elif seconds < _LEVEL_SECONDS and name in self._behind:
            self._behind.discard(name)
            log.info("a member has caught up", member=name)

    def _count(self, members: Sequence[MemberView]) -> None:
        voters = [it for it in members if it.kind in _VOTING]
        if not voters:
            return  # Brokers over one store: it alone says who may write.
        dead = [it.name for it in voters if it.name in self._dead]
        there = len(voters) - len(dead)
        has_majority = there >= majority(len(voters))
        if has_majority == self._has_majority:
            return
        self._has_majority = has_majority
        share = f"{there} of {len(voters)} voters"
        if has_majority:
            log.info("the majority is back", there=share)
        else:
            log.error(
                "the majority is lost: nothing is confirmed until it is back",
                there=share,
                dead=", ".join(dead),
            )
