"""
What users leave behind: durable subscriptions, which keep what is sent to their topics.

They are counted and ended as their user is removed, and given to somebody by an operator.

Called on the node's loop. Cancelling a change stops the wait for it, not the change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any, Final

from holdfast.broker.broker import Broker
from holdfast.broker.owning import give, owned_by, says_owners
from holdfast.broker.serving.durable import DurableQueue
from holdfast.errors import AccessError, DestinationError, LevelNotReachedError
from holdfast.model.access_records import AuditRecord
from holdfast.model.format_level import OWNERS_LEVEL
from holdfast.server.requests import OperatorReply

_ENDED_AT_ONCE: Final = 64
"""So many end in one turn: each takes some 0.1 ms."""
_WAIT_SECONDS: Final = 0.02
_WAITS_MAX: Final = 100
"""So often it is looked whether who consumes has been sent away: that takes a turn or some."""

Change = Callable[[AuditRecord, OperatorReply], Any]
Changed = Callable[[str, str, Change], Awaitable[Any]]


class Belongings:
    """Durable subscriptions of users, of one node."""

    __slots__ = ("_broker", "_change")

    def __init__(self, broker: Broker, change: Changed) -> None:
        """Make changes by `change`: what is done, to what, and how."""
        self._broker = broker
        self._change = change

    def count(self, name: str) -> int:
        """Give how many are of this name, of whoever has it or had it."""
        return sum(1 for _ in owned_by(self._broker.state, name))

    async def end(self, name: str) -> int:
        """End those of a user who was removed just now; give how many."""
        ended, waits = 0, 0
        while waits < _WAITS_MAX:
            free = [it for it in self._found(name) if not it.subscriptions]
            some = list(islice(free, _ENDED_AT_ONCE))
            if some:
                await self._change("end subscriptions", name, self._ending(some))
                ended += len(some)
            elif self.count(name):
                waits += 1
                await asyncio.sleep(_WAIT_SECONDS)
            else:
                break
        return ended

    def _ending(self, some: list[DurableQueue]) -> Change:
        def end(audit: AuditRecord, reply: OperatorReply) -> None:
            durables = self._broker.durables
            for queue in some:
                durables.remove(queue)
            self._broker.receipts.add_records([audit])
            self._broker.receipts.reply_with_batch(reply, b"")

        return end

    def _found(self, name: str) -> list[DurableQueue]:
        found = map(self._broker.durables.find, owned_by(self._broker.state, name))
        return [it for it in found if it is not None]

    async def give(self, client_id: str, name: str, user: str) -> None:
        """
        Let a durable subscription be a user's from now on.

        Raises:
            DestinationError: There is none of that name, or somebody consumes from it.
            AccessError: There is no such user.
            LevelNotReachedError: Not every member could read it.
        """

        def given(audit: AuditRecord, reply: OperatorReply) -> None:
            broker = self._broker
            if not says_owners(broker.state):
                reached = broker.state.format_level
                raise LevelNotReachedError.of("owners", OWNERS_LEVEL, reached)
            book = broker.access_book
            if not (book.is_user(user) or book.has_authorities):
                raise AccessError(f"there is no user {user[:80]!r}; see 'holdfast users list'")
            queue = broker.durables.find((client_id, name))
            what = f"subscription {name!r} of client-id {client_id!r}"
            if queue is None or queue.whole_number:
                raise DestinationError(f"there is no {what}; see 'holdfast subscriptions'")
            if queue.subscriptions:
                raise DestinationError(f"{what} has a consumer; disconnect it first")
            give(broker.receipts, queue, book.owner(user), audit)
            broker.receipts.reply_with_batch(reply, b"")

        await self._change("give subscription", f"{client_id} {name} {user}", given)
