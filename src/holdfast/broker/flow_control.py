"""
What the leader's clients make it hold in memory, and when that is enough.

Contents of stored messages are kept while there is room, and read from the log beyond it.
Non-persistent messages are only here: where they are too many, who sends more waits. Open
transactions and subscriptions have bounds of their own. Of what whoever is let in may have, open
transactions and what stands on temporary queues, each user has a share (`model.shares`).

Invariants:
    A content is counted until it is let go of: those of a leadership that is over, too.
    Non-persistent messages of a leadership that is over count for nothing.
"""

from __future__ import annotations

from holdfast.broker.answer_shares import AnswerShares, Standing
from holdfast.broker.lasting.discards import Discards
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.groups_seen import GroupsKnown
from holdfast.broker.serving.shelves import Shelves
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError, TransactionError
from holdfast.model.records import MessageRecord
from holdfast.model.shares import Shares, refusal_of


class FlowControl:
    """What is held for all clients of one broker, in bytes."""

    __slots__ = (
        "answer_shares",
        "cached_bytes",
        "groups_known",
        "discards",
        "held_bytes",
        "held_shares",
        "overhead",
        "settings",
        "subscription_bytes",
        "subscription_count",
        "subscription_counts",
        "subscription_shares",
        "temporary_shares",
        "volatile_bytes",
    )

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.overhead = settings.message_memory_overhead_bytes
        self.cached_bytes = 0
        """Contents of stored messages held in memory, with their overhead."""
        self.volatile_bytes = 0
        """Non-persistent messages on queues, with their overhead."""
        self.held_bytes = 0
        """What open transactions hold, with what a message costs beside its content."""
        self.held_shares = Shares()
        self.temporary_shares = Shares()
        """Non-persistent messages on each user's temporary queues, with their overhead."""
        self.answer_shares = AnswerShares()
        """What of that is on others' queues, of each who sent it."""
        self.subscription_count = self.subscription_bytes = 0
        """Of all connections."""
        self.subscription_counts, self.subscription_shares = Shares(), Shares()
        """The same of each user: how many, and their bytes."""
        self.groups_known = GroupsKnown()
        """Message groups of which consumers have got something."""
        self.discards = Discards(self.overhead)
        """What of the leader's nobody can reach any more."""

    def forget_leadership(self) -> None:
        """Count anew, save what is in memory still."""
        self.volatile_bytes = self.held_bytes = 0
        self.held_shares, self.temporary_shares = Shares(), Shares()
        self.answer_shares = AnswerShares()
        self.subscription_count = self.subscription_bytes = 0
        self.subscription_counts, self.subscription_shares = Shares(), Shares()
        self.groups_known = GroupsKnown()
        self.discards.forget_leadership()

    @property
    def memory_bytes(self) -> int:
        """Contents held in memory, with their overhead."""
        return self.cached_bytes + self.volatile_bytes

    @property
    def has_room(self) -> bool:
        """Whether one more non-persistent message may go to a queue now."""
        return self.volatile_bytes <= self.settings.memory_bytes

    def has_room_for(self, user: str | None) -> bool:
        """Whether one more message may go to a temporary queue of this user now."""
        memory_bytes = self.settings.memory_bytes
        left = memory_bytes - self.volatile_bytes
        return left >= 0 and self.temporary_shares.has_room(user, 0, left, memory_bytes)

    def standing(self, on_queue: int, owner: str | None, sender: str | None) -> Standing:
        """
        Give how it stands with a temporary queue as somebody else wants to send there.

        Args:
            owner: Whose share what stands there is of.
            sender: Whose share what is sent would be of; None for both: nobody is somebody here.
        """
        memory = self.settings.memory_bytes
        if owner is None:
            return Standing(memory, memory, on_queue, None)
        most = self.temporary_shares.most(owner, memory - self.volatile_bytes, memory)
        of_owner = self.temporary_shares.of(owner)
        if sender is None or sender == owner:
            return Standing(memory, most, on_queue, of_owner)
        of_sender = self.answer_shares.of(owner, sender)
        return Standing(memory, most, on_queue, of_owner, sender, of_sender)

    def keep(self, cache: Shelves[MessageRecord], first: int, records: list[MessageRecord]) -> None:
        """Keep contents of messages of one queue, from this number on, as far as there is room."""
        overhead = self.overhead
        room = before = self.settings.memory_bytes - self.volatile_bytes - self.cached_bytes
        count = len(records)
        # A turn of one message is common, and has nothing to share its calls with.
        size = records[0].size if count == 1 else sum([record.size for record in records])
        cost = size + overhead * count
        if cost <= room and records[0].body is not None and records[-1].body is not None:
            # Those of one entry have bodies or have none, so all of these have.
            cache.put_next(first, records)
            self.cached_bytes += cost
            return
        for sequence, record in enumerate(records, first):
            cost = record.size + overhead
            if cost <= room and record.body is not None:
                cache[sequence] = record
                room -= cost
        self.cached_bytes += before - room

    def forget(self, cache: Shelves[MessageRecord], sequences: list[int]) -> None:
        """Drop contents from memory, as far as they are there."""
        if len(sequences) == 1:
            content = cache.take(sequences[0])
            if content is not None:
                self.cached_bytes -= content.size + self.overhead
            return
        gone = cache.take_all(sequences)
        freed = sum([content.size for content in gone])
        self.cached_bytes -= freed + self.overhead * len(gone)

    def let_go(self) -> None:
        """Free one step of what is gone."""
        cached, volatile = self.discards.step(self.settings.step_count_max)
        self.cached_bytes -= cached
        self.volatile_bytes -= volatile

    def subscribed(self, consumer: Consumer) -> None:
        """Count one consumer more."""
        self._count(consumer, 1)

    def unsubscribed(self, consumer: Consumer) -> None:
        """Count one consumer less."""
        self._count(consumer, -1)

    def _count(self, consumer: Consumer, change: int) -> None:
        cost = change * consumer.cost_bytes
        self.subscription_count += change
        self.subscription_bytes += cost
        self.subscription_counts.add(consumer.user, change)
        self.subscription_shares.add(consumer.user, cost)

    def hold(self, cost: int, user: str | None = None) -> None:
        """
        Count what an open transaction holds from now on, of this user's share.

        Raises:
            TransactionError: All transactions, or this user's, hold too much; many empty ones do.
        """
        left = self.settings.transactions_bytes_max - self.held_bytes
        if cost > left:
            raise TransactionError(
                f"open transactions hold {self.held_bytes:,} bytes;"
                f" at most {self.settings.transactions_bytes_max:,}; commit some first"
            )
        bytes_max = self.settings.transactions_bytes_max
        if not self.held_shares.has_room(user, cost, left - cost, bytes_max):
            held = f"{self.held_shares.of(user):,} bytes in open transactions"
            raise TransactionError(f"{refusal_of(user, held, f'{bytes_max:,}')}; commit some first")
        self.held_shares.add(user, cost)
        self.held_bytes += cost

    def release(self, cost: int, user: str | None = None) -> None:
        """Count what an open transaction held no more."""
        self.held_shares.add(user, -cost)
        self.held_bytes -= cost


def require_room(count: int, count_max: int, what: str) -> None:
    """
    Refuse one more of something that has a limit.

    Raises:
        DestinationError: There are as many as there may be.
    """
    if count >= count_max:
        raise DestinationError(f"there are {count:,} {what} already; at most {count_max:,}")
