"""
A storm of cancelled calls against a real broker that is killed meanwhile: at the end every message
is accounted for, and nothing is left of the calls.

Every call of the client that waits is begun by many tasks and cancelled after some turns of the
loop or some microseconds. What the application then knows of a message is in its books (`Books`);
what the broker has must agree with them. What each task does depends on the seed alone; when, on
the machine. `make storm` runs 100,000 cancelled calls (CALLS=n, SEED=n).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.client import Connection, Message, Subscription, connect
from holdfast.client.producer import SingleMessage
from holdfast.client.session import ClientSession
from holdfast.client.transaction import Transaction
from holdfast.errors import RefusedError
from holdfast.testing.local_cluster import LocalNode

pytestmark = [pytest.mark.processes, pytest.mark.slow]

CALLS = int(os.environ.get("STORM_CALLS", "2500"))
SEED = int(os.environ.get("STORM_SEED", "9"))
SENDERS = 40
RECEIVERS = 10
NARROW = {
    "concurrent_sends_count_max": 20,
    "unconfirmed_bytes_max": 8_000,
    "received_bytes_max": 10_000,
}
"""Limits that the storm reaches, so that calls wait for a place and are cancelled there."""

KILLS = 1 + CALLS // 20_000
STUCK_SECONDS = 60.0
"""Nothing of what a test waits for after the storm takes this long."""


class Books:
    """What the application knows of its messages, by their numbers, and of the broker's ids."""

    def __init__(self) -> None:
        self.number = 0
        self.sure: set[int] = set()
        """Confirmed to the application."""
        self.never: set[int] = set()
        """Cancelled before they left, or rolled back."""
        self.ids: dict[int, set[str]] = defaultdict(set)
        """By which ids a number was delivered."""
        self.taken: list[Message] = []
        """What the application has had in its hands."""
        self.settled: set[str] = set()
        """Ids whose acknowledgement was confirmed."""
        self.faults: list[str] = []

    def next(self) -> int:
        self.number += 1
        return self.number

    def took(self, message: Message) -> None:
        """The application has a message in its hands."""
        self.taken.append(message)
        self.ids[int(message.text)].add(message.id)
        if message.id in self.settled:
            self.faults.append(f"{message.text} came again after its confirmed acknowledgement")

    def audit(self, left: list[Message]) -> None:
        """Compare with what the broker has left."""
        done = {int(message.text) for message in self.taken if message.is_settled}
        for message in left:
            self.took(message)
        on_queue = [int(message.text) for message in left]
        stored = set(self.ids)
        twice = [number for number, ids in self.ids.items() if len(ids) > 1]
        twice += [number for number, times in Counter(on_queue).items() if times > 1]
        assert not self.faults, self.faults[:5]
        assert not self.sure - stored, "lost"
        assert not stored - done - set(on_queue), "taken, not acknowledged, and gone"
        assert not twice, "stored twice"
        assert not self.never & stored, "stored, though it was cancelled before it left"
        assert not {number for number in stored if number > self.number}


