"""
Scheduled messages as clients send and get them: when, how often, where, and what they say.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.snapshot import digest_of, encode_state
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL, SCHEDULES_LEVEL
from holdfast.model.records import FormatRecord
from holdfast.model.schedules import SCHEDULE_QUEUE
from holdfast.server.waking import Waking
from holdfast.store.record_codec import decode_records

NOW = 1_700_000_000_000
"""The desk's clock, in milliseconds: 22:13:20 UTC."""
HOUR_MS = 3_600_000


class Calendar:
    """A desk whose clock goes, with one who sends and one who gets."""

    def __init__(self, desk) -> None:
        self.desk = desk
        self.now_ms = NOW
        desk.broker.state.format_level = SCHEDULES_LEVEL
        self.sender = desk.connect()
        self.receiver = desk.connect()

    def at(self, after_ms: int) -> None:
        """Let so much time have passed since the beginning, and all be done that is due."""
        self.now_ms = NOW + after_ms
        broker = self.desk.broker
        broker.sending.now_microseconds = self.now_ms * 1000
        waking = Waking(broker, self.desk, self.desk_is_damaged)
        for _ in range(20):
            self.desk.turn()
            waking.step(lambda: False)
            if not broker.receipts.has_batch():
                break
        self.desk.turn()

    def desk_is_damaged(self, error) -> None:
        raise AssertionError(error)

    def got(self):
        self.desk.turn()
        return [frame for frame in self.receiver.frames() if frame.command == "MESSAGE"]

    def fail_over(self) -> None:
        self.desk.fail_over()
        self.receiver = self.desk.connect()
        self.sender = self.desk.connect()

    @property
    def waiting(self) -> int:
        queue = self.desk.broker.state.by_name.get(SCHEDULE_QUEUE)
        return 0 if queue is None else queue.index.live_count

    def require_replayed(self) -> None:
        """Whoever has applied the log alone, or has a checkpoint, knows the same."""
        state = self.desk.broker.state
        replayed = type(state)(self.desk.settings)
        for first, timestamp, body in self.desk.log:
            replayed.apply(first, decode_records(body, with_content=False), timestamp)
        replayed.format_level = state.format_level
        decoded = decode_state(b"".join(encode_state(state)), self.desk.settings)
        assert digest_of(state) == digest_of(replayed) == digest_of(decoded)


@pytest.fixture
def calendar(desk) -> Calendar:
    return Calendar(desk)


def test_a_delayed_message_comes_at_its_time_and_once(calendar) -> None:
    """
    Not a millisecond before; its receipt says that it is stored, and it says which job it was.
    """
    calendar.sender.send(b"later", AMQ_SCHEDULED_DELAY="5000", receipt="r", colour="red")
    calendar.receiver.subscribe()
    calendar.at(4_999)
    assert [frame.command for frame in calendar.sender.frames()] == ["RECEIPT"]
    assert (calendar.got(), calendar.waiting) == ([], 1)
    calendar.at(5_000)
    (frame,) = calendar.got()
    assert frame.body == b"later"
    assert frame.headers["colour"] == "red"
    assert frame.headers["scheduledJobId"] == "ID:c0ffee-1-1"
    assert frame.headers["destination"] == "/queue/orders"
    assert not [name for name in frame.headers if "AMQ_SCHEDULED" in name or "original" in name]
    calendar.at(50_000)
    assert (calendar.got(), calendar.waiting) == ([], 0)
    calendar.require_replayed()


def test_the_broker_says_when_the_next_is_due(calendar) -> None:
    """
    So that whoever looks at the clock need not look before, and does not look too late.
    """
    broker = calendar.desk.broker
    assert broker.soonest_ms == 0
    for delay in (5000, 3000):
        calendar.sender.send(b"later", AMQ_SCHEDULED_DELAY=str(delay))
    calendar.at(1)
    assert broker.soonest_ms == NOW + 3000
    calendar.at(3000)
    assert broker.soonest_ms == NOW + 5000
    calendar.at(5000)
    assert broker.soonest_ms == 0


