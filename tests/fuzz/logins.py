"""
The user who may log in at a node whose ports are fuzzed.
"""

from __future__ import annotations

from holdfast.admin.remote import RemoteNode
from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.testing.local_cluster import LocalNode

PASSWORD = "correct-horse-battery"


def make_ada(node: LocalNode) -> None:
    """Make her once the log may have users."""
    node.wait_until(lambda it: it["serving"] and it["format_level"] >= ACCESS_LEVEL, "at the level")
    made = {"name": "ada", "roles": ["admin"], "password": PASSWORD}
    RemoteNode(node.admin).change("POST", "/users", made)
