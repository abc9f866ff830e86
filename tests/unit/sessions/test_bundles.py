"""
What the parts of a subscription to several destinations need of its connection.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError
from holdfast.model.destination import parse_sources
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.sessions.bundles import pattern_of, prefetch_of
from tests.unit.sessions.conftest import Desk


@pytest.mark.parametrize(
    ("written", "expected"),
    [("/queue/a.*", "queue://a.*"), ("/topic/a.>", "topic://a.>"), (">", "queue://>")],
)
def test_a_wildcard_is_a_pattern(written: str, expected: str) -> None:
    """As policies have them."""
    (source,) = parse_sources(written)
    assert str(pattern_of(source)) == expected


def test_a_wildcard_that_cannot_be_names_its_destination() -> None:
    """And says why."""
    (source,) = parse_sources("/queue/a.>.*")
    with pytest.raises(DestinationError, match=r"'/queue/a\.>\.\*'.*stands at the end"):
        pattern_of(source)


def test_the_prefetch_is_the_clients_or_the_settings(desk) -> None:
    """No policy is for all of its destinations; 0 means as much as may be."""
    holdings = desk.connect().session.holdings
    settings = desk.settings
    assert prefetch_of(holdings, None) == settings.prefetch_default
    assert prefetch_of(holdings, 7) == 7
    assert prefetch_of(holdings, 0) == prefetch_of(holdings, 1 << 40) == settings.prefetch_max


def test_each_part_has_a_number_of_its_own(desk) -> None:
    """By which a client of STOMP 1.2 names its deliveries, of one subscription."""
    desk.broker.state.format_level = NEWEST_LEVEL
    client = desk.connect()
    client.subscribe("/queue/a,/queue/b,/temp-queue/c")
    for name in ("a", "b"):
        client.send(b"x", f"/queue/{name}")
    client.say("SEND", b"x", destination="/temp-queue/c")
    desk.turn()
    found = client.frames()
    assert {it.headers["subscription"] for it in found} == {"s"}
    assert len({it.headers["ack"].partition("-")[0] for it in found}) == 3
    assert {it.headers["destination"] for it in found} == {"/queue/a", "/queue/b", "/temp-queue/c"}


def test_all_whose_wildcards_mean_a_new_topic_get_its_first_message(desk) -> None:
    """
    They join it in steps, and whoever sent to it is told when the last of them has had it; who
    subscribed behind that has not.
    """
    listeners = [desk.connect() for _ in range(9)]
    for each in listeners:
        each.subscribe("/topic/prices.>", "w", ack="auto")
    sender, late = desk.connect(), desk.connect()
    sender.send(b"first", "/topic/prices.new", receipt="out")
    late.subscribe("/topic/prices.>", "w", ack="auto")
    desk.dispatch()
    desk.confirm()
    assert not any(each.frames() for each in (*listeners, sender, late))
    desk.turn()
    sender.send(b"second", "/topic/prices.else")  # It is read again.
    desk.confirm()
    assert [it.headers["receipt-id"] for it in sender.frames()] == ["out"]
    for each in listeners:
        assert [it.body for it in each.frames()] == [b"first"]
    assert not late.frames()
    assert desk.broker.destinations.topics["prices.new"].spread_count == 0


def test_a_topic_that_is_joined_holds_up_no_other_one() -> None:
    """
    What goes to many takes its turns; who committed messages to both is told when both are out.
    """
    desk = Desk(BrokerSettings(step_count_max=2))
    wild, plain = [desk.connect() for _ in range(9)], [desk.connect() for _ in range(5)]
    for each in wild:
        each.subscribe("/topic/prices.>", "w", ack="auto")
    for each in plain:
        each.subscribe("/topic/news", "n", ack="auto")
    desk.turn()
    first, second = desk.connect(), desk.connect()
    first.say("BEGIN", transaction="t")
    for topic in ("prices.new", "news"):
        first.send(b"first", f"/topic/{topic}", transaction="t")
    first.say("COMMIT", transaction="t", receipt="both")
    desk.seal()
    desk.commit()
    second.send(b"second", "/topic/news")
    desk.dispatch()
    desk.confirm()
    assert [[it.body for it in each.frames()] for each in plain] == [[b"first", b"second"]] * 5
    assert not any(each.frames() for each in (*wild, first))
    desk.turn()
    assert [[it.body for it in each.frames()] for each in wild] == [[b"first"]] * 9
    assert [it.headers["receipt-id"] for it in first.frames()] == ["both"]
    assert not desk.broker.publishing.early
