"""
What a node has counted, as values.
"""

from __future__ import annotations

from holdfast.admin.counters import ConsumerCounters, MessageCounters, TopicCounters
from holdfast.admin.status import NodeStatus, plain


def test_a_status_has_them_and_a_node_of_another_version_may_leave_them_out() -> None:
    """Each has a default, so a program of one version reads the status of a node of another."""
    status = NodeStatus(name="n1", consumers=ConsumerCounters(slow=1, aborted=2))
    assert plain(status)["consumers"] == {"slow": 1, "aborted": 2}
    assert NodeStatus(name="n1").messages == MessageCounters()
    assert NodeStatus(name="n1").topics == TopicCounters()
