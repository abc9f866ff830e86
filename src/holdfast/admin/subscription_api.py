"""
Durable subscriptions over HTTP: what they hold, and the end of one that nobody comes back for.

    GET  /subscriptions[?limit=N&after=KEY]   a page; "next" is what the next one stands behind
    POST /subscriptions/end                   {"client_id", "name"}

Asked of another node, the leader answers, as for queues; while there is none, the node itself.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.admin.operations import Operations
from holdfast.admin.policy_api import LeadersAnswer
from holdfast.admin.queue_pages import page
from holdfast.admin.slices import Desk, Slices, listed


class SubscriptionInterface:
    """The endpoints about durable subscriptions of one node."""

    def __init__(self, operations: Operations, leaders_answer: LeadersAnswer) -> None:
        self._operations = operations
        self._leaders_answer = leaders_answer
        self._desk = Desk()

    async def subscriptions(self, request: Request, count: int, after: str) -> Response:
        """Tell of a page of them."""
        status = self._operations.status()
        answer = await self._leaders_answer(request)
        if isinstance(answer, list):
            return Response(b"".join(answer), media_type="application/json")
        head = {"node": status.name, "role": status.role, **answer.head}

        async def make(slices: Slices) -> list[bytes]:
            found = await page(self._operations.subscription_keys(), after, count, slices)
            told = self._operations.subscriptions(found.names)
            return await listed({**head, "next": found.next}, "subscriptions", told, slices)

        pieces = await self._desk.answer(("subscriptions", after, count, answer), make)
        return Response(b"".join(pieces), media_type="application/json")

    async def end(self, _request: Request, body: bytes) -> Response:
        """End one, with what it has not been given."""
        from holdfast.admin.bodies import EndSubscription, asked_for

        wanted = asked_for(body, EndSubscription)
        count = await self._operations.end_subscription(wanted.client_id, wanted.name)
        return JSONResponse({"client_id": wanted.client_id, "name": wanted.name, "messages": count})
