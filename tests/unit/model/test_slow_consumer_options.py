"""
Keys about slow consumers: what may be said, and what is refused.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.effective import SlowRule, slow_rule_of
from holdfast.model.destination import Kind
from holdfast.model.policies import read_values
from holdfast.model.policy_options import OPTIONS
from holdfast.model.slow_consumer_options import (
    ABORT_SLOW,
    ABORT_SLOW_ACK,
    NO_STRATEGY,
    SLOW_CONSUMER_OPTIONS,
)

_DEFAULTS = {option.name: option.default for option in SLOW_CONSUMER_OPTIONS}


def test_all_are_in_the_table_and_of_both_kinds() -> None:
    """Of queues and of topics alike."""
    for option in SLOW_CONSUMER_OPTIONS:
        assert OPTIONS[option.name] is option
        assert option.is_of(Kind.QUEUE)
        assert option.is_of(Kind.TOPIC)


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        ({}, None),
        ({"slowConsumerStrategy": NO_STRATEGY, "maxSlowCount": 1}, None),
        ({"slowConsumerStrategy": ABORT_SLOW}, SlowRule(duration_ms=30_000)),
        (
            {"slowConsumerStrategy": ABORT_SLOW, "maxSlowDuration": -1, "maxSlowCount": 3},
            SlowRule(count_max=3),
        ),
        (
            {"slowConsumerStrategy": ABORT_SLOW_ACK, "abortConnection": "true"},
            SlowRule(waits_for_words=True, duration_ms=30_000, ends_connection=True),
        ),
    ],
)
def test_what_they_come_to(said, rule) -> None:
    """With ActiveMQ's defaults; what belongs to the other strategy does not count."""
    assert slow_rule_of(_DEFAULTS | said) == rule


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ({"slowConsumerStrategy": "abort"}, "'abort' is not one of them"),
        ({"checkPeriod": 999}, "999 is out of range"),
        ({"maxTimeSinceLastAck": 0}, "0 is out of range"),
        ({"ignoreIdleConsumers": False}, "False is no text"),
        ({"ignoreIdleConsumers": "false"}, "'false' is not one of them; allowed: true"),
    ],
)
def test_what_makes_no_sense_is_refused(said, fault) -> None:
    """Who has no messages need not acknowledge any: the other way is not taken."""
    spoken = read_values(Kind.QUEUE, said)
    assert not spoken.values
    assert spoken.faults[0][1].startswith(fault)
