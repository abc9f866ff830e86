"""
What is done as time passes: in slices, and what cannot be done now later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest
import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.shelves import Shelves
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import CorruptEntryError
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.facts import Attributes, Cause, MessageFacts
from holdfast.model.format_level import ACCESS_LEVEL, NEWEST_LEVEL, SCHEDULES_LEVEL
from holdfast.model.records import (
    MOVE_COUNT_MAX,
    FiredRecord,
    MessageRecord,
    MoveRecord,
    PolicyRecord,
)
from holdfast.model.schedules import FOREVER, SCHEDULE_QUEUE
from holdfast.server.waking import Waking

NOW = 1_700_000_000_000
TO_ORDERS = b"AMQ_SCHEDULED_DESTINATION:/queue/orders\n"


class Bench:
    """A leader with scheduled messages in a log that can be damaged."""

    def __init__(self) -> None:
        self.broker = Broker(BrokerSettings(memory_bytes=16 << 20))
        self.broker.state.format_level = SCHEDULES_LEVEL
        self.broker.lead()
        self.lines = TO_ORDERS
        self.next_record = 1
        self.stored: dict[int, MessageRecord] = {}
        """By the number of the record."""
        self.damaged = False
        self.read_count = 0
        self.told: list[Exception] = []
        self.waking = Waking(self.broker, self, self.told.append)
        self.set_clock(0)

    def set_clock(self, after_ms: int) -> None:
        self.broker.sending.now_microseconds = (NOW + after_ms) * 1000

    def read(self, record_number: int) -> MessageRecord:
        self.read_count += 1
        if self.damaged:
            raise CorruptEntryError("checksum", index=7)
        return self.stored[record_number]

    def schedule(self, count: int, after_ms: int = 0) -> None:
        queue = self.broker.queue(SCHEDULE_QUEUE)
        facts = MessageFacts(due_ms=NOW + after_ms)
        for _ in range(count):
            self.broker.send(queue, self.lines, b"x", self, None, facts=facts)
        self.commit()
        queue.cache = Shelves()

    def reply(self, receipt: bytes) -> None:
        """Nobody waits."""

    def commit(self) -> list[object]:
        """Apply what has gathered, and give it."""
        records = []
        while self.broker.receipts.has_batch():
            batch = self.broker.receipts.take_batch()
            for number, record in enumerate(batch.records, self.next_record):
                if isinstance(record, MessageRecord):
                    self.stored[number] = record
            self.broker.apply_batch(batch, self.next_record, 1)
            self.next_record += len(batch.records)
            records += batch.records
        return records

    @property
    def sent(self) -> int:
        queue = self.broker.state.by_name.get("orders")
        return 0 if queue is None else queue.index.live_count


def _is_over(left: Iterator[int]) -> bool:
    return next(left, None) is None


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_many_that_are_due_are_sent_in_slices_each_once(bench) -> None:
    """
    A slice ends after any of them; no batch has more than one record moves.
    """
    bench.schedule(3_000)
    slices = batches = 0
    while bench.sent < 3_000:
        is_more = bench.waking.step(partial(_is_over, iter(range(100))))
        slices += 1
        moved = bench.broker.receipts.batch.moved_count
        assert moved <= MOVE_COUNT_MAX
        if not is_more:
            batches += 1
            bench.commit()
            assert bench.broker.firing.fired_total == bench.sent
    assert slices >= 30 and batches >= 3
    assert bench.broker.state.by_name[SCHEDULE_QUEUE].index.live_count == 0
    assert bench.broker.firing.fired_total == 3_000
    assert not bench.broker.firing.has_any


def test_what_cannot_be_read_is_told_once_and_sent_when_it_can(bench) -> None:
    """
    Damage asks for repair; nothing is lost by it, and others are not held up.
    """
    bench.schedule(2)
    bench.damaged = True
    with structlog.testing.capture_logs() as told:
        for after_ms in range(0, 3_000, 100):
            bench.set_clock(after_ms)
            bench.waking.step(lambda: False)
    assert len(bench.told) == 2 == len(told)
    assert bench.read_count < 10  # Not at each turn.
    assert bench.broker.receipts.has_batch() is False
    bench.damaged = False
    bench.set_clock(9_000)
    bench.waking.step(lambda: False)
    bench.commit()
    assert bench.sent == 2


def test_many_that_cannot_be_sent_take_little_time_and_hold_up_nobody(bench) -> None:
    """
    Each turn tried them all again, for good, and what was due after them was never looked at.
    """
    count, seconds = 3_000, 20
    bench.schedule(count)
    bench.damaged = True
    with structlog.testing.capture_logs() as told:
        for after_ms in range(0, seconds * 1_000, 10):
            bench.set_clock(after_ms)
            bench.waking.step(partial(_is_over, iter(range(100))))
    assert count < bench.read_count <= count + 300 * seconds
    assert len(told) == 1_001
    bench.damaged = False
    bench.set_clock(seconds * 1_000)
    known = bench.next_record
    bench.schedule(1)
    bench.damaged = True
    read = bench.read
    bench.read = lambda number: bench.stored[number] if number >= known else read(number)
    bench.waking.step(partial(_is_over, iter(range(1_000))))
    bench.commit()
    assert bench.sent == 1
    bench.damaged = False
    for after_ms in range(seconds * 1_000, (seconds + 3) * 1_000, 10):
        bench.set_clock(after_ms)
        bench.waking.step(lambda: False)
        bench.commit()
    assert bench.sent == count + 1


@pytest.mark.parametrize("lines", [b"", b"AMQ_SCHEDULED_DESTINATION:,\n"])
def test_what_makes_no_sense_stays_where_it_is(bench, lines) -> None:
    """
    An operator can look at it, and remove it.
    """
    bench.lines = lines
    bench.schedule(1)
    with structlog.testing.capture_logs() as told:
        bench.waking.step(lambda: False)
    assert len(told) == 1
    assert bench.broker.state.by_name[SCHEDULE_QUEUE].index.live_count == 1


def test_a_target_for_which_there_are_too_many_queues_is_waited_for() -> None:
    """
    Once one of the others is deleted it is sent.
    """
    bench = Bench()
    bench.schedule(1)
    bench.broker.queue("other")
    bench.commit()
    object.__setattr__(bench.broker.settings, "queue_count_max", 2)
    bench.waking.step(lambda: False)
    assert bench.commit() == []
    bench.broker.delete("other", bench, b"d")
    bench.commit()
    bench.set_clock(5_000)
    bench.waking.step(lambda: False)
    bench.commit()
    assert bench.sent == 1


def test_what_the_cleaner_is_about_to_write_again_is_sent_after_that(bench) -> None:
    """
    Q31: a copy must not come to stand where the cleaner has looked already.
    """
    bench.schedule(1)
    bench.broker.moving.closed_through = bench.next_record
    bench.waking.step(lambda: False)
    assert bench.commit() == []
    bench.broker.moving.closed_through = 0
    bench.set_clock(1_000)
    bench.waking.step(lambda: False)
    assert [type(it) for it in bench.commit()][-1] is MoveRecord


def test_without_room_in_memory_what_is_not_kept_waits(bench) -> None:
    """
    It is stored until there is room: a million that are due at once take no more than others may.
    """
    bench.lines = TO_ORDERS + b"AMQ_SCHEDULED_PERSISTENT:false\n"
    bench.schedule(1)
    bench.broker.flow.volatile_bytes = bench.broker.settings.memory_bytes + 1
    bench.waking.step(lambda: False)
    assert MoveRecord not in map(type, bench.commit())
    bench.broker.flow.volatile_bytes = 0
    bench.set_clock(1_000)
    bench.waking.step(lambda: False)
    bench.commit()
    assert len(bench.broker.queue("orders").transients) == 1


def test_a_million_that_are_due_later_cost_a_turn_nothing(bench) -> None:
    """
    And what is repeated is in the schedule with its next time as soon as it is applied.
    """
    bench.lines = TO_ORDERS + b"AMQ_SCHEDULED_PERIOD:50\nAMQ_SCHEDULED_REPEAT:-1\n"
    bench.schedule(1, after_ms=100)
    assert bench.waking.step(lambda: False) is False
    assert bench.read_count == 0
    bench.set_clock(100)
    bench.waking.step(lambda: False)
    assert [type(it) for it in bench.commit()][-1] is MoveRecord  # Its facts say no repetition.
    assert FiredRecord not in map(type, bench.commit())


def test_a_state_that_has_schedules_is_led_on(bench) -> None:
    """
    A new leader sends what is due though nobody has asked for the queue.
    """
    bench.schedule(1, after_ms=100)
    state: BrokerState = bench.broker.state
    bench.broker.follow()
    assert not bench.broker.firing.has_any
    bench.broker.lead()
    bench.set_clock(100)
    assert bench.broker.has_to_wake
    bench.waking.step(lambda: False)
    bench.commit()
    assert state.by_name["orders"].index.live_count == 1


def test_what_waits_for_its_time_takes_no_memory_from_others(bench) -> None:
    """
    A message for next year would be in memory until then; it is read when it is due.
    """
    bench.schedule(1, after_ms=1)
    queue = bench.broker.queue(SCHEDULE_QUEUE)
    bench.broker.send(queue, TO_ORDERS, b"y", bench, None, facts=MessageFacts(due_ms=NOW + 9))
    bench.commit()
    assert not queue.cache
    bench.set_clock(9)
    bench.waking.step(lambda: False)
    bench.commit()
    assert (bench.sent, bench.read_count) == (2, 2)


def test_limits_hold_for_where_it_goes_and_not_for_where_it_waits(bench) -> None:
    """
    A policy for all queues must not drop what is scheduled; a ring stays one, whatever fires.
    """
    bench.broker.state.format_level = NEWEST_LEVEL
    bench.schedule(5, after_ms=5)
    values = json.dumps({"maxLength": 2, "overflow": "drop-head"})
    bench.broker.receipts.record(PolicyRecord("queue://>", values))
    bench.commit()
    for after_ms in (0, 5, 6, 7):
        bench.set_clock(after_ms)
        bench.waking.step(lambda: False)
        bench.commit()
        if after_ms == 0:
            assert bench.broker.state.by_name[SCHEDULE_QUEUE].index.live_count == 5
    assert bench.broker.firing.fired_total == 5
    assert bench.sent == 2


def test_what_repeats_does_not_fill_a_disk_that_is_almost_full(bench) -> None:
    """
    It waits for room, and is sent once then; what is due for the last time is sent.
    """
    bench.schedule(1)
    bench.lines = TO_ORDERS + b"AMQ_SCHEDULED_PERIOD:10\n"
    queue = bench.broker.queue(SCHEDULE_QUEUE)
    for repeats, said in ((1, b"1"), (FOREVER, b"-1")):
        facts = MessageFacts(attributes=Attributes(repeats=repeats), due_ms=NOW)
        lines = bench.lines + b"AMQ_SCHEDULED_REPEAT:%b\n" % said
        bench.broker.send(queue, lines, b"x", bench, None, facts=facts)
    bench.commit()
    bench.broker.firing.is_full = True
    for after_ms in range(0, 5_000, 10):
        bench.set_clock(after_ms)
        bench.waking.step(lambda: False)
        bench.commit()
    assert bench.sent == 1
    bench.broker.firing.is_full = False
    bench.set_clock(6_005)
    for _ in range(3):
        bench.waking.step(lambda: False)
        bench.commit()
    assert bench.sent == 3
    assert [queue.index.expires_ms(it) - NOW for it in (2, 3)] == [6_010, 6_010]


def guarded(bench: Bench) -> None:
    """Let there be a user who may write to the queue."""
    bench.broker.state.format_level = NEWEST_LEVEL
    said = [UserRecord("ann", '{"roles":["r"]}', 1), GrantRecord("r", "queue://orders", 2)]
    bench.broker.receipts.add_records(said)
    bench.commit()
    bench.lines = TO_ORDERS + b"JMSXUserID:ann\n"


def test_what_its_sender_may_not_send_any_more_is_a_dead_letter(bench) -> None:
    """
    Of all that comes again and again as well: it ends. It is counted, and the same entry tells who
    may not; what others have sent is sent.
    """
    guarded(bench)
    bench.lines += b"AMQ_SCHEDULED_PERIOD:10\nAMQ_SCHEDULED_REPEAT:-1\n"
    queue = bench.broker.queue(SCHEDULE_QUEUE)
    facts = MessageFacts(attributes=Attributes(repeats=FOREVER), due_ms=NOW)
    bench.broker.send(queue, bench.lines, b"x", bench, None, facts=facts)
    bench.commit()
    bench.waking.step(lambda: False)
    bench.commit()
    assert bench.sent == 1
    bench.broker.receipts.record(GrantRecord("r", "queue://orders", 0))
    bench.commit()
    bench.lines = TO_ORDERS
    bench.schedule(1)
    bench.set_clock(10)
    bench.waking.step(lambda: False)
    written = bench.commit()
    (audit,) = [it for it in written if isinstance(it, AuditRecord)]
    assert (audit.who, audit.source) == ("ann", "schedule")
    assert audit.object.endswith("-1 /queue/orders")
    assert "refused: user 'ann' may not write /queue/orders" in audit.outcome
    causes = [it.cause for it in written if isinstance(it, MoveRecord)]
    assert sorted(causes) == [Cause.FIRED, Cause.FORBIDDEN]
    assert bench.sent == 2
    names = bench.broker.state.by_name
    dead = names["ActiveMQ.DLQ"].index
    assert (dead.live_count, names[SCHEDULE_QUEUE].index.live_count) == (1, 0)
    assert dead.expires_ms(dead.first()) == 0
    assert (bench.broker.firing.refused_total, bench.broker.firing.fired_total) == (1, 2)
    bench.set_clock(1_000)
    assert not bench.waking.step(lambda: False)
    assert bench.commit() == []


def test_before_all_can_read_it_what_is_refused_waits(bench) -> None:
    """
    It is neither sent nor moved: a node of before would not know why.
    """
    guarded(bench)
    bench.schedule(1)
    bench.broker.receipts.record(UserRecord("ben", "{}", 2))
    bench.broker.receipts.record(UserRecord("ann", "", 3))
    bench.commit()
    bench.broker.state.format_level = ACCESS_LEVEL
    bench.waking.step(lambda: False)
    assert bench.commit() == [] and bench.sent == 0
    bench.broker.state.format_level = NEWEST_LEVEL
    bench.set_clock(2_000)
    bench.waking.step(lambda: False)
    assert Cause.FORBIDDEN in {it.cause for it in bench.commit() if isinstance(it, MoveRecord)}


def test_a_user_who_is_made_anew_sends_nothing_of_before(bench) -> None:
    """
    From where on what is scheduled is his stands with him, what is on its way to the log counted.
    """
    guarded(bench)
    bench.schedule(1)
    bench.broker.receipts.record(UserRecord("ann", "", 2))
    queue = bench.broker.queue(SCHEDULE_QUEUE)
    facts = MessageFacts(due_ms=NOW)
    bench.broker.send(queue, bench.lines, b"on its way", bench, None, facts=facts)
    audit = AuditRecord(9, "root", "admin", "add user", "ann", "done")
    bench.broker.access_changes.put_user("ann", {"roles": ["r"]}, audit, bench, b"")
    bench.broker.send(queue, bench.lines, b"his own", bench, None, facts=facts)
    bench.commit()
    assert bench.broker.access_book.schedules_from("ann") == (queue.number, 3)
    bench.waking.step(lambda: False)
    bench.commit()
    assert (bench.sent, bench.broker.firing.refused_total) == (1, 2)
