"""Tests of server/lease_runner.py: what the worker did reaches the loop, and it ends in time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from holdfast.leases.contract import Holding
from holdfast.leases.elector import ElectorFacts, Line
from holdfast.leases.elector_thread import ElectorAsking
from holdfast.leases.orders import Report, Store
from holdfast.server import lease_runner
from holdfast.server.lease_runner import LeaseRunner
from trials.leased.group_desk import GroupDesk
from trials.leased.model_medium import ModelMedium


class Attached:
    """A group whose orders go to a runner with a thread."""

    def __init__(self, elector: Any = None) -> None:
        self.medium = ModelMedium()
        self.desk = GroupDesk(self.medium, "a", elector=elector)
        self.stored: list[Report] = []
        self.is_stored = threading.Event()
        self.threads: set[int] = set()
        self.turned = asyncio.Event()
        asking = None
        if elector is not None:
            asking = ElectorAsking(elector, "a" * 32, self.desk.passage.clock, 3.0)
            asking.pause_seconds = 0.01
        self.runner = LeaseRunner(self.desk.worker, self._on_stored, asking)
        self.runner.attach(self.desk.group, self.turned.set)

    def _on_stored(self, report: Report) -> None:
        self.stored.append(report)
        self.threads.add(threading.get_ident())
        self.is_stored.set()

    async def until_served(self) -> None:
        """Let the group turn and its orders be done until it serves."""
        group = self.desk.group
        for _ in range(200):
            group.turn(0.0)
            while self.desk.orders:
                self.turned.clear()
                self.runner.submit(self.desk.orders.pop(0))
                async with asyncio.timeout(10):
                    await self.turned.wait()
            if group.is_serving:
                return
            if group.elections is not None:
                self.turned.clear()
                async with asyncio.timeout(10):
                    await self.turned.wait()
            self.desk.passage.wait(0.1)
        raise AssertionError("it never served")


def test_what_was_read_turns_the_loop_and_what_was_stored_is_told_as_a_write() -> None:
    """The one on the loop's thread, the other at once, on the worker's."""

    async def run() -> None:
        attached = Attached()
        await attached.runner.start()
        await attached.until_served()
        group = attached.desk.group
        group.propose([b"x"], 1, now=0.0, wall_microseconds=1)
        group.turn(0.0)
        [order] = attached.desk.orders
        assert isinstance(order, Store)
        attached.runner.submit(order)
        await asyncio.to_thread(attached.is_stored.wait, 10)
        assert 1 == len(attached.stored)
        assert threading.get_ident() not in attached.threads
        await attached.runner.close()
        assert attached.medium.read().is_released

    asyncio.run(run())


def test_a_holder_that_is_gone_is_told_to_the_group(monkeypatch: Any) -> None:
    """And the loop turns, so that its lease is taken."""

    async def run() -> None:
        attached = Attached()
        gone: list[tuple[str, bool]] = []
        monkeypatch.setattr(
            attached.desk.group, "holder_is_gone", lambda it, is_here: gone.append((it, is_here))
        )
        attached.runner._is_gone("h", False)
        assert [("h", False)] == gone
        assert attached.turned.is_set()
        await attached.runner.close()

    asyncio.run(run())


def test_a_store_that_hangs_at_the_end_is_left_behind(monkeypatch: Any) -> None:
    """The node ends; the lease runs out by itself."""

    async def run() -> None:
        attached = Attached()
        let_go = threading.Event()
        await attached.runner.start()
        await attached.until_served()
        monkeypatch.setattr(lease_runner, "_CLOSE_SECONDS", 0.05)

        def hang(_seconds: float) -> Holding:
            let_go.wait(10)
            return attached.medium.read()

        monkeypatch.setattr(attached.desk.worker._log, "observe", hang)
        monkeypatch.setattr(attached.desk.worker._log, "release", hang)
        async with asyncio.timeout(5):
            await attached.runner.close()
        let_go.set()

    asyncio.run(run())


class Elector:
    """Elects whoever asks, until it hangs."""

    def __init__(self) -> None:
        self.willing: list[bool] = []
        self.let_go = threading.Event()
        self.let_go.set()
        self.is_closed = False

    def facts(self) -> ElectorFacts:
        return ElectorFacts(kind="fake", place="here")

    def stand(self, candidate: str, *, is_willing: bool, seconds_max: float) -> Line:
        self.let_go.wait(10)
        self.willing.append(is_willing)
        return Line(holders=(candidate,) if is_willing else (), sure_seconds=1_000.0)

    def close(self, seconds_max: float) -> None:
        self.is_closed = True


def test_an_elector_is_asked_on_its_own_thread_and_told_what_is_wanted() -> None:
    """Its answers turn the loop; whoever waits stands for election, and ends by leaving."""

    async def run() -> None:
        elector = Elector()
        attached = Attached(elector)
        await attached.runner.start()
        await attached.until_served()
        elections = attached.desk.group.elections
        assert elections is not None
        assert "a" * 32 == elections.elected()
        assert not elector.willing[0]
        assert elector.willing[-1]
        await attached.runner.close()
        assert elector.is_closed

    asyncio.run(run())


def test_an_elector_that_hangs_at_the_end_is_left_behind(monkeypatch: Any) -> None:
    """The node ends all the same, and has given its lease back."""

    async def run() -> None:
        monkeypatch.setattr(lease_runner, "_ELECTOR_CLOSE_SECONDS", 0.05)
        elector = Elector()
        attached = Attached(elector)
        await attached.runner.start()
        await attached.until_served()
        elector.let_go.clear()
        async with asyncio.timeout(5):
            await attached.runner.close()
        assert attached.medium.read().is_released
        elector.let_go.set()

    asyncio.run(run())
