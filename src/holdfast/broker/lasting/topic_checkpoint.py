"""
Stored topics and durable subscriptions as bytes and back: what they have beside a queue.

A topic has its messages as a queue does; behind its head stand whether all its subscriptions are
known, how many are not, and until they are who does not need which message. A subscription has
behind its head whose it is and what it is a view on, and the stretches of chunks that it is done
with; instead of a queue's chunks it has the flags of those that it has begun, a byte a message,
and the columns of what came back.

Who has done with how much of a topic's chunk is counted anew when it is read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import compress
from typing import Any, Final

from holdfast.broker.lasting.chunk import CHUNK_SHIFT, CHUNK_SIZE, Chunk
from holdfast.broker.lasting.columns import columns_bytes, decode_columns, encode_columns
from holdfast.broker.lasting.intervals import Intervals
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic
from holdfast.broker.lasting.view_index import join_all
from holdfast.model.owners import NOBODY, OWNER, Owner, owner_bytes

DECLARED: Final = 1
TOPIC: Final = 4
SUBSCRIPTION: Final = 8
"""What the flags of a head say of its queue, if it is one."""

_TOPIC: Final = struct.Struct("<BII")
"""Whether all its subscriptions are known, how many are not, and of how many messages follows who
does not need them."""
_SKIPS: Final = struct.Struct("<QH")
_SUBSCRIPTION: Final = struct.Struct("<IiQQBHHI")
"""The topic's number, its slot, where it begins, since when it is detached, 1: it wants nothing of
its own client's, 2: behind the selector stands whose it is, the lengths of client-id and selector,
stretches of chunks."""
_NO_LOCAL: Final = 1
_OWNED: Final = 2
_STRETCH: Final = struct.Struct("<QQ")
_FLAGS: Final = struct.Struct("<QHH")
"""The chunk's number, how many flags follow, the mask of the columns behind them."""

Take = Callable[[struct.Struct], tuple[Any, ...]]
TakeBytes = Callable[[int], bytes]


def kind_of(queue: LastingQueue) -> int:
    """Say what it is."""
    if isinstance(queue, LastingTopic):
        return TOPIC
    return SUBSCRIPTION if isinstance(queue, LastingSubscription) else 0


def encode_more(queue: LastingQueue, *, canonical: bool) -> bytes:
    """Give what stands behind a head."""
    if isinstance(queue, LastingTopic):
        index = queue.index
        parts = [_TOPIC.pack(index.is_whole, queue.unknown_count, len(index.skips))]
        for sequence, slots in sorted(index.skips.items()):
            parts += (_SKIPS.pack(sequence, len(slots)), slots)
        return b"".join(parts)
    return _encode_subscription(queue, canonical=canonical) if kind_of(queue) else b""


def _encode_subscription(queue: LastingQueue, *, canonical: bool) -> bytes:
    assert isinstance(queue, LastingSubscription), "there is nothing else"
    client, selector = queue.client_id.encode(), queue.selector.encode()
    index = queue.index
    stretches = [] if canonical else [*index.finished]
    state = _SUBSCRIPTION.pack(
        queue.topic.number,
        index.slot,
        index.first() if canonical else index.begin,
        queue.detached_at,
        queue.has_no_local * _NO_LOCAL | bool(queue.owner.name) * _OWNED,
        len(client),
        len(selector),
        len(stretches),
    )
    owner = owner_bytes(queue.owner)
    return b"".join((state, client, selector, owner, *(_STRETCH.pack(*each) for each in stretches)))


def _take_owner(flags: int, take: Take, take_bytes: TakeBytes) -> Owner:
    if not flags & _OWNED:
        return NOBODY
    life, length = take(OWNER)
    return Owner(take_bytes(length).decode(), life)


def encode_flags(number: int, chunk: Chunk) -> bytes:
    """Give what a subscription has begun of a chunk."""
    count = len(chunk.live)
    mask, columns = encode_columns(chunk, range(count))
    return _FLAGS.pack(number, count, mask) + chunk.live + columns


def canonical_flags(subscription: LastingSubscription) -> dict[int, Chunk]:
    """
    Give its flags as they are the same wherever it needs the same.

    Only of chunks that have anything that it does not need, or that came back.
    """
    index = subscription.index
    first = index.first()
    found: dict[int, Chunk] = {}
    for number, whole in sorted(index.topic.chunks.items()):
        base = number << CHUNK_SHIFT
        slots = list(whole.slots())
        if not first or base + slots[-1] < first:
            continue
        own = Chunk(0)
        own.live = bytearray(slots[-1] + 1)
        for slot in slots:
            if index.is_live(base + slot):
                own.live[slot] = 1
                own.put_returned(slot, index.returned(base + slot))
        own.count = own.live.count(1)
        if own.count < len(slots) or own.returns is not None:
            found[number] = own
    return found


