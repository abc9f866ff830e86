"""
What statistics tell where there is much, or nothing yet.
"""

from __future__ import annotations

from holdfast.model.destination import Destination, Kind
from holdfast.sessions.statistics import ANSWERS_MAX, of_broker, of_destinations, of_subscriptions


def told(answers):
    return [each for each in answers if each is not None]


def test_a_queue_that_nobody_served_tells_what_the_log_has(desk) -> None:
    """
    After a failover most queues are such.
    """
    client = desk.connect()
    client.send(b"12")
    desk.turn()
    desk.broker.follow()
    desk.broker.lead()
    (values,) = told(of_destinations(desk.broker, desk.context, Destination(Kind.QUEUE, "orders")))
    assert (values["size"], values["inflightCount"], values["consumerCount"]) == (1, 0, 0)


def test_of_very_many_consumers_it_is_not_added_up_what_they_have(desk) -> None:
    """
    A hundred thousand would take ten milliseconds.
    """
    client = desk.connect()
    for number in range(1_001):
        client.subscribe("/queue/many", id=str(number))
    desk.turn()
    (values,) = told(of_destinations(desk.broker, desk.context, Destination(Kind.QUEUE, "many")))
    assert values["consumerCount"] == 1_001
    assert "inflightCount" not in values
    assert len(told(of_subscriptions(desk.broker, desk.context))) == ANSWERS_MAX


def test_an_empty_broker_has_averages(desk) -> None:
    """
    Of nothing.
    """
    assert of_broker(desk.broker, desk.context)["averageMessageSize"] == 0.0
