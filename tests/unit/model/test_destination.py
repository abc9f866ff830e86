"""
Reading destinations as clients write them.
"""

from __future__ import annotations

import pytest

from holdfast.errors import DestinationError
from holdfast.model.destination import Destination, Kind, parse_destination, parse_destinations
from holdfast.model.limits import COMPOSITE_COUNT_MAX


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("/queue/a", Kind.QUEUE, "a"),
        ("/queue//a/b", Kind.QUEUE, "/a/b"),
        ("/topic/a.b", Kind.TOPIC, "a.b"),
        ("/temp-queue/a", Kind.TEMPORARY_QUEUE, "a"),
        ("/temp-topic/a", Kind.TEMPORARY_TOPIC, "a"),
        ("/remote-temp-queue/x.a", Kind.REMOTE_TEMPORARY_QUEUE, "x.a"),
        ("/remote-temp-topic/x.a", Kind.REMOTE_TEMPORARY_TOPIC, "x.a"),
        ("a", Kind.QUEUE, "a"),
        ("/queue", Kind.QUEUE, "/queue"),
        ("/exchange/a", Kind.QUEUE, "/exchange/a"),
        ("a>b", Kind.QUEUE, "a>b"),
        ("a*.b", Kind.QUEUE, "a*.b"),
    ],
)
def test_a_name_means_a_kind_and_a_name(text, kind, name) -> None:
    """
    Known prefixes are cut off; anything else is a queue of exactly that name.
    """
    assert parse_destination(text) == Destination(kind, name)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_destination_is_written_as_it_is_read(kind) -> None:
    """
    str() and parse_destination are each other's inverse.
    """
    destination = Destination(kind, "a.b/c")
    assert parse_destination(str(destination)) == destination


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no name"),
        ("/queue/", "no name"),
        ("/queue/a,b", "may only be sent to"),
        (",", "may only"),
        ("/queue/a.>", "wildcards"),
        (">", "wildcards"),
        ("/topic/a.*.b", "wildcards"),
        ("*", "wildcards"),
        ("/queue/" + "x" * 1025, "1,025 bytes"),
        ("\u00e9" * 513, "1,026 bytes"),
    ],
)
def test_what_is_not_served_is_refused_with_its_reason(text, why) -> None:
    """
    The sentence says what is wrong with the name.
    """
    with pytest.raises(DestinationError, match=why):
        parse_destination(text)


def test_the_longest_name_is_served() -> None:
    """
    The limit itself is allowed.
    """
    assert len(parse_destination("/queue/" + "x" * 1024).name) == 1024


A, B, T = Destination(Kind.QUEUE, "a"), Destination(Kind.QUEUE, "b"), Destination(Kind.TOPIC, "t")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", (A,)),
        ("/queue/a,/queue/b", (A, B)),
        ("/queue/a,b", (A, B)),
        ("a , /topic/t,queue://b", (A, T, B)),
        ("topic://t,queue:// a ", (T, A)),
        ("/topic/t,a", (T, Destination(Kind.TOPIC, "a"))),
        ("/topic/t,/queue/a,t", (T, A)),
        (",a,,b, ,a", (A, B)),
        ("a,/temp-queue/x", (A, Destination(Kind.TEMPORARY_QUEUE, "x"))),
        ("queue://a", (Destination(Kind.QUEUE, "queue://a"),)),
        ("a?x=1,2", (Destination(Kind.QUEUE, "a", "x=1,2"),)),
        ("a,b?x=1", (Destination(Kind.QUEUE, "a", "x=1"), Destination(Kind.QUEUE, "b", "x=1"))),
    ],
)
def test_several_destinations_are_read_in_their_order_once_each(text, expected) -> None:
    """
    A part without a prefix is of the first one's kind; what is empty is passed over.
    """
    assert parse_destinations(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (",", "nothing but commas"),
        (" , ,?a=b", "nothing but commas"),
        ("a,/queue/", "no name"),
        ("a,queue://", "no name"),
        ("a,b.>", "wildcards"),
        ("a," + "x" * 1025, "1,025 bytes"),
        (",".join(f"q{n}" for n in range(COMPOSITE_COUNT_MAX + 1)), "more than 64 destinations"),
        ("a," * 100_000, "more than 64 destinations"),
        ("a?x=1,/queue/b", "options stand behind the last"),
        ("a,b?x=1, topic://c", "options stand behind the last"),
    ],
)
def test_a_part_that_is_not_served_refuses_all(text, why) -> None:
    """
    The sentence says what is wrong, and is short whatever was written.
    """
    with pytest.raises(DestinationError, match=why) as caught:
        parse_destinations(text)
    assert len(str(caught.value)) < 300


def test_as_many_as_are_served_may_be_written_many_times() -> None:
    """
    What is written twice counts once.
    """
    text = ",".join(f"q{n % COMPOSITE_COUNT_MAX}" for n in range(4 * COMPOSITE_COUNT_MAX))
    assert len(parse_destinations(text)) == COMPOSITE_COUNT_MAX
