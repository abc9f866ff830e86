"""
Temporary destinations: made by their owner, gone with it, never more than there may be.
"""

from __future__ import annotations

import pytest

from holdfast.broker.flow_control import require_room
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.temporaries import Temporaries
from holdfast.errors import DestinationError
from tests.unit.broker.served import served


def served_temporary(name: str) -> Queue:
    return served(0, name)


def test_only_the_owner_makes_them_and_they_go_with_it() -> None:
    """
    Somebody who knows the name may use it as long as its connection is there.
    """
    temporaries = Temporaries(9, served_temporary)
    owner, other = object(), object()
    queue = temporaries.queue("q", owner)
    topic = temporaries.topic("t", owner)
    kept = temporaries.queue("kept", other)
    assert (temporaries.queue("q"), temporaries.topic("t")) == (queue, topic)
    assert temporaries.count_of(owner) == 2
    assert list(temporaries.drop(owner)) == [None, queue]
    assert temporaries.count_of(owner) == 0
    assert (queue.is_deleted, topic.is_deleted, kept.is_deleted) == (True, True, False)
    for find, name in ((temporaries.queue, "q"), (temporaries.topic, "t")):
        with pytest.raises(DestinationError, match="does not exist any more"):
            find(name)


def test_one_too_many_is_refused() -> None:
    """
    Those that exist are found at the limit too.
    """
    temporaries = Temporaries(1, served_temporary)
    owner = object()
    temporaries.queue("q", owner)
    assert temporaries.queue("q", owner).name == "q"
    with pytest.raises(DestinationError, match="at most 1"):
        temporaries.queue("r", owner)
    require_room(0, 1, "things")
    with pytest.raises(DestinationError, match="there are 1 things already; at most 1"):
        require_room(1, 1, "things")


class Waiting:
    """Temporaries of which those that are lost are waited for, and a clock."""

    def __init__(self, count_max: int = 9) -> None:
        self.now_ms = 0
        self.emptied: list[Queue] = []
        self.temporaries = Temporaries(
            count_max,
            served_temporary,
            orphan_ms=60_000,
            elapsed_ms=lambda: self.now_ms,
            empty=self.emptied.append,
        )
        self.temporaries.lead()

    def lose(self, owner: object) -> None:
        for _ in self.temporaries.abandon(owner):
            pass

    def pass_time(self, now_ms: int) -> None:
        self.now_ms = now_ms
        for _ in self.temporaries.drop_orphans():
            pass


def test_a_client_that_comes_back_finds_its_own_again() -> None:
    """
    The same queue, with what was sent there meanwhile; to anybody else it is another client's.
    """
    waiting = Waiting()
    temporaries = waiting.temporaries
    first, second = object(), object()
    queue = temporaries.queue("ann.q", first, "client-id ann")
    topic = temporaries.topic("ann.t", first, "client-id ann")
    waiting.lose(first)
    assert (temporaries.count_of(first), temporaries.has_orphans) == (0, True)
    waiting.pass_time(59_999)
    assert temporaries.queue("ann.q") is queue
    with pytest.raises(DestinationError, match="belongs to another client"):
        temporaries.queue("ann.q", object(), "client-id bob")
    assert temporaries.queue("ann.q", second, "client-id ann") is queue
    assert temporaries.topic("ann.t", second, "client-id ann") is topic
    assert (temporaries.count_of(second), temporaries.has_orphans) == (2, False)
    waiting.pass_time(10**9)
    assert not (queue.is_deleted or topic.is_deleted or waiting.emptied)
    assert set(temporaries.drop(second)) == {queue, None}


def test_who_does_not_come_back_in_time_loses_them() -> None:
    """
    What was on the queue is let go of, and what is sent there then is refused.
    """
    waiting = Waiting()
    temporaries = waiting.temporaries
    owner = object()
    queue = temporaries.queue("ann.q", owner, "client-id ann")
    temporaries.topic("ann.t", owner, "client-id ann")
    waiting.pass_time(5_000)
    waiting.lose(owner)
    waiting.pass_time(65_000)
    assert (waiting.emptied, temporaries.has_orphans) == ([queue], False)
    assert queue.is_deleted
    for find, name in ((temporaries.queue, "ann.q"), (temporaries.topic, "ann.t")):
        with pytest.raises(DestinationError, match="does not exist any more"):
            find(name)


def test_the_old_connection_of_a_client_that_is_back_keeps_nothing() -> None:
    """
    It is lost, and what it held is given back step by step; its destinations are the new one's.
    """
    waiting = Waiting()
    temporaries = waiting.temporaries
    old, new = object(), object()
    queue = temporaries.queue("ann.q", old, "client-id ann")
    assert temporaries.queue("ann.q", new, "client-id ann") is queue
    waiting.lose(old)
    assert (temporaries.count_of(new), temporaries.has_orphans) == (1, False)


def test_those_that_are_waited_for_make_room_oldest_first() -> None:
    """
    Nobody is kept out by who is gone; what belongs to somebody stays.
    """
    waiting = Waiting(count_max=2)
    temporaries = waiting.temporaries
    for name in ("ann.q", "bob.q"):
        owner = object()
        temporaries.queue(name, owner, name)
        waiting.lose(owner)
        waiting.now_ms += 1
    third, fourth = object(), object()
    temporaries.queue("cat.q", third)
    assert [queue.name for queue in waiting.emptied] == ["ann.q"]
    temporaries.queue("dan.q", fourth)
    assert sorted(temporaries.queues) == ["cat.q", "dan.q"]
    with pytest.raises(DestinationError, match="at most 2"):
        temporaries.queue("eve.q", object())


@pytest.mark.parametrize("name", ["gone", "n1-1-1.q", ".q", "a b.q", "~12.q", "a,b.q"])
def test_a_new_leader_refuses_addresses_that_nobody_comes_back_to(name: str) -> None:
    """
    Those of a connection are gone with it, and what is none is none.
    """
    with pytest.raises(DestinationError, match="does not exist any more"):
        Waiting().temporaries.queue(name)


@pytest.mark.parametrize("address", ["ann", "ID%3Aann%2E1", "ann-1%2D1", "~" + "0f" * 16])
def test_a_new_leader_keeps_answers_for_clients_on_their_way(address: str) -> None:
    """
    A moment later the client is there and finds them; a minute later nobody does any more.
    """
    waiting = Waiting()
    temporaries = waiting.temporaries
    waiting.pass_time(59_999)
    early = temporaries.queue(f"{address}.q")
    never = temporaries.queue(f"{address}.never")
    waiting.pass_time(60_000)
    with pytest.raises(DestinationError, match="does not exist any more"):
        temporaries.queue(f"{address}.late")
    assert temporaries.queue(f"{address}.q", object(), "whoever it is") is early
    waiting.pass_time(119_999)
    assert waiting.emptied == [never]
