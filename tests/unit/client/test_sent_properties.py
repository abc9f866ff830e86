"""
What a message is sent with by name: by each `send` alike, and refused where it is no such thing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from scripted_broker import ScriptedBroker
from threaded_broker import Threaded

from holdfast.client import Properties, blocking, connect
from holdfast.client.properties import MessageProperties
from holdfast.client.sent_properties import WRITTEN, headers_with
from holdfast.errors import LocalProtocolError
from holdfast.protocols.stomp.frames import SendFrame

SAID: Properties = {
    "correlation_id": "c1",
    "reply_to": "/queue/answers",
    "type": "order",
    "content_type": "text/csv",
    "group": "ann",
    "group_sequence": -1,
    "ttl": 1.5,
}

WIRE = {
    "correlation-id": "c1",
    "reply-to": "/queue/answers",
    "type": "order",
    "content-type": "text/csv",
    "JMSXGroupID": "ann",
    "JMSXGroupSeq": "-1",
    "expiration": "1500",
}


class Received(MessageProperties):
    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers
        self.body = b""


def test_each_property_has_its_header() -> None:
    """What `send` takes by name is what stands in the table: nothing is taken and not sent."""
    assert Properties.__annotations__.keys() == WRITTEN.keys()
    assert headers_with({"colour": "red"}, SAID) == {"colour": "red"} | WIRE


def test_what_is_sent_by_a_name_is_read_by_that_name() -> None:
    """A received message says the same; a time to live is seen as the moment of its end."""
    moment = datetime(2030, 1, 31, 18, 0, 0, 250_000, tzinfo=timezone(timedelta(hours=2)))
    said = {**SAID, "expires_at": moment}
    del said["ttl"]
    headers = {name: str(text) for name, text in (headers_with(None, said) or {}).items()}  # type: ignore[arg-type]
    received = Received(headers)
    assert {name: getattr(received, name) for name in said} == said


@pytest.mark.parametrize(
    ("ttl", "header"),
    [(0, "1"), (0.0001, "1"), (60, "60000"), (timedelta(days=1), "86400000")],
)
def test_a_life_is_seconds_or_a_span_and_never_for_ever(ttl: Any, header: str) -> None:
    """Of 0 milliseconds a broker would think that it never ends."""
    assert headers_with(None, {"ttl": ttl}) == {"expiration": header}


def test_a_schedule_is_said_by_name() -> None:
    """Spans in seconds, a moment with its zone; -1 is without end, whatever stands below zero."""
    moment = datetime(2030, 1, 31, 18, tzinfo=UTC)
    said: Properties = {"delay": 1.5, "period": timedelta(minutes=1), "repeats": -7}
    assert headers_with(None, said) == {
        "AMQ_SCHEDULED_DELAY": "1500",
        "AMQ_SCHEDULED_PERIOD": "60000",
        "AMQ_SCHEDULED_REPEAT": "-1",
    }
    said = {"send_at": moment, "cron": "* * * * *", "cron_zone": "Asia/Tokyo"}
    assert headers_with(None, said) == {
        "AMQ_SCHEDULED_TIME": str(int(moment.timestamp()) * 1000),
        "AMQ_SCHEDULED_CRON": "* * * * *",
        "AMQ_SCHEDULED_TIME_ZONE": "Asia/Tokyo",
    }
    assert Received({"scheduledJobId": "ID:c-1-7"}).job_id == "ID:c-1-7"
    assert Received({}).job_id is None


@pytest.mark.parametrize(
    "said",
    [
        *({"delay": it} for it in (-1, "5", True, float("inf"), float("nan"))),
        *({"repeats": it} for it in (1001, 1.5, "3", True)),
        *({"send_at": it} for it in (5, datetime(2030, 1, 1))),  # noqa: DTZ001 - refused
        {"cron": 5},
        {"period": 1e12},
    ],
)
def test_a_schedule_that_is_none_is_refused_by_the_call(said: Any) -> None:
    """With the property's name."""
    with pytest.raises(LocalProtocolError, match=next(iter(said))):
        headers_with(None, said)


def test_none_is_as_if_it_were_not_said() -> None:
    """So a program may pass on what it may not have."""
    assert headers_with({"a": "b"}, {"group": None, "ttl": None, "reply_to": None}) == {"a": "b"}


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"group": 5}, "'group': it is 5; it must be str"),
        ({"group_sequence": True}, "'group_sequence': it is True"),
        ({"group_sequence": 2**31}, "from -2147483648 to 2147483647"),
        ({"ttl": -1}, "'ttl': it is -1"),
        ({"ttl": float("nan")}, "'ttl': it is nan"),
        ({"ttl": float("inf")}, "'ttl': it is inf"),
        ({"ttl": "60"}, "seconds or a timedelta"),
        ({"ttl": True}, "seconds or a timedelta"),
        ({"expires_at": 1700000000}, "must be a datetime"),
        ({"expires_at": datetime(2030, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - the mistake
        ({"expires_at": datetime(2030, 1, 1, tzinfo=UTC), "ttl": 5}, "say one of them"),
    ],
)
def test_what_it_cannot_be_is_refused_by_name(said: Any, named: str) -> None:
    """The call itself refuses it, and says which and why."""
    with pytest.raises(LocalProtocolError, match=named):
        headers_with(None, said)


def test_what_is_said_twice_is_refused() -> None:
    """Which of the two would count nobody could know."""
    with pytest.raises(LocalProtocolError, match="'JMSXGroupID' is among the headers"):
        headers_with({"JMSXGroupID": "bob"}, {"group": "ann"})


def wire(frame: SendFrame) -> dict[str, str]:
    return {name: frame.block.headers[name] for name in WIRE}


async def test_each_way_to_send_takes_them() -> None:
    """Connection, producer and transaction; a text's own media type gives way."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        await connection.send("/queue/a", "1", **SAID)
        async with connection.producer("/queue/a") as producer:
            await producer.send("2", **SAID)
            await producer.send("3")
        async with connection.transaction() as transaction:
            await transaction.send("/queue/a", "4", **SAID)
    one, two, three, four = broker.sends
    assert [wire(one), wire(two), wire(four)] == [WIRE] * 3
    assert "JMSXGroupID" not in three.block.headers


def test_so_does_each_without_asyncio(threaded: Threaded) -> None:
    """The same names, by the same code."""
    broker = threaded.broker
    with blocking.connect(broker.uri) as connection:
        connection.send("/queue/a", "1", **SAID)
        with connection.producer("/queue/a") as producer:
            producer.send("2", **SAID)
        with connection.transaction() as transaction:
            transaction.send("/queue/a", "3", **SAID)
    assert [wire(frame) for frame in broker.sends] == [WIRE] * 3


def test_a_name_that_there_is_not_is_told_with_those_there_are(threaded: Threaded) -> None:
    """As a misspelled argument of any call; nothing is sent."""
    broker = threaded.broker
    misspelled: Any = {"color": "ann"}
    with blocking.connect(broker.uri) as connection:
        with connection.producer("/queue/a") as producer:
            for send in (producer.send, lambda *a, **k: connection.send("/queue/a", *a, **k)):
                with pytest.raises(TypeError, match=r"no property 'color'; it may have .*group"):
                    send("1", **misspelled)
    assert broker.sends == []
