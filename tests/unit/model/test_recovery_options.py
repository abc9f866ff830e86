"""
Keys of policies about what topics keep for who comes later.
"""

from __future__ import annotations

import pytest

from holdfast.model.destination import Kind
from holdfast.model.policies import read_values
from holdfast.model.recovery_options import RECOVERED_COUNT_MAX, RECOVERY_OPTIONS


def test_all_are_of_topics() -> None:
    """A queue keeps what nobody has taken anyway."""
    assert all(
        option.is_of(Kind.TOPIC) and not option.is_of(Kind.QUEUE) for option in RECOVERY_OPTIONS
    )


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"subscriptionRecoveryPolicy": "queryBasedSubscriptionRecoveryPolicy"}, "allowed: no"),
        ({"subscriptionRecoveryPolicy": "fixedCount"}, "allowed: no"),
        ({"recoveryMaximumCount": 0}, "1 to"),
        ({"recoveryMaximumCount": RECOVERED_COUNT_MAX + 1}, "10,000"),
        ({"recoveryMaximumSize": 1 << 30}, "out of range"),
        ({"recoverDuration": "1 s"}, "out of range"),
        ({"alwaysRetroactive": "yes"}, "false, true"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_may_be(said, name) -> None:
    """With what is allowed."""
    ((_, why),) = read_values(Kind.TOPIC, said).faults
    assert name in why