def test_repetitions_keep_their_rhythm_and_end(calendar) -> None:
    """
    REPEAT n is n more; without a delay the first comes after a period, as in ActiveMQ.
    """
    calendar.sender.send(b"tick", AMQ_SCHEDULED_PERIOD="100", AMQ_SCHEDULED_REPEAT="2")
    calendar.receiver.subscribe()
    came = []
    for after_ms in range(0, 600, 10):
        calendar.at(after_ms)
        came += [after_ms] * len(calendar.got())
        calendar.require_replayed()
    assert came == [100, 200, 300]
    assert calendar.waiting == 0


def test_what_was_missed_comes_once_and_then_in_the_old_rhythm(calendar) -> None:
    """
    Q41: down for ten periods: one, and no drift.
    """
    calendar.sender.send(
        b"tick",
        AMQ_SCHEDULED_DELAY="100",
        AMQ_SCHEDULED_PERIOD="100",
        AMQ_SCHEDULED_REPEAT="-1",
    )
    calendar.at(0)
    calendar.fail_over()
    calendar.receiver.subscribe()
    calendar.at(1_050)
    assert len(calendar.got()) == 1
    calendar.at(1_099)
    assert calendar.got() == []
    calendar.at(1_100)
    assert len(calendar.got()) == 1


@pytest.mark.parametrize("is_applied", [True, False])
def test_each_time_is_sent_once_whoever_leads(calendar, is_applied) -> None:
    """
    Q39: a leader that is gone has sent it with the entry that says so, or its successor sends it.
    """
    calendar.sender.send(
        b"tick",
        AMQ_SCHEDULED_DELAY="100",
        AMQ_SCHEDULED_PERIOD="100",
        AMQ_SCHEDULED_REPEAT="1",
    )
    calendar.at(0)
    broker = calendar.desk.broker
    broker.sending.now_microseconds = (NOW + 100) * 1000
    waking = Waking(broker, calendar.desk, calendar.desk_is_damaged)
    waking.step(lambda: False)
    waking.step(lambda: False)  # What is on its way to the log is not sent again.
    assert len(broker.receipts.batch.records) == 3  # With the queue's declaration.
    if is_applied:
        calendar.desk.seal()
    calendar.fail_over()
    calendar.at(150)
    assert calendar.desk.broker.state.by_name["orders"].index.live_count == 1
    calendar.at(200)
    assert calendar.desk.broker.state.by_name["orders"].index.live_count == 2
    assert calendar.waiting == 0
    calendar.require_replayed()


def test_a_scheduled_message_is_stored_though_it_is_not_persistent(calendar) -> None:
    """
    It survives a failover until its time, and is in memory only from then on.
    """
    calendar.sender.send(b"x", AMQ_SCHEDULED_DELAY="100", persistent="false")
    calendar.at(0)
    calendar.fail_over()
    calendar.at(100)
    queue = calendar.desk.broker.queue("orders")
    assert (len(queue.transients), queue.index.live_count) == (1, 0)
    calendar.receiver.subscribe()
    (frame,) = calendar.got()
    assert "persistent" not in frame.headers
    assert frame.headers["scheduledJobId"] == "ID:c0ffee-1-1"
    assert not [name for name in frame.headers if "AMQ_SCHEDULED" in name]


def test_a_lifetime_counts_from_when_it_is_sent(calendar) -> None:
    """
    And the header says the time that comes of it.
    """
    for headers in ({"expiration": "50"}, {"expires": str(NOW + 50)}):
        calendar.sender.send(b"x", AMQ_SCHEDULED_DELAY="1000", **headers)
    calendar.at(1_000)
    calendar.at(1_049)
    calendar.receiver.subscribe()
    assert [it.headers["expires"] for it in calendar.got()] == [str(NOW + 1_050)] * 2
    calendar.receiver.leave()
    calendar.at(1_050)
    calendar.desk.broker.expiring.step()
    calendar.desk.turn()
    assert calendar.desk.broker.queue("orders").index.live_count == 0


