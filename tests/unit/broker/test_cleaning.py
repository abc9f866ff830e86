"""
What is written again before an old part of the log goes, and what is left out.
"""

from __future__ import annotations

import pytest

from holdfast.broker import cleaning
from holdfast.broker.cleaning import OnTheWay, live_copies, on_the_way
from holdfast.broker.cleaning import homeless as homeless_pieces
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.lasting.state import BrokerState
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.facts import Attributes, MessageFacts, Place
from holdfast.model.records import (
    CountersRecord,
    ForgetProducerRecord,
    FormatRecord,
    HoldRecord,
    MessageRecord,
    PolicyRecord,
    ProducerRecord,
    QueueRecord,
    Record,
    ReturnCause,
    ReturnedRecord,
)
from holdfast.store.record_codec import decode_records


def homeless(*arguments) -> list[Record]:
    """Give the records of all pieces together."""
    return [record for piece in homeless_pieces(*arguments) for record in piece]


def live_copy(broker, record, number, stored_at, leaving) -> MessageRecord | None:
    """Give the one copy of a message that never came back, None if it is dead."""
    found = list(live_copies(broker, record, number, stored_at, OnTheWay(leaving, {}, {})))
    assert len(found) <= 1
    return found[0] if found else None


def copies(desk, entry: int = 0) -> list[int]:
    """Give the sequences that the cleaner would write again from an entry."""
    first, timestamp, body = desk.log[entry]
    found = []
    for number, record in enumerate(decode_records(body), start=first):
        if isinstance(record, MessageRecord):
            under_way = on_the_way(desk.broker, {record.queue_number: {record.sequence}})
            for copy in live_copies(desk.broker, record, number, timestamp, under_way):
                assert copy.rewritten
                assert copy.stored_at == timestamp
                found.append(copy.sequence)
    return found


@pytest.fixture
def three(desk, new_client):
    """A desk with three messages in delivery."""
    for _ in range(3):
        desk.send(b"x")
    desk.turn()
    desk.subscription = desk.subscribe(client=new_client())
    desk.turn()
    return desk


def test_what_lives_is_copied(three) -> None:
    """
    In delivery or not: only an acknowledgement ends it.
    """
    assert copies(three) == [1, 2, 3]
    three.broker.acknowledge(three.subscription, 2, three.client, None)
    three.turn()
    assert copies(three) == [1, 3]


@pytest.mark.parametrize("step", ["gathering", "sealed"])
@pytest.mark.parametrize("what", ["acknowledge", "purge", "delete", "late"])
def test_what_is_about_to_go_is_left_out(three, step, what) -> None:
    """
    A copy behind the record that ends it would live again after a restart.
    """
    broker = three.broker
    match what:
        case "acknowledge":
            broker.acknowledge(three.subscription, 2, three.client, None)
        case "late":
            broker.unsubscribe(three.subscription)
            broker.acknowledge_identity(1, 2, three.client, None)
        case "purge":
            broker.purge("orders", three.client, b"p")
        case "delete":
            broker.unsubscribe(three.subscription)
            broker.delete("orders", three.client, b"d")
    if step == "sealed":
        three.seal()
    assert copies(three) == ([1, 3] if what in {"acknowledge", "late"} else [])


def test_a_copy_has_the_facts_of_its_message(three) -> None:
    """
    They are what the broker knows of it: nobody takes them from the headers a second time.
    """
    record = MessageRecord(1, 1, b"", b"x", 1)
    record.facts = MessageFacts(attributes=Attributes(group_hash=7))
    number = three.state.queues[1].index.record_number(1)
    copy = live_copy(three.broker, record, number, 9, {})
    assert copy is not None
    assert copy.facts == record.facts


