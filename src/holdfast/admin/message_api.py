"""
Single messages of a queue over HTTP: browse, move, copy, retry, remove.

    POST /messages      {"action", "queue", …}      one step, see `message_requests`

The answer says how far the step came (`after`, `through`) and whether that was all (`is_done`); the
next step is asked for with these two. A step that was not answered may have been done all the same:
asked for again, it finds what is left.

Only the leader can answer; another node passes the request on. It needs the proof that changes
need, also for a look: contents are shown.
"""

from __future__ import annotations

from dataclasses import fields

from starlette.requests import Request
from starlette.responses import Response

from holdfast.admin.message_requests import MessageRequest
from holdfast.admin.operations import Operations
from holdfast.admin.slices import Desk, Slices, listed


class MessageInterface:
    """The endpoint about single messages of one node."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._desk = Desk()

    async def step(self, _request: Request, body: bytes) -> Response:
        """Do one step."""
        from holdfast.admin.bodies import StepOfMessages, asked_for

        wanted = asked_for(body, StepOfMessages)
        done = await self._operations.messages(MessageRequest(**wanted.model_dump()))
        head = {it.name: getattr(done, it.name) for it in fields(done) if it.name != "messages"}

        async def write(slices: Slices) -> list[bytes]:
            # One by one: each may have a MiB of its body, and all take too long for one slice.
            return await listed(head, "messages", done.messages, slices, 1, as_row=dict)

        pieces = await self._desk.answer(object(), write)
        return Response(b"".join(pieces), media_type="application/json")
