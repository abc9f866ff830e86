"""Facts of messages: what is not set is absent."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from holdfast.model.facts import Attributes, MessageFacts
from holdfast.store.fact_blocks import encode_facts
from trials.pipeline.written_log import EACH_FACT


def test_nothing_is_set_unless_it_is_given() -> None:
    """A fact that is absent reads as absent, also beside one that is set."""
    facts = MessageFacts(attributes=Attributes(expires_ms=7))
    assert facts.attributes == (7, 0, 4, 0, 0)
    others = [getattr(facts, each.name) for each in dataclasses.fields(facts)[1:]]
    assert not any(others)


@pytest.mark.parametrize("count", range(1, len(EACH_FACT) + 1))
def test_their_size_is_that_of_their_bytes(count: int) -> None:
    """What a message takes in the log is counted without encoding it."""
    for names in itertools.combinations(EACH_FACT, count):
        facts = MessageFacts(**{name: EACH_FACT[name] for name in names})
        assert facts.size == len(encode_facts(facts)[1])


def test_facts_do_not_change() -> None:
    """A copy by the cleaner shares them with its message."""
    facts = MessageFacts(due_ms=1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        facts.due_ms = 2  # type: ignore[misc]
