"""
One driver and what surrounds it: what the tests of the driver and of its parts stand on.

A journal on a simulated disk, a writer that waits until it is told to write, and links that only
note what was sent.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.replication.driver import Driver
from holdfast.replication.membership import Member, Membership
from holdfast.replication.messages import (
    AppendResponse,
    Hello,
    PreVoteResponse,
    VoteResponse,
)
from holdfast.replication.settings import ReplicationSettings
from trials.simulation.simulated_disk import SimulatedDisk
from trials.simulation.simulated_group import SeededRandomness

NAMED = Membership(tuple(Member(name, f"{name}:1") for name in "abc"))


class Desk:
    """One driver and what surrounds it."""

    def __init__(
        self,
        bootstrap: Membership = NAMED,
        disk: SimulatedDisk | None = None,
        settings: JournalSettings | None = None,
    ) -> None:
        self.disk = disk or SimulatedDisk(1)
        self.now = 10.0
        self.sent = []
        self.addresses = {}
        self.dropped = []
        self.fenced = []
        self.jobs = []
        self.journal = Journal.open(
            Path("/data"),
            self.disk,
            settings or JournalSettings(segment_bytes=16384),
            resolve_unknown_tail=not bootstrap.members,
        )
        self.results = []
        self.writer = JournalWriter(self.journal, self.results.append)
        self.driver = Driver(
            settings=ReplicationSettings(),
            name="a",
            journal=self.journal,
            ballot_file=self.journal.ballot_file,
            writer=self,
            links=self,
            randomness=SeededRandomness(1),
            bootstrap=bootstrap,
            on_fenced=self.fenced.append,
        )
        self.driver.start(self.now)
        self.turn()

    def submit(self, job):
        self.jobs.append(job)

    def send(self, peer, messages):
        self.sent.extend((peer, message) for message in messages)

    def drop(self, peer):
        self.dropped.append(peer)

    def set_peers(self, addresses):
        self.addresses = addresses

    def turn(self, after=0.0):
        self.now += after
        self.driver.turn(self.now)

    def store(self):
        """Let the disk do everything that was asked of it, then have a turn."""
        while self.jobs:
            jobs, self.jobs = self.jobs, []
            self.writer.turn(jobs)
            for result in self.results:
                self.driver.stored(result)
            self.results.clear()
            self.turn()

    def take_sent(self, kind=object):
        sent, self.sent = self.sent, []
        return [message for _, message in sent if isinstance(message, kind)]

    def link(self, name, **fields):
        hello = replace(Hello(name, name.encode().hex().ljust(32, "0"), "", 0, "", "1"), **fields)
        self.driver.link_up(name, hello)
        return hello

    def form(self):
        for name in "bc":
            self.link(name)
        self.turn()
        self.store()
        for name in "bc":
            self.link(name, cluster_id=self.driver.status().cluster_id)
        self.take_sent()
        return self

    def lead(self):
        self.form()
        self.turn(after=3)
        term = self.driver.term + 1
        self.driver.receive("b", PreVoteResponse(term, granted=True))
        self.turn()
        self.store()
        self.driver.receive("b", VoteResponse(term, granted=True))
        self.turn()
        self.store()
        for name in "bc":
            self.answer(name)
        self.turn()
        self.driver.take_committed(1 << 20)
        self.take_sent()
        return self

    def answer(self, name):
        journal = self.journal
        self.driver.receive(
            name,
            AppendResponse(self.driver.term, journal.last_index, journal.last_chain, self.now),
        )


def alone():
    desk = Desk(Membership(()))
    desk.store()
    return desk
