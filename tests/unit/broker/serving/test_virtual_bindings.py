"""
Queues with wildcards in their names that consume virtual topics.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.serving import virtual_bindings
from holdfast.broker.serving.virtual_bindings import Bindings, topics_of
from holdfast.model.destination import Kind
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX
from holdfast.model.virtual_topics import DEFAULT_FORM, Form
from holdfast.model.wildcards import parse_pattern

_PARTS = st.sampled_from(["a", "b", "*"])
_PATTERNS = st.builds(
    lambda parts, rest: ".".join([*parts, *rest]),
    st.lists(_PARTS, min_size=1, max_size=3),
    st.sampled_from([[], [">"]]),
)
_TOPICS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(".".join)


def test_the_topics_are_told_by_the_name() -> None:
    """
    With which application it is; what is exact, or means all applications, is none.
    """
    assert topics_of("Consumer.A.VirtualTopic.>", DEFAULT_FORM) == "VirtualTopic.>"
    assert topics_of("Consumer.A.>", DEFAULT_FORM) == ">"
    assert topics_of("VTC.A.prices.*.q", Form("VTC.*.", ".q")) == "prices.*"
    for name in ("Consumer.A.t", "Consumer.*.t.>", "Consumer.>", "other.A.>", "*.A.t.>", "a"):
        assert topics_of(name, DEFAULT_FORM) is None


@given(
    steps=st.lists(st.tuples(st.booleans(), st.sampled_from("AB"), _PATTERNS), max_size=20),
    topics=st.lists(_TOPICS, max_size=6),
)
def test_each_topic_is_for_those_whose_patterns_mean_it(
    steps: list[tuple[bool, str, str]], topics: list[str]
) -> None:
    """
    Held against asking each of them, whatever came and went before; each queue is given once.
    """
    bindings, there = Bindings(DEFAULT_FORM), {}
    for is_new, who, pattern in steps:
        name = f"Consumer.{who}.{pattern}"
        if topics_of(name, DEFAULT_FORM) is None:
            continue
        if is_new:
            bindings.add(name, pattern)
            there[name] = (who, pattern)
        else:
            bindings.remove(name, pattern)
            there.pop(name, None)
        for topic in topics:
            expected = {
                f"Consumer.{who}.{topic}"
                for who, pattern in there.values()
                if parse_pattern(f"topic://{pattern}").matches(Kind.TOPIC, topic)
            }
            found = bindings.of(topic)
            assert set(found) == expected
            assert len(found) == len(expected)
    assert set(bindings.names) == set(there)


def test_no_more_than_some_topics_are_remembered(monkeypatch) -> None:
    """
    However many a sender names.
    """
    monkeypatch.setattr(virtual_bindings, "_REMEMBERED_MAX", 3)
    bindings = Bindings(DEFAULT_FORM)
    bindings.add("Consumer.A.>", ">")
    for number in range(20):
        assert bindings.of(f"t{number}") == (f"Consumer.A.t{number}",)
        assert len(bindings._found) <= 3


def test_names_that_are_too_long_are_left_out() -> None:
    """
    And what has wildcards is no topic.
    """
    bindings = Bindings(DEFAULT_FORM)
    bindings.add("Consumer.A.>", ">")
    most = QUEUE_NAME_BYTES_MAX - len("Consumer.A.")
    assert len(bindings.of("x" * most)) == 1
    assert bindings.of("x" * (most + 1)) == ()
    assert bindings.of("VirtualTopic.>") == ()
