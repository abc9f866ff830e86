"""What the books on topics take for a missed message (V1)."""

from __future__ import annotations

import pytest

from trials.simulation.history import ViolationError
from trials.simulation.volatile_clients import VolatileLedger, VolatileMessage, _Presence

_LEADERSHIP = ("a", 1, 2)


def _missed(*, through: float, slept: float) -> VolatileLedger:
    ledger = VolatileLedger()
    ledger.topic["v1.1"] = VolatileMessage(1.0, _LEADERSHIP, confirmed_at=1.1)
    ledger.presences.append(_Presence(_LEADERSHIP, 0.5, through, slept))
    return ledger


def test_a_message_that_an_awake_broker_did_not_deliver_is_missed() -> None:
    """It had a second, and was heard after that."""
    with pytest.raises(ViolationError, match=r"v1\.1 did not come"):
        _missed(through=2.2, slept=0.0).check_topics()


def test_a_broker_that_slept_since_the_confirmation_has_not_had_its_second() -> None:
    """What counts is how long its process ran, not what a clock says."""
    _missed(through=2.2, slept=0.9).check_topics()
    with pytest.raises(ViolationError):
        _missed(through=3.1, slept=0.9).check_topics()
