"""
Keys about how consumers share a queue's messages.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.effective import EQUAL, Sharing, sharing_of
from holdfast.model.destination import Kind
from holdfast.model.policies import read_values
from holdfast.model.policy_options import OPTIONS
from holdfast.model.sharing_options import SHARING_OPTIONS

_DEFAULTS = {option.name: option.default for option in SHARING_OPTIONS}


def test_all_are_in_the_table_and_of_queues() -> None:
    """Of no topic: each subscriber of one has all of it."""
    for option in SHARING_OPTIONS:
        assert OPTIONS[option.name] is option
        assert option.is_of(Kind.QUEUE)
        assert not option.is_of(Kind.TOPIC)


@pytest.mark.parametrize(
    ("said", "sharing"),
    [
        ({}, EQUAL),
        ({"paused": "true"}, EQUAL),
        ({"useConsumerPriority": "false"}, Sharing(uses_priority=False)),
        ({"consumersBeforeDispatchStarts": 2}, Sharing(consumers_awaited=2)),
    ],
)
def test_what_they_come_to(said, sharing) -> None:
    """With ActiveMQ's defaults."""
    assert sharing_of(_DEFAULTS | said) == sharing


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"paused": "yes"}, "'yes' is not one of them"),
        ({"consumersBeforeDispatchStarts": -1}, "-1 is out of range"),
    ],
)
def test_what_makes_no_sense_is_refused(said, fault) -> None:
    """With what is allowed."""
    spoken = read_values(Kind.QUEUE, said)
    assert not spoken.values
    assert spoken.faults[0][1].startswith(fault)