def test_a_copy_is_not_copied_from_its_old_place(three) -> None:
    """
    It lives at its new record; it keeps the time of its first storing.
    """
    first, timestamp, body = three.log[0]
    for number, record in enumerate(decode_records(body), start=first):
        if isinstance(record, MessageRecord) and record.sequence == 1:
            copy = live_copy(three.broker, record, number, timestamp, {})
            three.broker.receipts.add_records([copy])
    three.turn()
    assert copies(three) == [2, 3]
    (again,) = [r for r in decode_records(three.log[-1][2]) if isinstance(r, MessageRecord)]
    number = three.state.queues[1].index.record_number(1)
    twice = live_copy(three.broker, again, number, 9, {})
    assert twice is not None
    assert twice.stored_at == timestamp


def test_a_copy_stands_where_its_message_still_lives(three) -> None:
    """
    Of several places those that are settled, or about to be, are left out; with the last it goes.
    """
    record = MessageRecord(1, 9, b"", b"x", 1)
    record.facts = MessageFacts(places=(Place(2, 4), Place(1, 10)), due_ms=5)
    number = three.next_record
    three.broker.receipts.add_records([QueueRecord(2, "other"), record])
    three.turn()
    number += 1

    def copied(leaving: dict[int, set[int]]) -> tuple[tuple[Place, ...], MessageFacts | None]:
        copy = live_copy(three.broker, record, number, 9, leaving)
        assert copy is not None
        return copy.places, copy.facts

    assert copied({}) == (record.places, record.facts)
    assert copied({1: {9}}) == (
        (Place(2, 4), Place(1, 10)),
        MessageFacts(places=(Place(1, 10),), due_ms=5),
    )
    assert copied({1: {9, 10}}) == ((Place(2, 4),), MessageFacts(due_ms=5))
    record.facts = MessageFacts(places=record.facts.places)
    assert copied({1: {10}, 2: {4}}) == ((Place(1, 9),), None)
    assert live_copy(three.broker, record, number, 9, {1: {9, 10}, 2: {4}}) is None


def test_the_level_of_the_format_is_carried_on(three) -> None:
    """
    Without it a replica that has but the rest of the log would not know what may stand there.
    """
    three.broker.receipts.add_records([FormatRecord(2)])
    three.turn()
    last = three.next_record - 1
    (level,) = (it for it in homeless(three.broker, last, 1) if isinstance(it, FormatRecord))
    assert level.level == 2
    three.broker.receipts.add_records([level])
    three.turn()
    assert not any(isinstance(it, FormatRecord) for it in homeless(three.broker, last, 1))


def test_policies_are_carried_on(three) -> None:
    """
    Each whole, and the revision of the file; but none of which a new word is on its way: what is
    said last counts.
    """
    values = '{"queuePrefetch":7}'
    of_file = [PolicyRecord("", "", 3), PolicyRecord("queue://b", values, 3)]
    three.broker.receipts.add_records([PolicyRecord("queue://a", values), *of_file])
    three.turn()
    last = three.next_record - 1

    def carried_on() -> list[tuple[str, int]]:
        records = homeless(three.broker, last, 1)
        return [(it.pattern, it.revision) for it in records if isinstance(it, PolicyRecord)]

    assert sorted(carried_on()) == [("", 3), ("queue://a", 0), ("queue://b", 3)]
    three.broker.receipts.record(PolicyRecord("queue://a", ""))
    assert sorted(carried_on()) == [("", 3), ("queue://b", 3)]
    three.turn()
    three.broker.receipts.add_records(of_file)
    three.turn()
    assert carried_on() == []


def test_users_and_grants_are_carried_on(three) -> None:
    """
    But none of which a new word is on its way; who changed them is not: it has been read, or is
    archived.
    """
    kept = [
        UserRecord("ann", "{}", 1),
        UserRecord("ben", "{}", 1),
        GrantRecord("a", "queue://b", 1),
    ]
    audit = AuditRecord(1, "root", "::1", "put", "ann", "done")
    three.broker.receipts.add_records([*kept, audit])
    three.turn()
    last = three.next_record - 1

    def carried_on() -> list[str]:
        records = homeless(three.broker, last, 1)
        kinds = (UserRecord, GrantRecord, AuditRecord)
        found = [it for it in records if isinstance(it, kinds)]
        return [getattr(it, "name", None) or it.role for it in found]

    assert carried_on() == ["ann", "ben", "a"]
    three.broker.receipts.add_records([UserRecord("ann", "", 2), GrantRecord("a", "queue://b", 0)])
    assert carried_on() == ["ben"]
    three.turn()
    three.broker.receipts.add_records(kept[1:2])
    three.turn()
    assert carried_on() == []


