"""
A message that lives in memory only: non-persistent, or on a topic.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from holdfast.model.facts import PRIORITY_DEFAULT, MessageFacts


class TransientMessage:
    """A message that lives in memory only: non-persistent, or on a topic."""

    __slots__ = ("body", "headers", "key", "order", "size", "stored_at", "waiting_count")

    facts: MessageFacts | None = None
    """What the broker has to know of it. Of most that is nothing, so they have no place for it."""
    payer: str | None = None
    """The user of who sent it, on a temporary queue of another user."""
    sender_id = ""
    """The connection of who sent it, on a topic where somebody does not want his own."""

    def __init__(
        self, key: int, headers: bytes, body: bytes, order: int, stored_at: int = 0
    ) -> None:
        self.key = key
        """Negative: minus the serial number."""
        self.headers = headers
        self.body = body
        self.size = len(headers) + len(body)
        self.order = order
        """The last sequence assigned before it."""
        self.stored_at = stored_at
        """When the broker took it, in microseconds since the epoch."""
        self.waiting_count = 0
        """On a topic: for how many subscriptions it waits."""

    @property
    def group_hash(self) -> int:
        """The hash of its group; 0: it is in none."""
        attributes = None if self.facts is None else self.facts.attributes
        return 0 if attributes is None else attributes.group_hash

    @property
    def priority(self) -> int:
        """0 to 9; a higher one goes first, where the policy of its queue says so."""
        attributes = None if self.facts is None else self.facts.attributes
        return PRIORITY_DEFAULT if attributes is None else attributes.priority

    @property
    def expires_ms(self) -> int:
        """When it expires, in milliseconds since the epoch; 0: never."""
        return 0 if self.facts is None else self.facts.expires_ms


class _WithFacts(TransientMessage):
    """One of which the broker has to know something."""

    __slots__ = ("facts", "sender_id")


class _Paid(_WithFacts):
    """One on a temporary queue of another user than sent it."""

    __slots__ = ("payer",)


def paid_by(message: TransientMessage, payer: str) -> TransientMessage:
    """Give the same message as one that is of this user's share there."""
    known = _Paid(message.key, message.headers, message.body, message.order, message.stored_at)
    known.facts, known.sender_id, known.payer = message.facts, message.sender_id, payer
    return known


def with_facts(
    message: TransientMessage, facts: MessageFacts | None, sender_id: str = ""
) -> TransientMessage:
    """Give the same message as one of which this is known."""
    known = _WithFacts(message.key, message.headers, message.body, message.order, message.stored_at)
    known.facts, known.sender_id = facts, sender_id
    return known
