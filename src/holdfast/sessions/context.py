"""
What all sessions of one node share: who we are, and what is refused at the moment.

Written by `server`, read by the sessions; a session never asks the clock or the disk itself.
"""

from __future__ import annotations


class SessionContext:
    """The node as its sessions see it."""

    __slots__ = (
        "cluster",
        "default_persistent",
        "node",
        "refusal",
        "server",
        "session_count",
        "term",
        "timestamp_line",
    )

    def __init__(
        self, *, node: str, version: str, cluster: str = "", default_persistent: bool = False
    ) -> None:
        self.node = node
        self.server = f"Holdfast/{version}"
        self.cluster = cluster
        """Short name of the cluster's identity: part of every message id."""
        self.term = 0
        self.default_persistent = default_persistent
        """Whether a STOMP message without a `persistent` header is persistent."""
        self.refusal: str | None = None
        """Why publishing is refused now, or None."""
        self.timestamp_line = b"timestamp:0\n"
        """The broker's time as a header line; set once per turn."""
        self.session_count = 0
