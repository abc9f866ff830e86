"""
Policies that forward go in no circle, and their selectors can be read.
"""

from __future__ import annotations

import pytest

from holdfast.broker.forwarding_checks import Ways, faults_of, require_readable
from holdfast.broker.lasting.policies import PolicyKey
from holdfast.errors import PolicyError
from holdfast.model.policies import as_text
from holdfast.model.records import PolicyRecord
from holdfast.model.wildcards import parse_pattern


def check(pattern: str, forward_to: str, **before: str) -> None:
    written = {key.replace("_", "."): {"forwardTo": value} for key, value in before.items()}
    require(pattern, written, {"forwardTo": forward_to})


def require(pattern: str, before: dict, values: dict) -> None:
    """Say this of a pattern, where that was said before."""
    said = {str(parse_pattern(key)): it for key, it in (before | {pattern: values}).items()}
    records = {PolicyKey(False, key): PolicyRecord(key, as_text(it)) for key, it in said.items()}
    require_readable(values)
    for _ in Ways(records).judge(parse_pattern(pattern), values):
        pass


@pytest.mark.parametrize(
    ("pattern", "forward_to", "before", "circle"),
    [
        ("a", "a", {}, "/queue/a → /queue/a"),
        ("b", "c,a", {"a": "b"}, "/queue/a → /queue/b → /queue/a"),
        ("c", "d,a", {"a": "b", "b": "c"}, "/queue/a → /queue/b → /queue/c → /queue/a"),
        ("x.>", "x.y", {}, "/queue/x.y → /queue/x.y"),
        ("q", "topic://t", {"r": "q"}, None),
        ("a", "b,c", {"b": "d", "c": "d"}, None),
        ("x.*", "y.a,z", {"y_*": "z"}, None),
        ("a", "topic://a", {}, None),
    ],
)
def test_a_circle_is_refused_with_its_places(
    pattern: str, forward_to: str, before: dict[str, str], circle: str | None
) -> None:
    """Also one through a pattern that means many; two ways to one place are none."""
    if circle is None:
        check(pattern, forward_to, **before)
        return
    with pytest.raises(PolicyError) as caught:
        check(pattern, forward_to, **before)
    places = str(caught.value).partition("circle: ")[2].split(" → ")
    assert places[0] == places[-1]
    assert set(places) == set(circle.split(" → "))


def test_the_more_exact_word_counts() -> None:
    """A destination that is forwarded elsewhere by its own name is no part of a circle."""
    check("x.>", "x.y", x_y="elsewhere")


def test_a_selector_that_cannot_be_read_is_refused() -> None:
    """With where, and why."""
    with pytest.raises(PolicyError, match=r"selector of '/queue/b' cannot be read.*column"):
        check("a", "c, b when x = ")


def test_a_thousand_policies_that_forward_on_are_no_circle() -> None:
    """However deep."""
    check("p999", "end", **{f"p{n}": f"p{n + 1}" for n in range(999)})
    with pytest.raises(PolicyError, match="circle"):
        check("p999", "p0", **{f"p{n}": f"p{n + 1}" for n in range(999)})


def test_mirrors_and_consumers_of_virtual_topics_are_ways_too() -> None:
    """
    A queue's mirror, or a queue that consumes a topic, may close a circle as any list does.
    """
    before = {"topic://VirtualTopic.Mirror.a": {"forwardTo": "b"}, "b": {"forwardTo": "a"}}
    with pytest.raises(PolicyError, match="circle"):
        require("a", before, {"mirrored": "true"})
    with pytest.raises(PolicyError, match="circle"):
        require("Consumer.A.VirtualTopic.x", {}, {"forwardTo": "topic://VirtualTopic.x"})
    require("Consumer.A.VirtualTopic.x", {}, {"forwardTo": "topic://VirtualTopic.y"})
    forwards = {"VTC.a.orders": {"forwardTo": "topic://orders"}}
    with pytest.raises(PolicyError, match="circle"):
        require(
            "topic://orders", forwards, {"virtualTopic": "true", "virtualTopicPrefix": "VTC.*."}
        )


@pytest.mark.parametrize(
    ("pattern", "values", "before"),
    [
        ("Consumer.*.VirtualTopic.x", {"forwardTo": "topic://VirtualTopic.x"}, {}),
        ("Consumer.a.>", {"forwardTo": "topic://VirtualTopic.x"}, {}),
        ("topic://VirtualTopic.x", {"forwardTo": "b", "forwardOnly": "false"}, {
            "Consumer.>": {"forwardTo": "c"}, "c": {"forwardTo": "topic://VirtualTopic.x"}
        }),
        (">", {"mirrored": "true"}, {"topic://VirtualTopic.Mirror.a": {"forwardTo": "a"}}),
        ("topic://o.>", {"virtualTopic": "true", "virtualTopicPrefix": "VTC.*."}, {
            "VTC.*.o.x": {"forwardTo": "topic://o.x"}
        }),
    ],
)  # fmt: skip
def test_patterns_that_may_mean_a_place_on_the_way_close_circles(pattern, values, before) -> None:
    """
    A queue that consumes a virtual topic need not be called by its own name.
    """
    with pytest.raises(PolicyError, match="circle"):
        require(pattern, before, values)
    for key in before:
        require(pattern, {it: values for it, values in before.items() if it != key}, values)


def test_a_pattern_closes_no_circle_of_others() -> None:
    """
    Nor one through queues of which a more exact pattern says that they forward nothing.
    """
    circle = {"a": {"forwardTo": "b"}, "b": {"forwardTo": "a"}}
    require("x.*", circle, {"forwardTo": "y"})
    before = {"Consumer.>": {"forwardTo": ""}}
    require(">", before, {"forwardTo": "topic://VirtualTopic.x"})
    with pytest.raises(PolicyError, match="circle"):
        require(">", {}, {"forwardTo": "topic://VirtualTopic.x"})


def test_each_fault_of_a_file_is_told_once_with_its_key() -> None:
    """The file's words are judged together."""
    found = list(
        faults_of(
            {
                "queue://a": {"forwardTo": "b"},
                "queue://b": {"forwardTo": "a", "queuePrefetch": 3},
                "queue://c": {"forwardTo": "d when 1 ="},
                "queue://e": {"queuePrefetch": 3},
            }
        )
    )
    assert [(pattern, key) for pattern, key, _ in found] == [
        ("queue://a", "forwardTo"),
        ("queue://b", "forwardTo"),
        ("queue://c", "forwardTo"),
    ]
