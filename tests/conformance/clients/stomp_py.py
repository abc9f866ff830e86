"""
Connections of stomp.py, the client that most Python programs use, and what arrives on them.
"""

from __future__ import annotations

import queue
from typing import Any, Final

import stomp

VERSIONS: Final = {
    "1.0": stomp.Connection10,
    "1.1": stomp.Connection11,
    "1.2": stomp.Connection12,
}


class Listener(stomp.ConnectionListener):
    """Keeps what arrives: messages, errors and receipts, in their order."""

    def __init__(self, patience_seconds: float) -> None:
        self.frames: queue.Queue[Any] = queue.Queue()
        self._patience_seconds = patience_seconds

    def on_message(self, frame: Any) -> None:
        """Keep a frame."""
        self.frames.put(frame)

    on_error = on_receipt = on_message

    def next(self) -> Any:
        """Give the oldest frame that was not given yet. Raises queue.Empty if none comes."""
        return self.frames.get(timeout=self._patience_seconds)
