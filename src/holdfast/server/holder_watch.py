"""
Notices at once that the process of the lease's holder is gone.

A connection to its admin port is kept open: the kernel closes it with the process. If the port then
refuses a new one, nobody listens there any more, and the lease need not be waited for. An address
that never answered from here says nothing, whoever refuses there. Only a hint: a process that is
stopped keeps its connections, a machine that is gone says nothing, and what a hint cannot break is
the fence of the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from holdfast.leases.contract import Claimant
from holdfast.replication.peer_address import split_address

_CONNECT_SECONDS = 1.0
_PAUSE_SECONDS_MIN = 0.01
"""A process that dies may close its port a moment after its connections: it is asked once more."""
_PAUSE_SECONDS_MAX = 0.2
"""Between the beginnings of two connections at least, where one after the other ends or fails."""


class HolderWatch:
    """Keeps one connection to whoever holds the lease."""

    def __init__(self, on_gone: Callable[[str], None]) -> None:
        """Tell through `on_gone` which holder's process is gone."""
        self._on_gone = on_gone
        self._claimant: Claimant | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, claimant: Claimant | None) -> None:
        """Watch this one from now on, and nobody else; None to watch nobody."""
        if claimant == self._claimant:
            return
        self._claimant = claimant
        self.end()
        if claimant is not None and claimant.admin:
            self._task = asyncio.get_running_loop().create_task(self._watch(claimant))

    def end(self) -> None:
        """Watch nobody any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self, claimant: Claimant) -> None:
        host, port = split_address(claimant.admin)
        pause = began = 0.0
        was_there = False
        while True:
            await asyncio.sleep(max(began + pause - time.monotonic(), 0.0))
            began = time.monotonic()
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(host, port)
            except ConnectionRefusedError:
                if was_there:
                    self._on_gone(claimant.holder)
            except OSError:
                pass  # No answer tells nothing: its lease is waited for.
            else:
                was_there = True
                try:
                    with suppress(OSError):
                        await reader.read(1)
                finally:
                    writer.close()
            pause = pause_after(pause, time.monotonic() - began)


def pause_after(pause: float, lasted_seconds: float) -> float:
    """How long after the beginning of a connection that lasted so long the next one may begin."""
    if lasted_seconds > _PAUSE_SECONDS_MAX:
        return 0.0
    return min(max(2 * pause, _PAUSE_SECONDS_MIN), _PAUSE_SECONDS_MAX)
