"""
What in an old part of the log still lives, and must be written again before that part may go.

A message lives if its queue says that this very record holds it. Acknowledgements never need
writing again: what they refer to is older and goes first. Beside messages, each
queue, producer and counter has a *home*: the newest record that carries it whole.

What an acknowledgement, purge or deletion under way is about to remove is left out: written again
behind that record it would live once more after a restart. What came back is told by the copy as it
is once all that is under way is applied: who has but the copy must agree.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import Final, NamedTuple

from holdfast.broker.broker import Broker
from holdfast.broker.cleaning_topics import copy_on_topic, homeless_topics, needing, widen
from holdfast.broker.lasting.chunk import CHUNK_SHIFT
from holdfast.broker.lasting.producers import unpack_producer
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.broker.lasting.schedule import put_due
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic
from holdfast.model.facts import Attributes, MessageFacts, Place
from holdfast.model.records import (
    MESSAGE_OVERHEAD_BYTES,
    CountersRecord,
    DispatchMarkRecord,
    ForgetProducerRecord,
    FormatRecord,
    HoldRecord,
    MessageRecord,
    ProducerRecord,
    QueueRecord,
    Record,
)

_LOOKED_AT_PER_PIECE: Final = 1_000
_EFFORT_PER_PIECE: Final = 16 * 1024
"""So many messages are looked at in one piece, or so many queues and messages together."""
_EFFORT_PER_QUEUE: Final = 16
_PRODUCER_RECORD_BYTES: Final = 24
"""What a producer's record has beside the id."""
_POLICY_RECORD_BYTES: Final = 18
"""What a policy's record has beside pattern and values."""
_QUEUE_RECORD_BYTES: Final = 64
"""What a queue's record has, with a name of middling length."""


def kept_bytes(state: BrokerState) -> int:
    """Give how many bytes of the log cleaning must keep, about: what lives, as it stands there."""
    producers = state.producers
    return (
        state.live_bytes()
        + state.live_count() * MESSAGE_OVERHEAD_BYTES
        + len(producers.by_id) * _PRODUCER_RECORD_BYTES
        + producers.id_bytes
        + len(state.queues) * _QUEUE_RECORD_BYTES
        + len(state.policies.by_key) * _POLICY_RECORD_BYTES
        + state.policies.size_bytes
    )


def holds_to_come(broker: Broker) -> dict[str, HoldRecord]:
    """Give, by name, the holds that stand once all that is on its way to the log is applied."""
    holds = broker.state.holds | broker.receipts.holds_under_way()
    return {name: hold for name, hold in holds.items() if hold.index}


class OnTheWay(NamedTuple):
    """What of some messages is on its way to the log: a copy of them stands behind it there."""

    leaving: dict[int, set[int]]
    """By queue number: what is settled."""
    returning: dict[Place, list[tuple[int, bool]]]
    """What came back, each time until when it rests and whether the message is to blame."""
    firing: dict[Place, tuple[int, int]]
    """When what is scheduled is due again, and how often it is sent after that."""


def on_the_way(broker: Broker, wanted: dict[int, set[int]]) -> OnTheWay:
    """Give what of these messages, by queue number, is on its way."""
    wanted = widen(broker, wanted)
    returning: dict[Place, list[tuple[int, bool]]] = {}
    for record in broker.receipts.returning():
        for sequence in wanted.get(record.queue_number, set()).intersection(record.sequences):
            of_it = returning.setdefault(Place(record.queue_number, sequence), [])
            of_it.append((record.due_ms, record.cause.is_failure))
    firing = {
        Place(it.queue_number, it.sequence): (it.due_ms, it.repeats)
        for it in broker.receipts.firing()
    }
    return OnTheWay(broker.receipts.settling(wanted), returning, firing)


def is_kept(
    broker: Broker, record: MessageRecord, record_number: int, leaving: dict[int, set[int]]
) -> bool:
    """Whether this record is what keeps its message alive somewhere, and goes on doing so."""
    # Asked of each message of a segment: those without facts cost no more than they must.
    if record.facts is None:
        return lives_at(broker, record.queue_number, record.sequence, record_number, leaving)
    return any(lives_at(broker, *place, record_number, leaving) for place in record.places)


def lives_at(
    broker: Broker,
    queue_number: int,
    sequence: int,
    record_number: int,
    leaving: dict[int, set[int]],
) -> bool:
    """Whether a message whose bytes this record has lives there, and goes on doing so."""
    queue = broker.state.queues.get(queue_number)
    if queue is None or sequence <= _leaving_through(broker, queue):
        return False
    if queue.index.record_number(sequence) != record_number:
        return False
    if isinstance(queue, LastingTopic):
        return any(needing(broker, queue, sequence, leaving))
    return sequence not in leaving.get(queue_number, ())


def _leaving_through(broker: Broker, queue: LastingQueue) -> int:
    """Give the last sequence that a purge or deletion on its way to the log takes away."""
    serving = broker.destinations.leadership.half_of(queue)
    if serving is None:
        return 0
    return queue.next_sequence if serving.is_deleted else serving.purging_through


