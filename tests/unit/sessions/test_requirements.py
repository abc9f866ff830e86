"""
What requests of any protocol must keep to.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError, RefusedError
from holdfast.model.destination import parse_destination
from holdfast.sessions.requirements import (
    no_room,
    read_number,
    read_producer_id,
    require_served_name,
    require_short,
    require_subscription_room,
)
from tests.unit.broker.served import served


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"x",
        b"-1",
        b"%d" % (1 << 63),
        b"\xff" * 100,
        b"1_0",
        b"+1",
        b" 1",
        b"1 ",
        b"\t1",
        "\u0663".encode(),
    ],
)
def test_numbers_have_limits(raw) -> None:
    """
    And a long one is not repeated whole.
    """
    assert read_number(b"%d" % ((1 << 63) - 1), "n") == (1 << 63) - 1
    with pytest.raises(RefusedError, match=r"header n: .{0,80} is not a number"):
        read_number(raw, "n")


def test_a_producer_id_has_bytes() -> None:
    """
    One at least, and not too many.
    """
    assert read_producer_id("p") == "p"
    for text in ("", "p" * 1000):
        with pytest.raises(RefusedError, match="producer-id"):
            read_producer_id(text)


def test_sentences_name_what_they_are_about() -> None:
    """
    A client's developer reads them.
    """
    assert "topic 't'" in no_room(Topic("t"))
    assert "memory" in no_room(served(1, "q"))


def test_names_of_a_client_are_short() -> None:
    """
    They are kept as long as what they name.
    """
    require_short("x" * 1024, "name")
    with pytest.raises(DestinationError, match="name of 1,025 bytes"):
        require_short("x" * 1025, "name")


def test_a_broker_that_speaks_of_itself_is_not_served() -> None:
    """
    Who subscribed to advisories would wait for ever.
    """
    require_served_name(parse_destination("/topic/ActiveMQ.Advice"))
    with pytest.raises(DestinationError, match="advisory"):
        require_served_name(parse_destination("/topic/ActiveMQ.Advisory.Connection"))


def test_subscriptions_of_all_connections_have_a_bound(new_desk) -> None:
    """
    By number, and by what their names take.
    """
    few = new_desk(BrokerSettings(subscriptions_count_max=1))
    require_subscription_room(few.broker, 1, None)
    few.connect().subscribe()
    with pytest.raises(DestinationError, match="at most 1 subscriptions"):
        require_subscription_room(few.broker, 1, None)
    small = new_desk(BrokerSettings(subscriptions_bytes_max=1000))
    with pytest.raises(DestinationError, match="long names"):
        require_subscription_room(small.broker, 1001, None)
