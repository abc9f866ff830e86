"""
A consumer whose leader can die: two brokers with one store, a connection that knows both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from scripted_broker import ScriptedBroker, Store

from holdfast.client import Connection, Message, Subscription, connect

QUEUE = "/queue/a"


class TwoLeaders(NamedTuple):
    """The connection is with the first; the second is there when it dies."""

    first: ScriptedBroker
    second: ScriptedBroker
    connection: Connection
    subscription: Subscription


@asynccontextmanager
async def two_leaders(
    store: Store, *, acknowledge: str = "client-individual"
) -> AsyncIterator[TwoLeaders]:
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with (
            connect(first.failover(second)) as connection,
            connection.subscribe(QUEUE, acknowledge=acknowledge) as subscription,
        ):
            yield TwoLeaders(first, second, connection, subscription)


def filled(*bodies: str, store: Store | None = None) -> Store:
    """A store with these persistent messages on the queue."""
    store = store or Store()
    for body in bodies:
        store.put(QUEUE, {"persistent": "true"}, body.encode())
    return store


async def take(subscription: Subscription, count: int) -> list[Message]:
    """The next so many messages."""
    return [await anext(subscription) for _ in range(count)]
