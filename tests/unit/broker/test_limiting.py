"""
How much may be on a queue, as a leader keeps it.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.limiting import Limiting
from holdfast.broker.serving.queue import Queue
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Cause
from holdfast.model.format_level import EXPIRY_LEVEL, LIMITS_LEVEL
from holdfast.model.records import FormatRecord, MoveRecord, PolicyRecord
from holdfast.store.record_codec import decode_records

DEAD = "ActiveMQ.DLQ"


class Filled:
    """A leader at the level of limits, and a queue that policies say something of."""

    def __init__(self, desk, level: int = LIMITS_LEVEL) -> None:
        self.desk = desk
        desk.broker.sending.now_microseconds = 1_700_000_000_000_000
        desk.broker.receipts.record(FormatRecord(level))
        self.turn()

    @property
    def broker(self):
        return self.desk.broker

    @property
    def limiting(self) -> Limiting:
        return self.broker.limiting

    def policy(self, pattern: str = "queue://orders", **values: object) -> None:
        self.broker.receipts.record(PolicyRecord(pattern, json.dumps(values)))
        self.turn()

    def turn(self) -> None:
        for _ in range(20):
            self.broker.wake()
            self.desk.turn()

    def send(self, *bodies: bytes, queue: str = "orders") -> list[str]:
        """Send persistent messages as a session does; gives why they were refused."""
        refused = []
        for body in bodies:
            target = self.desk.queue(queue)
            full = self.limiting.refusal(target, 1, len(body))
            if full is not None:
                refused.append(str(full))
                continue
            before = target.assigned_sequence
            self.desk.send(body, queue)
            self.limiting.sent(target, before, len(body))
        return refused

    def send_volatile(self, *bodies: bytes) -> None:
        for body in bodies:
            queue = self.desk.queue()
            assert self.limiting.refusal(queue, 1, len(body), is_stored=False) is None
            self.broker.send_transient(queue, b"", body)
            self.limiting.sent(queue, queue.assigned_sequence, 0)

    def live(self, queue: str = "orders") -> list[int]:
        index = self.desk.queue(queue).index
        return list(index.sequences(0, index.last() + 1))

    def volatile(self, queue: str = "orders") -> list[bytes]:
        return [each.body for each in self.desk.queue(queue).transients.values()]

    def moves(self) -> list[MoveRecord]:
        records = (record for _, _, body in self.desk.log for record in decode_records(body))
        return [record for record in records if isinstance(record, MoveRecord)]


@pytest.fixture
def filled(desk) -> Filled:
    return Filled(desk)


def test_a_burst_in_one_batch_does_not_slip_over_the_limit(filled) -> None:
    """
    Q59: what is assigned counts, not what is applied. What is refused takes no number.
    """
    filled.policy(maxLength=3)
    refused = filled.send(*[b"x"] * 5)
    why = "queue 'orders' has 3 messages, at most 3 (maxLength); send again once its consumers"
    assert refused == [f"{why} have taken some"] * 2
    filled.turn()
    assert filled.live() == [1, 2, 3]
    assert len(filled.send(b"x")) == 1
    consumer = filled.desk.subscribe()
    filled.turn()
    assert len(filled.send(b"x")) == 1  # They are in delivery: that counts.
    filled.broker.acknowledge(consumer, 1, filled.desk.client, None)
    assert len(filled.send(b"x")) == 1  # Not stored yet.
    filled.turn()
    assert filled.send(b"x") == []


@pytest.mark.parametrize("queue", ["orders", "other"])
def test_bytes_count_too_and_so_does_what_is_on_its_way(filled, queue: str) -> None:
    """
    Of a message that can never fit it is said so, on a queue of which nothing is said nothing is.
    """
    filled.policy(maxLengthBytes=100)
    refused = filled.send(b"x" * 60, b"x" * 60, b"x" * 40, queue=queue)
    assert len(refused) == (queue == "orders")
    (never,) = filled.send(b"x" * 101, queue=queue) or [""]
    assert ("it will never have room" in never) == (queue == "orders")
    filled.turn()
    assert filled.live(queue)[:2] == [1, 2]
    assert bool(filled.send(b"x", queue=queue)) == (queue == "orders")


def test_the_oldest_go_in_the_batch_that_brings_the_new(filled) -> None:
    """
    Q59: at no entry of the log is there more than may be; they are nowhere any more.
    """
    filled.policy(maxLength=3, overflow="drop-head")
    assert filled.send(*[b"x"] * 5) == []
    filled.desk.seal()
    filled.desk.commit()
    assert filled.live() == [3, 4, 5]
    filled.send(b"x")
    filled.desk.seal()
    filled.desk.commit()
    assert filled.live() == [4, 5, 6]
    assert [move.cause for move in filled.moves()] == [Cause.MAXLEN] * 2
    assert {move.target_number for move in filled.moves()} == {0}
    assert filled.limiting.dropped_total == filled.desk.queue().bounds.dropped_total == 3
    assert digest_of(filled.desk.replayed()) == digest_of(filled.broker.state)


def test_a_burst_of_thousands_is_dropped_as_it_comes(filled) -> None:
    """
    No entry moves more than one record does, and none leaves more than may be.
    """
    filled.policy(maxLength=100, overflow="drop-head")
    filled.send(*[b"x"] * 5_000)
    filled.turn()
    assert filled.live() == list(range(4_901, 5_001))
    moved = [0] * len(filled.desk.log)
    for place, (_, _, body) in enumerate(filled.desk.log):
        moved[place] = sum(it.count for it in decode_records(body) if isinstance(it, MoveRecord))
    assert max(moved) <= 1_000
    assert sum(moved) == 4_900


def test_what_somebody_has_is_not_dropped_nor_is_the_newest(filled) -> None:
    """
    Where all others are in delivery the queue holds one more than it may.
    """
    filled.policy(maxLength=3, overflow="drop-head")
    filled.desk.subscribe(prefetch=2)
    filled.send(*[b"x"] * 3)
    filled.turn()
    filled.send(b"x")  # Numbers 1 and 2 are in delivery.
    filled.turn()
    assert filled.live() == [1, 2, 4]
    filled.desk.subscribe(prefetch=1)
    filled.turn()
    filled.send(b"x", b"x")
    filled.turn()
    assert filled.live() == [1, 2, 4, 6]


def test_what_came_back_is_the_oldest_again(filled) -> None:
    """
    It was passed over as it was in delivery.
    """
    filled.policy(maxLength=3, overflow="drop-head")
    consumer = filled.desk.subscribe(prefetch=1)
    filled.send(*[b"x"] * 4)
    filled.turn()
    assert filled.live() == [2, 3, 4]
    filled.send(b"x")
    filled.turn()
    assert filled.live() == [2, 4, 5]  # Number 2 is in delivery.
    filled.broker.unsubscribe(consumer)
    filled.broker.errands.finish()
    filled.turn()
    filled.send(b"x")
    filled.turn()
    assert filled.live() == [4, 5, 6]


def test_an_acknowledgement_on_its_way_makes_room(filled) -> None:
    """
    Else one more would be dropped for each that is settled.
    """
    filled.policy(maxLength=3, overflow="drop-head")
    consumer = filled.desk.subscribe(prefetch=1)
    filled.send(*[b"x"] * 3)
    filled.turn()
    filled.broker.acknowledge(consumer, 1, filled.desk.client, None)
    filled.send(b"x")
    filled.turn()
    assert filled.live() == [2, 3, 4]


def test_dropped_ones_are_dead_letters_if_the_policy_says_so(filled) -> None:
    """
    With the cause, on the queue where they go.
    """
    filled.policy(maxLength=1, overflow="drop-head", deadLetterOverflow="true")
    filled.send(b"old", b"new")
    filled.turn()
    assert (filled.live(), filled.live(DEAD)) == ([2], [1])
    assert filled.broker.receipts.dead_lettered_total == 1


def test_a_queue_of_dead_letters_has_limits_too(filled) -> None:
    """
    What is moved there is never refused; its oldest are nowhere any more, not there once more.
    """
    filled.policy(f"queue://{DEAD}", maxLength=1, overflow="drop-head", deadLetterOverflow="true")
    filled.policy(maxLength=1, overflow="drop-head", deadLetterOverflow="true")
    for _ in range(4):
        filled.send(b"x")
        filled.turn()
    assert (filled.live(), filled.live(DEAD)) == ([4], [3])


def test_bytes_are_dropped_as_many_as_it_takes(filled) -> None:
    """
    Both limits hold.
    """
    filled.policy(maxLengthBytes=100, maxLength=50, overflow="drop-head")
    filled.send(b"x" * 30, b"x" * 30, b"x" * 30, b"x" * 50)
    filled.turn()
    assert filled.live() == [3, 4]
    filled.send(*[b"x"] * 60)
    filled.turn()
    assert filled.live() == list(range(15, 65))


def test_non_persistent_messages_go_in_the_order_of_sending(filled) -> None:
    """
    They count as the others do.
    """
    filled.policy(maxLength=3, overflow="drop-head")
    filled.send_volatile(b"a")
    filled.send(b"1")
    filled.send_volatile(b"b")
    filled.send(b"2")
    filled.turn()
    assert (filled.live(), filled.volatile()) == ([1, 2], [b"b"])
    filled.send(b"3")
    filled.turn()
    assert (filled.live(), filled.volatile()) == ([2, 3], [b"b"])
    filled.send(b"4", b"5")
    filled.turn()
    assert (filled.live(), filled.volatile()) == ([3, 4, 5], [])
    filled.send_volatile(b"c", b"d", b"e", b"f")
    filled.turn()
    assert (filled.live(), filled.volatile()) == ([], [b"d", b"e", b"f"])


def test_non_persistent_ones_are_dead_letters_where_such_are_kept(filled) -> None:
    """
    They are stored then.
    """
    filled.policy(
        maxLength=1, overflow="drop-head", deadLetterOverflow="true", processNonPersistent="true"
    )
    filled.send_volatile(b"a", b"b")
    filled.turn()
    assert (filled.volatile(), filled.live(DEAD)) == ([b"b"], [1])


def test_what_has_nowhere_to_go_is_not_dropped(filled) -> None:
    """
    No more queues may be declared: what is new is refused until there is a place for the old.
    """
    filled.policy(maxLength=1, overflow="drop-head", deadLetterOverflow="true")
    filled.send(b"old")
    filled.turn()
    filled.broker.destinations._settings = BrokerSettings(queue_count_max=1)
    (refused,) = filled.send(b"new")
    assert "at most 1 (maxLength)" in refused
    filled.turn()
    assert (filled.live(), filled.limiting.dropped_total) == ([1], 0)
    filled.broker.destinations._settings = BrokerSettings()
    assert filled.send(b"new") == []
    filled.turn()
    assert (filled.live(), filled.live(DEAD)) == ([2], [1])


def test_on_a_full_disk_nothing_is_stored_to_be_dead(filled) -> None:
    """
    A non-persistent message that would be stored stays, and the new one is refused.
    """
    filled.policy(
        maxLength=1, overflow="drop-head", deadLetterOverflow="true", processNonPersistent="true"
    )
    filled.send_volatile(b"a")
    filled.broker.expiring.is_full = True
    queue = filled.desk.queue()
    assert filled.limiting.refusal(queue, 1, 1, is_stored=False) is not None
    filled.broker.send_transient(queue, b"", b"b")  # A COMMIT that was checked before.
    filled.limiting.sent(queue, queue.assigned_sequence, 0)
    filled.turn()
    assert (filled.volatile(), filled.limiting.dropped_total) == ([b"a", b"b"], 0)
    filled.broker.expiring.is_full = False
    filled.send_volatile(b"c")
    filled.turn()
    assert (filled.volatile(), filled.live(DEAD)) == ([b"c"], [1, 2])


def test_non_persistent_ones_that_somebody_has_stay(filled) -> None:
    """
    And are the oldest once they are back.
    """
    filled.policy(maxLength=2, overflow="drop-head")
    consumer = filled.desk.subscribe(prefetch=1)
    filled.send_volatile(b"a")
    filled.turn()
    filled.send_volatile(b"b", b"c")
    filled.turn()
    assert filled.volatile() == [b"a", b"c"]
    filled.broker.unsubscribe(consumer)
    filled.broker.errands.finish()
    filled.send_volatile(b"d")
    filled.turn()
    assert filled.volatile() == [b"c", b"d"]


def test_a_limit_that_is_lowered_holds_for_what_is_there(filled) -> None:
    """
    Also for a queue that nobody sends to; a thousand at a time.
    """
    for _ in range(2_500):
        filled.desk.send(b"x")
    filled.turn()
    filled.policy(maxLength=3, overflow="drop-head")
    assert filled.live() == [2_498, 2_499, 2_500]
    assert [move.count for move in filled.moves()] == [1_000, 1_000, 497]


def test_another_leader_goes_on_with_it(filled) -> None:
    """
    It has the policies from the log, and looks when somebody comes.
    """
    for _ in range(5):
        filled.desk.send(b"x")
    filled.broker.receipts.record(
        PolicyRecord("queue://orders", '{"maxLength":2,"overflow":"drop-head"}')
    )
    filled.desk.seal()
    filled.desk.commit()
    assert filled.live() == [1, 2, 3, 4, 5]
    filled.desk.fail_over()
    filled.desk.subscribe(prefetch=1)
    filled.turn()
    assert filled.live() == [4, 5]


def test_before_all_nodes_know_it_nothing_is_dropped(desk) -> None:
    """
    What is too much is refused until then.
    """
    filled = Filled(desk, EXPIRY_LEVEL)
    filled.policy(maxLength=1, overflow="drop-head")
    assert len(filled.send(b"x", b"x")) == 1
    filled.broker.receipts.record(FormatRecord(LIMITS_LEVEL))
    filled.turn()
    assert filled.send(b"x", b"x") == []


def test_a_transaction_is_taken_whole_or_not(filled) -> None:
    """
    More than a queue may ever hold is refused, whatever would be dropped.
    """
    filled.policy(maxLength=3, overflow="drop-head")
    filled.policy("queue://bytes", maxLengthBytes=30)
    broker, queue = filled.broker, filled.desk.queue()
    transaction = broker.begin("t")
    for _ in range(3):
        broker.hold(transaction, queue, b"", b"x", persistent=True)
    broker.hold(transaction, filled.desk.queue("bytes"), b"", b"x" * 30, persistent=True)
    broker.hold(transaction, queue, b"", b"v", persistent=False)
    filled.limiting.require_room(transaction)
    broker.hold(transaction, filled.desk.queue("bytes"), b"", b"x", persistent=True)
    with pytest.raises(Exception, match="queue 'bytes', which holds at most 30"):
        filled.limiting.require_room(transaction)
    other = broker.begin("u")
    for _ in range(4):
        broker.hold(other, queue, b"", b"x", persistent=True)
    with pytest.raises(Exception, match="send fewer in one transaction"):
        filled.limiting.require_room(other)


def test_what_a_commit_brings_is_counted_before_it_is_applied(filled) -> None:
    """
    And what was there goes in its batch.
    """
    filled.policy(maxLength=4, maxLengthBytes=100, overflow="drop-head")
    filled.send(*[b"x"] * 4)
    filled.turn()
    broker, queue = filled.broker, filled.desk.queue()
    transaction = broker.begin("t")
    for _ in range(3):
        broker.hold(transaction, queue, b"", b"y", persistent=True)
    broker.hold(transaction, queue, b"", b"v", persistent=False)
    broker.commit(transaction, filled.desk.client, b"r")
    filled.limiting.committed(transaction)
    filled.desk.seal()
    filled.desk.commit()
    assert filled.live() == [4, 5, 6, 7]
    filled.turn()
    assert (filled.live(), filled.volatile()) == ([5, 6, 7], [b"v"])


def test_memory_of_one_queue_has_a_limit(filled) -> None:
    """
    Whoever sends non-persistent messages there waits, or is refused.
    """
    filled.policy(memoryLimit=1_000)
    queue: Queue = filled.desk.queue()
    filled.send_volatile(b"x" * 400, b"x" * 400)
    full = filled.limiting.refusal(queue, 1, 1, is_stored=False)
    assert full is not None
    assert "1,600 bytes of memory, at most 1,000 (memoryLimit)" in str(full)
    assert full.can_wait
    assert filled.limiting.refusal(queue, 1, 1) is None
    filled.policy(memoryLimit=1_000, sendFailIfNoSpace="true", sendFailIfNoSpaceAfterTimeout=50)
    full = filled.limiting.refusal(queue, 1, 1, is_stored=False)
    assert full is not None
    assert (full.can_wait, full.wait_ms) == (False, 50)


def test_what_the_cleaner_is_about_to_write_again_goes_later(filled) -> None:
    """
    Else it would be moved out of where the cleaner looks.
    """
    filled.policy(maxLength=2, overflow="drop-head")
    filled.send(b"1", b"2")
    filled.turn()
    filled.broker.moving.closed_through = filled.desk.queue().index.record_number(1)
    filled.send(b"3")
    filled.turn()
    assert filled.live() == [1, 3]
    filled.broker.moving.closed_through = 0
    filled.send(b"4")
    filled.turn()
    assert filled.live() == [3, 4]


MIRRORING = "Consumer.a.VirtualTopic.Mirror.orders"


def test_who_consumes_a_mirror_refuses_nothing_and_loses_the_oldest(filled) -> None:
    """
    Whatever is said of it: what comes to the queue that it mirrors would be refused, too.
    """
    filled.policy("queue://Consumer.>", maxLength=2, overflow="reject", sendFailIfNoSpace="true")
    assert filled.send(*[b"x"] * 4, queue=MIRRORING) == []
    filled.turn()
    assert filled.live(MIRRORING) == [3, 4]
    queue = filled.desk.queue(MIRRORING)
    assert filled.limiting.refusal(queue, 3, 1) is None, "nor what is too much for ever"
    limits = filled.limiting.limits_of(queue)
    assert limits is not None
    assert not limits.fails_at_once
    assert len(filled.send(*[b"x"] * 4, queue="Consumer.a.VirtualTopic.orders")) == 2


def test_of_a_mirror_in_memory_the_oldest_go_as_well(filled) -> None:
    """
    But the newest, and what somebody has.
    """
    filled.policy("queue://Consumer.>", memoryLimit=1_000)
    queue = filled.desk.queue(MIRRORING)
    filled.desk.subscribe(MIRRORING, prefetch=1)
    for body in (b"a", b"b", b"c", b"d" * 400):
        assert filled.limiting.refusal(queue, 1, 1, is_stored=False) is None
        filled.broker.send_transient(queue, b"", body)
        filled.limiting.sent(queue, queue.assigned_sequence, 0)
        filled.turn()
    assert filled.volatile(MIRRORING) == [b"a", b"d" * 400]
    assert filled.limiting.dropped_total == 2


def test_a_policy_that_changes_says_anew_who_consumes_a_mirror(filled) -> None:
    """
    Its queues may be called otherwise.
    """
    filled.policy("queue://>", maxLength=1)
    assert len(filled.send(b"1", b"2", queue="VTC.a.VirtualTopic.Mirror.orders")) == 1
    filled.policy("topic://VirtualTopic.>", virtualTopicPrefix="VTC.*.")
    filled.broker.destinations.consumers_of("VirtualTopic.Mirror.orders")
    assert filled.send(b"1", b"2", queue="VTC.a.VirtualTopic.Mirror.orders") == []
    assert len(filled.send(b"1", b"2", queue=MIRRORING)) == 1


def test_without_flow_control_nobody_waits_for_a_queues_memory(filled) -> None:
    """As many files have it; what all queues may take together holds still."""
    filled.policy(memoryLimit=1_000, producerFlowControl="false")
    filled.send_volatile(*(b"x" * 500 for _ in range(4)))
    assert filled.limiting.refusal(filled.desk.queue("orders"), 1, 500, is_stored=False) is None
