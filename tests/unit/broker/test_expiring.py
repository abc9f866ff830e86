"""
Messages whose time is over, as a leader takes them off their queues.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.snapshot import digest_of, encode_state
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Attributes, Cause, MessageFacts
from holdfast.model.format_level import EXPIRY_LEVEL
from holdfast.model.records import FormatRecord, MoveRecord, PolicyRecord, ReturnCause
from holdfast.store.record_codec import decode_records

DEAD = "ActiveMQ.DLQ"
NOW = 1_700_000_000_000


def expiring_at(expires_ms: int) -> MessageFacts:
    return MessageFacts(attributes=Attributes(expires_ms=expires_ms))


class Times:
    """A leader at the level where messages expire, its clock, and what goes on as it turns."""

    def __init__(self, desk) -> None:
        self.desk = desk
        self.now_ms = NOW
        desk.broker.receipts.record(FormatRecord(EXPIRY_LEVEL))
        self.turn()

    @property
    def broker(self):
        return self.desk.broker

    def set_clock(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.broker.sending.now_microseconds = now_ms * 1000

    def turn(self) -> None:
        """Let the broker do all there is to do at this time."""
        self.set_clock(self.now_ms)
        for _ in range(50):
            self.broker.expiring.step()
            self.desk.turn()

    def at(self, after_ms: int) -> None:
        self.set_clock(NOW + after_ms)
        self.turn()

    def send(self, body: bytes, lasts_ms: int, queue: str = "orders") -> None:
        sending = self.broker.sending
        target = self.desk.queue(queue)
        facts = expiring_at(NOW + lasts_ms)
        sending.send(target, b"", body, self.desk.client, None, facts=facts)

    def send_volatile(self, body: bytes, lasts_ms: int) -> None:
        facts = expiring_at(NOW + lasts_ms)
        self.broker.send_transient(self.desk.queue(), b"", body, facts)

    def policy(self, **values: object) -> None:
        self.broker.receipts.record(PolicyRecord("queue://>", json.dumps(values)))
        self.turn()

    def live(self, queue: str = "orders") -> list[int]:
        index = self.desk.queue(queue).index
        return list(index.sequences(0, index.last() + 1))

    def moves(self) -> list[MoveRecord]:
        records = (record for _, _, body in self.desk.log for record in decode_records(body))
        return [record for record in records if isinstance(record, MoveRecord)]


@pytest.fixture
def times(desk) -> Times:
    return Times(desk)


def test_a_short_life_behind_long_ones_ends_with_nobody_there(times) -> None:
    """
    Q34: no consumer, no matter how deep; to the millisecond.
    """
    for lasts_ms in (90_000, 0, 5_000, 100):
        if lasts_ms:
            times.send(b"x", lasts_ms)
        else:
            times.desk.send(b"for ever")
    times.turn()
    times.at(99)
    assert times.live() == [1, 2, 3, 4]
    times.at(100)
    assert times.live() == [1, 2, 3]
    times.at(5_000)
    times.at(90_000)
    assert (times.live(), times.live(DEAD)) == ([2], [1, 2, 3])
    assert {move.cause for move in times.moves()} == {Cause.EXPIRED}
    assert times.broker.expiring.expired_total == 3
    assert times.broker.receipts.dead_lettered_total == 3


def test_what_has_expired_as_it_comes_is_delivered_to_nobody(times) -> None:
    """
    Q38: its sender's clock was late; it is stored, and a dead letter at once.
    """
    consumer = times.desk.subscribe()
    times.send(b"late", -1)
    times.send(b"in time", 1)
    times.desk.turn()  # Nobody looked after it yet: it is taken back on its way out.
    times.turn()
    assert consumer.receiver.keys == [2]
    assert (times.live(), times.live(DEAD)) == ([2], [1])


@pytest.mark.parametrize("mode", list(AcknowledgeMode))
def test_what_expires_before_there_is_room_is_delivered_to_nobody(times, mode) -> None:
    """
    In each mode of acknowledgement; what is not expired goes on, in order.
    """
    for number in range(6):
        times.send(b"%d" % number, 100 if number % 2 else 10_000)
    times.turn()
    times.set_clock(NOW + 200)
    consumer = times.desk.subscribe(mode=mode)
    times.desk.turn()
    assert consumer.receiver.keys == [1, 3, 5]
    times.turn()
    assert times.live(DEAD) == [1, 2, 3]
    assert times.live() == ([] if mode is AcknowledgeMode.AUTO else [1, 3, 5])
    if mode is AcknowledgeMode.INDIVIDUAL:
        assert list(consumer.unacknowledged) == [1, 3, 5]


def test_what_somebody_has_runs_on_and_is_looked_at_when_it_comes_back(times) -> None:
    """
    Q35: it may be acknowledged after its time; given back it goes to nobody any more.
    """
    times.send(b"slow", 100)
    times.send(b"slower", 100)
    consumer = times.desk.subscribe()
    times.turn()
    assert consumer.receiver.keys == [1, 2]
    times.at(5_000)
    assert times.live() == [1, 2]
    times.broker.acknowledge(consumer, 1, times.desk.client, None)
    times.broker.unsubscribe(consumer, ReturnCause.LOST)
    other = times.desk.subscribe()
    times.turn()
    assert (times.live(), times.live(DEAD)) == ([], [1])
    assert other.receiver.keys == []


def test_what_a_transaction_holds_is_left_alone_until_its_end(times) -> None:
    """
    Rolled back it is given to nobody else.
    """
    times.send(b"x", 100)
    consumer = times.desk.subscribe()
    times.turn()
    transaction = times.broker.begin("t")
    transaction.add_settlement(consumer, [1])
    times.at(200)
    assert times.live() == [1]
    times.broker.unsubscribe(consumer)
    for _ in times.broker.abort(transaction):
        pass
    other = times.desk.subscribe()
    times.turn()
    assert (times.live(), times.live(DEAD), other.receiver.keys) == ([], [1], [])


def test_what_rests_expires(times) -> None:
    """
    Nobody has it while it waits to be delivered again.
    """
    times.send(b"x", 1_000)
    consumer = times.desk.subscribe()
    times.turn()
    times.broker.give_back(consumer, 1, NOW + 3_600_000, times.desk.client, None)
    times.turn()
    times.at(1_000)
    assert (times.live(), times.live(DEAD)) == ([], [1])


def test_on_the_queue_of_dead_letters_what_expires_is_nowhere_any_more(times) -> None:
    """
    Q38: the strategy's `expiration` gives dead letters a time of their own.
    """
    times.policy(expiration=500)
    times.send(b"x", 100)
    times.turn()
    times.at(100)
    assert times.desk.queue(DEAD).index.expires_ms(1) == NOW + 600
    times.at(600)
    assert times.live(DEAD) == []
    assert times.moves()[-1].target_number == 0


@pytest.mark.parametrize("said", [{"processExpired": "false"}, {"deadLetterStrategy": "discard"}])
def test_where_nobody_wants_it_it_is_nowhere_any_more(times, said) -> None:
    """
    No dead letter, and no queue for those.
    """
    times.policy(**said)
    times.send(b"x", 100)
    times.turn()
    times.at(100)
    assert (times.live(), times.desk.broker.destinations.has_queue(DEAD)) == ([], False)
    assert times.broker.receipts.dead_lettered_total == 0


def test_without_a_period_only_what_would_be_delivered_is_taken_off(times) -> None:
    """
    `expireMessagesPeriod` 0, as ActiveMQ has it.
    """
    times.policy(expireMessagesPeriod=0)
    times.send(b"x", 100)
    times.turn()
    times.at(5_000)
    assert times.live() == [1]
    consumer = times.desk.subscribe()
    times.turn()
    assert (times.live(), times.live(DEAD), consumer.receiver.keys) == ([], [1], [])


def test_nothing_revives_with_a_leader_whose_clock_is_behind(times) -> None:
    """
    Q36: its time is no earlier than what the log says, whatever its clock does.
    """
    times.send(b"x", 100)
    times.turn()
    times.desk.log[-1] = (*times.desk.log[-1][:1], (NOW + 200) * 1000, times.desk.log[-1][2])
    times.desk.fail_over()
    times.now_ms = NOW - 3_600_000
    consumer = times.desk.subscribe()
    times.turn()
    assert (times.live(), times.live(DEAD), consumer.receiver.keys) == ([], [1], [])


def test_a_new_leader_looks_after_all_that_expires(times) -> None:
    """
    On queues that nobody asks for, too, from a log that it only applied.
    """
    names = [f"q{number}" for number in range(200)]
    for name in names:
        times.send(b"x", 100, name)
    times.turn()
    times.desk.fail_over()
    times.now_ms = NOW + 100
    times.turn()
    assert [times.live(name) for name in names] == [[]] * 200
    assert len(times.live(DEAD)) == 200


def test_equal_logs_give_equal_states_and_so_does_a_checkpoint(times) -> None:
    """
    With what expires, has expired, and was moved with its time.
    """
    for number in range(40):
        times.send(b"x", 100 * number)
    times.turn()
    times.broker.moving.take(
        times.desk.queue(), [times.desk.queue("b")], [30, 31, 33], Cause.MOVED, moved_at=NOW
    )
    times.at(1_000)
    state = times.desk.state
    assert state.by_name["b"].index.expires_ms(1) == NOW + 2_900
    assert digest_of(times.desk.replayed()) == digest_of(state)
    again = decode_state(b"".join(encode_state(state)), times.desk.settings)
    assert digest_of(again) == digest_of(state)
    assert again.expiring.keys() == {1, state.by_name["b"].number}


def test_a_purge_of_some_leaves_the_times_of_the_others(times) -> None:
    """
    What came after the request to purge lives on, as long as it may.
    """
    for _ in range(600):
        times.send(b"x", 100)
    times.desk.turn()
    times.broker.purge("orders", times.desk.client, b"p")
    for _ in range(600):
        times.send(b"y", 200)
    times.turn()
    assert len(times.live()) == 600
    times.at(100)
    assert len(times.live()) == 600
    times.at(200)
    assert times.live() == []
    assert digest_of(times.desk.replayed()) == digest_of(times.desk.state)


def test_a_batch_moves_no_more_than_one_record(times) -> None:
    """
    Q37: however much expires at once, each entry is a bounded piece of work.
    """
    for _ in range(3_000):
        times.send(b"x", 100)
    times.turn()
    times.set_clock(NOW + 100)
    steps = 0
    while times.live():
        times.broker.expiring.step()
        assert times.broker.receipts.batch.moved_count <= 1_000
        times.desk.turn()
        steps += 1
    assert 3 <= steps <= 10
    assert len(times.live(DEAD)) == 3_000


def test_a_step_ends_when_its_time_is_spent(times) -> None:
    """
    And says that there is more.
    """
    for _ in range(500):
        times.send(b"x", 100)
    times.turn()
    times.set_clock(NOW + 100)
    assert times.broker.expiring.step(lambda: True)
    assert 0 < times.broker.receipts.batch.moved_count <= times.desk.settings.step_count_max


def test_what_the_cleaner_is_about_to_write_again_expires_after_that(times) -> None:
    """
    It must not come to stand where the cleaner does not look any more; nobody gets it meanwhile.
    """
    times.send(b"x", 100)
    times.turn()
    times.broker.moving.closed_through = 1_000
    consumer = times.desk.subscribe()
    times.at(100)
    assert (times.live(), consumer.receiver.keys) == ([1], [])
    times.broker.moving.closed_through = 0
    times.at(2_000)
    assert (times.live(), times.live(DEAD)) == ([], [1])


def test_a_clock_that_is_put_back_makes_messages_live_again(times) -> None:
    """
    What was found expired on its way out, and is not: it was a mistake of the clock's.
    """
    times.send(b"x", 100)
    times.turn()
    times.broker.moving.closed_through = 1_000
    times.set_clock(NOW + 100)
    consumer = times.desk.subscribe()
    times.desk.turn()
    assert consumer.receiver.keys == []
    times.broker.moving.closed_through = 0
    times.broker.returning._now = 0
    times.at(50)
    assert consumer.receiver.keys == [1]


def test_non_persistent_ones_expire_and_are_dead_letters_by_policy(times) -> None:
    """
    Waiting, or on their way to somebody; what somebody has runs on.
    """
    times.send_volatile(b"a", 100)
    times.at(100)
    queue: Queue = times.desk.queue()
    assert (queue.transient_count, queue.transient_bytes) == (0, 0)
    assert not times.broker.destinations.has_queue(DEAD)
    times.policy(processNonPersistent="true")
    times.send_volatile(b"b", 200)
    times.at(200)
    assert (queue.transient_count, times.live(DEAD)) == (0, [1])
    times.send_volatile(b"c", 300)
    consumer = times.desk.subscribe()
    times.turn()
    times.at(300)
    assert (len(consumer.receiver.keys), queue.transient_count) == (1, 1)
    times.broker.unsubscribe(consumer)
    times.turn()
    assert (queue.transient_count, times.live(DEAD)) == (0, [1, 2])


def test_what_the_store_takes_no_more_is_no_dead_letter(times) -> None:
    """
    It lives in memory only, and to store it would cost the lease; a smaller one is kept.
    """
    times.policy(processNonPersistent="true")
    times.broker.receipts.message_bytes_max = 100
    times.send_volatile(b"b" * 200, 100)
    times.send_volatile(b"c", 100)
    times.turn()
    times.at(100)
    assert (times.desk.queue().transient_count, times.live(DEAD)) == (0, [1])


def test_a_full_disk_keeps_what_would_be_stored_and_moves_what_is(times) -> None:
    """
    Q28: a move takes no room to speak of; what only memory has waits.
    """
    times.policy(processNonPersistent="true")
    times.send(b"stored", 100)
    times.send_volatile(b"b", 100)
    times.turn()
    times.broker.expiring.is_full = True
    times.at(100)
    assert (times.live(DEAD), times.desk.queue().transient_count) == ([1], 1)
    times.broker.expiring.is_full = False
    times.at(5_000)
    assert (times.live(DEAD), times.desk.queue().transient_count) == ([1, 2], 0)


def test_a_topic_sends_nothing_expired(times, new_client) -> None:
    """
    Nor what waited for a slow subscriber's room until its time was over.
    """
    client = new_client()
    topic = times.broker.topic("t")
    subscription = times.desk.subscribe(client=client)
    times.broker.unsubscribe(subscription)
    slow = Subscription(client, "slow", mode=AcknowledgeMode.INDIVIDUAL, prefetch=1)
    times.broker.subscribe(slow, topic)
    for number in range(3):
        expires_ms = NOW + (100 if number == 1 else 10_000)
        times.broker.publish(topic, b"", b"%d" % number, expiring_at(expires_ms))
    times.broker.publish(topic, b"", b"late", expiring_at(NOW - 1))
    times.turn()
    times.set_clock(NOW + 100)
    for _ in range(4):
        for key in list(slow.unacknowledged):
            times.broker.acknowledge(slow, key, client, None)
        times.turn()
    first, third = client.keys
    assert (first - third, len(slow.unacknowledged)) == (2, 0)


def test_what_is_only_read_to_be_looked_at_is_left_alone(times) -> None:
    """
    A router that asks selectors waits for it: taken back, nothing behind it would ever go out.
    """
    times.send(b"x", 100)
    times.turn()
    times.set_clock(NOW + 100)
    looking = Subscription(times.desk.client, "", mode=AcknowledgeMode.AUTO, prefetch=0)
    looking.is_closed = True
    step = [(looking, 1, None, 3, 0)]
    assert times.broker.expiring.sift(times.desk.queue(), step) == step


def test_a_look_through_a_queue_shows_nothing_expired(times, new_client) -> None:
    """
    It only looks: nothing is taken off for it.
    """
    times.policy(expireMessagesPeriod=0)
    for number in range(5):
        times.send(b"x", 100 if number % 2 else 10_000)
    times.turn()
    times.set_clock(NOW + 100)
    client = new_client()
    look = Subscription(client, "b", mode=AcknowledgeMode.AUTO, prefetch=2)
    times.broker.browse(look, times.desk.queue())
    times.turn()
    assert [key for key in client.keys if key > 0] == [1, 3, 5]
    assert times.live() == [1, 2, 3, 4, 5]


def test_where_no_queue_is_left_for_dead_letters_nothing_is_found_in_vain(times) -> None:
    """
    Only the queue is tried again, not each of maybe ten million messages: what has expired stands
    where it stood. Nobody gets it, what is behind it flows, and what is in memory only goes.
    """
    times.desk.settings = BrokerSettings(queue_count_max=1)
    times.broker.destinations._settings = times.desk.settings
    for number in range(200):
        times.send(b"%d" % number, 100)
        times.send_volatile(b"%d" % number, 100)
    times.desk.send(b"for ever")
    times.turn()
    expiry = times.desk.queue().expiry
    times.at(100)
    assert (expiry.soonest, len(times.live())) == (NOW + 1_100, 201)
    assert times.desk.queue().transient_count == 0
    consumer = times.desk.subscribe(prefetch=5)
    times.turn()
    assert consumer.receiver.keys == [201]
    assert not times.broker.expiring._again
    times.broker.destinations._settings = BrokerSettings()
    times.at(1_099)
    assert len(times.live()) == 201
    times.at(1_100)
    assert (times.live(), len(times.live(DEAD))) == ([201], 200)


def test_what_cannot_be_taken_off_is_looked_at_again_however_much_it_is(times) -> None:
    """
    A bit for each, which are put back together.
    """
    times.broker.moving.closed_through = 1 << 40
    for number in range(3_000):
        times.send(b"%d" % number, 100)
    times.at(100)
    for _ in range(50):
        times.turn()
    ((stored, volatile),) = times.broker.expiring._again.values()
    assert (len(stored), len(volatile), len(stored.shelves)) == (3_000, 0, 6)
    times.broker.moving.closed_through = 0
    times.at(1_100)
    for _ in range(50):
        times.turn()
    assert (times.live(), len(times.live(DEAD))) == ([], 3_000)


def test_what_is_purged_as_it_is_about_to_be_taken_off_leaves_nothing_behind(times) -> None:
    """
    Nor does a clock that is put back make it live again.
    """
    times.policy(processNonPersistent=True)
    times.broker.moving.closed_through = 1 << 40
    times.broker.expiring.is_full = True
    times.send(b"a", 100)
    times.send_volatile(b"b", 100)
    times.turn()
    times.set_clock(NOW + 100)
    times.desk.subscribe()
    times.desk.turn()
    expiry = times.desk.queue().expiry
    assert len(expiry.aside) == 2
    times.broker.purge("orders", times.desk.client, b"")
    times.at(5_000)
    assert not expiry.aside
    assert not times.broker.expiring._again


@pytest.mark.parametrize("ending", ["commit", "abort"])
def test_what_waits_to_be_taken_off_may_be_settled_late_in_a_transaction(times, ending) -> None:
    """
    The transaction has it then until its end, as what it settles in any other way: it is settled,
    and no dead letter; or it has expired, and is one.
    """
    times.send(b"x", 100)
    times.turn()
    times.broker.unsubscribe(times.desk.subscribe())
    times.turn()
    first = times.desk.subscribe()
    times.turn()
    times.broker.unsubscribe(first)
    times.broker.errands.finish()
    times.turn()
    times.broker.moving.closed_through = 1 << 40
    times.at(100)
    transaction = times.broker.begin("t")
    times.broker.hold_identity(transaction, times.desk.queue().number, 1)
    times.broker.moving.closed_through = 0
    times.at(2_000)
    assert (times.live(), times.live(DEAD)) == ([1], [])
    if ending == "commit":
        times.broker.commit(transaction, times.desk.client, None)
    else:
        for _ in times.broker.abort(transaction):
            pass
    times.turn()
    assert (times.live(), times.live(DEAD)) == ([], [] if ending == "commit" else [1])
