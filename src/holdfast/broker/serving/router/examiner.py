"""
A message that is being looked at, who wants it; and in whose name it is read from the log.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer, Values
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.classes import ConsumerClass
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.records import MessageRecord


class _NoRoom:
    """Where nothing is ever delivered to."""

    __slots__ = ("id", "room_bytes", "taken_bytes")

    def __init__(self) -> None:
        self.id = ""
        self.room_bytes = self.taken_bytes = 0

    def deliver(
        self,
        subscription: Consumer,
        key: int,
        message: MessageRecord | TransientMessage,
        *,
        redelivered: int,
    ) -> None:
        """Refuse it."""
        raise AssertionError("an examiner is handed what was read (`examine`)")

    def recount_room(self) -> None:
        """Do nothing."""

    def overdue(self, subscription: Consumer, keys: list[int]) -> None:
        """Refuse it."""
        raise AssertionError("an examiner never has anything")

    def too_slow(self, subscription: Consumer, why: str, *, ends_connection: bool) -> None:
        """Refuse it."""
        raise AssertionError("nobody waits for an examiner")


class Examiner(Subscription):
    """In whose name what is to be looked at is read from the log; it is nobody's consumer."""

    __slots__ = ("examine",)

    def __init__(
        self, queue: Queue, examine: Callable[[int, MessageRecord | TransientMessage], None]
    ) -> None:
        super().__init__(_NoRoom(), "", mode=AcknowledgeMode.AUTO, prefetch=0)
        self.queue = queue
        self.is_closed = True
        """So nobody gives it anything."""
        self.examine = examine
        """Takes what was read."""


class Look:
    """A message that is being looked at."""

    __slots__ = ("asked", "classes", "key", "place", "values", "wanted")

    def __init__(self, key: int, asked: ConsumerClass | None) -> None:
        self.key = key
        self.asked = asked
        """The one it is about; None: all. Then the message stands nowhere else."""
        self.values: Values | None = None
        """What it says; None: it is to be read."""
        self.classes: list[ConsumerClass] = []
        """Those that may want it."""
        self.place = 0
        """So many of those were asked."""
        self.wanted: list[ConsumerClass] = []
        """Those that do."""