def live_copies(
    broker: Broker,
    record: MessageRecord,
    record_number: int,
    stored_at: int,
    on_the_way: OnTheWay,
) -> Iterator[Record]:
    """
    Give the records that keep this message alive when its segment goes; none if it is dead.

    More than one where it came back to some of its places and not as often to others. On a topic
    it is one by itself.
    """
    leaving = on_the_way.leaving
    kept: dict[Returned, list[Place]] = {}
    for place in record.places:
        if not lives_at(broker, *place, record_number, leaving):
            continue
        if isinstance(broker.state.queues[place.queue_number], LastingTopic):
            copy = _copy_of(record, [place], stored_at)
            yield from copy_on_topic(broker, copy, leaving, on_the_way.returning)
        else:
            kept.setdefault(_returned_to_be(broker, place, on_the_way), []).append(place)
    for returned, places in kept.items():
        copy = _copy_of(record, places, stored_at)
        _carry(copy, returned)
        if record.is_scheduled:
            _carry_due(broker, copy, places[0], on_the_way)
        yield copy


def _copy_of(record: MessageRecord, places: list[Place], stored_at: int) -> MessageRecord:
    """Give a message again as it stands at some of its places."""
    copy = MessageRecord(
        *places[0],
        record.headers,
        record.body,
        record.size,
        record.producer_id,
        record.producer_sequence,
    )
    copy.rewritten = True
    copy.redelivery_count = record.redelivery_count
    copy.stored_at = record.stored_at or stored_at
    copy.facts = record.facts
    if record.facts is not None and (record.facts.places or record.facts.skips):
        only = replace(record.facts, places=tuple(places[1:]), skips=b"")
        copy.facts = None if only == MessageFacts() else only
    return copy


def _carry(copy: MessageRecord, returned: Returned) -> None:
    """Let a copy say how often its message came back, if it did, and until when it rests."""
    if returned == NEVER:
        return
    facts = copy.facts or MessageFacts()
    attributes = (facts.attributes or Attributes())._replace(failures=returned.failures)
    copy.redelivery_count = returned.attempts
    copy.facts = replace(facts, attributes=attributes, due_ms=returned.due_ms or None)


def _carry_due(broker: Broker, copy: MessageRecord, place: Place, on_the_way: OnTheWay) -> None:
    """Let a copy of what is scheduled say when it is due once all is applied that is on its way."""
    index = broker.state.queues[place.queue_number].index
    due = (index.expires_ms(place.sequence), index.repeats(place.sequence))
    due_ms, repeats = on_the_way.firing.get(place, due)
    put_due(copy, due_ms, repeats)


def _returned_to_be(broker: Broker, place: Place, on_the_way: OnTheWay) -> Returned:
    """Give what came of a message so far, once all that is on its way to the log is applied."""
    returned = broker.state.queues[place.queue_number].index.returned(place.sequence)
    for due_ms, failed in on_the_way.returning.get(place, ()):
        returned = returned.again(due_ms, failed=failed)
    return returned


def live_within(
    broker: Broker, first_record: int, next_record: int
) -> Generator[None, None, dict[str, int]]:
    """
    Find what lives in these records without reading them; gives how many messages of which queue.

    Each step takes a bounded time; between two of them the broker goes on. Messages only leave such
    records meanwhile, none comes to stand in them.
    """
    found: dict[str, int] = {}
    effort = 0
    for queue in list(broker.state.queues.values()):
        effort += _EFFORT_PER_QUEUE
        if isinstance(queue, LastingSubscription):
            continue  # What it needs is its topic's.
        for number, chunk in list(queue.index.chunks.items()):
            effort += len(chunk.record_numbers)
            leaving_through = _leaving_through(broker, queue)
            base = (number << CHUNK_SHIFT) + chunk.start
            # What was moved is shown with the record that moved it, too.
            moves = repeat(0) if chunk.moves is None else chunk.moves
            count = sum(
                (first_record <= record < next_record or first_record <= move < next_record)
                and base + place > leaving_through
                for place, (record, move) in enumerate(
                    zip(chunk.record_numbers, moves, strict=False)
                )
            )
            if count:
                found[queue.name] = found.get(queue.name, 0) + count
            if effort >= _EFFORT_PER_PIECE:
                effort = 0
                yield
    return found


def moved_from(broker: Broker, through_record: int) -> Iterator[list[tuple[LastingQueue, int]]]:
    """
    Give queue and sequence of what was moved and has its bytes in records up to this one.

    Each piece takes a bounded time; there are empty ones.
    """
    effort = 0
    for queue in list(broker.state.queues.values()):
        effort += _EFFORT_PER_QUEUE
        if isinstance(queue, LastingSubscription):
            continue  # What it needs is its topic's.
        for number, chunk in list(queue.index.chunks.items()):
            effort += 1
            if chunk.moves is not None:
                effort += len(chunk.moves)
                base = (number << CHUNK_SHIFT) + chunk.start
                both = enumerate(zip(chunk.moves, chunk.record_numbers, strict=True))
                yield [
                    (queue, base + place)
                    for place, (move, record) in both
                    if move and record <= through_record
                ]
            if effort >= _EFFORT_PER_PIECE:
                effort = 0
                yield []


