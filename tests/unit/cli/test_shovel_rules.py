"""What a shovel makes of a message, and which it leaves where they are."""

from __future__ import annotations

import pytest

from holdfast.cli.shovel_rules import HOPS_MAX, Route, carried, hops_of, routes_of, why_stays
from holdfast.errors import ConfigError

FROM_ACTIVEMQ = {
    "message-id": "ID:a-1",
    "destination": "/queue/a",
    "subscription": "1",
    "ack": "ID:b:1",
    "redelivered": "true",
    "persistent": "true",
    "timestamp": "1795967518310",
    "expires": "0",
    "priority": "7",
    "correlation-id": "c0",
    "colour": "red",
    "AMQ_SCHEDULED_DELAY": "1000",
    "scheduledJobId": "ID:s",
    "JMSXUserID": "somebody",
}


def test_routes_are_queues_unless_they_say_more() -> None:
    """A name alone, another one there, a wildcard, a topic."""
    found = routes_of(["a", "b=/queue/c", "/queue/d.>", "/topic/e=f"])
    assert found == [
        Route("/queue/a", ""),
        Route("/queue/b", "/queue/c"),
        Route("/queue/d.>", ""),
        Route("/topic/e", "/queue/f"),
    ]
    assert [it.target_of("/queue/d.1") for it in found] == [
        "/queue/a",
        "/queue/c",
        "/queue/d.1",
        "/queue/f",
    ]
    assert [it.is_topic for it in found] == [False, False, False, True]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["="], "expected SOURCE or SOURCE=TARGET"),
        (["/que/a"], "/que/ is no kind of destination"),
        (["/temp-queue/a"], "no kind of destination to carry"),
        (["/queue/"], "the name is missing"),
        (["a=b.>"], "a target is one destination"),
        (["a=b", "/queue/a"], "a source is named twice"),
    ],
)
def test_what_is_no_route_is_refused(texts: list[str], told: str) -> None:
    """In one sentence, which names it."""
    with pytest.raises(ConfigError) as refused:
        routes_of(texts)
    assert told in " ".join(refused.value.problems)


def test_what_the_sender_said_goes_on_and_no_more() -> None:
    """The delivery is the other broker's affair, and a time that has come is not told again."""
    assert carried(FROM_ACTIVEMQ, is_doubtful=False, to_activemq=False) == {
        "timestamp": "1795967518310",
        "expires": "0",
        "priority": "7",
        "correlation-id": "c0",
        "colour": "red",
        "original-message-id": "ID:a-1",
        "shovel-hops": "1",
        "content-type": "text/plain;charset=utf-8",
    }


def test_what_was_carried_before_is_known_by_its_first_id() -> None:
    """And says how often; what may have been stored says so."""
    said = FROM_ACTIVEMQ | {"original-message-id": "ID:first", "shovel-hops": "1"}
    on = carried(said, is_doubtful=True, to_activemq=False)
    assert (on["original-message-id"], on["shovel-hops"]) == ("ID:first", "2")
    assert on["possible-duplicate"] == "true"


@pytest.mark.parametrize(
    ("said", "to_activemq", "name", "value"),
    [
        ({}, True, "amq-msg-type", "text"),
        ({"content-length": "3"}, True, "amq-msg-type", None),
        ({"amq-msg-type": "bytes"}, True, "amq-msg-type", "bytes"),
        ({"content-length": "3"}, False, "content-type", None),
        ({"content-type": "text/xml"}, False, "content-type", "text/xml"),
        ({"transformation": "jms-map-json"}, False, "content-type", None),
    ],
)
def test_a_text_stays_a_text(
    said: dict[str, str], to_activemq: bool, name: str, value: str | None
) -> None:
    """ActiveMQ takes what has a length for bytes, and ours always has one."""
    on = carried({"message-id": "1", **said}, is_doubtful=False, to_activemq=to_activemq)
    assert on.get(name) == value


@pytest.mark.parametrize("text", ["", "-1", "x", "１", "99999"])
def test_a_count_that_is_none_is_nothing(text: str) -> None:
    """Anybody may write that header."""
    assert hops_of({"shovel-hops": text}) == 0


@pytest.mark.parametrize(
    ("said", "body", "target", "reason"),
    [
        ({}, b"x", "/queue/a", None),
        ({"content-length": "0"}, b"", "/queue/a", None),
        ({}, b"", "/queue/a", "empty"),
        ({"shovel-hops": str(HOPS_MAX)}, b"x", "/queue/a", "hops"),
        ({}, b"x", "/temp-queue/a", "destination"),
        ({}, b"x", "/queue/a.>", "destination"),
        ({"transformation-error": "no class"}, b"", "/queue/a", "object"),
    ],
)
def test_what_would_arrive_as_less_than_it_is_stays(
    said: dict[str, str], body: bytes, target: str, reason: str | None
) -> None:
    """An object by STOMP has no body; what goes round is stopped."""
    stay = why_stays(said, body, target, server="ActiveMQ/5.17.2", takes_empty=False)
    assert (stay and stay.reason) == reason


@pytest.mark.parametrize(
    ("server", "takes_empty"), [("RabbitMQ/3.10.8", False), ("ActiveMQ/5", True)]
)
def test_who_says_that_it_was_sent_empty_is_believed(server: str, takes_empty: bool) -> None:
    """Other brokers tell all of what was sent by STOMP."""
    assert why_stays({}, b"", "/queue/a", server=server, takes_empty=takes_empty) is None