class Storm:
    """One connection, many tasks, and their cancelled calls."""

    def __init__(self, connection: Connection, uri: str, queue: str, seed: int, calls: int) -> None:
        self.connection = connection
        self.uri = uri
        self.queue = queue
        self.seed = seed
        self.calls = calls
        self.cancelled = 0
        self.kinds: Counter[str] = Counter()
        self.books = Books()
        self.producers = [connection.producer(queue, window=20) for _ in range(4)]
        self.confirmations: list[tuple[int, asyncio.Future[None]]] = []
        self.commits: list[tuple[Transaction, list[int], list[Message]]] = []
        self.subscriptions: list[Subscription] = []

    @property
    def is_over(self) -> bool:
        return self.cancelled >= self.calls

    async def call(self, chance: random.Random, kind: str, waits: Coroutine[Any, Any, Any]) -> Any:
        """
        Begin a call, cancel it somewhere, and give its task, which is done.
        """
        task = asyncio.create_task(waits)
        moment = chance.random()
        if moment < 0.6:
            for _ in range(chance.randrange(8)):
                await asyncio.sleep(0)
        else:
            # The last of these nobody cancels.
            seconds = chance.uniform(0, 0.006) if moment < 0.9 else None
            await asyncio.wait([task], timeout=seconds)
        if task.cancel():
            self.cancelled += 1
            self.kinds[kind] += 1
            with suppress(BaseException):
                await task
        return task

    # What tasks do -------------------------------------------------------------------------------

    async def send_on(self, number: int) -> None:
        """A task that sends, alone, by producers and in transactions."""
        chance = random.Random(f"{self.seed} sender {number}")
        verbs = [self.send, self.produce, self.commit, self.wait, self.subscribe]
        while not self.is_over:
            (verb,) = chance.choices(verbs, (40, 40, 12, 10, 4))
            await verb(chance)
            if chance.random() < 0.003:
                await self.connect(chance)
            if self.connection.address is None:
                # Calls are cancelled in an outage, too, but not most of them.
                await asyncio.sleep(0.05)

    async def send(self, chance: random.Random) -> None:
        number = self.books.next()
        task = await self.call(chance, "send", self.connection.send(self.queue, str(number)))
        if not task.cancelled() and task.exception() is None:
            self.books.sure.add(number)

    async def produce(self, chance: random.Random) -> None:
        number = self.books.next()
        task = await self.call(
            chance, "producer.send", chance.choice(self.producers).send(str(number))
        )
        if task.cancelled():
            self.books.never.add(number)
            return
        confirmation = task.result()
        self.confirmations.append((number, confirmation))
        if chance.random() < 0.5:
            confirmation.cancel()

    async def commit(self, chance: random.Random, message: Message | None = None) -> None:
        transaction = self.connection.transaction()
        numbers = [self.books.next(), self.books.next()]
        for number in numbers:
            await transaction.send(self.queue, str(number))
        if message is not None:
            try:
                await transaction.acknowledge(message)
            except RefusedError:
                await transaction.roll_back()
                self.books.never.update(numbers)
                return
        covered = list(transaction._messages)
        await self.call(chance, "commit", transaction.commit())
        self.commits.append((transaction, numbers, covered))

    async def wait(self, chance: random.Random) -> None:
        flush = chance.choice(self.producers).flush
        waits = chance.choice([flush, self.connection.wait_confirmed])
        await self.call(chance, waits.__name__, waits())

    async def subscribe(self, chance: random.Random) -> None:
        subscription = self.connection.subscribe(chance.choice([self.queue, "/queue/empty"]))
        task = await self.call(chance, "open", subscription.open())
        if not task.cancelled():
            await self.call(chance, "close", subscription.close())
            subscription.abandon()

    async def connect(self, chance: random.Random) -> None:
        async def connected() -> Connection:
            return await connect(self.uri)

        task = await self.call(chance, "connect", connected())
        if not task.cancelled():
            await self.call(chance, "connection.close", task.result().close())
            await task.result().close(is_graceful=False)

    async def receive_on(self, number: int) -> None:
        """A task that takes messages and acknowledges them; every other one cumulatively."""
        chance = random.Random(f"{self.seed} receiver {number}")
        mode = "client" if number % 2 else "client-individual"
        subscription = self.connection.subscribe(self.queue, acknowledge=mode, prefetch=30)
        self.subscriptions.append(await subscription.open())
        held: list[Message] = []
        while not self.is_over:
            task = await self.call(chance, "receive", subscription.receive(0.01))
            message = None if task.cancelled() else task.result()
            if message is not None:
                self.books.took(message)
                held.append(message)
            if len(held) > chance.randrange(10):
                await self.settle(chance, held.pop(chance.randrange(len(held))), held)

    async def settle(self, chance: random.Random, message: Message, held: list[Message]) -> None:
        """Acknowledge a message, and perhaps others that are held; what is done is held no more."""
        if chance.random() < 0.1:
            await self.commit(chance, message)
        else:
            confirm = chance.random() < 0.5
            task = await self.call(chance, "acknowledge", message.acknowledge(confirm=confirm))
            is_certain = confirm and not task.cancelled() and task.exception() is None
            if is_certain:
                settled = [other.id for other in (message, *held) if other.is_settled]
                self.books.settled.update(settled)
        held[:] = [other for other in held if not other.is_settled and other.transaction is None]

    # The end -------------------------------------------------------------------------------------

    def check_cancelled(self) -> None:
        """What was cancelled waits for nothing any more, and took nothing."""
        session = self.connection._session
        waiting = (session._room, session._idle, session.loans.waiters)
        waiting += tuple(waiters for p in self.producers for waiters in (p._places, p._settled))
        assert sum(len(waiters) for waiters in waiting) == 0, "nobody is left that waits"
        known = set().union(*self.books.ids.values())
        for subscription in self.subscriptions:
            held = {*subscription._held, *subscription._survivors}
            assert held <= known, "a cancelled call took a message"

    async def settled(self) -> None:
        """Wait for the outcome of everything that was cancelled under way."""
        for transaction, numbers, messages in self.commits:
            try:
                await transaction.wait_outcome()
            except RefusedError:
                self.books.never.update(numbers)
                continue
            self.books.sure.update(numbers)
            self.books.settled.update(message.id for message in messages)
        for producer in self.producers:
            await producer.flush()
        for subscription in self.subscriptions:
            await subscription.close()
        await self.connection.wait_confirmed()
        for number, confirmation in self.confirmations:
            # Cancelled or not: it was on its way, and nothing was refused.
            assert confirmation.done()
            self.books.sure.add(number)


