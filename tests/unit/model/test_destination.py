"""
Reading destinations as clients write them.
"""

from __future__ import annotations

import pytest

from holdfast.errors import DestinationError
from holdfast.model.destination import Destination, Kind, parse_destination


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
        ("/queue/a,b", "composite"),
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
