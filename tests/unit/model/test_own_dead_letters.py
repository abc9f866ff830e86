"""
Names of queues that have the dead letters of one destination, or one durable subscription, alone.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.destination import parse_destination
from holdfast.model.own_dead_letters import fits, own_queues

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def named(client_id: str, name: str) -> str:
    return next(own_queues("DLQ.", "prices", ".s", (client_id, name)))


def test_they_are_called_as_by_activemq() -> None:
    """Before the suffix; of one that is named by topic and id alone there is no client."""
    assert list(own_queues("DLQ.", "prices", ".s", None)) == ["DLQ.prices.s"]
    assert list(own_queues("DLQ.", "prices", ".s", ("ann-1.x", "mine"))) == [
        "DLQ.prices.ann-1.x:mine.s",
        "DLQ.prices.s",
    ]
    assert named("", "prices:d") == "DLQ.prices.:prices:d.s"


def test_what_no_queue_can_be_called_is_written_otherwise() -> None:
    """Wildcards, commas, options, spaces, what cannot be shown; a colon only of a client."""
    assert named("a:b,c", "*>? \n%é:d") == "DLQ.prices.a%3Ab%2Cc:%2A%3E%3F%20%0A%25é:d.s"


@given(st.tuples(TEXTS, TEXTS), st.tuples(TEXTS, TEXTS))
def test_a_consumer_can_say_each_and_no_two_are_the_same(first, second) -> None:
    """Whatever clients call themselves and their subscriptions."""
    name = named(*first)
    assert parse_destination(f"/queue/{name}").name == name
    assert name.isprintable()
    assert (name == named(*second)) == (first == second)


def test_how_long_a_name_may_be() -> None:
    """In bytes, as it is stored."""
    assert fits("é" * 512)
    assert not fits("é" * 512 + "a")
