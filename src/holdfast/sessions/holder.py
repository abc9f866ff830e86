"""
A session that sends and holds: what its holdings ask of it.

Holdings do not keep their session: the two would hold each other, and thousands that are gone would
wait for the collector of cycles. So each call brings the session along.
"""

from __future__ import annotations

from abc import abstractmethod

from holdfast.errors import RefusedError
from holdfast.sessions.session import Session
from holdfast.sessions.target import Goodbye, Outgoing, Target


class Holder(Session):
    """One client connection that uses the broker."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.effort = 0
        """What the present request cost beside itself, in ordinary ones."""
        self.unconfirmed_count = 0
        """Receipts that wait until what they confirm is out: only this node has it."""

    @property
    @abstractmethod
    def payer(self) -> str | None:
        """Of whose share is what it sends that others have; None: nobody is somebody here."""

    @abstractmethod
    def target_of(self, sending: Outgoing) -> Target:
        """
        Work out anew what something that waited for room comes to.

        Raises:
            RefusedError: It cannot be sent any more.
            RouteUnknownError: That takes more than one turn.
        """

    @abstractmethod
    def refuse(self, error: RefusedError, sending: Outgoing) -> None:
        """Tell the client that something that waited is refused after all."""

    @abstractmethod
    def goodbye(self, goodbye: Goodbye) -> None:
        """Obey a last word that waited."""


def unnamed(ordinal: int) -> str:
    """
    Give what a subscription without an id is known by; a client never sees it.

    Only STOMP 1.0 has those, where no header holds a line feed: no id is like it.
    """
    return f"\n{ordinal}"
