"""
How long a record takes to apply, beside what every record takes: counted in acknowledgements.

A record's bytes do not tell it. A few say who does not get a message (one bit for each
subscription), that a subscription is done with thousands of messages (one number), or that there is
a subscription more (which looks at its topic's chunks). So each kind is asked for what it touches
in the state as it is now; of a kind that is not here a record takes as long as a message.

Weights are what `benches/steps.py` measured, with 0.4 us for one acknowledgement on a queue. What
stands in the same step before a record may change what it touches: less, never much more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from holdfast.broker.lasting.chunk import CHUNK_SHIFT, CHUNK_SIZE
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic, OfQueue
from holdfast.model.records import (
    AcknowledgeRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    MessageRecord,
    MoveRecord,
    PurgeRecord,
    Record,
    ReturnedRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import CountedRecord, SubscriptionRecord, TopicRecord

Queues = Mapping[int, LastingQueue]
"""What the state knows, by number."""

OF_MOVED: Final = 8
"""A message that is moved, or stands on one place more: 3 us."""
OF_RETURNED: Final = 8
"""A message that came back."""
OF_SUBSCRIPTION: Final = 3
"""An acknowledgement on a subscription: 1.1 us."""
OF_COUNTED: Final = 4
"""A message of which is said again what came of it: 1.5 us."""
OF_SKIP: Final = 3
"""A subscription that does not get a message: 1 us."""
_LATE: Final = 2
"""A subscription that is told of a message which stands before others."""
_MORTALS_PER_WEIGHT: Final = 2
"""So many subscriptions are told in that time of one message more that expires."""
_CHUNK: Final = 10
"""A chunk that a subscription leaves which has no flags of its own for it: 4 us."""
_BEGUN_CHUNK: Final = CHUNK_SIZE
"""One that has: up to 200 us."""
_CHUNKS_PER_WEIGHT: Final = 8
"""So many chunks of its topic a new subscription looks through in that time."""
_JOINED_CHUNK: Final = 8
"""One that it may need something of: 3 us."""
_CHUNK_TO_LOOK_AT: Final = 150
"""A chunk of a topic of which all subscriptions are known only now: 60 us."""
_SPLIT_MESSAGE: Final = 5
"""A message that stays in a chunk of which the others are purged: 2 us."""
_CHUNKS_COUNTED: Final = CHUNK_SIZE
"""More than any step may have: no more of them are looked at."""


def weight_of_all(records: Iterable[Record], queues: Queues) -> int:
    """Give how long records take together; most are plain messages, and are not asked."""
    return sum(
        [
            weight_of(record, queues)
            for record in records
            if type(record) is not MessageRecord or record.facts is not None or record.rewritten
        ]
    )


def weight_of(record: Record, queues: Queues) -> int:
    """Give how long one record takes."""
    weigh = _WEIGHS.get(type(record))
    return 0 if weigh is None else weigh(record, queues)


def _of_message(record: MessageRecord, queues: Queues) -> int:
    weight = 0
    facts = record.facts
    if facts is not None:
        if facts.places:
            weight += OF_MOVED * len(facts.places)
        if facts.skips:
            weight += OF_SKIP * int.from_bytes(facts.skips).bit_count()
        if facts.expires_ms:
            weight += _of_mortals(queues.get(record.queue_number), 1)
    if record.rewritten:
        topic = queues.get(record.queue_number)
        if isinstance(topic, LastingTopic) and not topic.index.is_whole:
            weight += _LATE * len(topic.index.takers)
    return weight


def _of_mortals(queue: LastingQueue | None, count: int) -> int:
    if not isinstance(queue, LastingTopic):
        return 0
    return count * len(queue.subscriptions) // _MORTALS_PER_WEIGHT


def _of_acknowledged(record: AcknowledgeRecord | DeadLetterRecord, _queues: Queues) -> int:
    return len(record.sequences)


def _of_settled(record: SubscriptionAcknowledgeRecord, queues: Queues) -> int:
    return OF_SUBSCRIPTION * len(record.sequences) + _of_meeting(record, queues)


def _of_returned(record: ReturnedRecord, queues: Queues) -> int:
    return OF_RETURNED * len(record.sequences) + _of_meeting(record, queues)


def _of_counted(record: CountedRecord, queues: Queues) -> int:
    return OF_COUNTED * len(record.sequences) + _of_meeting(record, queues)


def _of_move(record: MoveRecord, queues: Queues) -> int:
    count = record.count
    weight = OF_MOVED * count + _of_mortals(queues.get(record.target_number), count)
    return weight + _of_meeting(record, queues)


def _of_purge(record: PurgeRecord, queues: Queues) -> int:
    queue = queues.get(record.queue_number)
    through = record.through_sequence
    if record.topic_number:
        chunks = islice(purged_chunks(queue, through), _CHUNKS_COUNTED)
        return sum([weight for _, weight in chunks]) + 2 * _of_meeting(record, queues)
    if queue is None or queue.index.last() <= through:
        return 0
    return _SPLIT_MESSAGE * CHUNK_SIZE + len(queue.index.chunks)


def _of_meeting(record: OfQueue, queues: Queues) -> int:
    """Give how long it takes to meet a subscription that was not told of: it joins its topic."""
    if not record.topic_number or record.queue_number in queues:
        return 0
    topic = queues.get(record.topic_number)
    if topic is None or (isinstance(topic, LastingTopic) and topic.index.is_whole):
        return 0
    return _JOINED_CHUNK * len(topic.index.chunks)


def _of_deletion(record: DeleteQueueRecord, queues: Queues) -> int:
    queue = queues.get(record.queue_number)
    if isinstance(queue, LastingSubscription):
        chunks = islice(purged_chunks(queue, queue.next_sequence), _CHUNKS_COUNTED)
        weight = sum([weight for _, weight in chunks])
        return weight + (_of_whole(queue.topic) if not queue.is_declared else 0)
    if isinstance(queue, LastingTopic):
        return len(queue.subscriptions)
    return _of_whole(queues.get(record.topic_number)) if queue is None else 0


def _of_subscription(record: SubscriptionRecord, queues: Queues) -> int:
    topic = queues.get(record.topic_number)
    known = queues.get(record.number)
    if not isinstance(topic, LastingTopic) or (known is not None and known.is_declared):
        return 0
    count = len(topic.index.chunks)
    if topic.index.is_whole:
        return count // _CHUNKS_PER_WEIGHT
    return _JOINED_CHUNK * count + OF_SUBSCRIPTION * len(topic.index.skips)


def _of_topic(record: TopicRecord, queues: Queues) -> int:
    return _of_whole(queues.get(record.topic_number))


def _of_whole(topic: LastingQueue | None) -> int:
    """Give how long it takes to let go of what nobody needs, if that is not known yet."""
    if not isinstance(topic, LastingTopic) or topic.index.is_whole:
        return 0
    return _CHUNK_TO_LOOK_AT * len(topic.index.chunks)


def purged_chunks(queue: LastingQueue | None, through: int) -> Iterator[tuple[int, int]]:
    """Give the chunks, by number, of which a purge of a subscription takes any, with weights."""
    if not isinstance(queue, LastingSubscription):
        return
    index, topic = queue.index, queue.topic.index
    first, border = index.begin >> CHUNK_SHIFT, (through + 1) >> CHUNK_SHIFT
    number = topic.chunk_from(first)
    while 0 <= number <= border:
        if number not in index.finished:
            if number == border:
                weight = _CHUNK + OF_SUBSCRIPTION * topic.chunks[number].count
            else:
                is_begun = number in index.chunks or number == first
                weight = _BEGUN_CHUNK if is_begun else _CHUNK
            yield number, weight
        number = topic.chunk_from(number + 1)


_WEIGHS: Final[dict[type[Any], Callable[[Any, Queues], int]]] = {
    MessageRecord: _of_message,
    AcknowledgeRecord: _of_acknowledged,
    DeadLetterRecord: _of_acknowledged,
    SubscriptionAcknowledgeRecord: _of_settled,
    ReturnedRecord: _of_returned,
    CountedRecord: _of_counted,
    MoveRecord: _of_move,
    PurgeRecord: _of_purge,
    DeleteQueueRecord: _of_deletion,
    SubscriptionRecord: _of_subscription,
    TopicRecord: _of_topic,
}
