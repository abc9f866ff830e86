"""
What the tests of replication share: one member's state on a simulated disk, and short hands.

`member` builds the state of one member of a group of three (or another membership), with a log
whose entries have the given terms, all durable, and everybody linked under the right identity.
`linked_sides` and `desk` lie beside this file and are no package: their folder is put on the path.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.journal.entry import Entry, seal_entry
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.replication.formation import founding_entry
from holdfast.replication.leader import become_leader, on_append_response, replicate
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.membership import Member, Membership, founded
from holdfast.replication.messages import NO_CHAIN, AppendResponse, Hello, Message
from holdfast.replication.settings import ReplicationSettings
from holdfast.replication.state import Role, State
from trials.simulation.simulated_disk import SimulatedDisk
from trials.simulation.simulated_group import SeededRandomness

sys.path.insert(0, str(Path(__file__).parent))


def node_id(name: str) -> str:
    return name.encode().hex().ljust(32, "0")


def group_of(*words: str) -> Membership:
    """`a`, `w:witness`, `d:learner` and the like, each with its identity."""
    members = []
    for word in words:
        name, _, kind = word.partition(":")
        members.append(Member(name, f"{name}:1", kind or "voter", "", node_id(name)))  # type: ignore[arg-type]
    return founded(tuple(members))


def next_entry(journal: Any, term: int, body: bytes = b"x", kind: int = 0) -> Entry:
    """The entry that would follow the journal's last."""
    return seal_entry(
        index=journal.last_index + 1,
        term=term,
        kind=kind,
        timestamp=journal.last_timestamp + 1,
        first_record=journal.next_record_number,
        record_count=1 if kind == 0 else 0,
        parts=[body],
        previous_chain=journal.last_chain,
    )


class Bench:
    """A state, the disk under it, and what it wants sent."""

    def __init__(self, membership: Membership, name: str, settings: ReplicationSettings) -> None:
        self.disk = SimulatedDisk(1)
        self.journal = Journal.open(Path("/data"), self.disk, JournalSettings(segment_bytes=16384))
        self.writer = JournalWriter(self.journal, lambda result: None)
        self.state = State(
            name, node_id(name), settings, ReplicatedLog(self.journal, []), SeededRandomness(1)
        )
        self.state.now = 100.0
        entry = founding_entry(membership)
        self.state.log.append([entry])
        self.store()
        self.state.adopt(membership, 1)
        self.state.term = 1
        for member in membership.members:
            if member.name != name:
                self.link(member.name)

    def link(self, name: str, **fields: Any) -> Hello:
        hello = Hello(name, node_id(name), self.state.cluster_id, 0, f"{name}:1", "first")
        self.state.connected[name] = replace(hello, **fields)
        return self.state.connected[name]

    def append(self, terms: Iterable[int], *, stored: bool = True) -> None:
        for term in terms:
            self.state.log.append([next_entry(self.journal, term)])
        if stored:
            self.store()

    def store(self) -> None:
        self.writer.turn(self.state.log.take_jobs())

    def reopen(self) -> None:
        """What is in memory is lost; recovery reads the disk."""
        self.disk.locks.clear()
        self.journal = Journal.open(Path("/data"), self.disk, JournalSettings(segment_bytes=16384))
        self.writer = JournalWriter(self.journal, lambda result: None)
        self.state.log = ReplicatedLog(self.journal, [it.index for it in self.journal.damage])

    def sent(self) -> list[tuple[str, Message]]:
        """What was sent since the last call."""
        outbox = list(self.state.outbox)
        self.state.outbox.clear()
        return outbox

    def terms(self) -> list[int]:
        journal = self.journal
        return [journal.term_at(i) for i in range(journal.first_index, journal.last_index + 1)]


@pytest.fixture
def member() -> Callable[..., Bench]:
    def build(*words: str, name: str = "a", terms: Iterable[int] = (), **settings: Any) -> Bench:
        made = Bench(group_of(*(words or "abc")), name, ReplicationSettings(**settings))
        made.append(terms)
        made.state.term = max(1, made.journal.last_term)
        return made

    return build


@pytest.fixture
def entry_after() -> Callable[..., Entry]:
    return next_entry


@pytest.fixture
def group() -> Callable[..., Membership]:
    return group_of


@pytest.fixture
def leading(member: Callable[..., Bench]) -> Callable[..., Bench]:
    """A member that leads term 2 and has committed its NOOP (entry 2)."""

    def build(*words: str, **options: Any) -> Bench:
        bench = member(*words, **options)
        state = bench.state
        state.enter_term(state.term + 1)
        state.role = Role.CANDIDATE
        become_leader(state)
        bench.store()
        replicate(state)
        for peer in state.peers:
            answer(bench, peer, bench.journal.last_index)
        bench.sent()
        return bench

    return build


def answer(bench: Bench, peer: str, match: int, **fields: Any) -> None:
    """A peer says how far it is, in answer to a request sent just now."""
    state = bench.state
    chain = state.log.chain_at(match) if match <= state.log.last_index else NO_CHAIN
    message = AppendResponse(state.term, match, chain, fields.pop("sent_at", state.now))
    on_append_response(state, peer, replace(message, **fields))


@pytest.fixture
def answered() -> Callable[..., None]:
    return answer
