"""
What operators ask holds nobody up: queues at their limit are emptied in slices, on every node.

As in test_turn_budget the slices are of no length, so each turn does one step of each kind of work.
"""

from __future__ import annotations

import itertools

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import DeleteQueueRecord, MessageRecord, PurgeRecord, QueueRecord
from holdfast.server.settings import ServerSettings

STEP = BrokerSettings().step_count_max


def turn(node) -> None:
    node.clock.now += 0.02
    node.store.commit_all()
    node.turn()


def filled(node, send, count: int):
    """A client that has stored so many messages, all in memory."""
    client = node.connect(b"".join(send(b"x") for _ in range(count)))
    node.turns_until(lambda: node.broker.state.live_count() == count)
    node.turns_until(lambda: client.transport.written.count(b"RECEIPT") == count)
    return client


def freed_by_turn(node) -> list[int]:
    """Turn until nothing is left to free; give how many contents went in each turn."""
    discards = node.broker.flow.discards
    seen = []
    while discards:
        before = len(list(discards.contents()))
        turn(node)
        seen.append(before - len(list(discards.contents())))
    return seen


@pytest.mark.parametrize("operation", ["purge", "delete"])
def test_a_full_queue_is_emptied_at_once_and_freed_in_slices(hasty, send, operation) -> None:
    """
    540,000 messages held the loop for 200 to 336 ms. What comes after the request stays.
    """
    count = 5 * STEP
    client = filled(hasty, send, count)
    state = hasty.broker.state
    getattr(hasty.broker, operation)("q", client.session, b"done")
    client.data_received(send(b"new", b"n"))
    hasty.turns_until(lambda: b"receipt-id:n" in client.transport.written)
    assert b"receipt-id:done" in client.transport.written
    assert state.live_count() == 1
    assert hasty.broker.flow.memory_bytes > count * hasty.broker.flow.overhead // 2
    seen = freed_by_turn(hasty)
    assert max(seen) <= STEP
    assert len(seen) >= 4
    assert (
        hasty.broker.flow.overhead < hasty.broker.flow.memory_bytes < 2 * hasty.broker.flow.overhead
    )
    consumer = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\n\n\0")
    hasty.turns_until(lambda: b"MESSAGE" in consumer.transport.written)
    assert consumer.transport.written.count(b"MESSAGE") == 1
    assert b"\n\nnew\0" in consumer.transport.written


@pytest.mark.parametrize("record", [PurgeRecord(1, 5 * STEP * 512), DeleteQueueRecord(1)])
def test_a_follower_lets_go_of_a_long_index_in_slices(new_node, record) -> None:
    """
    Ten million messages are twenty thousand chunks of arrays.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0))
    far_apart = [MessageRecord(1, each * 512, b"", b"x", 1) for each in range(1, 5 * STEP)]
    node.store.append([QueueRecord(1, "q"), *far_apart], 0.0, 1)
    node.turns_until(lambda: node.store.whole_index == 1)
    chunks = node.broker.state.queues[1].index.chunks
    assert len(chunks) == 5 * STEP - 1
    node.store.append([record], 0.0, 1)
    seen = [len(chunks)]
    while chunks:
        turn(node)
        seen.append(len(chunks))
    assert node.broker.state.live_count() == 0
    assert max(before - after for before, after in itertools.pairwise(seen)) <= STEP


def test_a_purge_forgets_what_was_given_back_in_slices(hasty, send) -> None:
    """
    What the leader knew of each message goes with them: none of it is left, none is looked at.
    """
    count = 5 * STEP
    filled(hasty, send, count)
    leaver = hasty.connect(b"SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client\n\n\0")
    hasty.turns_until(lambda: leaver.transport.written.count(b"MESSAGE") == count)
    leaver.connection_lost(None)
    queue = hasty.broker.queue("q")
    hasty.turns_until(lambda: len(queue.choice.returned) == count)
    known = (queue.choice.returned.stored, queue.custody.redelivered)
    hasty.broker.purge("q", leaver.session, b"p")
    assert [len(each) for each in known] == [count] * 2
    seen = [sum(map(len, known))]
    while seen[-1]:
        turn(hasty)
        seen.append(sum(map(len, known)))
    assert max(before - after for before, after in itertools.pairwise(seen)) <= STEP
    assert not (queue.choice.returned or queue.custody.redelivered)


def test_who_has_many_temporary_queues_leaves_in_slices(hasty) -> None:
    """
    And nobody looks through those of others: ten thousand connections with one each were looked
    through ten thousand times.
    """
    count = 5 * STEP
    temporaries = hasty.broker.temporaries
    owner = hasty.connect(
        b"".join(b"SEND\ndestination:/temp-queue/%d\n\nx\0" % each for each in range(count))
    )
    hasty.turns_until(lambda: len(temporaries.queues) == count)
    other = hasty.connect(b"SEND\ndestination:/temp-queue/kept\n\nx\0")
    owner.connection_lost(None)
    seen = [len(temporaries.queues)]
    while seen[-1] > 1:
        turn(hasty)
        seen.append(len(temporaries.queues))
    # The first step is done as it leaves, and one of its errand in the same turn.
    assert max(before - after for before, after in itertools.pairwise(seen)) <= 2 * STEP
    assert [queue.owner for queue in temporaries.queues.values()] == [other.session]
    freed_by_turn(hasty)
    assert hasty.broker.flow.volatile_bytes == 1 + hasty.broker.flow.overhead


def test_a_deposed_leader_counts_what_it_had_not_freed_yet(hasty) -> None:
    """
    The memory of a purge that is being freed when the leadership ends was counted for ever.
    """
    count = 5 * STEP
    client = hasty.connect(b"SEND\ndestination:/queue/q\n\nx\0" * count)
    hasty.turns_until(lambda: not hasty.conductor.clients.ready)
    hasty.broker.purge("q", client.session, b"p")
    turn(hasty)
    assert hasty.broker.flow.discards
    hasty.store.is_serving = hasty.store.is_leader = False
    hasty.turns_until(lambda: not hasty.broker.flow.discards)
    assert hasty.broker.flow.memory_bytes == 0
    assert hasty.broker.flow.volatile_bytes == 0


def test_a_replica_that_begins_anew_drops_its_old_state_in_slices(new_node) -> None:
    """
    All of its queues and messages at once took as long as they are many.
    """
    node = new_node(settings=ServerSettings(slice_seconds=0.0))
    count = 5 * STEP
    node.store.append([QueueRecord(each, f"q{each}") for each in range(1, count)], 0.0, 1)
    node.turns_until(lambda: node.store.whole_index == 1)
    old = node.broker.state.queues
    node.store.begun_anew = True
    turn(node)
    assert not node.broker.state.queues
    seen = [len(old)]
    while old:
        turn(node)
        seen.append(len(old))
    assert max(before - after for before, after in itertools.pairwise(seen)) <= STEP
