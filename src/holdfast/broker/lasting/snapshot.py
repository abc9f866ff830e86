"""
The lasting state as it was after one entry, written down piece by piece while it goes on changing.

A checkpoint of many queues takes longer than anybody may wait, so it is made in steps. What a step
has not reached yet and a record is about to change is kept just before it changes: the queue's head
in bytes, and copies of those of its chunks that the record touches. What no record touches is still
as it was when its turn comes. Producers keep themselves as they were, for whoever asks.

Invariants:
    A queue is in `_waiting` (untouched since the beginning), or in `_frozen` (its head is written
    down), or all of it is in `parts`.
    A chunk in a frozen queue's `chunks` is as it was at the beginning; one that is in `copied` is
    its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from holdfast.broker.lasting.access_checkpoint import encode_access
from holdfast.broker.lasting.checkpoint import (
    chunk_work,
    encode_chunk,
    encode_head,
    encode_producers,
    encode_queue_head,
)
from holdfast.broker.lasting.chunk import CHUNK_SHIFT, Chunk
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topic_checkpoint import canonical_flags, encode_flags
from holdfast.broker.lasting.topic_index import bits_of
from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic
from holdfast.model.records import (
    AcknowledgeRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    FiredRecord,
    MessageRecord,
    MoveRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnedRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)

_PRODUCERS_PER_PIECE: Final = 512
_PIECE_WORK: Final = 64
"""What that many producers cost, in chunks."""
_ACCESS_PER_PIECE: Final = 128
"""So many users and grants cost as much."""


class _FrozenQueue:
    """A queue as it was: the head in bytes, the chunks as copies or still unchanged."""

    __slots__ = ("chunks", "copied", "head", "is_all_copied", "is_view", "numbers")

    def __init__(self, queue: LastingQueue, *, canonical: bool) -> None:
        self.chunks: dict[int, Chunk] = dict(queue.index.chunks)
        self.is_view = isinstance(queue, LastingSubscription)
        if isinstance(queue, LastingSubscription) and canonical:
            self.chunks = canonical_flags(queue)
        self.numbers = sorted(self.chunks, reverse=True)
        """Those still to be handed on, the next one last."""
        self.head = encode_queue_head(queue, len(self.chunks), canonical=canonical)
        self.copied: set[int] = set()
        self.is_all_copied = False

    def keep_all(self) -> None:
        """Copy all chunks that are not copied yet: any of them may change."""
        if not self.is_all_copied:
            self.is_all_copied = True
            for number in list(self.chunks):
                self.keep(number)

    def keep(self, number: int) -> None:
        """
        Copy a chunk, if it is not yet: it is about to change.

        One record may touch thousands; to turn each into bytes now would take 30 times as long.
        """
        chunk = self.chunks.get(number)
        if chunk is not None and number not in self.copied:
            self.chunks[number] = chunk.copy()
            self.copied.add(number)

    def take(self, number: int) -> Chunk:
        """Hand on a chunk."""
        self.copied.discard(number)
        return self.chunks.pop(number)


class Snapshot:
    """
    The state of one moment, to be encoded by `step`.

    `canonical` leaves out the counters of what passed through, which are statistics, and sorts what
    has no order: equal states then give equal bytes.
    """

    __slots__ = (
        "_access",
        "_canonical",
        "_frozen",
        "_order",
        "_producers",
        "_queues",
        "_waiting",
        "is_done",
        "parts",
    )

    def __init__(self, state: BrokerState, *, canonical: bool = False) -> None:
        self._canonical = canonical
        self._waiting: dict[int, LastingQueue] = dict(state.queues)
        self._queues = state.queues
        self._frozen: dict[int, _FrozenQueue] = {}
        self._order: list[int] = (
            sorted(self._waiting, reverse=True) if canonical else list(reversed(self._waiting))
        )
        """The queues not yet all in `parts`, the next one last."""
        producers = state.producers.as_they_are()
        self._producers = iter(sorted(producers)) if canonical else producers
        self.parts: list[bytes] = [encode_head(state)]
        self._access: Iterator[bytes] | None = encode_access(state.access, canonical=canonical)
        """Users and grants, which come first; None: all are in `parts`."""
        self.is_done = False

    def step(self, work_max: int) -> bool:
        """Encode so much more, counted in queues and full chunks; True when all is in `parts`."""
        done = 0
        pieces: list[bytes] = []
        while self._access is not None and done < work_max:
            encoded = list(islice(self._access, _ACCESS_PER_PIECE))
            pieces += encoded
            done += _PIECE_WORK
            if len(encoded) < _ACCESS_PER_PIECE:
                self._access = None
        while self._order and done < work_max:
            number = self._order[-1]
            frozen = self._freeze(number)
            if frozen.head:
                pieces.append(frozen.head)
                frozen.head = b""
                done += 1
            while frozen.numbers and done < work_max:
                chunk_number = frozen.numbers.pop()
                chunk = frozen.take(chunk_number)
                encode = encode_flags if frozen.is_view else encode_chunk
                pieces.append(encode(chunk_number, chunk))
                done += chunk_work(chunk)
            if not frozen.numbers:
                del self._frozen[number]
                self._order.pop()
        while done < work_max:
            some = list(islice(self._producers, _PRODUCERS_PER_PIECE))
            if not some:
                self.is_done = not self._order
                break
            pieces.append(encode_producers(some))
            done += _PIECE_WORK
        self.parts.append(b"".join(pieces))
        return self.is_done

    def ahead_of(self, records: Iterable[Record]) -> Iterator[Record]:
        """Give the records one by one, with what each will change written down before."""
        for record in records:
            self._keep(record)
            yield record

    def _freeze(self, number: int) -> _FrozenQueue:
        """Give a queue of the snapshot that is not yet all in `parts`, its head written down."""
        queue = self._waiting.pop(number, None)
        if queue is not None:
            self._frozen[number] = _FrozenQueue(queue, canonical=self._canonical)
        return self._frozen[number]

    def _keep(self, record: Record) -> None:
        kind = type(record)
        if kind not in _CHANGES_A_QUEUE:
            return
        if kind in _TELLS_OF_TOPICS or getattr(record, "topic_number", None):
            self._keep_of_topic(record)
        if kind in _TELLS_OF_TOPICS:
            return
        if type(record) is MessageRecord and record.queue_number in self._queues:
            self._keep_late(record)
        if type(record) is MessageRecord and record.facts is not None:
            for queue_number, sequence in record.facts.places:
                if queue_number in self._waiting or queue_number in self._frozen:
                    self._freeze(queue_number).keep(sequence >> CHUNK_SHIFT)
        if type(record) is MoveRecord:
            self._keep_chunks(record.target_number, record.target_sequences)
            self._keep_chunks(record.queue_number, () if record.is_copy else record.sequences)
            return
        number: int = record.queue_number  # type: ignore[union-attr]
        if number not in self._waiting and number not in self._frozen:
            return
        frozen = self._freeze(number)
        if type(record) is MessageRecord or type(record) is FiredRecord:
            frozen.keep(record.sequence >> CHUNK_SHIFT)
        elif type(record) in _NAMES_MANY:
            for sequence in record.sequences:  # type: ignore[union-attr]
                frozen.keep(sequence >> CHUNK_SHIFT)
        # A purge or a deletion takes the chunks away and leaves them as they are.

    def _keep_late(self, record: MessageRecord) -> None:
        """Write down the subscriptions that a message changes: it comes late, or they skip it."""
        topic = self._queues[record.queue_number]
        skips = b"" if record.facts is None else record.facts.skips
        if not isinstance(topic, LastingTopic):
            if skips:
                self._keep_all(record.queue_number)
            return
        index = topic.index
        if record.sequence < max(topic.next_sequence, index.following):
            # One that lives already is the cleaner's copy: its bytes stand elsewhere, no more.
            if not index.is_live(record.sequence):
                for number in topic.subscriptions:
                    self._keep_chunks(number, [record.sequence])
            return
        for slot in bits_of(skips) if skips else ():
            taker = index.by_slot.get(slot)
            if taker is not None:
                self._keep_chunks(taker.number, [record.sequence])

    def _keep_of_topic(self, record: Record) -> None:
        """Write down what is said of a topic or of a subscription, with the topic's messages."""
        number: int = getattr(record, "queue_number", None) or getattr(record, "number", None) or 0
        subscription = self._queues.get(number)
        topic_number: int = getattr(record, "topic_number", None) or 0
        topic = self._queues.get(topic_number)
        if topic is not None and not (isinstance(topic, LastingTopic) and topic.index.is_whole):
            # It is not told yet what it is, or who takes its messages.
            self._keep_all(topic_number)
        if isinstance(subscription, LastingSubscription):
            self._keep_chunks(number, ())
            if type(record) in _NAMES_MANY or type(record) is MoveRecord:
                self._keep_chunks(topic_number, record.sequences)  # type: ignore[union-attr]
            elif type(record) is not DetachedRecord:
                self._keep_all(number)
            if type(record) is PurgeRecord or type(record) is DeleteQueueRecord:
                through = subscription.next_sequence
                if type(record) is PurgeRecord:
                    through = record.through_sequence
                self._keep_between(topic_number, subscription.index.begin, through)
        self._keep_chunks(topic_number, ())

    def _keep_all(self, number: int) -> None:
        if number in self._waiting or number in self._frozen:
            self._freeze(number).keep_all()

    def _keep_between(self, number: int, first: int, through: int) -> None:
        if number in self._waiting or number in self._frozen:
            frozen = self._freeze(number)
            low, high = first >> CHUNK_SHIFT, through >> CHUNK_SHIFT
            for each in [each for each in frozen.chunks if low <= each <= high]:
                frozen.keep(each)

    def _keep_chunks(self, number: int, sequences: Iterable[int]) -> None:
        if number in self._waiting or number in self._frozen:
            frozen = self._freeze(number)
            for sequence in sequences:
                frozen.keep(sequence >> CHUNK_SHIFT)


