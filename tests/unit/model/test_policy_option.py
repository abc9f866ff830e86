"""
What one key says of itself.
"""

from __future__ import annotations

from holdfast.model.allowed import Allowed
from holdfast.model.destination import Kind
from holdfast.model.policy_option import FORWARD_TO, PolicyOption

NUMBER = PolicyOption(name="n", kind=Kind.QUEUE, meaning="a number", allowed=Allowed(1, 5))
NAME = PolicyOption(name="queuePrefix", kind=Kind.TOPIC, meaning="a name", allowed=Allowed(1, 5))


def test_it_tells_numbers_from_texts() -> None:
    """By its name, as both have a range."""
    assert NUMBER.is_number
    assert NAME.is_name
    assert not NAME.is_number


def test_it_says_what_it_may_be() -> None:
    """A range, one of several words, so many bytes, or a list."""
    words = PolicyOption(name="w", kind=Kind.QUEUE, meaning="a word", choices=("no", "yes"))
    several = PolicyOption(name=FORWARD_TO, kind=Kind.QUEUE, meaning="some", allowed=Allowed(0, 99))
    assert words.says_allowed == "no, yes"
    assert NUMBER.says_allowed == str(NUMBER.allowed)
    assert NAME.says_allowed == f"{NAME.allowed} bytes"
    assert several.says_allowed.startswith("destinations with commas between")


def test_it_can_be_said_of_its_kind_or_of_both() -> None:
    """Of a topic nothing that is of queues."""
    both = PolicyOption(name="b", kind=Kind.QUEUE, meaning="both", is_of_both=True)
    assert [NUMBER.is_of(kind) for kind in (Kind.QUEUE, Kind.TOPIC)] == [True, False]
    assert both.is_of(Kind.TOPIC)
