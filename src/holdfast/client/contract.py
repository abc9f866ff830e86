"""
Whom a session tells: the subscriptions that its frames are for, and who hears of its ups and downs.

Contracts only; what they have in common is that they must not raise.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.client.events import Event
from holdfast.errors import HoldfastError
from holdfast.protocols.stomp.frames import Frame


class Subscriber(Protocol):
    """A subscription as the session sees it."""

    @property
    def buffered_count(self) -> int:
        """Messages that can be taken without waiting."""

    @property
    def held_count(self) -> int:
        """Messages taken and not settled."""

    async def drain(self) -> None:
        """Take no more, and end when what was taken is settled."""

    def delivered(self, frame: Frame) -> None:
        """A MESSAGE for this subscription."""

    def interrupted(self) -> None:
        """The link is lost: what was not taken yet will be delivered again."""

    def resubscribe(self) -> None:
        """A new link is there: ask for messages again."""

    def drop_copy(self, id: str) -> None:
        """A message is settled: one of this id that was not taken yet need not be."""

    def ended(self, error: HoldfastError | None) -> None:
        """No more messages will come; None if the application closed the connection."""


class EventSink(Protocol):
    """Who hears about the connection's ups and downs."""

    def happened(self, event: Event) -> None:
        """Something happened; must not raise."""

    def ended(self) -> None:
        """Nothing more will happen."""
