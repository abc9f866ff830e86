"""
What the broker wants done, and the order it must be done in.

A `Batch` is what must last: its records become one log entry. Its replies may go out, and its
non-persistent messages may be seen, only after that entry is committed and its records are
applied; `server.loop` is the one place that releases them. Deliveries are of applied messages only,
so they may go out at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from holdfast.model.records import Record


class Replier(Protocol):
    """A session that waits for a request to be complete."""

    def reply(self, receipt: bytes) -> None:
        """Tell the client that the request with this receipt is complete and stored."""


@dataclass(slots=True)
class Batch:
    """Records for one log entry, and what waits for it."""

    records: list[Record] = field(default_factory=list)
    replies: list[tuple[Replier, bytes]] = field(default_factory=list)
    publications: list[tuple[object, bytes, bytes]] = field(default_factory=list)
    """Non-persistent sends of transactions: destination, headers, body."""
    size_bytes: int = 0
    is_urgent: bool = False
    """Somebody waits for it. Acknowledgements without a receipt alone are not urgent."""
