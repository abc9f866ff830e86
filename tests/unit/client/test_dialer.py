"""
The dialer: the plan and the fence at work on real sockets.
"""

from __future__ import annotations

import logging

import pytest
from scripted_broker import ScriptedBroker, Store

from holdfast.client.dialer import Dialer
from holdfast.client.link import Link
from holdfast.client.settings import ClientSettings
from holdfast.client.uri import parse_uri
from holdfast.environment.randomness import SystemRandomness
from holdfast.errors import FailoverExhaustedError, HoldfastError, LinkLostError
from holdfast.protocols.stomp.frames import Frame


class Deaf:
    def frames_received(self, link: Link, frames: list[Frame]) -> None: ...

    def link_lost(self, link: Link, error: HoldfastError) -> None: ...


def dialer_for(uri: str) -> Dialer:
    return Dialer(parse_uri(uri), ClientSettings(), SystemRandomness())


async def test_addresses_are_tried_until_one_answers() -> None:
    """Without a pause within a pass."""
    async with ScriptedBroker() as dead:
        pass
    async with ScriptedBroker() as alive:
        link = await dialer_for(dead.failover(alive)).open(Deaf())
        assert str(link.address) == alive.uri
        link.close()


async def test_every_address_tells_why_it_failed() -> None:
    """The error of an exhausted plan names them all."""
    async with ScriptedBroker() as one, ScriptedBroker() as two:
        pass
    uri = one.failover(two, options="maxReconnectAttempts=1")
    with pytest.raises(FailoverExhaustedError) as exhausted:
        await dialer_for(uri).open(Deaf())
    assert str(one.port) in str(exhausted.value)
    assert str(two.port) in str(exhausted.value)


async def test_a_plain_uri_raises_its_own_error() -> None:
    """One attempt, and what became of it."""
    async with ScriptedBroker() as dead:
        pass
    with pytest.raises(LinkLostError, match="cannot be reached"):
        await dialer_for(dead.uri).open(Deaf())


async def test_the_term_is_remembered_and_its_absence_accepted() -> None:
    """A broker that is no Holdfast tells no term."""
    async with ScriptedBroker(Store(term=3)) as broker:
        dialer = dialer_for(broker.uri)
        (await dialer.open(Deaf())).close()
        assert dialer.fence.term == 3
        broker.greeting = dict
        (await dialer_for(broker.uri).open(Deaf())).close()


async def test_a_long_search_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Once every warnAfterReconnectAttempts passes."""
    async with ScriptedBroker() as dead:
        pass
    uri = dead.failover(options="maxReconnectAttempts=3&warnAfterReconnectAttempts=2")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast.client"), pytest.raises(FailoverExhaustedError):
        await dialer_for(uri).open(Deaf())
    assert [record.args[0] for record in caplog.records] == [2]


async def test_nothing_is_tried_where_reconnecting_is_forbidden() -> None:
    """maxReconnectAttempts=0 after a loss."""
    async with ScriptedBroker() as broker:
        dialer = dialer_for(broker.failover(options="maxReconnectAttempts=0"))
        link = await dialer.open(Deaf())
        dialer.lost(link.address, was_useful=True)
        with pytest.raises(FailoverExhaustedError, match="allows no reconnecting"):
            await dialer.open(Deaf())
        link.close()
