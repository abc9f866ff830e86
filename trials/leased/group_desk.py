"""
A broker's group over a modelled medium, for the tests of what a node makes of it.

Orders wait until the test performs them; the cache is written at once. Times are the passage's, so
nothing here waits for a clock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.config.node import NodeConfig
from holdfast.leases.contract import Claimant
from holdfast.leases.elector import Elector
from holdfast.leases.orders import Order
from holdfast.leases.seen import SeenFile
from holdfast.leases.settings import LeaseSettings
from holdfast.leases.worker import LogWorker
from holdfast.server.leased_group import LeasedGroup
from holdfast.testing.free_ports import free_ports
from trials.leased.model_log import ModelLog
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import DirectPassage, EvenChance
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

DIRECTORY = Path("/node")


class GroupDesk:
    """One broker of a group; its orders are performed when the test says so."""

    def __init__(self, medium: ModelMedium, name: str, elector: Elector | None = None) -> None:
        self.passage = DirectPassage()
        self.local = LocalJournal(SimulatedDisk(1), directory=DIRECTORY)
        log = ModelLog(medium, self.passage)
        seen = SeenFile(DIRECTORY, self.local.disk)
        self.worker = LogWorker(log, seen, self.passage.clock, name=name)
        self.orders: list[Order] = []
        self.group = LeasedGroup(
            monotonic=lambda: self.passage.now - 900.0,
            settings=LeaseSettings(),
            claimant=Claimant(holder=name * 32, name=name, admin=f"{name}:1", stomp=f"{name}:2"),
            log=log,
            journal=self.local.journal,
            writer=self,
            worker=self,
            clock=self.passage.clock,
            randomness=EvenChance(),
            known_level=7,
            elector=elector,
        )

    def submit(self, job: Any) -> None:
        """Keep an order until it is performed; write to the cache at once."""
        if isinstance(job, Order):
            self.orders.append(job)
        else:
            self.local.perform(job)

    def go_on(self, steps: int = 40) -> None:
        """Let orders be performed and time pass."""
        for _ in range(steps):
            self.group.turn(0.0)
            if self.orders:
                self.group.stored(self.worker.perform(self.orders.pop(0)))
            else:
                self.passage.wait(0.1)
        self.group.turn(0.0)


def node_config(data: Path, name: str = "a", **flags: Any) -> NodeConfig:
    """A node on ports of its own whose log is in a shared directory."""
    stomp, admin = free_ports(2)
    given = {
        "data": str(data),
        "name": name,
        "stomp": f"127.0.0.1:{stomp}",
        "admin": f"127.0.0.1:{admin}",
        "shared": str(data.parent / "shared"),
    }
    return NodeConfig.load(flags=given | flags, environment={})
