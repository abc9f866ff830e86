"""
What operators and files were made to say of destinations in a simulated world, and what must hold.

Every word is its own number, so that what a node has tells which word it is of. Of a pattern the
last confirmed word must hold, or one that was said after it and may have been lost: never an older
one (Q64). Of files the one of a revision must be there whole, and all nodes must have the same.

Invariants:
    What was confirmed before a copy was forced to go on may be gone: no promise covers it.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import LevelNotReachedError, PolicyError
from holdfast.model.destination import Kind
from holdfast.model.policies import FilePolicies
from holdfast.model.wildcards import parse_pattern
from trials.simulation.history import ViolationError

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

SAID = "policy said at run time"
FILED = "policy file with a higher revision"
STAYED = "policy file of before on a leader"

_PATTERNS = ("queue://policy.a", "queue://policy.b", "queue://policy.*")
_FILE_PATTERN = "queue://file.>"
_FROM_FILES = 10_000
"""Numbers above this are said in files."""


@dataclass(slots=True)
class _Words:
    """What was said by one pattern, in the order in which it was."""

    values: list[str] = field(default_factory=lambda: [""])
    confirmed: int = 0
    """The last of them that was confirmed."""

    @property
    def possible(self) -> list[str]:
        """What may hold."""
        return self.values[self.confirmed :]


class _Listener:
    """An operator who waits for the answer to one change."""

    def __init__(self, books: PolicyBooks, pattern: str, place: int) -> None:
        self._books = books
        self._pattern = pattern
        self._place = place
        self._said_at = books.world.timeline.now

    def reply(self, _receipt: bytes) -> None:
        """It is confirmed."""
        self._books.confirm(self._pattern, self._place, self._said_at)


class PolicyBooks:
    """Makes operators and files say something, and knows what must come of it."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self._chance = random.Random(f"{world.seed}:policies")  # noqa: S311 - to be repeated
        self._words = {pattern: _Words() for pattern in _PATTERNS}
        self._files: dict[int, str] = {}
        self._newest = 0
        """The highest revision of a file that any node has applied."""
        self._count = 0
        self._began_at = 0.0

    def say(self) -> bool:
        """Let an operator say or take back something; whether there was a leader to be told."""
        leader = self.world.leader()
        if leader is None or leader.conductor.is_within_entry:
            return False
        self._forget_the_lost()
        changes = leader.broker.policy_changes
        pattern = self._chance.choice(_PATTERNS)
        words = self._words[pattern]
        listener = _Listener(self, pattern, len(words.values))
        parsed = parse_pattern(pattern)
        try:
            if self._chance.random() < 0.3:
                changes.take_back(parsed, (), listener, b"")
                words.values.append("")
            else:
                self._count += 1
                said = changes.say(parsed, {"queuePrefetch": self._count}, listener, b"")
                words.values.append(json.dumps(said, separators=(",", ":")))
        except (LevelNotReachedError, PolicyError):
            return False
        leader.conductor.schedule()
        return True

    def confirm(self, pattern: str, place: int, said_at: float) -> None:
        """Note that what was said is stored."""
        self._forget_the_lost()
        if said_at > self._began_at:
            words = self._words[pattern]
            words.confirmed = max(words.confirmed, place)
            self.world.count(SAID)

    def _forget_the_lost(self) -> None:
        began_at = self.world.checkers.generations.began_at
        if began_at > self._began_at:
            self._began_at = began_at
            self._newest = 0
            for words in self._words.values():
                words.confirmed = 0

    def file(self) -> bool:
        """Give one node a file of the next revision, which it reads at its next start."""
        node = self._chance.choice(self.world.nodes)
        if node.is_paused:
            return False  # It would go on with the file of its start.
        revision = len(self._files) + 1
        number = _FROM_FILES + revision
        self._files[revision] = f'{{"queuePrefetch":{number}}}'
        node.file_policies = FilePolicies(revision, {_FILE_PATTERN: {"queuePrefetch": number}})
        if node.is_running:
            node.stop(power=False)
            self.world.timeline.after(0.05, self._start, node)
        self.world.count(FILED)
        return True

    @staticmethod
    def _start(node: SimulatedNode) -> None:
        if not node.is_alive:
            node.start()

    def look(self) -> None:
        """Look whether a leader has a file that does not count, and at all that files say."""
        self._forget_the_lost()
        for node in self._judged():
            self._check_file(node)
            revision = node.broker.state.policies.revision
            self._newest = max(self._newest, revision)
            if node.is_listening and 0 < node.file_policies.revision < revision:
                self.world.count(STAYED)

    def _judged(self) -> list[SimulatedNode]:
        checkers = self.world.checkers
        return [
            node
            for node in self.world.nodes
            if node.is_alive
            and node.is_built
            and not node.driver.is_witness
            and node.name not in checkers.distrusted
            and not checkers.generations.is_past(node)
            and not node.conductor.is_within_entry
        ]

    def _check_file(self, node: SimulatedNode) -> None:
        policies = node.broker.state.policies
        found = {
            key.pattern: record.values
            for key, record in policies.by_key.items()
            if key.is_of_file and key.pattern
        }
        expected = {_FILE_PATTERN: self._files[policies.revision]} if policies.revision else {}
        if found != expected:
            raise ViolationError(
                "Q64", f"{node.name} has {found} of revision {policies.revision}, not {expected}"
            )

    def check_end(self) -> None:
        """All nodes have the same policies, those that must hold, and the leader obeys them."""
        self._forget_the_lost()
        seen: dict[str, dict[tuple[bool, str], str]] = {}
        for node in self._judged():
            if node.driver.taken_index < self.world.checkers.commit_index:
                continue  # No member, or none any more: L4 is about those that are.
            self._check_file(node)
            revision = node.broker.state.policies.revision
            if revision < self._newest:
                raise ViolationError(
                    "Q64", f"{node.name} has a file of revision {revision}, not {self._newest}"
                )
            by_key = node.broker.state.policies.by_key
            seen[node.name] = {
                (key.is_of_file, key.pattern): record.values for key, record in by_key.items()
            }
            for pattern, words in self._words.items():
                found = seen[node.name].get((False, pattern), "")
                if found not in words.possible:
                    raise ViolationError(
                        "Q64", f"{node.name} has {found!r} for {pattern}, of {words.possible}"
                    )
        self._check_alike(seen)
        leader = self.world.leader()
        if leader is not None and leader in self._judged():
            self._check_obeyed(leader)

    def _check_alike(self, seen: dict[str, dict[tuple[bool, str], str]]) -> None:
        names = list(seen)
        for name in names[1:]:
            if seen[name] != seen[names[0]]:
                raise ViolationError(
                    "Q64", f"{name} has {seen[name]}, {names[0]} has {seen[names[0]]}"
                )

    def _check_obeyed(self, leader: SimulatedNode) -> None:
        """What is looked up for a name is what the log says by the most exact pattern."""
        policies = leader.broker.state.policies
        if leader.file_policies.revision > policies.revision:
            raise ViolationError("Q64", f"{leader.name} leads and has not brought its file in")
        said = {key.pattern: record for key, record in policies.by_key.items() if key.pattern}
        for name, patterns in (
            ("policy.a", ("queue://policy.a", "queue://policy.*")),
            ("policy.b", ("queue://policy.b", "queue://policy.*")),
            ("file.c", (_FILE_PATTERN,)),
        ):
            record = next((said[it] for it in patterns if it in said), None)
            found = leader.broker.policies.explain(Kind.QUEUE, name)["queuePrefetch"]
            expected = (
                leader.broker.settings.prefetch_default
                if record is None
                else json.loads(record.values)["queuePrefetch"]
            )
            if found.value != expected:
                raise ViolationError("Q64", f"{leader.name} obeys {found} for {name}")
