"""The other brokers of a log: who is there, and who is gone for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import MembershipError


def test_a_broker_that_is_gone_for_good_is_forgotten(broker: Callable[..., Any]) -> None:
    """Else what it knew would hold the log's level back for ever; one that is there stays."""
    holder, standby = broker("a").serve(), broker("b")
    standby.until(lambda: "b" in standby.medium.waiters)
    holder.until(lambda: holder.driver.is_there("b"))
    for name, why in (("b", "b is there"), ("a", "a is there"), ("c", "no broker of this log")):
        with pytest.raises(MembershipError, match=why):
            holder.driver.forget_broker(name)
    holder.until(lambda: not holder.driver.is_there("b"))
    holder.driver.forget_broker("b")
    assert [] == holder.driver.others()
    holder.until(lambda: "b" not in holder.medium.waiters)
    holder.until(lambda: not holder.state.forgets)
    assert [] == holder.driver.others()
    with pytest.raises(MembershipError, match="no broker of this log"):
        holder.driver.forget_broker("b")
