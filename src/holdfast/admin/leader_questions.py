"""
What a node asks its leader for those who asked it: few questions at once, the same ones together.

Whoever can reach the port may ask for the queues, and a question to another node takes a thread for
as long as that node takes. The threads are those that read the log for its readers, write
checkpoints and end the node: if strangers had all of them, the rest would wait behind them. So
there are two at once; who gets no turn in time is told what this node knows by itself.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from holdfast.admin.remote import Answer
from holdfast.admin.slices import Slices, listed
from holdfast.errors import LinkLostError

Ask = Callable[[str, str, str, dict[str, Any] | None], Awaitable[Answer]]
"""Ask another node: its address, method, path with query, body."""

AT_ONCE_MAX: Final = 2
TURN_SECONDS_MAX: Final = 1.0
"""How long a question waits for its turn."""


class LeaderQuestions:
    """The questions of one node that its leader answers."""

    __slots__ = ("_ask", "_turns", "_under_way")

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._under_way: dict[tuple[str, str], asyncio.Task[list[bytes] | None]] = {}

    async def find(self, address: str, path: str) -> list[bytes] | None:
        """Give what the leader answers, as JSON in pieces; None if it cannot be had now."""
        question = address, path
        task = self._under_way.get(question)
        if task is None:
            task = asyncio.create_task(self._asked(*question))
            self._under_way[question] = task

            def forget(_: asyncio.Task[list[bytes] | None]) -> None:
                del self._under_way[question]

            task.add_done_callback(forget)
        return await asyncio.shield(task)  # Whoever leaves does not take it from the others.

    async def _asked(self, address: str, path: str) -> list[bytes] | None:
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await self._turns.acquire()
        except TimeoutError:
            return None
        try:
            answer = await self._ask(address, "GET", path, None)
        except LinkLostError:
            return None
        finally:
            self._turns.release()
        return await _written(answer.body) if answer.status == HTTPStatus.OK else None


async def _written(body: dict[str, Any]) -> list[bytes]:
    """Write the leader's queues anew, so many rows at a time: a page of long names takes long."""
    queues = body.pop("queues", None)
    if queues is None:  # It was about something else, of which there is little.
        return [json.dumps(body).encode()]
    return await listed(body, "queues", queues, Slices(), as_row=lambda row: row)
