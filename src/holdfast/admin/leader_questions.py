"""
What a node asks its leader for those who asked it: few questions at once, the same ones together.

Whoever can reach the port may ask for the queues, and a question to another node takes a thread for
as long as that node takes. The threads are those that read the log for its readers, write
checkpoints and end the node: if strangers had all of them, the rest would wait behind them. So
there are two at once, and twenty a second, as the leader has to remember each for two minutes; who
gets no turn in time is told what this node knows by itself. Changes that
are passed on may wait for a quorum: of them there are two at once, too, and who gets no turn in
time is to ask later.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from holdfast.admin.remote import Answer
from holdfast.admin.slices import Slices, listed
from holdfast.errors import BusyError, LinkLostError


class Addressee(NamedTuple):
    """A node that is asked by another."""

    address: str
    """Of its admin port."""

    life: str
    """Which process is meant, see `forwarding`; empty: it is of a version that tells none."""


class NotAsked(NamedTuple):
    """The leader did not answer: what is told instead is what this node knows by itself."""

    why: str
    """A sentence; empty: it is not for this node to ask."""

    @property
    def head(self) -> dict[str, str]:
        """What the answer says of that: who asked wanted to know what the leader knows."""
        return {"own_view": self.why} if self.why else {}


LeaderSays = list[bytes] | NotAsked
"""The pieces of its answer, as JSON; or why there is none."""

Ask = Callable[[Addressee, str, str, dict[str, Any] | None], Awaitable[Answer]]
"""Ask another node: which one, method, path with query, body."""

AT_ONCE_MAX: Final = 2
TURN_SECONDS_MAX: Final = 1.0
"""How long a question waits for its turn."""
TURN_SECONDS_MIN: Final = 0.1
"""So long a turn is taken, however quickly the leader answers."""
CHANGE_TURN_SECONDS_MAX: Final = 5.0
"""And a change: one takes milliseconds where there is a quorum."""


_NO_ANSWER: Final = f"the leader is asked {AT_ONCE_MAX} other questions, and answers none"
_PER_SECOND: Final = round(AT_ONCE_MAX / TURN_SECONDS_MIN)
_NO_TURN: Final = (
    f"more is asked here than the {_PER_SECOND} questions in a second that are passed on to the"
    f" leader: ask the leader, or again later"
)


class LeaderQuestions:
    """The questions of one node that its leader answers."""

    __slots__ = ("_answered_count", "_ask", "_change_turns", "_turns", "_under_way")

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._change_turns = asyncio.Semaphore(AT_ONCE_MAX)
        self._under_way: dict[tuple[Addressee, str], asyncio.Task[LeaderSays]] = {}
        self._answered_count = 0

    async def find(self, leader: Addressee, path: str) -> LeaderSays:
        """Give what the leader answers, or why that cannot be had now."""
        question = leader, path
        task = self._under_way.get(question)
        if task is None:
            task = asyncio.create_task(self._asked(*question))
            self._under_way[question] = task

            def forget(_: asyncio.Task[LeaderSays]) -> None:
                del self._under_way[question]

            task.add_done_callback(forget)
        return await asyncio.shield(task)  # Whoever leaves does not take it from the others.

    async def change(
        self, leader: Addressee, method: str, path: str, body: dict[str, Any]
    ) -> Answer:
        """
        Pass a change on; gives the leader's answer.

        Raises:
            BusyError: Others are passed on, and wait.
            LinkLostError: The leader does not answer.
        """
        try:
            async with asyncio.timeout(CHANGE_TURN_SECONDS_MAX):
                await self._change_turns.acquire()
        except TimeoutError:
            raise BusyError(
                f"{AT_ONCE_MAX} changes are passed on to the leader already and wait for it; ask"
                " the leader, or again later"
            ) from None
        try:
            return await self._ask(leader, method, path, body)
        finally:
            self._change_turns.release()

    async def _asked(self, leader: Addressee, path: str) -> LeaderSays:
        answered_count = self._answered_count
        try:
            async with asyncio.timeout(TURN_SECONDS_MAX):
                await self._turns.acquire()
        except TimeoutError:
            return NotAsked(_NO_TURN if self._answered_count > answered_count else _NO_ANSWER)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + TURN_SECONDS_MIN
        try:
            answer = await self._ask(leader, "GET", path, None)
        except LinkLostError as error:
            return NotAsked(f"the leader cannot be asked: {error}")
        else:
            self._answered_count += 1
        finally:
            loop.call_at(ends_at, self._turns.release)
        if answer.status != HTTPStatus.OK:
            return NotAsked(f"the leader refused to answer: {answer.error()}")
        return await written(answer.body)


async def written(body: dict[str, Any]) -> list[bytes]:
    """
    Write anew what another node has answered, in slices.

    Its longest list goes out row by row: a page of long names takes long, messages have bodies.
    """
    lists = {name: len(value) for name, value in body.items() if isinstance(value, list)}
    if not lists:
        return [json.dumps(body).encode()]
    longest = max(lists, key=lambda name: lists[name])
    head = {name: value for name, value in body.items() if name != longest}
    return await listed(head, longest, body[longest], Slices(), 1, as_row=lambda row: row)
