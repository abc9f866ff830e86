"""
The threads and connections of a broker over a shared log, where a member of a group has its links.

The worker's thread waits for the medium, another one for the elector if there is one. A connection
to the holder's admin port tells when its process is gone. What the worker stored is told like a
write to a disk; what it read, and what the elector says, only makes the loop turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from holdfast.leases.elector import Reading
from holdfast.leases.elector_thread import ElectorAsking, ElectorThread
from holdfast.leases.orders import Order, Report, Store
from holdfast.leases.worker import LogWorker, WorkerThread
from holdfast.server.holder_watch import HolderWatch
from holdfast.server.leased_group import LeasedGroup

log = structlog.get_logger("holdfast.server")

_CLOSE_SECONDS: Final = 8.0
"""So long the medium may take to let go of the lease when the node ends."""

_ELECTOR_CLOSE_SECONDS: Final = 2.0
"""And its elector, to take it out of the line."""


class LeaseRunner:
    """Runs what a `LeasedGroup` needs."""

    reasons: Mapping[str, str] = {}
    """Why there is no link with a member: there are no links."""

    def __init__(
        self,
        worker: LogWorker,
        on_stored: Callable[[Report], None],
        asking: ElectorAsking | None = None,
    ) -> None:
        """Tell of what was stored through `on_stored`, on the worker's thread."""
        self._thread = WorkerThread(worker, self._notify)
        self._on_stored = on_stored
        self._loop: asyncio.AbstractEventLoop | None = None
        self._group: LeasedGroup | None = None
        self._schedule: Callable[[], None] = lambda: None
        self._watch = HolderWatch(self._is_gone)
        self._elector = None if asking is None else ElectorThread(asking, self._elector_said)

    def submit(self, order: Order) -> None:
        """Have an order done."""
        self._thread.submit(order)

    def attach(self, group: LeasedGroup, schedule: Callable[[], None]) -> None:
        """Tell this group what was done, and turn the loop for it."""
        self._group = group
        self._schedule = schedule
        group.on_turned = self._turned

    async def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        if self._elector is not None:
            self._elector.start()

    async def close(self) -> None:
        """Give the lease back if it is ours, and end; a medium that hangs is left behind."""
        self._watch.end()
        if self._elector is not None:
            self._elector.end()
        if not await asyncio.to_thread(self._thread.close, _CLOSE_SECONDS):
            log.warning("the store does not answer: ending without giving its lease back")
        elector = self._elector
        if elector and not await asyncio.to_thread(elector.close, _ELECTOR_CLOSE_SECONDS):
            log.warning("the elector does not answer: ending without leaving its line")

    def _notify(self, report: Report) -> None:
        if isinstance(report.order, Store):
            self._on_stored(report)
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(self._heard, report)

    def _heard(self, report: Report) -> None:
        group = self._group
        assert group is not None, "attached before it was started"
        group.stored(report)
        self._watch.follow(None if group.is_leader else group.holder)
        self._schedule()

    def _elector_said(self, reading: Reading) -> None:
        """On the elector's thread: the loop hears of it."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._heard_elector, reading)

    def _heard_elector(self, reading: Reading) -> None:
        assert self._group is not None, "attached before it was started"
        self._group.elector_said(reading)
        self._schedule()

    def _turned(self) -> None:
        elections = None if self._group is None else self._group.elections
        if self._elector is not None and elections is not None:
            self._elector.want(is_willing=elections.is_willing)

    def _is_gone(self, holder: str, is_here: bool) -> None:
        if self._group is not None:
            self._group.holder_is_gone(holder, is_here=is_here)
            self._schedule()
