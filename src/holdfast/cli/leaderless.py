"""
Why a node, or its cluster, serves nobody, in a sentence for whoever asks at night.

The verdict is the admin port's (admin/health.py); here is what makes it trouble, and whose. Pure.
"""

from __future__ import annotations

from holdfast.admin.health import readiness
from holdfast.admin.status import NodeStatus


def trouble(status: NodeStatus) -> str:
    """Why the node does not do its part, in a sentence; empty if it does."""
    verdict = readiness(status)
    if verdict.ready:
        return ""
    is_of_all = verdict.reason.startswith("no leader: ")
    return verdict.reason if is_of_all else f"{status.name}: {verdict.reason}"


def cluster_trouble(status: NodeStatus) -> str:
    """Why the cluster serves nobody, as this node sees it; empty if it does."""
    is_served = status.role == "leader" and status.serving
    return "" if is_served else trouble(status)
