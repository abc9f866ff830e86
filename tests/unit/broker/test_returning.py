"""
Deliveries that fail: counted by the log, on every node alike, and weighed against what is said.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.returning import SILENT, Rejection
from holdfast.errors import LevelNotReachedError, UnknownDeliveryError
from holdfast.model.format_level import RETURNS_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord, ReturnCause, ReturnedRecord

T0 = 1_700_000_000_000


@pytest.fixture
def five(desk, new_client):
    """Five messages in delivery to one consumer, at the level of returns."""
    desk.broker.sending.now_microseconds = T0 * 1000
    desk.broker.receipts.record(FormatRecord(RETURNS_LEVEL))
    for _ in range(5):
        desk.send(b"x")
    desk.turn()
    desk.first = new_client()
    desk.subscription = desk.subscribe(client=desk.first)
    desk.turn()
    return desk


def said(desk, values: str) -> None:
    desk.broker.receipts.record(PolicyRecord("queue://orders", values))
    desk.turn()


def returned(desk, key: int) -> Returned:
    return desk.state.queues[1].index.returned(key)


@pytest.mark.parametrize("cause", [ReturnCause.LOST, ReturnCause.RELEASED])
def test_what_a_consumer_had_comes_back_when_the_log_says_so(five, new_client, cause) -> None:
    """Nobody has it before, in the old order then; each is an attempt, and none a failure."""
    other = new_client()
    five.subscribe(client=other)
    five.send(b"later")
    five.broker.unsubscribe(five.subscription, cause)
    five.broker.errands.run(lambda: False)
    five.seal()
    five.dispatch()
    assert other.keys == []
    five.turn()
    assert other.counts == [*((key, 2) for key in range(1, 6)), (6, 0)]
    assert [returned(five, key) for key in range(1, 7)] == [*[Returned(1, 0)] * 5, NEVER]
    assert digest_of(five.replayed()) == digest_of(five.state)


def test_only_what_was_alone_is_to_blame(five, new_client) -> None:
    """One of many may be innocent; a leader's end is nobody's fault."""
    for key in (1, 2, 3, 4):
        five.broker.acknowledge(five.subscription, key, five.first, None)
    five.broker.unsubscribe(five.subscription, ReturnCause.LOST)
    five.broker.errands.run(lambda: False)
    five.turn()
    assert returned(five, 5) == Returned(1, 1)
    client = new_client()
    five.subscribe(client=client)
    five.turn()
    assert client.counts == [(5, 2)]
    five.fail_over()
    client = new_client()
    five.subscribe(client=client)
    five.turn()
    assert client.counts == [(5, 2)]
    assert returned(five, 5) == Returned(1, 1)


def test_the_count_of_deliveries_grows_with_each_return(five, new_client) -> None:
    """Also over a change of leader: whoever gets it then knows how often others did."""
    subscription = five.subscription
    for count in (2, 3, 4):
        five.broker.unsubscribe(subscription, ReturnCause.LOST)
        five.broker.errands.run(lambda: False)
        five.turn()
        if count == 3:
            five.fail_over()
        client = new_client()
        subscription = five.subscribe(client=client, prefetch=2)
        five.turn()
        assert client.counts == [(1, count), (2, count)]


def test_without_a_word_on_redelivery_what_is_rejected_is_dead(five) -> None:
    """As in ActiveMQ; so it is where the consumer says so, whatever else is said."""
    assert five.broker.returning.due_of(five.subscription, 1, SILENT) is None
    said(five, '{"maximumRedeliveries":5}')
    assert five.broker.returning.due_of(five.subscription, 1, Rejection(requeue=False)) is None
    with pytest.raises(UnknownDeliveryError):
        five.broker.returning.due_of(five.subscription, 77, SILENT)


@pytest.mark.parametrize(
    ("policy", "own", "rejection", "rests"),
    [
        ("{}", None, Rejection(requeue=True), 0),
        ("{}", None, Rejection(True, 50), 50),
        ("{}", None, Rejection(None, 50), 50),
        ('{"redeliveryDelay":9}', None, SILENT, 1000),
        ('{"initialRedeliveryDelay":0}', None, SILENT, 0),
        ('{"initialRedeliveryDelay":7}', None, SILENT, 7),
        ('{"initialRedeliveryDelay":7}', None, Rejection(None, 50), 50),
        ('{"initialRedeliveryDelay":7}', None, Rejection(requeue=True), 0),
        ('{"initialRedeliveryDelay":7}', {"initialRedeliveryDelay": 8}, SILENT, 8),
        ('{"initialRedeliveryDelay":7}', {"maximumRedeliveries": 8}, SILENT, 7),
        ("{}", {"maximumRedeliveries": 8}, SILENT, 1000),
        ('{"maximumRedeliveries":0}', None, SILENT, None),
        ('{"maximumRedeliveries":0}', None, Rejection(None, 50), None),
        ('{"maximumRedeliveries":0}', None, Rejection(requeue=True), 0),
        ('{"maximumRedeliveries":0}', {"maximumRedeliveries": 1}, SILENT, 1000),
    ],
)
def test_the_rejection_counts_before_the_subscription_and_that_before_the_policy(
    five, policy, own, rejection, rests
) -> None:
    """Key by key; what nobody says is ActiveMQ's default."""
    said(five, policy)
    five.subscription.redelivery = own
    due = five.broker.returning.due_of(five.subscription, 1, rejection)
    assert due == (None if rests is None else 0 if rests == 0 else T0 + rests)


