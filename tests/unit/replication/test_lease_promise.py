"""What a voter has promised, before it promised anything and after."""

from __future__ import annotations

from holdfast.replication import lease
from holdfast.replication.lease_promise import Promise


def test_nothing_is_promised_at_first() -> None:
    """No leader is known to last, whatever the clock says."""
    given = Promise()

    assert (0, None) == (given.term, given.holder)
    assert float("-inf") == given.until == given.older_until


def test_a_promise_to_the_next_leader_keeps_the_one_before_apart(member) -> None:
    """One field for the leader of the term, one for all before: they end at different times."""
    state = member().state
    lease.promise(state, "b")
    first = state.promise.until
    state.now, state.term = state.now + 0.5, state.term + 1

    lease.promise(state, "c")

    assert (state.term, state.connected["c"]) == (state.promise.term, state.promise.holder)
    assert (first, first + 0.5) == (state.promise.older_until, state.promise.until)
