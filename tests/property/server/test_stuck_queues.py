"""
Whatever some clients leave undone, a queue goes on for everybody else.

Clients consume, settle in transactions, unsubscribe, commit, abort, go, and cease to read their
answers at any moment, for good or for a while. What is in delivery to one of them, or settled in a
transaction that is open, is its own; everything else is delivered to whoever asks.
"""

from __future__ import annotations

from random import Random

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.server.connection import ClientConnection
from holdfast.server.settings import ServerSettings
from tests.unit.server.conftest import Node

STEPS = 150
QUEUES = ("a", "b")


class Client:
    """A connection that consumes from both queues, and may be deaf."""

    def __init__(self, node: Node) -> None:
        self.connection: ClientConnection = node.connect()
        self.transport = self.connection.transport
        self.count = 0
        self.subscriptions: set[str] = set()
        self.transaction = ""
        self.held: list[str] = []
        self.bodies: list[str] = []

    def say(self, *lines: str, body: str = "") -> None:
        self.connection.data_received("\n".join((*lines, "", body)).encode() + b"\0")

    def hear(self) -> None:
        """Take what came, if it reads at all."""
        if self.connection.is_output_full:
            return
        for frame in self.transport.take().decode().split("\0"):  # type: ignore[attr-defined]
            head, _, body = frame.lstrip("\n").partition("\n\n")
            if head.startswith("MESSAGE\n"):
                self.bodies.append(body)
                self.held += [line[4:] for line in head.split("\n") if line.startswith("ack:")]

    def subscribe(self, queue: str, prefetch: int) -> None:
        self.count += 1
        name = f"s{self.count}"
        self.subscriptions.add(name)
        headers = ("ack:client-individual", f"activemq.prefetchSize:{prefetch}")
        self.say("SUBSCRIBE", f"id:{name}", f"destination:/queue/{queue}", *headers)

    def settle_some(self, chance: Random) -> None:
        """Acknowledge some of what it has in a transaction, which is begun for that."""
        if not self.transaction:
            self.count += 1
            self.transaction = f"t{self.count}"
            self.say("BEGIN", f"transaction:{self.transaction}")
        for each in chance.sample(self.held, chance.randint(0, len(self.held))):
            self.held.remove(each)
            self.say("ACK", f"id:{each}", f"transaction:{self.transaction}")

    def unsubscribe(self, chance: Random) -> None:
        name = chance.choice(sorted(self.subscriptions))
        self.subscriptions.remove(name)
        self.say("UNSUBSCRIBE", f"id:{name}")

    def end(self, how: str) -> None:
        self.say(how, f"transaction:{self.transaction}", "receipt:r")
        self.transaction = ""

    def grow_deaf(self) -> None:
        self.connection.pause_writing()
        self.transport.unsent = 3 << 20  # type: ignore[attr-defined]

    def read_again(self) -> None:
        self.transport.unsent = 0  # type: ignore[attr-defined]
        self.connection.resume_writing()


class World:
    """A node whose slices are of no length, and clients of which some do not read."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.node = Node(BrokerSettings(step_count_max=2), ServerSettings(slice_seconds=0.0))
        self.node.serve()
        self.clients: list[Client] = []
        self.count = 0

    def act(self) -> None:
        chance = self.chance
        if len(self.clients) < 3:
            self.clients.append(Client(self.node))
        client = chance.choice(self.clients)
        kind = chance.randrange(10)
        if kind < 3:
            for _ in range(chance.randint(1, 5)):
                self.count += 1
                headers = (f"destination:/queue/{chance.choice(QUEUES)}", "persistent:true")
                client.say("SEND", *headers, body=f"m{self.count}")
        elif kind < 5:
            client.subscribe(chance.choice(QUEUES), chance.choice((3, 100)))
        elif kind < 7:
            client.settle_some(chance)
        elif kind < 9 and client.transaction:
            while client.subscriptions and chance.random() < 0.7:
                client.unsubscribe(chance)
            client.end(chance.choice(("ABORT", "ABORT", "COMMIT")))
            if chance.random() < 0.5:
                for _ in range(chance.randint(0, 40)):
                    if client.connection.session.holdings.rollback is None:
                        self.pass_time(1)
                client.grow_deaf()
        elif client.connection.is_output_full:
            client.read_again()
        else:
            client.connection.connection_lost(None)
            self.clients.remove(client)

    def pass_time(self, turns: int) -> None:
        for _ in range(turns):
            self.node.clock.now += 0.01
            self.node.store.commit_all()
            self.node.turn()
        for client in self.clients:
            client.hear()

    def is_somebodys_own(self) -> set[tuple[str, int]]:
        """Tell what is in delivery, or settled in a transaction that is open: queue and key."""
        own: set[tuple[str, int]] = set()
        for client in self.clients:
            session = client.connection.session
            for one in session.subscriptions.values():
                assert one.queue is not None
                own.update((one.queue.name, key) for key in one.unacknowledged)
            for transaction in session.transactions.values():
                for one, keys in transaction.settlements.items():
                    assert one.queue is not None
                    own.update((one.queue.name, key) for key in keys)
        return own


@pytest.mark.parametrize("seed", range(40))
def test_what_is_nobodys_is_delivered(seed: int) -> None:
    """
    Also where a client that reads nothing had asked for it to be given back.
    """
    world = World(seed)
    for _ in range(STEPS):
        world.act()
        world.pass_time(world.chance.randint(0, 4))
    for client in world.clients:
        for name in sorted(client.subscriptions):
            client.say("UNSUBSCRIBE", f"id:{name}")
    world.pass_time(500)
    last = Client(world.node)
    own = world.is_somebodys_own()
    for queue in QUEUES:
        last.subscribe(queue, 60_000)
    for _ in range(10):
        world.pass_time(100)
        last.hear()
    state = world.node.broker.state
    nobodys = [
        (queue.name, key)
        for queue in state.queues.values()
        for key in queue.index.sequences(1, queue.index.last() + 1)
        if (queue.name, key) not in own
    ]
    assert len(last.bodies) == len(set(last.bodies)) == len(nobodys)
    leadership = world.node.broker.destinations.leadership
    assert not any(queue.is_held for queue in leadership.by_name.values())
