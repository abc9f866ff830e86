"""
Who was made a user and what was granted in a simulated world, and what must hold of that.

Every word on a user is its own number, so that what a node has tells which word it is of. Of a user
and of a grant the last confirmed word must hold, or one that was said after it and may have been
lost: never an older one. All nodes come to the same verdicts, whether they followed, led, or read
the log again (S9). Who did what was confirmed stands in the committed log, with what he did (S15 of
what is secured: see `audits`).

Invariants:
    What was confirmed before a copy was forced to go on may be gone: no promise covers it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from holdfast.broker.lasting.access import (
    AccessKey,
    GrantKey,
    KeptRecord,
    LastingAccess,
    UserKey,
    is_kept,
)
from holdfast.broker.serving.access_book import grant_of
from holdfast.errors import AccessError, LevelNotReachedError
from holdfast.model.access_records import AuditRecord, GrantRecord
from holdfast.model.destination import Destination, Kind
from holdfast.security.grants import Access, Grants, Right, bits_of, read_grant
from holdfast.security.principal import Principal
from holdfast.security.user_values import read_values
from holdfast.security.verdicts import judge
from trials.simulation.audits import NAME as AUDIT
from trials.simulation.history import ViolationError

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

CHANGED = "user or grant changed"
REMOVED = "user removed"

CLIENTS = "clients"
"""The role of all clients in simulated worlds, who show nothing."""

_EVERYTHING = ("queue://>", "topic://>")
_USERS = ("ann", "ben")
_ROLES = ("clerk", "guest")
_PATTERNS = ("queue://orders", "queue://orders.*", "topic://prices.>")
_WRITTEN = (
    Destination(Kind.QUEUE, "orders"),
    Destination(Kind.QUEUE, "orders.new"),
    Destination(Kind.QUEUE, "orders.*"),
    Destination(Kind.TOPIC, "prices.>"),
)
_ABSENT = "nothing"


@dataclass(slots=True)
class _Words:
    """What was said of one user or grant, in the order in which it was."""

    said: list[str] = field(default_factory=lambda: [_ABSENT])
    confirmed: int = 0
    """The last of them that was confirmed."""

    @property
    def possible(self) -> list[str]:
        """What may hold."""
        return self.said[self.confirmed :]


class _Listener:
    """An operator who waits for the answer to one change."""

    def __init__(self, books: AccessBooks, key: AccessKey, place: int, number: int) -> None:
        self._books = books
        self._key = key
        self._place = place
        self._number = number
        self._said_at = books.world.timeline.now

    def reply(self, _receipt: bytes) -> None:
        """It is confirmed."""
        self._books.confirm(self._key, self._place, self._number, self._said_at)


class _Nobody:
    """Waits for no answer."""

    def reply(self, _receipt: bytes) -> None:
        """It is confirmed, to nobody."""


_NOBODY = _Nobody()


class AccessBooks:
    """Makes operators change users and grants, and knows what must come of it."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self._chance = random.Random(f"{world.seed}:access")  # noqa: S311 - to be repeated
        keys: list[AccessKey] = [UserKey(name) for name in _USERS]
        keys += [GrantKey(role, pattern) for role in _ROLES for pattern in _PATTERNS]
        self._words = {key: _Words() for key in keys}
        self._count = 0
        self._done: dict[int, tuple[AccessKey, str]] = {}
        """By number: what was changed, and to what."""
        self._confirmed: set[int] = set()
        """Of these what somebody was told is stored."""
        self._began_at = 0.0

    def change(self) -> None:
        """Let an operator change a few things at once, if there is a leader to be told."""
        leader = self.world.leader()
        if leader is None or leader.conductor.is_within_entry:
            return
        self._forget_the_lost()
        if not self._lets_clients_go_on(leader):
            for _ in range(self._chance.randint(1, 4)):
                self._change(leader)
        leader.conductor.schedule()

    def _lets_clients_go_on(self, leader: SimulatedNode) -> bool:
        """Grant the world's clients what they do, if that is not so yet, before there is a user."""
        granted = leader.broker.state.access.grants
        missing = [it for it in _EVERYTHING if GrantKey(CLIENTS, it) not in granted]
        for pattern in missing:
            grant = read_grant(CLIENTS, "read,write,admin", pattern)
            try:
                leader.broker.access_changes.grant(grant, self._audit("open"), _NOBODY, b"")
            except LevelNotReachedError:
                break
        return bool(missing)

    def _change(self, leader: SimulatedNode) -> None:
        kind = UserKey if self._chance.random() < 0.5 else GrantKey
        key = self._chance.choice([each for each in self._words if type(each) is kind])
        words = self._words[key]
        self._count += 1
        listener = _Listener(self, key, len(words.said), self._count)
        change = self._change_user if isinstance(key, UserKey) else self._change_grant
        try:
            word = change(leader, key, listener)  # type: ignore[arg-type]
        except (LevelNotReachedError, AccessError):
            return
        words.said.append(word)
        self._done[self._count] = key, word

    def _audit(self, what: str) -> AuditRecord:
        now_ms = int(self.world.timeline.now * 1000)
        return AuditRecord(now_ms, "operator", "here", what, str(self._count), "done")

    def _change_user(self, leader: SimulatedNode, key: UserKey, listener: _Listener) -> str:
        changes = leader.broker.access_changes
        if changes.user(key.name) is not None and self._chance.random() < 0.5:
            changes.remove_user(key.name, self._audit("remove"), listener, b"")
            self.world.count(REMOVED)
            return _ABSENT
        role = f"role-{self._count}"
        changes.put_user(key.name, {"roles": [role]}, self._audit("put"), listener, b"")
        return role

    def _change_grant(self, leader: SimulatedNode, key: GrantKey, listener: _Listener) -> str:
        changes = leader.broker.access_changes
        grant = read_grant(key.role, self._chance.choice([*Right]).value, key.pattern)
        said: Callable[..., frozenset[Right]] = (
            changes.revoke if self._chance.random() < 0.4 else changes.grant
        )
        rights = said(grant, self._audit("grant"), listener, b"")
        return str(bits_of(rights)) if rights else _ABSENT

    def confirm(self, key: AccessKey, place: int, number: int, said_at: float) -> None:
        """Note that what was said is stored."""
        self._forget_the_lost()
        if said_at > self._began_at:
            words = self._words[key]
            self._confirmed.add(number)
            words.confirmed = max(words.confirmed, place)
            self.world.count(CHANGED)

    def _forget_the_lost(self) -> None:
        began_at = self.world.checkers.generations.began_at
        if began_at > self._began_at:
            self._began_at = began_at
            self._confirmed.clear()
            for words in self._words.values():
                words.confirmed = 0

    def check_end(self) -> None:
        """All nodes have what must hold, and judge alike."""
        self._forget_the_lost()
        checkers = self.world.checkers
        seen: dict[str, list[bool]] = {}
        for node in self.world.nodes:
            if (
                not node.is_alive
                or not node.is_built
                or node.driver.is_witness
                or node.name in checkers.distrusted
                or checkers.generations.is_past(node)
                or node.conductor.is_within_entry
                or node.driver.taken_index < checkers.commit_index
            ):
                continue
            access = node.broker.state.access
            for key, words in self._words.items():
                if (found := _told(access, key)) not in words.possible:
                    raise ViolationError(
                        "S9", f"{node.name} has {found} for {key}, of {words.possible}"
                    )
            anew = Grants(it for it in map(grant_of, access.grants.values()) if it is not None)
            seen[node.name] = _verdicts(anew.of)
            if _verdicts(partial(_followed, node)) != seen[node.name]:
                raise ViolationError("S9", f"{node.name} does not judge as its grants say")
        for name, verdicts in seen.items():
            first = next(iter(seen))
            if verdicts != seen[first]:
                raise ViolationError("S9", f"{name} does not judge as {first} does")
        self._check_audits()

    def _check_audits(self) -> None:
        """What was confirmed is in the log with who did it, and he did no more."""
        found = self.world.checkers.log.audits.by_object
        for number in sorted(self._confirmed):
            if str(number) not in found:
                raise ViolationError(AUDIT, f"change {number} was confirmed, not who made it")
        for text, change in found.items():
            done = self._done.get(int(text))
            if done is not None and done != (change.key, _word_of(change.record)):
                raise ViolationError(AUDIT, f"change {text} was {done}, not {change}")


def _told(access: LastingAccess, key: AccessKey) -> str:
    record = access.get(key)
    return _ABSENT if record is None else _word_of(record)


def _word_of(record: KeptRecord) -> str:
    if not is_kept(record):
        return _ABSENT
    if isinstance(record, GrantRecord):
        return str(record.rights)
    return "".join(read_values(record.values).roles)


def _followed(node: SimulatedNode, roles: frozenset[str]) -> Access:
    """Give what these roles may by what the node has worked out as each change was applied."""
    return node.broker.access_book.access(Principal("", roles))


def _verdicts(access_of: Callable[[frozenset[str]], Access]) -> list[bool]:
    return [
        judge(access_of(frozenset(roles)), right, written).is_allowed
        for roles in (_ROLES[:1], _ROLES[1:], _ROLES)
        for right in Right
        for written in _WRITTEN
    ]