async def outage(storm: Storm, node: LocalNode) -> None:
    """The broker is killed and comes back, in the middle of it all."""
    for kill in range(KILLS):
        while storm.cancelled < storm.calls * (kill + 1) // (KILLS + 1):
            await asyncio.sleep(0.01)
        await asyncio.to_thread(node.kill)
        node.start()
        while storm.connection.address is None:
            await asyncio.sleep(0.01)


def check_books_of(session: ClientSession) -> None:
    """Nothing of all the calls is left in the client."""
    assert len(session.outstanding) == 0
    assert session.outstanding.bytes == 0
    assert session.loans.busy_count == 0
    assert not session.subscribers, "still subscribed"
    assert session.buffered_bytes == 0
    assert session.overflow.count == 0


async def rage(uri: str, node: LocalNode | None, queue: str, seed: int, calls: int) -> Storm:
    """A whole storm, its end, and the audit of its books."""
    connection = await connect(uri, **NARROW)
    try:
        storm = Storm(connection, uri, queue, seed, calls)
        async with asyncio.timeout(STUCK_SECONDS + calls / 500), asyncio.TaskGroup() as group:
            for number in range(SENDERS):
                group.create_task(storm.send_on(number))
            for number in range(RECEIVERS):
                group.create_task(storm.receive_on(number))
            if node is not None:
                group.create_task(outage(storm, node))
        storm.check_cancelled()
        async with asyncio.timeout(STUCK_SECONDS):
            await storm.settled()
            check_books_of(connection._session)
            await connection.close()
            assert len(connection._session.settlements) == 0
            storm.books.audit(await left_on(uri, queue))
    finally:
        await connection.close(is_graceful=False)
    return storm


