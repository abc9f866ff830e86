"""
Which durable subscriptions of wildcards a topic's name concerns, as their leader has them.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic
from holdfast.broker.serving import wildcards
from holdfast.broker.serving.patterns import Patterns, WildDurable
from holdfast.errors import DestinationError
from holdfast.model.topic_records import part_name, whole_of
from holdfast.model.wildcards import parse_pattern


class Selects:
    effort = 7


def durable(number: int, text: str, selector=None) -> WildDurable:
    lasting = LastingSubscription(number, LastingTopic(number + 1, text))
    lasting.client_id, lasting.name = "ann", "mine"
    return WildDurable(lasting, parse_pattern(f"topic://{text}"), selector)


def test_a_name_concerns_those_whose_wildcard_means_it() -> None:
    """
    Each once, until it ends; never those of the broker's own.
    """
    patterns, one, all_of_it = Patterns(), durable(1, "a.*"), durable(3, "a.>")
    assert not patterns and patterns.of("a.b") == [] and not patterns.concern("a.b")
    patterns.add(one)
    patterns.add(all_of_it)
    assert patterns.of("a.b") == [one, all_of_it] and patterns.of("a.b.c") == [all_of_it]
    patterns.add(durable(5, ">"))
    assert patterns.concern("x") and not patterns.concern("$x") and patterns.of("$x") == []
    assert patterns.remove(1) is one and patterns.remove(1) is None
    assert patterns.of("a.b") != [one] and patterns.change_count == 3


def test_their_selectors_count_together() -> None:
    """
    As all of them may mean the same topic.
    """
    patterns = Patterns()
    patterns.add(durable(1, "a.*", Selects()))
    patterns.add(durable(3, "b.*", Selects()))
    assert patterns.effort == 14
    patterns.remove(3)
    assert patterns.effort == 7


def test_there_are_only_so_many_kinds(monkeypatch) -> None:
    """
    So that what a new topic costs has a bound.
    """
    monkeypatch.setattr(wildcards, "WILDCARD_SHAPES_MAX", 1)
    patterns = Patterns()
    patterns.add(durable(1, "a.*"))
    patterns.require_room(parse_pattern("topic://b.*"))
    with pytest.raises(DestinationError, match="at 1 different places"):
        patterns.require_room(parse_pattern("topic://*.b"))


def test_a_part_says_by_its_name_whose_it_is() -> None:
    """
    No name that a client can give does, whatever it looks like.
    """
    assert durable(12, "a.*").key_on(7) == ("ann", part_name(12, 7))
    assert whole_of(part_name(12, 7)) == 12
    for name in ("", "mine", "12.7", "\n12.7", "\0", "\0x.7"):
        assert not whole_of(name)


def test_what_sends_come_to_can_be_made_old() -> None:
    """Without a new pattern: who may send where has changed."""
    patterns = Patterns()
    before = patterns.change_count
    patterns.unsettle()
    assert patterns.change_count != before
    assert not patterns