def test_several_destinations_are_what_their_names_mean_as_it_is_sent(calendar) -> None:
    """
    Q43: a queue that was deleted meanwhile, one more that consumes a virtual topic, a subscriber.
    """
    broker = calendar.desk.broker
    broker.queue("gone")
    calendar.sender.send(
        b"x",
        destination="/queue/gone,/topic/VirtualTopic.news",
        AMQ_SCHEDULED_DELAY="100",
        AMQ_SCHEDULED_PERIOD="100",
        AMQ_SCHEDULED_REPEAT="1",
    )
    calendar.at(0)
    broker.delete("gone", calendar.sender.session, b"d")
    broker.queue("Consumer.a.VirtualTopic.news")
    calendar.receiver.subscribe("/topic/VirtualTopic.news")
    calendar.at(100)
    broker.queue("Consumer.b.VirtualTopic.news")
    calendar.at(200)
    assert [it.body for it in calendar.got()] == [b"x", b"x"]
    counts = {
        name: broker.queue(name).index.live_count
        for name in ("gone", "Consumer.a.VirtualTopic.news", "Consumer.b.VirtualTopic.news")
    }
    assert list(counts.values()) == [2, 2, 1]
    assert calendar.waiting == 0
    calendar.require_replayed()


def test_a_transaction_schedules_with_its_commit_or_not_at_all(calendar) -> None:
    """
    Q42.
    """
    for name in ("kept", "dropped"):
        calendar.sender.say("BEGIN", transaction=name)
        calendar.sender.send(name.encode(), transaction=name, AMQ_SCHEDULED_DELAY="100")
    calendar.at(0)
    assert calendar.waiting == 0
    calendar.sender.say("ABORT", transaction="dropped")
    calendar.sender.say("COMMIT", transaction="kept", receipt="r")
    calendar.receiver.subscribe()
    calendar.at(100)
    assert [it.body for it in calendar.got()] == [b"kept"]
    assert calendar.waiting == 0


def test_a_clock_that_is_put_back_sends_nothing_twice(calendar) -> None:
    """
    Q36: nor does what is due wait for as long once more.
    """
    calendar.sender.send(
        b"tick",
        AMQ_SCHEDULED_DELAY="1000",
        AMQ_SCHEDULED_PERIOD="1000",
        AMQ_SCHEDULED_REPEAT="-1",
    )
    calendar.receiver.subscribe()
    calendar.at(1_000)
    assert len(calendar.got()) == 1
    for after_ms in range(-HOUR_MS, -HOUR_MS + 2_100, 100):
        calendar.at(after_ms)
    assert len(calendar.got()) == 1  # Two seconds by the clock: half as much of the broker's time.


def test_a_dead_letter_of_what_was_scheduled_tells_nothing_of_the_schedule(calendar) -> None:
    """
    It was a message of its queue, and shows where it was.
    """
    calendar.sender.send(b"x", AMQ_SCHEDULED_DELAY="10")
    calendar.receiver.subscribe()
    calendar.at(10)
    (frame,) = calendar.got()
    calendar.receiver.say("NACK", id=frame.headers["ack"])
    calendar.receiver.subscribe("/queue/ActiveMQ.DLQ", id="dead")
    (dead,) = calendar.got()
    assert dead.headers["original-destination"] == "/queue/orders"
    assert not [name for name in dead.headers if "SCHEDULED" in name or "scheduled" in name]


def test_groups_stay_groups(calendar) -> None:
    """
    What is sent later is of the same group as what is sent now.
    """
    calendar.sender.send(b"now", JMSXGroupID="g")
    calendar.sender.send(b"later", JMSXGroupID="g", AMQ_SCHEDULED_DELAY="10")
    calendar.at(10)
    index = calendar.desk.broker.queue("orders").index
    hashes = {index.group_hash(it) for it in index.sequences(1, index.last() + 1)}
    assert len(hashes) == 1 and 0 not in hashes


def test_a_producers_number_is_taken_once(calendar) -> None:
    """
    Sent again after a failover it is confirmed, and scheduled no second time.
    """
    for _ in range(2):
        calendar.sender.send(
            b"x", AMQ_SCHEDULED_DELAY="10", producer_id="p", producer_sequence="1", receipt="r"
        )
        calendar.at(0)
        assert [frame.command for frame in calendar.sender.frames()] == ["RECEIPT"]
        calendar.fail_over()
    assert calendar.waiting == 1