async def left_on(uri: str, queue: str) -> list[Message]:
    """What nobody has acknowledged."""
    async with connect(uri) as connection, connection.subscribe(queue, prefetch=5000) as rest:
        await connection.send(queue, "end")
        left = []
        while (message := await anext(rest)).text != "end":
            left.append(message)
            await message.acknowledge()
        await message.acknowledge(confirm=True)
        return left


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def live_objects() -> Counter[str]:
    """How many objects of asyncio and of the client there are."""
    gc.collect()
    kinds = (asyncio.Future, asyncio.Task, Message, Connection, Transaction, Subscription)
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, kinds))


@pytest.fixture(autouse=True)
def quiet(caplog) -> None:
    """What is logged is kept by pytest, with the errors and all that their tracebacks hold."""
    caplog.set_level(logging.CRITICAL, "holdfast.client")


def test_a_storm_of_cancelled_calls(start_cluster) -> None:
    """
    Nothing is lost, doubled, stuck or leaked, though nearly every call is cancelled and the broker
    is killed: what was confirmed is there once, what was given up before it left is not.
    """
    cluster = start_cluster("single")
    node = cluster.leader()

    async def scenario() -> None:
        await rage(cluster.uri, None, "/queue/first", SEED, CALLS // 10)
        before, descriptors, blocks = live_objects(), open_descriptors(), sys.getallocatedblocks()
        storm = await rage(cluster.uri, node, "/queue/storm", SEED + 1, CALLS)
        assert len(storm.kinds) >= 9, storm.kinds
        assert storm.books.sure
        assert storm.books.settled
        del storm
        assert live_objects() == before
        assert open_descriptors() == descriptors
        assert asyncio.all_tasks() == {asyncio.current_task()}
        grown = sys.getallocatedblocks() - blocks
        assert grown < 2_000 + CALLS / 50, f"{grown:,} blocks of memory more than before"

    asyncio.run(scenario())


# Without a safeguard -----------------------------------------------------------------------------


async def take_and_wait(self: Subscription, seconds: float | None = None) -> Message | None:
    """A turn of the loop between the taking and the return, in which it may be cancelled."""
    message = await receive(self, seconds)
    await asyncio.sleep(0)
    return message


async def commit_or_forget(self: Transaction) -> None:
    """Who is cancelled believes that nothing was done."""
    try:
        await commit(self)
    except asyncio.CancelledError:
        self._state, self._commit = "rolled back", None
        raise


async def send_again(self: Connection, destination: str, body: str) -> None:
    """Who is cancelled has it sent once more."""
    try:
        await send(self, destination, body)
    except asyncio.CancelledError:
        self._session.loop.create_task(send(self, destination, body))
        raise


def give_number_back(self: SingleMessage, receipt: str) -> None:
    """If nobody waits for it any more, its number is free for the next."""
    if self.outcome.cancelled() and self.sequence is not None:
        self.sequence.last -= 1
    received(self, receipt)


def keep_subscription(self: Subscription) -> None:
    """Cancelled while it was opened, it stays open."""


receive, commit = Subscription.receive, Transaction.commit
send, received = Connection.send, SingleMessage.received

ABLATIONS = [
    (Subscription, "receive", take_and_wait, "took a message"),
    (Transaction, "commit", commit_or_forget, "and gone|stored, though"),
    (Connection, "send", send_again, "stored twice|nobody is left"),
    (SingleMessage, "received", give_number_back, "lost"),
    (Subscription, "abandon", keep_subscription, "still subscribed"),
]


def test_the_storm_notices_what_goes_wrong(start_cluster, monkeypatch) -> None:
    """
    One safeguard is taken away at a time: the books, or what is left over, must show each.

    Which call is cancelled where is a matter of timing, so each has three storms to be seen in.
    """
    cluster = start_cluster("single")
    for owner, name, instead, noticed in ABLATIONS:
        with monkeypatch.context() as without:
            without.setattr(owner, name, instead)
            with pytest.raises(AssertionError, match=noticed):
                for number in range(3):
                    queue = f"/queue/{instead.__name__}-{number}"
                    asyncio.run(rage(cluster.uri, None, queue, SEED + number, 500))
