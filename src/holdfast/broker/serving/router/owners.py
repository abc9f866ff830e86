"""
Whose the message groups of one queue are.

Groups are in *buckets*, by the checksum of their names; a bucket has one owner, who alone is given
messages of it. So a million groups cost no more than there are buckets. Who is to have one is found
by rendezvous: of the consumers with room, and not much more buckets than others, the one with the
best score for it, which comes of the client's name, its subscription and the bucket. So after a
failover mostly the same clients have the same groups, and nothing of it is in the log.

A message is *out* from when it is given until it is back or gone for good: in delivery, in an open
transaction, on its way back, resting, its acknowledgement on its way to the log. While one of a
bucket is, the bucket changes its owner for nobody. Who has come and is to have it waits until none
is, and nothing more of it goes out; so does who would get it after an owner that is closed.

Where one that came back comes later, those behind it in its bucket wait (*delayed*).

Of a bucket of which nothing is out one message may go to somebody who holds nothing, where it is to
be sent alone: the bucket is *lent* to him until nothing is out again, and then it is to be had.

Invariants:
    A bucket that is moving, or lent, has an owner, and something of it is out.
    A bucket's owner is open.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from google_crc32c import value as crc32c

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.effective import Sharing
from holdfast.broker.serving.groups_seen import GroupsKnown, GroupsSeen
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.shelves import Shelves

_UNEVEN: Final = 1.25
"""So many times as many buckets as there are for each may one have before others come first."""

_MIX: Final = 0xBF58476D1CE4E5B9
_MIX_AGAIN: Final = 0x94D049BB133111EB
_MIX_MASK: Final = (1 << 64) - 1
"""As SplitMix64 scatters numbers."""


class Owners:
    """The buckets of one queue."""

    __slots__ = (
        "_awaited",
        "_counts",
        "_delayed",
        "_delayed_counts",
        "_held_by_others",
        "_keeps_order",
        "_known",
        "_lent",
        "_moving",
        "_name_counts",
        "_newest",
        "_out",
        "_out_counts",
        "_owners",
        "bucket_count",
        "only",
        "rebalances",
    )

    def __init__(self, sharing: Sharing, known: GroupsKnown | None = None) -> None:
        self.bucket_count = sharing.bucket_count
        self._known = known or GroupsKnown()
        """What all consumers of the leadership know of groups."""
        self.rebalances = sharing.rebalances_groups
        """Whether buckets that prefer who has come move to him."""
        self._keeps_order = sharing.redelivery_keeps_order
        self._owners: dict[int, Consumer] = {}
        self._counts: dict[Consumer, int] = {}
        """How many buckets each owner has, and is to have."""
        self._name_counts: dict[tuple[str, str], int] = {}
        """How many that were asked for have the same names."""
        self._newest = 0
        """The last number given to one of these, so that buckets tell them apart."""
        self._moving: dict[int, Consumer] = {}
        """Who is to have a bucket as soon as nothing of it is out."""
        self._lent: set[int] = set()
        """Buckets that are whose they are until nothing of them is out."""
        self._awaited: set[int] = set()
        """Buckets of which it is to be told when nothing of them is out."""
        self._out: Shelves[int] = Shelves()
        """The bucket, plus one, of each message that is out, by its key."""
        self._out_counts: dict[int, int] = {}
        self._delayed: Shelves[int] = Shelves()
        """The same of what came back and comes later."""
        self._delayed_counts: dict[int, int] = {}
        self.only: Consumer | None = None
        """The only consumer that gets messages, where only one does: whoever had a bucket."""
        self._held_by_others: set[int] = set()
        """Buckets of which transactions of others hold something that it has to wait for."""

    def __len__(self) -> int:
        return len(self._owners)

    def taker(self, bucket: int) -> Consumer | None:
        """Give who may be given something of a bucket now; None: nobody may, or it is free."""
        if bucket in self._delayed_counts:
            return None
        if self.only is not None:
            return None if bucket in self._held_by_others else self.only
        return None if bucket in self._moving else self._owners.get(bucket)

    def is_free(self, bucket: int) -> bool:
        """Whether a bucket is to be had."""
        is_anybodys = self.only is not None or bucket in self._owners
        return not (is_anybodys or bucket in self._out_counts or bucket in self._delayed_counts)

    def choose(self, bucket: int, ready: Iterable[Consumer], consumer_count: int) -> Consumer:
        """Let one of those with room, at least one, of all consumers have a bucket."""
        counts = self._counts
        count_max = _UNEVEN * (len(self._owners) + 1) / consumer_count
        best: tuple[bool, int] | None = None
        chosen: Consumer | None = None
        for consumer in ready:
            if consumer.groups is None:
                consumer.groups = self._seen(consumer)
            rank = (counts.get(consumer, 0) + 1 <= count_max, _score(consumer, bucket))
            if best is None or rank > best:
                best, chosen = rank, consumer
        assert chosen is not None, "somebody has room"
        self._counts[chosen] = counts.get(chosen, 0) + 1
        self._own(bucket, chosen)
        return chosen

    def _seen(self, consumer: Consumer) -> GroupsSeen:
        name = (consumer.client, consumer.id)
        count = self._name_counts.get(name, 0)
        self._name_counts[name] = count + 1
        self._newest += 1
        ordinal = self._newest if count else 0
        salt = crc32c(f"{consumer.client}\0{consumer.id}\0{ordinal}".encode())
        return GroupsSeen(self.bucket_count, int(salt) << 32, self._known)

    def _forget_name(self, consumer: Consumer) -> None:
        if consumer.groups is not None:
            name = (consumer.client, consumer.id)
            self._name_counts[name] -= 1
            if not self._name_counts[name]:
                del self._name_counts[name]
            consumer.groups.clear()
            consumer.groups = None

    def _own(self, bucket: int, consumer: Consumer) -> None:
        self._owners[bucket] = consumer
        if consumer.groups is None:
            consumer.groups = self._seen(consumer)
        consumer.groups.forget(bucket)

    def _discount(self, consumer: Consumer) -> None:
        left = self._counts[consumer] - 1
        if left:
            self._counts[consumer] = left
        else:
            del self._counts[consumer]

    @property
    def buckets(self) -> list[int]:
        """Those that somebody owns."""
        return [*self._owners]

    def came(self, newcomer: Consumer, consumer_count: int, among: Iterable[int]) -> list[int]:
        """
        Let somebody who has come have those of some buckets that prefer him, as soon as may be.

        Gives those of which something changed: he has it, or nobody gets anything of it for now.
        """
        if not self.rebalances or self.only is not None:
            return []
        if newcomer.groups is None:
            newcomer.groups = self._seen(newcomer)
        count_max = _UNEVEN * len(self._owners) / consumer_count - self._counts.get(newcomer, 0)
        changed: list[int] = []
        for bucket in among:
            if len(changed) >= count_max:
                break
            owner = self._owners.get(bucket)
            if owner is None or newcomer.claim.priority < owner.claim.priority:
                continue
            # Who is to have it already has been found to be better.
            rival = self._moving.get(bucket, owner)
            if _score(newcomer, bucket) > _score(rival, bucket):
                changed.append(bucket)
        for bucket in changed:
            self._discount(self._moving.get(bucket) or self._owners[bucket])
            if bucket in self._out_counts:
                self._moving[bucket] = newcomer
            else:
                self._own(bucket, newcomer)
        if changed:
            self._counts[newcomer] = self._counts.get(newcomer, 0) + len(changed)
        return changed

    def left(self, consumer: Consumer) -> list[int]:
        """Note that a consumer is closed; gives the buckets of which something changed."""
        self._forget_name(consumer)
        if self._counts.pop(consumer, 0) == 0 and consumer not in self._owners.values():
            return []
        changed: list[int] = []
        for bucket, successor in [*self._moving.items()]:
            if successor is consumer:
                del self._moving[bucket]
                owner = self._owners[bucket]
                if owner is not consumer:
                    self._counts[owner] = self._counts.get(owner, 0) + 1
                    changed.append(bucket)
        for bucket, owner in [*self._owners.items()]:
            if owner is consumer:
                del self._owners[bucket]
                self._lent.discard(bucket)
                successor_left = self._moving.pop(bucket, None)
                if successor_left is not None:
                    self._discount(successor_left)
                changed.append(bucket)
        return changed

    def begin_alone(self, consumer: Consumer) -> None:
        """Let only one get messages: nobody else has any, but transactions may hold some."""
        self.only = consumer
        if consumer.groups is None:
            consumer.groups = self._seen(consumer)
        consumer.groups.clear()  # Of all others somebody else may have had messages meanwhile.
        owners = self._owners
        self._held_by_others = {it for it in self._out_counts if owners.get(it) is not consumer}
        self._owners, self._moving, self._counts = {}, {}, {}
        self._lent.clear()

    def end_alone(self) -> None:
        """Let all get messages again; what the only one had given to him is still his."""
        before, self.only = self.only, None
        held_by_others, self._held_by_others = self._held_by_others, set()
        if before is not None and not before.is_closed:
            for bucket in self._out_counts.keys() - held_by_others:
                self._own(bucket, before)
            if self._owners:
                self._counts[before] = len(self._owners)

    def went_out(self, key: int, bucket: int) -> None:
        """Note that a message was given to a bucket's owner."""
        if self._out.find(key) is None:
            self._out[key] = bucket + 1
            self._out_counts[bucket] = self._out_counts.get(bucket, 0) + 1

    def came_in(self, key: int) -> int | None:
        """Note that a message is back or gone; gives its bucket if that may go to others now."""
        found = self._out.take(key)
        if found is None:
            return None
        bucket = found - 1
        left = self._out_counts[bucket] - 1
        if left:
            self._out_counts[bucket] = left
            return None
        del self._out_counts[bucket]
        if bucket in self._held_by_others:
            self._held_by_others.discard(bucket)
            return bucket
        is_awaited = bucket in self._awaited
        self._awaited.discard(bucket)
        successor = self._moving.pop(bucket, None)
        if successor is not None:
            self._lent.discard(bucket)
            self._own(bucket, successor)
            return bucket
        if bucket in self._lent:
            self._take_back(bucket)
        return bucket if is_awaited or bucket not in self._owners else None

    def is_at_hand(self, bucket: int) -> bool:
        """Whether nothing of a bucket is out, nor comes later."""
        return not (bucket in self._out_counts or bucket in self._delayed_counts)

    def await_all(self, bucket: int) -> None:
        """Ask to be told of a bucket when nothing of it is out any more."""
        self._awaited.add(bucket)

    def lend(self, bucket: int, consumer: Consumer, *, again: bool = False) -> None:
        """
        Let somebody have a bucket that is at hand, for what he is given of it next.

        Args:
            again: Nobody had it since he did: what he was told of its groups is still so.
        """
        assert self.is_at_hand(bucket), "nothing of it may be in two hands"
        owner = self._owners.get(bucket)
        if self.only is not None or owner is consumer:
            return
        if owner is not None:
            self._discount(owner)
        self._counts[consumer] = self._counts.get(consumer, 0) + 1
        if again:
            self._owners[bucket] = consumer
        else:
            self._own(bucket, consumer)
        self._lent.add(bucket)

    def lend_all(self) -> dict[int, Consumer]:
        """Let each bucket be whose it is until nothing of it is out; gives whose they were."""
        before = dict(self._owners)
        for bucket, owner in before.items():
            successor = self._moving.pop(bucket, None)
            if successor is not None:
                self._discount(successor)
                self._counts[owner] = self._counts.get(owner, 0) + 1
            if bucket in self._out_counts:
                self._lent.add(bucket)
            else:
                self._take_back(bucket)
        return before

    def _take_back(self, bucket: int) -> None:
        self._lent.discard(bucket)
        borrower = self._owners.pop(bucket, None)
        if borrower is not None:
            self._discount(borrower)

    def delay(self, key: int, bucket: int) -> bool:
        """Note that a message comes later; whether those behind it have to wait from now on."""
        if not self._keeps_order or self._delayed.find(key) is not None:
            return False
        self._delayed[key] = bucket + 1
        count = self._delayed_counts[bucket] = self._delayed_counts.get(bucket, 0) + 1
        return count == 1

    def is_delayed(self, key: int) -> bool:
        """Whether a message comes later."""
        return self._delayed.find(key) is not None

    def end_delay(self, key: int) -> int | None:
        """Note that a message is there, or gone; gives its bucket if nothing waits any more."""
        found = self._delayed.take(key)
        if found is None:
            return None
        bucket = found - 1
        left = self._delayed_counts[bucket] - 1
        if left:
            self._delayed_counts[bucket] = left
            return None
        del self._delayed_counts[bucket]
        return bucket

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget single messages; gives them, to be let go of. Owners stay."""
        gone = (self._out, self._delayed)
        self._out, self._delayed = Shelves(), Shelves()
        self._out_counts, self._delayed_counts = {}, {}
        for bucket, successor in self._moving.items():
            self._lent.discard(bucket)
            self._own(bucket, successor)
        self._moving = {}
        for bucket in [*self._lent]:
            self._take_back(bucket)
        self._awaited.clear()
        self._held_by_others.clear()
        return gone


def bucket_of(queue: Queue, key: int, bucket_count: int) -> int | None:
    """Give the bucket of a message's group, None if it is in none."""
    if key > 0:
        group_hash = queue.index.group_hash(key)
    else:
        transient = queue.transients.find(key)
        group_hash = 0 if transient is None else transient.group_hash
    return group_hash % bucket_count if group_hash else None


def _score(consumer: Consumer, bucket: int) -> int:
    """Give how well a bucket suits a consumer: the same for the same names under every leader."""
    assert consumer.groups is not None, "asked for by whoever had it made"
    mixed = ((consumer.groups.salt + bucket) * _MIX) & _MIX_MASK
    mixed ^= mixed >> 29
    return (mixed * _MIX_AGAIN) & _MIX_MASK