def decode_topic(topic: LastingTopic, take: Take, take_bytes: TakeBytes) -> None:
    """Read what stands behind a topic's head."""
    is_whole, topic.unknown_count, count = take(_TOPIC)
    topic.index.is_whole = bool(is_whole)
    for _ in range(count):
        sequence, length = take(_SKIPS)
        topic.index.skips[sequence] = take_bytes(length)


def skip_more(flags: int, take: Take, take_bytes: TakeBytes) -> None:
    """Go past what stands behind a head."""
    if flags & TOPIC:
        decode_topic(LastingTopic(0, ""), take, take_bytes)
    elif flags & SUBSCRIPTION:
        *_, own_flags, client, selector, stretches = take(_SUBSCRIPTION)
        take_bytes(client + selector)
        _take_owner(own_flags, take, take_bytes)
        take_bytes(stretches * _STRETCH.size)


def skip_flags(take: Take, take_bytes: TakeBytes) -> None:
    """Go past what a subscription has begun of a chunk."""
    _, count, mask = take(_FLAGS)
    take_bytes(count + columns_bytes(mask, count))


class SubscriptionDraft:
    """A subscription as it was read, until its topic is read, too."""

    def __init__(self, number: int, name: str, take: Take, take_bytes: TakeBytes) -> None:
        topic, slot, begin, detached_at, own_flags, client, selector, stretches = take(
            _SUBSCRIPTION
        )
        self.topic_number = topic
        subscription = self._subscription = LastingSubscription(
            number, LastingTopic(topic, ""), begin, slot
        )
        subscription.name = name
        subscription.detached_at = detached_at
        subscription.has_no_local = bool(own_flags & _NO_LOCAL)
        subscription.client_id = take_bytes(client).decode()
        subscription.selector = take_bytes(selector).decode()
        subscription.owner = _take_owner(own_flags, take, take_bytes)
        self._stretches = [take(_STRETCH) for _ in range(stretches)]

    @property
    def queue(self) -> LastingSubscription:
        """What of it is like a queue's."""
        return self._subscription

    def chunk(self, take: Take, take_bytes: TakeBytes) -> None:
        """
        Read what it has begun of a chunk.

        Raises:
            ValueError: It makes no sense.
        """
        number, count, mask = take(_FLAGS)
        if count > CHUNK_SIZE:
            raise ValueError(f"chunk {number} has {count} flags")
        chunk = self._subscription.index.chunks[number] = Chunk(0)
        chunk.live = bytearray(take_bytes(count))
        chunk.count = chunk.live.count(1)
        decode_columns(mask, chunk, range(count), take_bytes)

    def joined(self, topic: LastingTopic) -> LastingSubscription:
        """
        Give it as one of its topic's, of which all messages are read.

        Raises:
            ValueError: It needs what the topic has not.
        """
        subscription, index = self._subscription, self._subscription.index
        for number, chunk in index.chunks.items():
            base = number << CHUNK_SHIFT
            needed = compress(range(base, base + len(chunk.live)), chunk.live)
            if not all(map(topic.index.is_live, needed)):
                raise ValueError(f"chunk {number} has flags of what its topic has not")
        subscription.topic, index.topic = topic, topic.index
        index.finished = Intervals.of(self._stretches)
        topic.subscriptions[subscription.number] = subscription
        topic.index.takers[subscription.number] = index
        if index.slot >= 0:
            topic.index.by_slot[index.slot] = index
        return subscription


def joined_all(
    drafts: list[SubscriptionDraft], queues: dict[int, LastingQueue]
) -> Iterator[LastingSubscription]:
    """
    Give the subscriptions that were read, each as one of its topic's.

    Raises:
        ValueError: There is no such topic.
    """
    for queue in queues.values():
        if isinstance(queue, LastingTopic):
            index = queue.index
            index.put_count, index.put_bytes = index.live_count, index.live_bytes
            index.close_below(queue.next_sequence)
    for draft in drafts:
        topic = queues.get(draft.topic_number)
        if not isinstance(topic, LastingTopic):
            raise ValueError(f"there is no topic {draft.topic_number}")
        yield draft.joined(topic)
    for queue in queues.values():
        if isinstance(queue, LastingTopic):
            join_all(queue.index, [it.index for it in queue.subscriptions.values()])
