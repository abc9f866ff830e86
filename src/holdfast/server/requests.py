"""
Requests of operators that must last: they wait for their record as a client's receipt does.
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
