"""
Joining and leaving what a subscription's wildcards mean, in steps.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.broker.durables import Wanted
from holdfast.broker.serving.bundle import Bundle, Strand
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.durable import DurableQueue
from holdfast.errors import DestinationError
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import ReturnCause
from holdfast.model.wildcards import parse_pattern


class Client:
    """Whose subscription it is; counts what it is told."""

    def __init__(self, *, room: int = 1000) -> None:
        self.room_bytes = 1 << 20
        self.room = room
        self.open: dict[Strand, None] = {}
        self.told: list[str] = []

    def strand(self, bundle, destination, *, is_wild: bool) -> Strand:
        if len(self.open) >= self.room:
            raise DestinationError("no more of them")
        strand = Strand(bundle, destination=destination.name, is_wild=is_wild)
        strand.ordinal = len(self.open) + 1
        self.open[strand] = None
        return strand

    def opened(self, strand: Strand) -> None:
        assert strand.queue is not None

    def gone(self, strand: Strand) -> None:
        del self.open[strand]

    def joined(self, bundle) -> None:
        self.told.append("joined")

    def failed(self, bundle, error) -> None:
        self.told.append(str(error))


def subscribed(desk, client: Client, pattern: str) -> Bundle:
    bundle = Bundle(
        client,
        "s",
        mode=AcknowledgeMode.CLIENT,
        prefetch=100,
        destination=pattern,
        client="",
        patterns=[parse_pattern(pattern)],
        stirring=desk.broker.destinations.leadership.stirring,
    )
    desk.broker.subscribe_to_several(bundle, (), client)
    return bundle


def steps(desk) -> int:
    """Run what is under way, one step at a time."""
    count = 0
    while desk.broker.errands:
        desk.broker.errands.run(lambda: True)
        count += 1
    return count


def test_many_queues_are_joined_and_left_in_steps(desk) -> None:
    """
    So that none of them takes long; whoever subscribes is told when all that was there is joined.
    """
    for number in range(300):
        desk.queue(f"A.{number}")
        desk.queue(f"B.{number}")
    client = Client()
    bundle = subscribed(desk, client, "queue://A.*")
    assert client.told == []
    assert len(client.open) < 20
    desk.queue("A.during")
    assert steps(desk) > 50
    assert client.told == ["joined"]
    assert {it.name for it in bundle.strands} == {"A.during", *(f"A.{n}" for n in range(300))}
    desk.broker.unsubscribe(bundle)
    assert len(client.open) > 280
    assert steps(desk) > 50
    assert client.open == {}
    assert desk.broker.flow.subscription_count == desk.broker.flow.subscription_bytes == 0
    assert not any(desk.queue(f"A.{n}").subscriptions for n in range(300))


def test_who_goes_while_it_is_joining_joins_nothing_more(desk) -> None:
    """
    And is not told that it has.
    """
    for number in range(300):
        desk.queue(f"A.{number}")
    client = Client()
    bundle = subscribed(desk, client, "queue://A.*")
    desk.broker.unsubscribe(bundle)
    steps(desk)
    assert client.told == []
    assert client.open == {}
    assert desk.broker.flow.subscription_count == 0


def test_the_brokers_own_queues_are_nobodys_by_a_wildcard(desk) -> None:
    """
    What is scheduled is not anybody's before its time.
    """
    desk.queue("$before")
    client = Client()
    subscribed(desk, client, "queue://>")
    desk.queue("$after")
    desk.queue("other")
    steps(desk)
    assert [it.destination for it in client.open] == ["other"]


def test_temporary_queues_are_nobodys_by_a_wildcard(desk) -> None:
    """
    They belong to their connection.
    """
    desk.broker.temporaries.queue("T.1", owner=object())
    client = Client()
    subscribed(desk, client, "queue://T.>")
    steps(desk)
    desk.broker.temporaries.queue("T.2", owner=object())
    steps(desk)
    assert client.open == {}


def taken_up(desk, client: Client) -> tuple[Bundle, DurableQueue]:
    """Consume from a durable subscription of a wildcard."""
    desk.broker.state.format_level = NEWEST_LEVEL
    durable = desk.broker.durables.open(Wanted("a.*", "c", "n"))
    bundle = Bundle(
        client,
        "s",
        mode=AcknowledgeMode.CLIENT,
        prefetch=100,
        destination="a.*",
        client="",
        patterns=(),
        stirring=desk.broker.destinations.leadership.stirring,
    )
    desk.broker.bundling.take_up(bundle, durable, client)
    return bundle, durable


def test_the_parts_of_a_durable_subscription_are_taken_up_and_left_in_steps(desk) -> None:
    """
    It has a consumer from the first step of the one to the last of the other.
    """
    client = Client()
    _, durable = taken_up(desk, client)
    stored = desk.broker.destinations.stored
    for number in range(300):
        stored.topic(f"a.{number}")
    steps(desk)
    assert client.told == ["joined"] and len(client.open) == 301, "joined as they come"
    desk.turn()
    (bundle,) = {it.whole for it in client.open}
    for _ in desk.broker.left(bundle, ReturnCause.LOST):
        assert durable.subscriptions
    assert not durable.subscriptions and client.open == {}
    again = Client()
    bundle, durable = taken_up(desk, again)
    assert durable.subscriptions and len(again.open) < 20 and again.told == []
    assert steps(desk) > 50
    assert again.told == ["joined"] and len(again.open) == 301
    desk.broker.unsubscribe(bundle)
    assert durable.subscriptions and len(again.open) > 280
    assert steps(desk) > 50
    assert not durable.subscriptions and desk.broker.flow.subscription_count == 0


def test_a_part_that_cannot_be_joined_ends_the_subscription_of_who_consumes(desk) -> None:
    """
    Not the send by which it came; and where the first cannot be, nothing of it stays.
    """
    client = Client(room=2)
    bundle, _ = taken_up(desk, client)
    stored = desk.broker.destinations.stored
    assert stored.topic("a.1") is not None and stored.topic("a.2") is not None
    assert client.told == ["joined"]
    steps(desk)
    assert client.told == ["joined", "no more of them"]
    desk.broker.unsubscribe(bundle)
    steps(desk)
    desk.broker.durables.remove(desk.broker.durables.find(("c", "n")))
    desk.turn()
    with pytest.raises(DestinationError, match="no more of them"):
        taken_up(desk, Client(room=0))
    assert desk.broker.flow.subscription_count == 0


def test_what_cannot_be_joined_is_told(desk) -> None:
    """
    At once, or when it comes.
    """
    desk.queue("A.1")
    client = Client(room=1)
    bundle = subscribed(desk, client, "queue://A.*")
    desk.queue("A.2")
    assert client.told == ["joined", "no more of them"]
    assert len(bundle.strands) == 1
    other = Client(room=0)
    subscribed(desk, other, "queue://A.1")
    assert other.told == ["no more of them"]


@pytest.mark.parametrize("count", [1, 2])
def test_only_what_alone_was_lost_with_its_consumer_is_blamed(desk, count: int) -> None:
    """
    Alone means: on the whole subscription, not on its queue.
    """
    client = Client()
    bundle = subscribed(desk, client, "queue://A.*")
    causes = []
    for number in range(count):
        strand = bundle.strands.get(desk.queue(f"A.{number}"))
        assert strand is not None
        strand.unacknowledged[1] = None
    desk.broker.routing = None  # It is bound where it is needed.
    desk.broker.bundling._routing = SimpleNamespace(close=lambda _, cause: causes.append(cause))
    desk.broker.unsubscribe(bundle, ReturnCause.LOST)
    alone = ReturnCause.LOST_ALONE if count == 1 else ReturnCause.LOST
    assert causes == [alone] * count


def test_all_who_look_through_the_names_have_one_list_of_them(desk) -> None:
    """
    However many subscribe at once: what comes meanwhile is found by all, and nothing is left over.
    """
    for number in range(3000):
        desk.queue(f"L.{number}")
    bundling = desk.broker.bundling
    clients = [Client() for _ in range(20)]
    bundles = []
    for number, client in enumerate(clients):
        bundles.append(subscribed(desk, client, "queue://*.new.*"))
        desk.queue(f"L.new.{number}")
    assert len(bundling._names) == 1
    assert len(next(iter(bundling._names.values()))) == 3000 + len(clients)
    steps(desk)
    assert [len(it.strands) for it in bundles] == [len(clients)] * len(clients)
    assert [it.told for it in clients] == [["joined"]] * len(clients)
    assert len(bundling._names) == 0


def test_a_burst_of_new_queues_is_joined_one_by_one(desk) -> None:
    """
    However many subscribe to what comes: whom it concerns is not kept for each of them at once.
    """
    clients = [Client() for _ in range(50)]
    bundles = [subscribed(desk, client, "queue://A.*") for client in clients]
    for number in range(40):
        desk.queue(f"A.{number}")
    assert len(desk.broker.errands.under_way) == 1
    desk.broker.unsubscribe(bundles[0])
    assert steps(desk) > 300
    assert [len(it.strands) for it in bundles] == [0] + [40] * 49
    assert all(len(desk.queue(f"A.{number}").subscriptions) == 49 for number in range(40))


def test_a_burst_of_new_queues_for_few_is_joined_in_steps(desk) -> None:
    """
    One queue at a time, though none of them takes a step of its own.
    """
    many = [Client() for _ in range(5)]
    for each in many:
        subscribed(desk, each, "queue://B.first")
    client = Client()
    subscribed(desk, client, "queue://B.*")
    for name in ("first", *map(str, range(30))):
        desk.queue(f"B.{name}")
    assert steps(desk) >= 30
    assert len(client.open) == 31
