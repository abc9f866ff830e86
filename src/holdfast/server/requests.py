"""
Requests of operators that must last: they wait for their record as a client's receipt does.

The broker replies to whoever has a `reply`; here that is somebody in this process, and the reply
ends their waiting. Owned by the loop.
"""

from __future__ import annotations

import asyncio


class OperatorReply:
    """A receipt that somebody inside the process waits for."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def reply(self, receipt: bytes) -> None:
        """Take the broker's word that the request is stored."""
        del receipt
        if not self.done.done():
            self.done.set_result(None)
