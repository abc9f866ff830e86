"""What a message says to a selector: headers, JMS' names, and no more read than is asked for."""

from __future__ import annotations

import pytest

from holdfast.broker.serving.message import TransientMessage
from holdfast.model.destination import parse_destination
from holdfast.protocols.stomp.mapping import visible_lines
from holdfast.sessions import stomp_values
from holdfast.sessions.stomp_values import StompValues, written_by_jms


def values_of(**headers: str) -> StompValues:
    lines = visible_lines({name.replace("_", "-"): value for name, value in headers.items()})
    message = TransientMessage(-7, lines, b"body", 0, 1_700_000_000_123_456)
    return StompValues(message, "topic://prices", "ID:c0ffee-0-t3.")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JMSType", None),
        ("JMSPriority", 4),
        ("JMSCorrelationID", None),
        ("JMSReplyTo", None),
        ("JMSDestination", "topic://prices"),
        ("JMSMessageID", "ID:c0ffee-0-t3.7"),
        ("JMSTimestamp", 1_700_000_000_123),
        ("JMSExpiration", 0),
        ("JMSDeliveryMode", "NON_PERSISTENT"),
        ("JMSRedelivered", False),
        ("JMSXDeliveryCount", 1),
        ("JMSXGroupID", None),
        ("JMSXGroupSeq", 0),
        ("JMSXUserID", None),
        ("JMSXGroupFirstForConsumer", False),
        ("AMQPriority", 4),
        ("AMQExpiration", 0),
        ("AMQTimestamp", 1_700_000_000_123),
        ("AMQDurable", "NON_DURABLE"),
        ("AMQSize", 4),
        ("price", None),
    ],
)
def test_a_message_without_headers_says_what_is_so_by_default(name: str, value: object) -> None:
    """As its MESSAGE frame would say it; of everything else nothing."""
    assert values_of()[name] == value


@pytest.mark.parametrize(
    ("name", "header", "written", "value"),
    [
        ("JMSType", "type", "news", "news"),
        ("JMSPriority", "priority", "9", 9),
        ("JMSPriority", "priority", "high", None),
        ("JMSCorrelationID", "correlation-id", "a:1", "a:1"),
        ("JMSReplyTo", "reply-to", "/queue/answers", "queue://answers"),
        ("JMSReplyTo", "reply-to", "/remote-temp-queue/ID.a", "temp-queue://ID.a"),
        ("JMSReplyTo", "reply-to", "/topic/", "/topic/"),
        ("JMSTimestamp", "timestamp", "12", 12),
        ("JMSTimestamp", "timestamp", "noon", None),
        ("JMSExpiration", "expires", "99", 99),
        ("JMSDeliveryMode", "persistent", "true", "PERSISTENT"),
        ("JMSXGroupID", "JMSXGroupID", "g", "g"),
        ("JMSXGroupSeq", "JMSXGroupSeq", "-1", -1),
        ("AMQPriority", "priority", "9", 9),
        ("AMQDurable", "persistent", "true", "DURABLE"),
        ("content-type", "content-type", "text/plain", "text/plain"),
        ("price", "price", "2.5", "2.5"),
    ],
)
def test_headers_are_read_by_the_names_of_jms_and_by_their_own(
    name: str, header: str, written: str, value: object
) -> None:
    """Numbers where JMS has numbers; other headers are texts, as STOMP has them."""
    lines = visible_lines({"a": "1", header: written, "z": "2"})
    values = StompValues(TransientMessage(-1, lines, b"", 0), "topic://t", "ID:")
    assert values[name] == value


def test_only_what_is_asked_for_is_read_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most selectors want one header of ten; where many are wanted all are read together."""
    looked_up: list[str] = []
    lookup = stomp_values.lookup

    def note(lines: bytes, name: str) -> str | None:
        looked_up.append(name)
        return lookup(lines, name)

    monkeypatch.setattr(stomp_values, "lookup", note)
    names = [f"h{number}" for number in range(20)]
    values = values_of(**dict.fromkeys(names, "x"))
    assert [values["h3"], values["h3"], values["missing"], values["missing"]] == [
        *("x", "x"),
        *(None, None),
    ]
    assert looked_up == ["h3", "missing"]
    assert [values[name] for name in names] == ["x"] * 20
    assert len(looked_up) == 8
    assert values["missing-too"] is None


def test_what_is_kept_of_a_message_is_bounded() -> None:
    """A hundred thousand selectors may ask for as many names."""
    values = values_of(h1="x")
    for number in range(5000):
        assert values[f"h{number}"] == ("x" if number == 1 else None)
        assert len(values) <= 1024
    assert values["h1"] == "x"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("/queue/a", "queue://a"),
        ("/topic/a.b", "topic://a.b"),
        ("/temp-topic/a", "temp-topic://S1.a"),
        ("/remote-temp-topic/S2.a", "temp-topic://S2.a"),
    ],
)
def test_destinations_are_written_as_jms_does(written: str, expected: str) -> None:
    """A temporary one by the name that others know it by."""
    assert written_by_jms(parse_destination(written), "S1") == expected