def test_homes_are_carried_on(three) -> None:
    """
    Counters, queues and producers whose newest whole record is about to go.
    """
    three.broker.send(three.queue(), b"", b"x", three.client, None, "p", 1)
    three.turn()
    last = three.next_record - 1
    counters, queue, producer = homeless(three.broker, last, 2_000_000)
    assert isinstance(counters, CountersRecord)
    assert counters.next_queue_number == 2
    assert isinstance(queue, QueueRecord)
    assert (queue.name, queue.next_sequence) == ("orders", 5)
    assert isinstance(producer, ProducerRecord)
    assert (producer.producer_id, producer.sequence) == ("p", 1)
    assert producer.used_at == three.log[-1][1]
    three.broker.receipts.add_records([counters, queue, producer])
    three.turn()
    assert homeless(three.broker, last, 2_000_000) == []


def test_what_is_few_is_carried_on_in_one_piece_and_what_is_many_is_not(three) -> None:
    """
    A small segment takes one step, whatever kinds of things have their home there.
    """
    three.broker.send(three.queue(), b"", b"x", three.client, None, "p", 1)
    three.turn()
    last = three.next_record - 1
    (piece,) = homeless_pieces(three.broker, last, 2_000_000)
    assert len(piece) == 3
    for number in range(2_000):
        three.queue(f"q{number}")
    three.turn()
    sizes = [len(it) for it in homeless_pieces(three.broker, three.next_record - 1, 2_000_000)]
    assert sum(sizes) == 2_003
    assert max(sizes) <= 1_001


def test_a_queues_record_covers_what_is_on_its_way(three) -> None:
    """
    What is assigned stands before it in the log, and may be cleaned away before it.
    """
    three.send(b"on its way")
    three.seal()
    three.broker.destinations.advance_mark(three.queue())
    three.queue("planned")
    counters, queue = homeless(three.broker, 10_000, 0)
    assert (queue.next_sequence, queue.dispatch_mark) == (
        5,
        three.queue().asked_mark,
    )
    assert counters.next_queue_number == 3


