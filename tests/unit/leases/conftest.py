"""
What the tests of leases share: one broker over a modelled medium, its time in the test's hands.

`broker` makes one; several over one medium by giving them the same. Orders wait until the test
performs them, so that it can say what happens in between.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.journal.jobs import WriteJob
from holdfast.journal.settings import JournalSettings
from holdfast.leases.contract import Claimant
from holdfast.leases.driver import LeasedDriver
from holdfast.leases.elector import Line, Reading
from holdfast.leases.orders import Order, Report
from holdfast.leases.seen import SeenFile
from holdfast.leases.settings import LeaseSettings
from holdfast.leases.worker import LogWorker
from trials.leased.model_log import ModelLog
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import DirectPassage, EvenChance
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

DIRECTORY = Path("/node")


class Broker:
    """One broker: the real driver, worker and journal, over a modelled medium."""

    def __init__(
        self,
        medium: ModelMedium,
        name: str = "a",
        *,
        log_type: type[ModelLog] = ModelLog,
        disk: SimulatedDisk | None = None,
        settings: LeaseSettings | None = None,
        journal_settings: JournalSettings | None = None,
        has_elector: bool = False,
    ) -> None:
        self.medium = medium
        self.passage = DirectPassage()
        self.local = LocalJournal(
            disk or SimulatedDisk(1), directory=DIRECTORY, settings=journal_settings
        )
        self.journal = self.local.journal
        self.log = log_type(medium, self.passage)
        self.worker = LogWorker(
            self.log, SeenFile(DIRECTORY, self.local.disk), self.passage.clock, name=name
        )
        self.orders: list[Order] = []
        self.jobs: list[WriteJob] = []
        self.is_cache_slow = False
        """What goes to the cache waits in `jobs`."""
        claimant = Claimant(holder=name * 32, name=name, admin=f"{name}:1", stomp=f"{name}:2")
        self.driver = LeasedDriver(
            settings=settings or LeaseSettings(),
            claimant=claimant,
            log=self.log,
            journal=self.journal,
            writer=_Cache(self),
            worker=self,
            clock=self.passage.clock,
            randomness=EvenChance(),
            known_level=7,
            has_elector=has_elector,
        )
        self.state: Any = self.driver._state

    def submit(self, order: Order) -> None:
        """Take an order, as the worker's thread does."""
        self.orders.append(order)

    def write(self) -> None:
        """Let the cache's writer do what waits."""
        while self.jobs:
            self.local.perform(self.jobs.pop(0))

    def turn(self) -> None:
        """Let the driver turn."""
        self.driver.turn(0.0)

    def perform(self) -> Report:
        """Perform the order that waits, and let the driver take up what came of it."""
        report = self.worker.perform(self.orders.pop(0))
        self.driver.stored(report)
        self.turn()
        return report

    def hear(self, *holders: str, sure: float = 3.0, trouble: str = "") -> None:
        """Let its elector say who stands in the line, or nothing but its trouble."""
        now = self.passage.now
        line = None if trouble else Line(holders=holders, sure_seconds=sure)
        elections = self.driver.elections
        assert elections is not None
        self.driver.elector_said(
            Reading(
                began=now, ended=now, is_willing=elections.is_willing, line=line, trouble=trouble
            )
        )
        self.turn()

    def step(self) -> None:
        """Perform an order, or else let time pass until something is due."""
        if self.orders:
            self.perform()
            return
        due = max(self.driver.rests_until, self.passage.now + 1e-6)
        self.passage.wait(due - self.passage.now)
        self.turn()

    def until(self, condition: Callable[[], Any], steps: int = 500) -> None:
        """Go on until this is so."""
        self.turn()
        for _ in range(steps):
            if condition():
                return
            self.step()
        raise AssertionError("it never came to that")

    def serve(self) -> Broker:
        """Go on until it holds the lease and is asked nothing more."""
        self.until(lambda: self.take() is not None and self.driver.is_serving)
        self.until(lambda: not self.orders)
        return self

    def take(self) -> list[int]:
        """Take what is committed, as the broker does; gives the indexes."""
        found: list[int] = []
        while entries := self.driver.take_committed(1 << 20):
            found += [it.index for it in entries]
        return found

    def propose(self, *payloads: bytes) -> int:
        """Propose one entry."""
        entry = self.driver.propose(list(payloads), len(payloads), now=0.0, wall_microseconds=1)
        return entry.index

    def store(self, *payloads: bytes) -> None:
        """Propose an entry of each payload, one after the other, and wait until it is stored."""
        for payload in payloads:
            index = self.propose(payload)
            self.until(lambda index=index: self.driver.commit_index >= index)  # type: ignore[misc]


class _Cache:
    """The cache's writer: at once, unless the test holds it up."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def submit(self, job: WriteJob) -> None:
        self._broker.jobs.append(job)
        if not self._broker.is_cache_slow:
            self._broker.write()


@pytest.fixture
def medium() -> ModelMedium:
    """An empty medium."""
    return ModelMedium()


@pytest.fixture
def broker(medium: ModelMedium) -> Callable[..., Broker]:
    """Make a broker over the medium of this test."""

    def make(name: str = "a", **options: Any) -> Broker:
        return Broker(medium, name, **options)

    return make
