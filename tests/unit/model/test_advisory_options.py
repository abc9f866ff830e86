"""
Keys that let the broker say what happens to messages.
"""

from __future__ import annotations

from holdfast.broker.serving.effective import advisories_of
from holdfast.model.advisories import require_said
from holdfast.model.advisory_options import ADVISED_BY, ADVISORY_OPTIONS
from holdfast.model.destination import Kind
from holdfast.model.policies import read_values
from holdfast.model.policy_options import OPTIONS

_DEFAULTS = {option.name: option.default for option in ADVISORY_OPTIONS}


def test_each_lets_one_kind_be_said_that_may_be_listened_to() -> None:
    """All are false, as in ActiveMQ, and of queues and topics alike."""
    assert advisories_of(_DEFAULTS) == frozenset()
    for name, kind in ADVISED_BY.items():
        assert advisories_of(_DEFAULTS | {name: "true"}) == {kind}
        assert OPTIONS[name].is_of(Kind.QUEUE)
        assert OPTIONS[name].is_of(Kind.TOPIC)
        assert read_values(Kind.TOPIC, {name: True}).values == {name: "true"}
        require_said(f"ActiveMQ.Advisory.{kind}.Queue.>")
