"""What members tell of the levels of the log's format, and whom that keeps apart."""

from __future__ import annotations

import pytest

from holdfast.errors import FormatLevelError
from holdfast.replication.format_levels import (
    KNOWN,
    REACHED,
    known_by_all,
    known_level,
    reached_level,
    refused,
    require_reached_known,
    with_reached,
)
from holdfast.replication.formation import judge
from holdfast.replication.membership import Membership
from holdfast.replication.messages import Hello


def hello(name: str = "a", **metadata: str) -> Hello:
    return Hello(name, "00", metadata={key.replace("_", "-"): it for key, it in metadata.items()})


@pytest.mark.parametrize("text", ["", "two", "-1", "0", "\u00b2", "1" * 10, "9" * 5_000])
def test_who_tells_no_level_knows_the_first(text: str) -> None:
    """A version of before says nothing of it; what makes no sense counts for nothing."""
    assert known_level(hello(format=text)) == reached_level(hello(format_reached=text)) == 1


def test_all_must_have_told(member) -> None:
    """Also a witness and a learner: each keeps the log."""
    state = member("a", "b", "w:witness", "l:learner").state
    own = hello(format="3")
    assert known_by_all(state, own) == 1
    for name, level in (("b", "2"), ("w", "4"), ("l", "3")):
        state.connected[name].metadata[KNOWN] = level
    assert known_by_all(state, own) == 2
    state.connected["b"].metadata[KNOWN] = "9"
    assert known_by_all(state, own) == 3


def test_who_is_not_linked_counts_as_the_oldest(member) -> None:
    """It may be started with any version; another node of its name says nothing for it."""
    state = member("a", "b").state
    state.connected["b"].metadata[KNOWN] = "2"
    assert known_by_all(state, hello(format="2")) == 2
    state.connected["b"].node_id = "another"
    assert known_by_all(state, hello(format="2")) == 1
    del state.connected["b"]
    assert known_by_all(state, hello(format="2")) == 1


def test_a_single_node_is_all_there_is(member) -> None:
    """A new cluster of one begins at its newest level."""
    assert known_by_all(member("a").state, hello(format="2")) == 2


def test_a_version_of_before_gets_no_link_once_the_level_is_raised(member) -> None:
    """It cannot know that it cannot read the log: the sentence says it to both."""
    state = member("a", "b").state
    own = with_reached(hello("a", format="2"), 2)
    assert own.metadata == {KNOWN: "2", REACHED: "2"}
    old = state.connected["b"]
    refusal = judge(state, Membership(()), own, old)
    assert refusal is not None
    assert not refusal.is_fenced
    assert "has reached level 2" in refusal.reason
    assert "the version of b knows no level above 1" in refusal.reason
    assert judge(state, Membership(()), hello("a", format="2"), old) is None


def test_who_knows_of_levels_ends_by_itself() -> None:
    """It is let in, so that it hears what it does not know; one that knows it stays."""
    own = hello(format="1")
    ahead = with_reached(hello("b", format="2"), 2)
    assert refused(ahead, own) == ""
    with pytest.raises(FormatLevelError, match=r"^the log of b has reached level 2 .* above 1"):
        require_reached_known(own, ahead)
    require_reached_known(hello(format="2"), ahead)
    require_reached_known(own, hello("b", format="2"))


def test_nobody_has_reached_what_it_does_not_know() -> None:
    """Such a word contradicts itself, and counts for nothing."""
    beyond = hello("b", format="2", format_reached="3")
    assert reached_level(beyond) == 1
    require_reached_known(hello(format="2"), beyond)