def test_idle_producers_are_forgotten(desk) -> None:
    """
    By log time since their last message, however often the cleaner wrote them again.
    """
    desk.broker.send(desk.queue(), b"", b"x", desk.client, None, "idle", 1)
    desk.turn()
    used_at = desk.state.producers.get("idle").used_at
    idle = int(desk.settings.producer_idle_seconds * 1_000_000)
    for step in (1, idle // 2, idle):
        records = homeless(desk.broker, desk.next_record, used_at + step)
        producers = [r for r in records if isinstance(r, ProducerRecord)]
        desk.broker.receipts.add_records(producers)
        desk.turn()
        assert len(producers) == 1
    desk.broker.destinations.leadership.numbers.take("idle", 2)
    records = homeless(desk.broker, desk.next_record, used_at + idle + 1)
    assert not any(isinstance(r, ForgetProducerRecord) for r in records)
    desk.broker.follow()
    records = homeless(desk.broker, desk.next_record, used_at + idle + 1)
    assert any(isinstance(r, ForgetProducerRecord) for r in records)


def test_a_queue_being_deleted_is_not_declared_again(three) -> None:
    """
    Behind its deletion it would come back, empty.
    """
    three.broker.unsubscribe(three.subscription)
    three.broker.delete("orders", three.client, b"d")
    assert not any(isinstance(r, QueueRecord) for r in homeless(three.broker, 1000, 0))


@pytest.mark.parametrize("step", ["gathering", "sealed"])
@pytest.mark.parametrize("index", [0, 50])
def test_a_hold_that_is_moving_is_not_written_back(desk, step, index) -> None:
    """
    Behind the record that ends or moves it, the old one would keep the log from an older place.
    """
    desk.broker.keep_log(HoldRecord("archive", 10, 1000), desk.client, b"h")
    desk.turn()
    assert [r for r in homeless(desk.broker, 1000, 0) if isinstance(r, HoldRecord)]
    desk.broker.keep_log(HoldRecord("archive", index, 1000), desk.client, b"h")
    if step == "sealed":
        desk.seal()
    desk.broker.receipts.add_records(homeless(desk.broker, 1000, 0))
    desk.turn()
    assert [hold.index for hold in desk.state.holds.values()] == [index] * bool(index)
    assert digest_of(desk.state) == digest_of(desk.replayed())


def test_what_lives_in_some_records_is_found_without_reading_them(desk, monkeypatch) -> None:
    """
    By queue, and in steps: there may be many queues and messages.
    """
    monkeypatch.setattr(cleaning, "_EFFORT_PER_PIECE", 3)
    for name in ("a", "b", "a", "b", "a"):
        desk.send(b"x", queue=name)
    desk.turn()
    queues = {queue.name: queue for queue in desk.broker.state.queues.values()}
    numbers = {name: [it.index.record_number(key) for key in (1, 2)] for name, it in queues.items()}
    first, following = min(numbers["a"]), max(numbers["b"]) + 1

    def found() -> dict[str, int]:
        looking = cleaning.live_within(desk.broker, first, following)
        steps = 0
        while True:
            try:
                next(looking)
                steps += 1
            except StopIteration as end:
                assert steps >= len(queues) - 1
                return end.value

    assert {"a": 2, "b": 2} == found()
    queues["a"].index.remove([1])
    desk.queue("b").purging_through = 2
    assert {"a": 1} == found()
    desk.broker.destinations.remove(desk.queue("a"))
    assert {} == found()


@pytest.mark.parametrize("step", ["gathering", "sealed", "applied"])
def test_a_copy_says_what_comes_back_until_it_is_applied(three, step) -> None:
    """
    It stands behind what is under way: who reads but the copy counts as who reads all.
    """
    rejected = ReturnedRecord(1, ReturnCause.REJECTED, [2], 1 << 41)
    three.broker.receipts.add_records([rejected, ReturnedRecord(1, ReturnCause.LOST, [2, 3])])
    if step == "sealed":
        three.seal()
    if step == "applied":
        three.turn()
    _first, timestamp, body = three.log[0]
    number = three.state.queues[1].index.record_number(2)
    record = next(it for it in decode_records(body) if getattr(it, "sequence", 0) == 2)
    under_way = on_the_way(three.broker, {1: {2}})
    (copy,) = live_copies(three.broker, record, number, timestamp, under_way)
    assert copy.redelivery_count == 2
    assert copy.facts == MessageFacts(attributes=Attributes(failures=1))
    three.broker.receipts.add_records([copy])
    three.turn()
    late = BrokerState(three.settings)
    late.apply(1, [copy], 1)
    assert late.queues[1].index.returned(2) == three.state.queues[1].index.returned(2)


def test_places_that_came_back_unlike_have_copies_of_their_own(three) -> None:
    """
    A record has one count; those with the same one share it.
    """
    record = MessageRecord(1, 9, b"", b"x", 1)
    record.facts = MessageFacts(places=(Place(2, 4), Place(3, 6), Place(1, 10)))
    number = three.next_record
    queues = [QueueRecord(2, "other"), QueueRecord(3, "third")]
    three.broker.receipts.add_records([record, *queues])
    three.broker.receipts.add_records([ReturnedRecord(2, ReturnCause.LOST, [4])])
    three.broker.receipts.add_records([ReturnedRecord(3, ReturnCause.LOST, [6])])
    three.turn()
    plain, back = live_copies(three.broker, record, number, 9, OnTheWay({}, {}, {}))
    assert (plain.places, plain.redelivery_count) == ((Place(1, 9), Place(1, 10)), 0)
    assert (back.places, back.redelivery_count) == ((Place(2, 4), Place(3, 6)), 1)
