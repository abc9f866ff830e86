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
from holdfast.errors import (
    AuthenticationError,
    ConfigError,
    FailoverExhaustedError,
    HoldfastError,
    LinkLostError,
)
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


async def test_the_promotion_that_a_cluster_goes_on_by_is_remembered() -> None:
    """A lower term of a later one is believed; what is none is as if it were not told."""
    async with ScriptedBroker() as broker:
        fence = dialer_for(broker.uri).fence
        for told, term, promotion in [("1-500", "9", (1, 500)), ("1-900", "7", (1, 900))]:
            broker.greeting = {"holdfast_term": term, "holdfast_promotion": told}.copy
            dialer = dialer_for(broker.uri)
            dialer.fence = fence
            (await dialer.open(Deaf())).close()
            assert (fence.term, fence.promotion) == (int(term), promotion)
        broker.greeting = {"holdfast_term": "8", "holdfast_promotion": "what"}.copy
        dialer = dialer_for(broker.uri)
        dialer.fence = fence
        with pytest.raises(LinkLostError, match="before a promotion"):
            await dialer.open(Deaf())


async def test_a_long_search_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Once every warnAfterReconnectAttempts passes."""
    async with ScriptedBroker() as dead:
        pass
    uri = dead.failover(options="maxReconnectAttempts=3&warnAfterReconnectAttempts=2")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast.client"), pytest.raises(FailoverExhaustedError):
        await dialer_for(uri).open(Deaf())
    assert [record.args[0] for record in caplog.records] == [2]


async def test_what_every_address_says_for_good_is_raised_at_the_start() -> None:
    """Neither broker knows the passcode: without this it would ask them again for ever."""
    async with ScriptedBroker() as one, ScriptedBroker() as two:
        for broker in (one, two):
            broker.refuse_connect = ("authentication-failed", "who are you")
        with pytest.raises(AuthenticationError, match="who are you") as raised:
            await dialer_for(one.failover(two)).open(Deaf())
        text = "\n".join([str(raised.value), *raised.value.__notes__])
        assert one.uri in text
        assert two.uri in text


@pytest.mark.parametrize(
    "address", ["stomp+ssl://127.0.0.1:{port}?caFile=/nowhere.pem", "stomp://127.0.0.1:{port}"]
)
async def test_a_mistake_at_this_end_is_raised_at_the_start(address: str) -> None:
    """A file that is not there, a login that no frame can say: no broker will change that."""
    async with ScriptedBroker() as broker:
        target = parse_uri(f"failover:({address.format(port=broker.port)})")
        settings = ClientSettings(login="\udce9" if target.addresses[0].tls is None else None)
        with pytest.raises(ConfigError):
            await Dialer(target, settings, SystemRandomness()).open(Deaf())


async def test_a_client_id_that_no_broker_takes_is_raised_at_the_start() -> None:
    """It is refused as a header that makes no sense: each broker says so, for ever."""
    async with ScriptedBroker() as one, ScriptedBroker() as two:
        for broker in (one, two):
            broker.refuse_connect = ("bad-header", "a client-id of 2,000 bytes; at most 1,024")
        with pytest.raises(ConfigError, match="at most 1,024"):
            await dialer_for(one.failover(two)).open(Deaf())


async def test_a_failure_for_good_is_warned_of_while_another_address_may_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One broker refuses us for good, the other is only away: it goes on, and not in silence."""
    async with ScriptedBroker() as one, ScriptedBroker() as away:
        one.refuse_connect = ("authentication-failed", "who are you")
        away.kill()
        uri = one.failover(away, options="maxReconnectAttempts=3&randomize=false")
        caplog.clear()
        with (
            caplog.at_level(logging.WARNING, "holdfast.client"),
            pytest.raises(FailoverExhaustedError),
        ):
            await dialer_for(uri).open(Deaf())
        assert ["who are you" in record.getMessage() for record in caplog.records] == [True]


async def test_after_the_start_a_failure_for_good_does_not_end_the_search() -> None:
    """A passcode or a certificate that is being changed comes right again."""
    async with ScriptedBroker() as broker:
        dialer = dialer_for(broker.failover(options="maxReconnectAttempts=2"))
        link = await dialer.open(Deaf())
        dialer.lost(link.address, was_useful=True)
        broker.refuse_connect = ("authentication-failed", "who are you")
        with pytest.raises(FailoverExhaustedError, match="2 passes"):
            await dialer.open(Deaf())
        link.close()


async def test_nothing_is_tried_where_reconnecting_is_forbidden() -> None:
    """maxReconnectAttempts=0 after a loss."""
    async with ScriptedBroker() as broker:
        dialer = dialer_for(broker.failover(options="maxReconnectAttempts=0"))
        link = await dialer.open(Deaf())
        dialer.lost(link.address, was_useful=True)
        with pytest.raises(FailoverExhaustedError, match="allows no reconnecting"):
            await dialer.open(Deaf())
        link.close()