_NAMES_MANY: Final = {
    AcknowledgeRecord,
    SubscriptionAcknowledgeRecord,
    DeadLetterRecord,
    ReturnedRecord,
    CountedRecord,
}
_TELLS_OF_TOPICS: Final = {TopicRecord, SubscriptionRecord, DetachedRecord}
_CHANGES_A_QUEUE: Final = {
    MessageRecord,
    AcknowledgeRecord,
    SubscriptionAcknowledgeRecord,
    DeadLetterRecord,
    QueueRecord,
    DispatchMarkRecord,
    PurgeRecord,
    DeleteQueueRecord,
    ReturnedRecord,
    MoveRecord,
    FiredRecord,
    CountedRecord,
    *_TELLS_OF_TOPICS,
}


def encode_state(state: BrokerState, *, canonical: bool = False) -> list[bytes]:
    """Give the state as parts to be written one after the other, at once."""
    snapshot = Snapshot(state, canonical=canonical)
    while not snapshot.step(1 << 30):
        pass
    return snapshot.parts


def digest_of(state: BrokerState) -> bytes:
    """Give 16 bytes that are equal where the lasting state is equal."""
    whole = hashlib.blake2b(digest_size=16)
    for part in encode_state(state, canonical=True):
        whole.update(part)
    return whole.digest()