def test_a_full_disk_takes_nothing_new_and_sends_what_is_due(calendar) -> None:
    """
    What is due takes no room but for a few bytes.
    """
    calendar.sender.send(b"x", AMQ_SCHEDULED_DELAY="10")
    calendar.at(0)
    calendar.desk.context.refusal = "the disk is almost full"
    error = calendar.sender.refusal("SEND", destination="/queue/orders", AMQ_SCHEDULED_DELAY="1")
    assert "disk" in error.headers["message"]
    calendar.receiver.subscribe()
    calendar.at(10)
    assert [it.body for it in calendar.got()] == [b"x"]


@pytest.mark.parametrize("destination", ["/queue/$schedule", "/topic/$x", "$schedule"])
@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
def test_the_brokers_own_names_are_no_clients(calendar, destination, command) -> None:
    """
    Else a client could take off the schedule what others have put there.
    """
    headers = {"id": "s"} if command == "SUBSCRIBE" else {}
    error = calendar.sender.refusal(command, destination=destination, **headers)
    assert "'$'" in error.headers["message"]


def test_before_all_members_know_schedules_they_are_refused(calendar) -> None:
    """
    To send it at once would be a lie.
    """
    calendar.desk.broker.state.format_level = SCHEDULES_LEVEL - 1
    error = calendar.sender.refusal("SEND", destination="/queue/a", AMQ_SCHEDULED_DELAY="1")
    assert error.headers["code"] == "not-served"


def test_nothing_is_scheduled_for_what_is_temporary(calendar) -> None:
    """
    It may be gone by then.
    """
    error = calendar.sender.refusal("SEND", destination="/temp-queue/a", AMQ_SCHEDULED_DELAY="1")
    assert "temporary" in error.headers["message"]


def test_what_is_scheduled_for_a_stored_topic_waits_for_who_wants_it(new_desk) -> None:
    """
    One that is away gets it later, over a failover; one whose selector is not true of it does not.
    """
    desk = new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    calendar = Calendar(desk)
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()

    def take_up(client_id, **headers):
        client = desk.connect(client_id=client_id)
        client.subscribe("/topic/t", "d", activemq__subscriptionName="mine", **headers)
        desk.turn()
        return client

    take_up("all").leave()
    take_up("red", selector="colour = 'red'").leave()
    take_up("blue", selector="colour = 'blue'").leave()
    calendar.sender.send(b"1", "/topic/t", AMQ_SCHEDULED_DELAY="5", colour="red")
    calendar.at(4)
    assert desk.broker.state.topics["t"].index.live_count == 0
    calendar.at(5)
    assert calendar.waiting == 0
    calendar.require_replayed()
    desk.fail_over()
    for name, wanted in (("all", [b"1"]), ("red", [b"1"]), ("blue", [])):
        client = take_up(name, selector=f"colour = '{name}'") if name != "all" else take_up(name)
        frames = client.frames()
        assert [it.body for it in frames] == wanted
        for frame in frames:
            assert frame.headers["destination"] == "/topic/t"
            client.say("ACK", id=frame.headers["ack"])
    desk.turn()
    assert desk.broker.state.topics["t"].index.live_count == 0


def test_who_consumes_from_a_stored_topic_gets_it_at_once(new_desk) -> None:
    """
    Nothing else has to come there for it to be given to him.
    """
    desk = new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    calendar = Calendar(desk)
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()
    client = desk.connect(client_id="c1")
    client.subscribe("/topic/t", activemq__subscriptionName="mine")
    calendar.sender.send(b"1", "/topic/t", AMQ_SCHEDULED_DELAY="5")
    calendar.at(5)
    assert client.bodies() == ["1"]


def test_what_is_scheduled_after_the_schedule_was_deleted_is_sent_again(desk) -> None:
    """
    An operator deletes the queue of the schedule; the next one has numbers of its own, and the same
    times are said again.
    """
    calendar = Calendar(desk)
    calendar.receiver.subscribe(ack="auto")
    when = {"AMQ_SCHEDULED_TIME": str(NOW + 1000)}
    calendar.sender.send(b"first", **when)
    calendar.at(2000)
    desk.broker.delete(SCHEDULE_QUEUE, calendar.sender.session, b"r")
    calendar.at(3000)
    for number in range(3):
        calendar.sender.send(b"%d" % number, **when)
        calendar.at(4000 + 1000 * number)
    assert [frame.body for frame in calendar.got()] == [b"first", b"0", b"1", b"2"]
    assert calendar.waiting == 0
