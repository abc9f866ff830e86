"""Tests of replication/transfer.py: handing over the lead."""

from __future__ import annotations

import pytest

from holdfast.errors import MembershipError, NotLeaderError
from holdfast.replication import leader, transfer
from holdfast.replication.messages import TransferRequest


def test_the_target_is_asked_when_it_has_everything(leading, answered) -> None:
    """Not before: it would lose the election, or the entries."""
    bench = leading()
    leader.propose(bench.state, [b"x"], 1, 0)
    transfer.transfer(bench.state, "b")

    transfer.advance(bench.state)
    assert [] == bench.sent()

    answered(bench, "b", 3)
    transfer.advance(bench.state)
    transfer.advance(bench.state)
    assert [("b", TransferRequest(2))] == bench.sent()


def test_nothing_is_proposed_meanwhile(leading) -> None:
    """Clients are told who is going to lead."""
    bench = leading()
    transfer.transfer(bench.state, "b")

    with pytest.raises(NotLeaderError) as caught:
        leader.propose(bench.state, [b"x"], 1, 0)
    assert "b" == caught.value.leader


def test_without_a_name_the_furthest_is_chosen(leading, answered) -> None:
    """The one that needs the least to take over."""
    bench = leading()
    leader.propose(bench.state, [b"x"], 1, 0)
    answered(bench, "b", 3)

    assert "b" == transfer.transfer(bench.state, None)


def test_a_hand_over_is_given_up_in_time(leading) -> None:
    """The leader goes on when its target does not catch up."""
    bench = leading()
    transfer.transfer(bench.state, "b")

    bench.state.now += bench.state.settings.transfer_seconds_max
    transfer.advance(bench.state)

    assert None is bench.state.transfer
    leader.propose(bench.state, [b"x"], 1, 0)


@pytest.mark.parametrize("target", ["w", "x", "a"])
def test_only_a_data_voter_takes_over(leading, target) -> None:
    """Not the witness, not a stranger, not oneself."""
    bench = leading("a", "b", "w:witness")

    with pytest.raises(MembershipError):
        transfer.transfer(bench.state, target)


def test_nobody_there_is_said(leading, member) -> None:
    """With the other data node away there is nobody to hand over to; a follower has nothing to."""
    bench = leading("a", "b", "w:witness")
    del bench.state.connected["b"]

    with pytest.raises(MembershipError):
        transfer.transfer(bench.state, None)
    with pytest.raises(NotLeaderError):
        transfer.transfer(member().state, None)


def test_a_witness_hands_over_by_itself(leading) -> None:
    """As soon as it leads and a data node has the whole log."""
    bench = leading("a", "b", "w:witness", name="w")

    transfer.advance(bench.state)

    assert [TransferRequest(2)] == [message for _, message in bench.sent()]
