"""
What is left of users of a node that runs in this process, ended with them and given to others.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast.broker.durables import Wanted
from holdfast.broker.lasting.state import BrokerState
from holdfast.errors import AccessError, DestinationError, LevelNotReachedError
from holdfast.model.format_level import OWNERS_LEVEL
from holdfast.server.belongings import Belongings
from holdfast.server.node import Node
from tests.unit.server.test_user_administration import manned


async def subscribed(node: Node, names, user="ann", client_id="c") -> None:
    """Let a user have durable subscriptions of these names."""
    broker = node.parts.broker
    while broker.state.format_level < OWNERS_LEVEL:
        await asyncio.sleep(0)
    for name in names:
        owner = broker.access_book.owner(user)
        broker.durables.open(Wanted("t", client_id, name, owner=owner))
    node.parts.conductor.schedule()
    while len(broker.state.subscriptions) < len(names):
        await asyncio.sleep(0)


def test_a_removed_users_subscriptions_stay_or_end_with_him(tmp_path) -> None:
    """
    As is asked for; however many there are, some at a time.
    """

    async def work(node: Node, users) -> None:
        for name in ("ann", "ben"):
            await users.add(name, [], None)
        await subscribed(node, [f"s{number}" for number in range(150)])
        state: BrokerState = node.parts.broker.state
        assert await users.remove("ann", is_last_meant=False) == 0
        assert (users.left_by("ann"), users.left_by("ben")) == (150, 0)
        await users.add("ann", [], None)
        assert users.left_by("ann") == 150
        assert await users.remove("ann", is_last_meant=False, ends_subscriptions=True) == 150
        assert users.left_by("ann") == len(state.subscriptions) == 0

    manned(tmp_path, work)


def test_who_is_told_to_have_one_has_it(tmp_path) -> None:
    """
    Also of an earlier user of his name; nobody has what there is not, or what is consumed from.
    """

    async def work(node: Node, users) -> None:
        for name in ("ann", "ben"):
            await users.add(name, [], None)
        await subscribed(node, ["d"])
        state, book = node.parts.broker.state, node.parts.broker.access_book
        lasting = state.subscriptions["c", "d"]
        await users.give_subscription("c", "d", "ben")
        assert lasting.owner == book.owner("ben") != ("ben", 0)
        with pytest.raises(AccessError, match="there is no user 'cas'"):
            await users.give_subscription("c", "d", "cas")
        book.has_authorities = True
        await users.give_subscription("c", "d", "cas")
        assert lasting.owner == ("cas", 0)
        with pytest.raises(DestinationError, match="there is no subscription 'e'"):
            await users.give_subscription("c", "e", "ben")
        queue = node.parts.broker.durables.find(("c", "d"))
        queue.subscriptions[object()] = None
        with pytest.raises(DestinationError, match="has a consumer; disconnect it first"):
            await users.give_subscription("c", "d", "ben")
        queue.subscriptions.clear()
        state.format_level = OWNERS_LEVEL - 1
        with pytest.raises(LevelNotReachedError):
            await users.give_subscription("c", "d", "ben")
        assert lasting.owner == ("cas", 0)

    manned(tmp_path, work)


def test_what_is_consumed_from_is_waited_for_a_while_only(tmp_path, monkeypatch) -> None:
    """
    Who consumes is sent away meanwhile; if not, it is said how many are left.
    """
    monkeypatch.setattr("holdfast.server.belongings._WAIT_SECONDS", 0)

    async def work(node: Node, users) -> None:
        await users.add("ann", [], None)
        await subscribed(node, ["d", "e"])
        queue = node.parts.broker.durables.find(("c", "d"))
        queue.subscriptions[object()] = None
        removed = await users.remove("ann", is_last_meant=True, ends_subscriptions=True)
        assert (removed, users.left_by("ann")) == (1, 1)
        queue.subscriptions.clear()
        belongings: Belongings = users._belongings
        assert (await belongings.end("ann"), users.left_by("ann")) == (1, 0)

    manned(tmp_path, work)
