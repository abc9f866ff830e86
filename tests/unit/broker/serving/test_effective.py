"""What holds for a destination is kept with it."""

from __future__ import annotations

from holdfast.broker.serving.consumer import NO_CLAIM, Claim
from holdfast.broker.serving.effective import EQUAL, Effective, Sharing


def test_nothing_holds_before_somebody_asks(desk) -> None:
    """A queue that is only sent to, or a topic, costs no look at the policies."""
    desk.send(b"x")
    desk.turn()
    queue, topic = desk.queue(), desk.broker.topic("t")
    assert (queue.policy, topic.policy) == (None, None)
    assert desk.broker.policies.of(queue) == Effective(
        0,
        1_000,
        "ActiveMQ.DLQ",
        browser_prefetch=500,
        dead_letter_places=("ActiveMQ.DLQ",),
    )
    assert queue.policy is not None
    assert queue.policy.sharing is EQUAL


def test_what_counts_of_a_claim() -> None:
    """A policy may take from it, and add to it."""
    assert Sharing(is_exclusive=True).counted(NO_CLAIM) == Claim(is_exclusive=True)
    assert Sharing(uses_priority=False).counted(Claim(9)) == NO_CLAIM
    assert EQUAL.counted(Claim(9, is_exclusive=True)) == Claim(9, is_exclusive=True)


def test_when_the_first_consumer_waits() -> None:
    """For others, or for a time; one that is awaited alone is there."""
    gates = [(0, 0), (1, 0), (1, 9), (2, 0), (0, 9), (2, 9)]
    sharings = [Sharing(consumers_awaited=awaited, start_ms=ms) for awaited, ms in gates]
    assert [each.has_gate for each in sharings] == [False, False, False, True, True, True]
