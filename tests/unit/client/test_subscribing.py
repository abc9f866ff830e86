"""
What a subscription says on the wire; durable ones, kept and ended.
"""

from __future__ import annotations

import pytest
from scripted_broker import ScriptedBroker, Store
from threaded_broker import Threaded
from two_leaders import QUEUE

from holdfast.client import blocking, connect
from holdfast.errors import ConfigError, LocalProtocolError

TOPIC = "/topic/prices"
NAMES = ("activemq.subscriptionName", "durable-subscription-name")


async def test_a_durable_subscription_is_named_on_every_link() -> None:
    """
    Leaving it says no name, so it stays.
    """
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second), client_id="c") as connection:
            async with connection.subscribe(TOPIC, durable="mine"), connection.subscribe(TOPIC):
                first.kill()
                await second.saw(lambda: len(second.frames("SUBSCRIBE")) == 2)
        for broker in (first, second):
            named, plain = sorted(broker.frames("SUBSCRIBE"), key=lambda it: it.headers["id"])
            assert named.headers[NAMES[0]] == "mine"
            assert not {*NAMES} & plain.headers.keys()
        assert all(not {*NAMES} & it.headers.keys() for it in second.frames("UNSUBSCRIBE"))


async def test_it_is_ended_by_its_name() -> None:
    """
    On whichever link is there: asked again it does no harm.
    """
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second), client_id="c") as connection:
            await connection.end_durable("mine")
            (frame,) = first.frames("UNSUBSCRIBE")
            assert (frame.headers[NAMES[0]], "id" in frame.headers) == ("mine", True)


def test_so_does_the_blocking_face() -> None:
    """
    The same words, said by a thread.
    """
    threaded = Threaded()
    try:
        with blocking.connect(threaded.broker.uri, client_id="c") as connection:
            with connection.subscribe(TOPIC, durable="mine"):
                pass
            connection.end_durable("mine")
        frames = [*threaded.broker.frames("SUBSCRIBE"), *threaded.broker.frames("UNSUBSCRIBE")]
        assert [it.headers.get(NAMES[0]) for it in frames] == ["mine", None, "mine"]
    finally:
        threaded.close()


async def test_what_cannot_be_is_refused_here() -> None:
    """
    Before anything is sent.
    """
    async with ScriptedBroker() as broker, connect(broker.uri) as nameless:
        with pytest.raises(ConfigError, match="needs a client_id"):
            nameless.subscribe(TOPIC, durable="mine")
        with pytest.raises(ConfigError, match="needs a client_id"):
            await nameless.end_durable("mine")
        with pytest.raises(ConfigError, match="durable is empty"):
            nameless.subscribe(TOPIC, durable="")
        with pytest.raises(ConfigError, match="prefetch is 0"):
            nameless.subscribe(QUEUE, prefetch=0)
        assert not broker.frames("SUBSCRIBE")
    async with ScriptedBroker() as broker, connect(broker.uri, client_id="c") as connection:
        with pytest.raises(LocalProtocolError, match="set by the client itself"):
            connection.subscribe(TOPIC, durable="mine", headers={NAMES[1]: "other"})


async def test_that_its_own_is_not_wanted_is_said() -> None:
    """
    On every link, to another broker in Artemis's word, too; and nothing where it is wanted.
    """
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        async with connection.subscribe(TOPIC), connection.subscribe(TOPIC, no_local=True):
            pass
        plain, wanting = (frame.headers for frame in broker.frames("SUBSCRIBE"))
        assert "activemq.noLocal" not in plain
        assert wanting["activemq.noLocal"] == "true"
        assert "activemq.retroactive" not in wanting


async def test_what_was_sent_before_is_asked_for() -> None:
    """
    On every link: what the broker keeps then comes first.
    """
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        async with connection.subscribe(TOPIC, retroactive=True):
            pass
        (frame,) = broker.frames("SUBSCRIBE")
        assert frame.headers["activemq.retroactive"] == "true"


def test_so_it_is_by_the_blocking_face() -> None:
    """
    The same word.
    """
    threaded = Threaded()
    try:
        with blocking.connect(threaded.broker.uri) as connection:
            with connection.subscribe(TOPIC, no_local=True, retroactive=True):
                pass
        (frame,) = threaded.broker.frames("SUBSCRIBE")
        assert frame.headers["activemq.noLocal"] == "true"
        assert frame.headers["activemq.retroactive"] == "true"
    finally:
        threaded.close()
