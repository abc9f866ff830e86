"""What holds for a destination is kept with it."""

from __future__ import annotations

from holdfast.broker.serving.effective import Effective


def test_nothing_holds_before_somebody_asks(desk) -> None:
    """A queue that is only sent to, or a topic, costs no look at the policies."""
    desk.send(b"x")
    desk.turn()
    queue, topic = desk.queue(), desk.broker.topic("t")
    assert (queue.policy, topic.policy) == (None, None)
    assert desk.broker.policies.of(queue) == Effective(0, 1_000, "ActiveMQ.DLQ")
    assert queue.policy is not None
