"""
What all sessions of one node share: who we are, and what is refused at the moment.

Written by `server`, read by the sessions; a session never asks the clock or the disk itself.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import StoreFullError
from holdfast.model.shares import Shares
from holdfast.sessions.connection_shares import ConnectionShares
from holdfast.sessions.credentials import Check, anybody
from holdfast.sessions.refusals import Refusals
from holdfast.sessions.selection import Selections
from holdfast.sessions.session import Session
from holdfast.sessions.shared_frames import SharedFrames


class SessionContext:
    """The node as its sessions see it."""

    __slots__ = (
        "address_key",
        "check",
        "client_ids",
        "cluster",
        "connection_shares",
        "default_persistent",
        "dirty",
        "is_lease_awaited",
        "is_lease_over",
        "known_plain",
        "leave",
        "leaving_by",
        "leaving_shown",
        "message_bytes_max",
        "node",
        "now",
        "promotion",
        "receipt_count",
        "refusal",
        "refused_at",
        "refusals",
        "selections",
        "server",
        "session_count",
        "shared_frames",
        "shown_by",
        "term",
        "waiting",
        "waiting_bytes",
        "waiting_shares",
    )

    def __init__(
        self, *, node: str, version: str, cluster: str = "", default_persistent: bool = False
    ) -> None:
        self.node = node
        self.server = f"Holdfast/{version}"
        self.cluster = cluster
        """Short name of the cluster's identity: part of every message id."""
        self.address_key: Callable[[], bytes] = bytes
        """Gives what addresses of temporary destinations are made with once there are users; the
        same under every leader that has the same secret, and told to nobody."""
        self.term = 0
        self.promotion = ""
        """By which promotion by force the cluster goes on: its generation and when it was begun."""
        self.default_persistent = default_persistent
        """Whether a STOMP message without a `persistent` header is persistent."""
        self.is_lease_awaited = False
        """An earlier leader may deliver yet: what is acknowledged now, it could deliver again."""
        self.is_lease_over = False
        """No majority has answered lately: what only this node has is not confirmed now."""
        self.refusal: str | None = None
        """Why storing is refused now, or None."""
        self.refused_at = 0.0
        """Since when it is, or was last."""
        self.message_bytes_max = 0
        """The most that one message may have so that it can be stored in time; 0: any."""
        self.now = 0.0
        """Monotonic time of this turn."""
        self.waiting: dict[Session, None] = {}
        """Sessions whose SENDs wait for room, who waits longest first."""
        self.waiting_bytes = 0
        """What waits there, of all sessions."""
        self.waiting_shares = Shares()
        """The same of each user."""
        self.dirty: list[Session] = []
        """Sessions that have something to send."""
        self.leave: Callable[[Session], None] = lambda session: session.leave()
        """How a session that says goodbye leaves: all at once, or step by step."""
        self.check: Check = anybody
        """Who says whether a client is who it says it is."""
        self.session_count = 0
        self.receipt_count = 0
        """Receipts that clients were sent, since this process started."""
        self.refusals = Refusals()
        self.known_plain: set[bytes] = set()
        """Header lines that say nothing a MESSAGE has from us; some thousand at most."""
        self.shared_frames = SharedFrames()
        """What several subscribers of a topic get of the message that is being written."""
        self.selections = Selections()
        """The selectors of all subscriptions, and what the message they are asked of says."""
        self.connection_shares = ConnectionShares()
        """How many connections each user has."""
        self.client_ids: dict[str, Session] = {}
        """Who has which client-id now."""
        self.leaving_by: dict[str, dict[Session, None]] = {}
        """By client-id: who had it, oldest first, each until it has given back all it held."""
        self.shown_by: dict[str, Session] = {}
        """By what a client of ours shows: its connection, until that has given back all it held."""
        self.leaving_shown: dict[str, dict[Session, None]] = {}
        """The same: its earlier ones, oldest first, each until then."""

    def refuse(self, refusal: str | None, now: float) -> bool:
        """Refuse to store for this reason, or not any more; whether either begins with this."""
        begins = (refusal is None) != (self.refusal is None)
        if begins and refusal is not None:
            self.refused_at = now
        self.refusal = refusal
        return begins

    def require_storable(self, size: int) -> None:
        """
        Refuse what the store, as fast as it is, could never store in time.

        Raises:
            StoreFullError: It is too large for it.
        """
        if self.message_bytes_max and size > self.message_bytes_max:
            raise StoreFullError(
                f"this has {size:,} bytes, and the store has lately taken no more than"
                f" {self.message_bytes_max:,} at once in the time that it has for that: send less"
                f" at once, or later"
            )

    def forget_sessions(self) -> None:
        """Begin anew, as all clients are sent away: nothing of theirs is given back one by one."""
        self.dirty.clear()
        self.shared_frames.clear()
        self.selections.clear()
        self.waiting.clear()
        self.connection_shares.clear()
        self.client_ids.clear()
        self.leaving_by.clear()
        self.shown_by.clear()
        self.leaving_shown.clear()
        self.waiting_bytes = 0
        self.waiting_shares = Shares()