def carry_returns(broker: Broker, copy: MessageRecord, under_way: OnTheWay) -> None:
    """Let it say how often it came back to where it was moved, once what is on its way is there."""
    _carry(copy, _returned_to_be(broker, Place(copy.queue_number, copy.sequence), under_way))


def homeless(broker: Broker, through_record: int, now_microseconds: int) -> Iterator[list[Record]]:
    """
    Give the records that carry on what has its home at or before `through_record`, in pieces.

    Each piece takes a bounded time and says what is so when it is asked for; between two of them
    the broker goes on. Homes only move on, so nothing can come to need carrying meanwhile. What is
    few is one piece: a small log must not take more steps to clean than it has work.
    """
    records = _homeless_counters(broker, through_record)
    looked_at = chain(
        _homeless_policies(broker, through_record),
        _homeless_access(broker, through_record),
        _homeless_queues(broker, through_record),
        _homeless_producers(broker, through_record, now_microseconds),
    )
    while (some := list(islice(looked_at, _LOOKED_AT_PER_PIECE))) or records:
        records += [record for record in some if record is not None]
        yield records
        records = []
    for records in homeless_topics(broker, through_record):
        if records:
            yield records


def _homeless_counters(broker: Broker, through_record: int) -> list[Record]:
    state = broker.state
    records: list[Record] = []
    if state.counters_home <= through_record:
        number = max(broker.destinations.next_queue_number, state.next_queue_number)
        records.append(CountersRecord(number))
    if 0 < state.format_home <= through_record:
        records.append(FormatRecord(state.format_level))
    # A hold that is moved or ended by a record on its way must not come back behind it.
    moving = broker.receipts.holds_under_way()
    records.extend(
        hold
        for name, hold in state.holds.items()
        if state.hold_homes[name] <= through_record and name not in moving
    )
    return records


def _homeless_policies(broker: Broker, through_record: int) -> Iterator[Record | None]:
    """
    Give those whose home goes, but those of which a new word is on its way.

    It stands before this, and what is said last counts. A file's counts by its revision.
    """
    policies = broker.state.policies
    for key in list(policies.by_key):
        record = policies.by_key.get(key)
        is_homeless = record is not None and policies.homes[key] <= through_record
        if is_homeless and key not in broker.receipts.policies_under_way():
            yield record
        else:
            yield None


def _homeless_access(broker: Broker, through_record: int) -> Iterator[Record | None]:
    """Give the users and grants whose home goes, but those of which a new word is on its way."""
    access = broker.state.access
    for key in list(access.homes):
        record = access.get(key)
        is_homeless = record is not None and access.homes[key] <= through_record
        if is_homeless and key not in broker.receipts.access_under_way():
            yield record
        else:
            yield None


def _homeless_queues(broker: Broker, through_record: int) -> Iterator[Record | None]:
    leadership = broker.destinations.leadership
    for queue in list(broker.state.queues.values()):
        is_queue = type(queue) is LastingQueue
        if not (is_queue and queue.is_declared) or queue.home > through_record:
            yield None
            continue
        serving = leadership.half_of(queue)
        if serving is None:
            following, mark = leadership.first_number(queue), queue.dispatch_mark
        elif serving.is_deleted:
            yield None
            continue
        else:
            # What is assigned, not what is applied: everything on its way to the log stands before
            # this record there, and may be cleaned away before it.
            following, mark = serving.assigned_sequence, serving.asked_mark
        seen = queue.seen if serving is None else serving.asked_seen
        yield QueueRecord(queue.number, queue.name, following, mark)
        for first, last in seen:
            yield DispatchMarkRecord(queue.number, last, first)


def _homeless_producers(
    broker: Broker, through_record: int, now_microseconds: int
) -> Iterator[Record | None]:
    """Those that have not sent for long are forgotten instead."""
    producers = broker.state.producers
    idle_before = now_microseconds - int(broker.settings.producer_idle_seconds * 1_000_000)
    for producer_id, _ in producers.as_they_are():
        value = producers.by_id.get(producer_id)
        producer = None if value is None else unpack_producer(value)
        if producer is None or producer.home > through_record:
            yield None
        elif producer.used_at < idle_before and producer_id not in _numbers_under_way(broker):
            yield ForgetProducerRecord(producer_id)
        else:
            yield ProducerRecord(producer_id, producer.last, producer.used_at)


def _numbers_under_way(broker: Broker) -> Mapping[str, int]:
    """Give whose numbers are on their way to the log under who leads now."""
    return broker.destinations.leadership.numbers.under_way