def test_it_rests_until_it_is_due_and_those_behind_it_go_on(five, new_client) -> None:
    """Then it comes at its old place; a new leader lets it rest as long."""
    five.broker.give_back(five.subscription, 2, T0 + 100, five.first, b"r")
    assert five.first.replies == []
    five.turn()
    assert five.first.replies == [b"r"]
    assert returned(five, 2) == Returned(1, 1, T0 + 100)
    assert five.broker.soonest_ms == T0 + 100
    five.send(b"new")
    five.turn()
    assert five.first.keys == [1, 2, 3, 4, 5, 6]
    five.broker.sending.now_microseconds = (T0 + 99) * 1000
    five.broker.wake()
    five.turn()
    assert five.first.keys[6:] == []
    five.broker.sending.now_microseconds = (T0 + 100) * 1000
    five.broker.wake()
    five.turn()
    assert five.first.counts[6:] == [(2, 2)]
    assert five.broker.soonest_ms == 0


@pytest.mark.parametrize("is_new", [False, True])
def test_a_clock_that_is_put_back_lets_nothing_rest_for_so_long(five, new_client, is_new) -> None:
    """The time of the log was ahead by a week: it goes on, and half as fast, until it is right."""
    ahead = (T0 + 7 * 24 * 3_600_000) * 1000
    five.broker.sending.now_microseconds = ahead
    five.broker.give_back(five.subscription, 2, ahead // 1000 + 100, five.first, None)
    five.turn()
    client = five.first
    if is_new:
        five.fail_over()
        client = new_client()
        five.subscribe(client=client)
        five.turn()
    five.state.timestamp = ahead
    came = []
    for milliseconds in (0, 199, 201):
        five.broker.sending.now_microseconds = (T0 + milliseconds) * 1000
        five.broker.wake()
        five.turn()
        came.append(len(client.keys))
    assert came == ([4, 4, 5] if is_new else [5, 5, 6])
    assert client.keys[-1] == 2


def test_a_clock_that_is_set_right_again_lets_nothing_come_early(five) -> None:
    """Put back by an hour and set forward again: no half hour has passed by that."""
    time_is(five, T0)
    five.broker.sending.now_microseconds = (T0 - 3_600_000) * 1000
    assert five.broker.returning.now_ms == T0
    five.broker.sending.now_microseconds = (T0 - 10) * 1000
    assert T0 <= five.broker.returning.now_ms <= T0 + 500
    five.broker.sending.now_microseconds = (T0 + 1_000) * 1000
    assert five.broker.returning.now_ms == T0 + 1_000


def test_what_rests_can_be_acknowledged_late_and_does_not_come_then(five) -> None:
    """Whoever had it and rejected it says after all that it is done."""
    five.broker.give_back(five.subscription, 2, T0 + 100, five.first, None)
    for step in ("on its way", "resting"):
        if step == "resting":
            five.turn()
        five.broker.acknowledge_identity(1, 2, five.first, None)
    five.turn()
    five.broker.sending.now_microseconds = (T0 + 100) * 1000
    five.broker.wake()
    five.turn()
    assert five.first.keys == [1, 2, 3, 4, 5]
    assert not five.state.queues[1].index.is_live(2)


def test_what_is_on_its_way_back_is_settled_late_once(five, new_client) -> None:
    """It is back after its acknowledgement was taken: nobody gets it."""
    five.broker.unsubscribe(five.subscription, ReturnCause.LOST)
    five.broker.errands.run(lambda: False)
    five.broker.acknowledge_identity(1, 3, five.first, b"late")
    client = new_client()
    five.subscribe(client=client)
    five.turn()
    assert client.keys == [1, 2, 4, 5]
    assert five.first.replies == [b"late"]


def test_non_persistent_messages_rest_and_are_counted_in_memory(desk, new_client) -> None:
    """The log knows nothing of them: at once, and as long as this leader leads."""
    desk.broker.sending.now_microseconds = T0 * 1000
    desk.state.format_level = RETURNS_LEVEL
    client = new_client()
    subscription = desk.subscribe(client=client)
    desk.broker.send_transient(desk.queue(), b"", b"x")
    desk.turn()
    (key,) = client.keys
    entries = len(desk.log)
    for count in (1, 2):
        due = desk.broker.returning.due_of(subscription, key, Rejection(True, 10))
        desk.broker.give_back(subscription, key, due, client, None)
        desk.turn()
        assert len(client.keys) == count
        desk.broker.sending.now_microseconds += 10_000
        desk.broker.wake()
        desk.turn()
        assert client.counts[-1] == (key, count + 1)
    assert len(desk.log) == entries
    assert desk.queue().returned_so_far(key) == Returned(2, 2)


def test_below_the_level_nothing_is_said_in_the_log(desk, new_client) -> None:
    """What an old member could not read is not written, and who asks for it is told why."""
    desk.send(b"x")
    client = new_client()
    subscription = desk.subscribe(client=client)
    desk.turn()
    assert desk.broker.returning.due_of(subscription, 1, SILENT) is None
    with pytest.raises(LevelNotReachedError, match="returns need level 4"):
        desk.broker.returning.due_of(subscription, 1, Rejection(requeue=True))
    desk.broker.unsubscribe(subscription, ReturnCause.LOST)
    desk.broker.errands.run(lambda: False)
    desk.turn()
    assert returned(desk, 1) == NEVER
    other = new_client()
    desk.subscribe(client=other)
    desk.turn()
    assert other.counts == [(1, 2)]


def test_a_leadership_that_is_over_says_nothing(five) -> None:
    """Its clients are sent away, and did nothing wrong."""
    subscription = five.subscription
    five.broker.follow()
    five.broker.unsubscribe(subscription, ReturnCause.LOST)
    five.broker.errands.run(lambda: False)
    assert not five.broker.receipts.has_batch()


@pytest.mark.parametrize(
    ("held", "values", "failures", "dies"),
    [
        ([1, 2], '{"maximumRedeliveries":0}', 0, None),
        ([1], '{"maximumRedeliveries":0}', 0, 1),
        ([1], '{"maximumRedeliveries":1}', 0, None),
        ([1], '{"maximumRedeliveries":1}', 1, 1),
        ([1], "{}", 9, None),
        ([], '{"maximumRedeliveries":0}', 0, None),
    ],
)
def test_what_takes_its_consumers_along_is_dead_after_the_last(
    five, held, values, failures, dies
) -> None:
    """Only alone, and only where somebody says how often a message may fail."""
    said(five, values)
    for _ in range(failures):
        five.broker.receipts.record(ReturnedRecord(1, ReturnCause.LOST_ALONE, [1]))
    five.turn()
    for key in range(1, 6):
        if key not in held:
            five.broker.acknowledge(five.subscription, key, five.first, None)
    five.turn()
    assert five.broker.returning.dies_with(five.subscription) == dies


def test_a_purge_ends_what_rests_and_what_is_on_its_way(five, new_client) -> None:
    """Neither comes to life again when it is due, or when the log says it is back."""
    five.broker.give_back(five.subscription, 1, T0 + 100, five.first, None)
    five.turn()
    five.broker.unsubscribe(five.subscription, ReturnCause.LOST)
    five.broker.errands.run(lambda: False)
    five.broker.purge("orders", five.client, b"p")
    five.send(b"new")
    five.turn()
    five.broker.sending.now_microseconds = (T0 + 100) * 1000
    five.broker.wake()
    client = new_client()
    five.subscribe(client=client)
    five.turn()
    assert client.counts == [(6, 0)]


def test_what_is_settled_late_on_its_way_back_does_not_rest(five) -> None:
    """It would come again when it is due, though its acknowledgement was taken."""
    five.broker.give_back(five.subscription, 2, T0 + 1, five.first, None)
    five.seal()
    five.broker.acknowledge_identity(1, 2, five.first, None)
    five.commit()
    five.broker.sending.now_microseconds = (T0 + 1) * 1000
    five.broker.wake()
    five.dispatch()
    assert five.first.keys == [1, 2, 3, 4, 5]
    five.turn()
    assert not five.state.queues[1].index.is_live(2)


def test_what_is_on_its_way_back_comes_once_after_a_roll_back(five) -> None:
    """A transaction that would have settled it late gives it to nobody before it is there."""
    five.broker.give_back(five.subscription, 2, 0, five.first, None)
    transaction = five.broker.begin("t")
    five.broker.hold_identity(transaction, 1, 2)
    for _ in five.broker.abort(transaction):
        pass
    five.dispatch()
    assert five.first.keys == [1, 2, 3, 4, 5]
    five.turn()
    assert five.first.counts[5:] == [(2, 2)]
    five.turn()
    assert five.first.counts[5:] == [(2, 2)]


@pytest.mark.parametrize("step", ["on its way", "resting"])
@pytest.mark.parametrize("is_over", [False, True], ids=["before it is due", "after it is due"])
def test_what_a_rolled_back_late_word_held_rests_until_it_is_due(five, step, is_over) -> None:
    """Its client held it in a transaction meanwhile, and was not done with it after all."""
    five.broker.give_back(five.subscription, 2, T0 + 100, five.first, None)
    if step == "resting":
        five.turn()
    transaction = five.broker.begin("t")
    five.broker.hold_identity(transaction, 1, 2)
    five.turn()
    if is_over:
        time_is(five, T0 + 100)
    for _ in five.broker.abort(transaction):
        pass
    five.turn()
    assert five.first.counts[5:] == [(2, 2)] * is_over
    time_is(five, T0 + 100)
    assert five.first.counts[5:] == [(2, 2)]


@pytest.mark.parametrize("way", ["a new leader", "its queue built anew"])
def test_what_nobody_has_come_by_rests_though_a_late_word_is_rolled_back(
    five, new_client, way: str
) -> None:
    """The log alone says that it rests, and its leader looks there as it comes by."""
    five.broker.give_back(five.subscription, 2, T0 + 100, five.first, None)
    five.turn()
    transaction = five.broker.begin("t")
    if way == "a new leader":
        five.fail_over()
        transaction = five.broker.begin("t")
        five.broker.hold_identity(transaction, 1, 2)
    else:
        five.broker.hold_identity(transaction, 1, 2)
        five.broker.renew(five.queue(), set())
    client = new_client()
    five.subscribe(client=client)
    five.turn()
    for _ in five.broker.abort(transaction):
        pass
    five.turn()
    assert client.keys == [1, 3, 4, 5]
    time_is(five, T0 + 100)
    assert client.counts[4:] == [(2, 2)]


def test_what_a_late_word_settles_in_a_transaction_does_not_come_when_it_is_due(five) -> None:
    """Nobody has it between the COMMIT and the moment when the log says so."""
    five.broker.give_back(five.subscription, 2, T0 + 100, five.first, None)
    five.turn()
    transaction = five.broker.begin("t")
    five.broker.hold_identity(transaction, 1, 2)
    five.broker.commit(transaction, five.first, None)
    five.broker.errands.run(lambda: False)
    five.broker.sending.now_microseconds = (T0 + 100) * 1000
    five.broker.wake()
    five.dispatch()
    five.turn()
    assert five.first.keys == [1, 2, 3, 4, 5]
    assert not five.state.queues[1].index.is_live(2)


def test_what_is_on_its_way_back_once_more_does_not_come_because_it_rested_before(five) -> None:
    """A late word that is rolled back leaves it to the log when it comes, and after how long."""
    five.broker.give_back(five.subscription, 2, T0 + 100, five.first, None)
    five.turn()
    time_is(five, T0 + 100)
    assert five.first.counts[5:] == [(2, 2)]
    five.broker.give_back(five.subscription, 2, T0 + 900, five.first, None)
    transaction = five.broker.begin("t")
    five.broker.hold_identity(transaction, 1, 2)
    for _ in five.broker.abort(transaction):
        pass
    five.broker.sending.now_microseconds = (T0 + 200) * 1000
    five.broker.wake()
    five.dispatch()
    assert five.first.counts[6:] == []
    five.turn()
    assert five.first.counts[6:] == []
    time_is(five, T0 + 900)
    assert five.first.counts[6:] == [(2, 3)]


def test_what_is_on_its_way_back_is_awaited_where_its_queue_is_built_anew(five, new_client) -> None:
    """After a mistake of ours, too, nobody has it before the log says so, and before it is due."""
    five.broker.give_back(five.subscription, 2, T0 + 100, five.first, None)
    five.broker.give_back(five.subscription, 4, 0, five.first, None)
    five.seal()
    five.broker.renew(five.queue(), set())
    other = new_client()
    five.subscribe(client=other)
    five.dispatch()
    assert other.keys == []
    five.turn()
    assert other.counts == [(1, 2), (3, 2), (4, 2), (5, 2)]
    time_is(five, T0 + 100)
    assert other.counts[4:] == [(2, 2)]


def time_is(desk, now_ms: int) -> None:
    """Let what is due by then be dispatched."""
    desk.broker.sending.now_microseconds = now_ms * 1000
    desk.broker.wake()
    desk.turn()
