"""
Which subscriptions a destination's name concerns.
"""

from __future__ import annotations

from collections import deque

import pytest

from holdfast.broker.serving.bundle import Bundle
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.wildcards import Wildcards
from holdfast.errors import DestinationError
from holdfast.model.destination import Kind
from holdfast.model.limits import WILDCARD_SHAPES_MAX
from holdfast.model.wildcards import parse_pattern


def bundle(*patterns: str) -> Bundle:
    return Bundle(
        None,  # type: ignore[arg-type]
        "s",
        mode=AcknowledgeMode.AUTO,
        prefetch=1,
        destination=",".join(patterns),
        client="",
        patterns=[parse_pattern(it) for it in patterns],
        stirring=deque(),
    )


def test_each_subscription_is_found_once_by_any_of_its_patterns() -> None:
    """And only for its kind of destination."""
    wildcards = Wildcards()
    one, other = bundle("queue://a.*", "queue://a.>"), bundle("topic://a.*", "queue://*.b")
    assert not wildcards
    wildcards.add(one)
    wildcards.add(other)
    assert wildcards
    assert wildcards.of(Kind.QUEUE, "a") == [one]
    assert wildcards.of(Kind.QUEUE, "a.b") == [one, other]
    assert wildcards.of(Kind.TOPIC, "a.b") == [other]
    assert wildcards.of(Kind.TOPIC, "b") == []


def test_nothing_is_left_of_who_has_gone() -> None:
    """Also where somebody else has the same pattern, who stays; twice is as good as once."""
    wildcards = Wildcards()
    one, other = bundle("queue://a.*"), bundle("queue://a.*")
    for each in (one, other):
        wildcards.add(each)
    wildcards.remove(one)
    wildcards.remove(one)
    assert wildcards.of(Kind.QUEUE, "a.b") == [other]
    wildcards.remove(other)
    assert not wildcards


def test_the_kinds_of_patterns_have_a_limit() -> None:
    """What is one too many changes nothing; what is like others is none more."""
    wildcards = Wildcards()
    for count in range(WILDCARD_SHAPES_MAX):
        wildcards.add(bundle(f"queue://{'x.' * count}*"))
    wildcards.add(bundle("queue://y.*"))
    late = bundle("queue://z.*", "topic://*")
    with pytest.raises(DestinationError, match="at most 256"):
        wildcards.add(late)
    assert late not in wildcards.of(Kind.QUEUE, "z.z")
