"""
The worker over our own client library: everything that the library promises, used at once.

Producers with a window of numbered messages, transactions, relays that take and send in one
transaction, consumers that acknowledge one by one or cumulatively. Each consumer and each relay has
a connection of its own, so that its death gives back what it holds.

Invariants:
    A line stands in the history before the library hears of the deed.
    What a consumer holds it settles, or the end of its connection gives it back.

One event loop, in the main thread.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal, TypeAlias

from holdfast.client import Connection, Message, Subscription, connect
from holdfast.errors import HoldfastError, RefusedError
from trials.chaos.history import DEAD_LETTERS, GROUPED, SCHEDULED, HistoryFile, make_body
from trials.chaos.worker import DELAY_MS_MAX, TRANSACTION_COUNT_MAX, Signals, WorkerSettings

_Mode: TypeAlias = Literal["client", "client-individual"]

_POLL_SECONDS = 0.05
_BATCH_COUNT = 10
_RELAY_TRIES_MAX = 5
_HEART_BEAT_SECONDS = 1.0
_GROUPS_EACH = 7
"""So many groups does each producer of groups send to, in turn."""


def run(settings: WorkerSettings, history: HistoryFile, signals: Signals) -> None:
    """Work until told to end."""
    asyncio.run(_Worker(settings, history, signals).run())


def _dressed(name: str, sequence: int, queue: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a message of a queue is sent with, for the history and for the library."""
    if queue == GROUPED:
        group = f"{name}/{sequence % _GROUPS_EACH}"
        return {"g": group}, {"group": group}
    if queue == SCHEDULED:
        delay_ms = 1 + zlib.crc32(b"%b %d" % (name.encode(), sequence)) % DELAY_MS_MAX
        return {"d": delay_ms}, {"delay": delay_ms / 1000}
    return {}, {}


class _Worker:
    def __init__(self, settings: WorkerSettings, history: HistoryFile, signals: Signals) -> None:
        self.settings = settings
        self.history = history
        self.signals = signals
        inner = ",".join(f"stomp://{broker}" for broker in settings.brokers)
        self.uri = f"failover:({inner})?{settings.failover_options}"
        self._units = 0

    async def run(self) -> None:
        settings = self.settings
        async with asyncio.TaskGroup() as group:
            group.create_task(self._produce_all())
            for number in range(settings.relays):
                group.create_task(self._guarded(self._relay(f"r{number}")))
            queues = [settings.queues[n % len(settings.queues)] for n in range(settings.consumers)]
            for number, queue in enumerate(queues):
                mode: _Mode = "client" if number % 2 else "client-individual"
                group.create_task(self._guarded(self._consume(f"c{number}", queue, mode)))
            for number in range(settings.group_consumers):
                task = self._consume(f"g{number}", GROUPED, "client-individual")
                group.create_task(self._guarded(task))
            for number in range(settings.schedule_consumers):
                task = self._consume(f"d{number}", SCHEDULED, "client-individual")
                group.create_task(self._guarded(task))
            if settings.dead_letters:
                task = self._consume("dead", DEAD_LETTERS, "client-individual")
                group.create_task(self._guarded(task))

    async def _guarded(self, task: Awaitable[None]) -> None:
        """A library that gives up although it may try for ever is a finding, not our end."""
        try:
            await task
        except HoldfastError as error:
            self.history.write("gave-up", text=f"{type(error).__name__}: {error}")

    @asynccontextmanager
    async def _connection(self, *consumers: str) -> AsyncIterator[Connection]:
        """A connection whose new links stand in the history."""
        history = self.history
        connection = await connect(
            self.uri,
            heart_beat_send_seconds=_HEART_BEAT_SECONDS,
            heart_beat_receive_seconds=_HEART_BEAT_SECONDS,
            connect_seconds_max=2.0,
        )

        @connection.on_interrupted
        def _(event: object) -> None:
            history.write("interrupted", text=str(event), c=consumers)

        @connection.on_resumed
        def _(event: object) -> None:
            for consumer in consumers:
                history.write("link", c=consumer)
            history.write("resumed", text=str(event), c=consumers)

        for consumer in consumers:
            history.write("link", c=consumer)
        try:
            yield connection
        finally:
            # What is open now stays unknown, as if the program had died.
            await connection.close(is_graceful=False)

    def _unit(self, name: str) -> str:
        self._units += 1
        return f"{self.settings.name}.{name}.{self._units}"

    # Producing -----------------------------------------------------------------------------------

    async def _produce_all(self) -> None:
        settings = self.settings
        numbers = range(settings.sender_count)
        if numbers:
            await self._guarded(self._produce_over_one_connection(numbers))
        await self._stopped()
        self.history.write("finished")

    async def _produce_over_one_connection(self, numbers: range) -> None:
        settings = self.settings
        async with self._connection() as connection:
            tasks = [
                asyncio.create_task(self._guarded(self._sender(connection, number)))
                for number in numbers
            ]
            await self._stopped()
            _, late = await asyncio.wait(tasks, timeout=settings.finish_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _sender(self, connection: Connection, number: int) -> Awaitable[None]:
        """Plain producers come first, then transactions, groups, and what is scheduled."""
        settings = self.settings
        place = number - settings.producers
        if place < 0:
            queue = settings.queues[number % len(settings.queues)]
            return self._produce(connection, number, queue)
        if place < settings.transactions:
            return self._transact(connection, number)
        is_grouped = place < settings.transactions + settings.group_producers
        return self._produce(connection, number, GROUPED if is_grouped else SCHEDULED)

    async def _stopped(self) -> None:
        """Wait until nothing new is to be sent."""
        while not self.signals.stop.is_set():  # noqa: ASYNC110 - set by a signal, not by the loop
            await asyncio.sleep(_POLL_SECONDS)

    async def _paced(self, number: int) -> AsyncIterator[int]:
        """Give 1, 2, 3 … at this producer's pace, until told to stop."""
        loop = asyncio.get_running_loop()
        share = self.settings.share(number)
        due = loop.time() + share * number / max(1, self.settings.producers)
        count = 0
        while not self.signals.stop.is_set():
            now = loop.time()
            if due > now:
                await asyncio.sleep(min(due - now, _POLL_SECONDS))
                continue
            # After an outage a second's worth may be caught up, not all of it.
            due = max(due + share, now - 1.0)
            count += 1
            yield count

    async def _produce(self, connection: Connection, number: int, queue: str) -> None:
        settings, history = self.settings, self.history
        name = f"{settings.name}.p{number}"
        producer = connection.producer(queue, window=settings.window)
        async for sequence in self._paced(number):
            body = make_body(name, sequence)
            told, properties = _dressed(name, sequence, queue)
            history.write("send", p=name, n=sequence, q=queue, **told)
            while True:
                try:
                    confirmation = await producer.send(body, **properties)
                except HoldfastError:
                    if connection.is_closed:
                        raise
                    continue  # of an earlier message, which has heard of it; this one was not sent
                break
            confirmation.add_done_callback(partial(self._told, name, sequence))
        while producer.unconfirmed:
            try:
                await producer.flush()
            except HoldfastError:
                if connection.is_closed:
                    raise

    def _told(self, name: str, sequence: int, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self.history.write("stored", p=name, n=sequence)
        elif isinstance(error, RefusedError):
            self.history.write("refused", p=name, n=sequence, code=error.code)
        else:
            self.history.write("unknown", p=name, n=sequence, text=str(error))

    async def _transact(self, connection: Connection, number: int) -> None:
        settings, history = self.settings, self.history
        name = f"{settings.name}.t{number}"
        chance = random.Random(f"{settings.seed} {name}")  # noqa: S311 - no secret
        sequence = 0
        async for turn in self._paced(number):
            if turn % 3:
                continue  # a transaction has three messages on average
            unit = self._unit("t")
            transaction = connection.transaction()
            for _ in range(chance.randint(2, TRANSACTION_COUNT_MAX)):
                sequence += 1
                queue = settings.queues[sequence % len(settings.queues)]
                history.write("send", p=name, n=sequence, q=queue, u=unit)
                await transaction.send(queue, make_body(name, sequence))
            # What it begins with is rolled back, so that some is, however slow the machine is.
            if sequence <= TRANSACTION_COUNT_MAX or chance.random() < settings.abort_share:
                history.write("rolled-back", u=unit)
                await transaction.roll_back()
                continue
            history.write("commit", u=unit)
            await self._outcome(unit, transaction.commit())

    async def _outcome(self, unit: str, commit: Awaitable[None]) -> bool:
        try:
            await commit
        except RefusedError as error:
            self.history.write("commit-refused", u=unit, code=error.code, text=str(error))
        except HoldfastError as error:
            self.history.write("commit-unknown", u=unit, text=str(error))
        else:
            self.history.write("committed", u=unit)
            return True
        return False

    # Consuming -----------------------------------------------------------------------------------

    async def _messages(
        self, name: str, subscription: Subscription, connection: Connection, held: set[str]
    ) -> AsyncIterator[Message | None]:
        """
        Give messages as they come, noted, and None whenever none came for a moment.

        Ends when told to end and nothing came, over a working link, for the quiet time.
        """
        settings, signals, history = self.settings, self.signals, self.history
        loop = asyncio.get_running_loop()
        quiet_since, ending_since = loop.time(), 0.0
        while True:
            message = await subscription.receive(_POLL_SECONDS)
            now = loop.time()
            if message is not None:
                queue = subscription.destination
                history.delivery(name, queue, message.headers, message.body)
                if message.id in held:
                    history.write("shown-twice", c=name, id=message.id)
                yield message
                quiet_since = loop.time()
                continue
            yield None
            if held or connection.address is None or connection.unconfirmed_count:
                quiet_since = now
            if not signals.end.is_set():
                continue
            ending_since = ending_since or now
            if now - max(quiet_since, ending_since) > settings.quiet_seconds:
                history.write("drained", c=name, q=subscription.destination)
                return
            if now - ending_since > settings.drain_seconds:
                return

    async def _consume(self, number: str, queue: str, mode: _Mode) -> None:
        name = f"{self.settings.name}.{number}"
        settle = self._settle_batches if mode == "client" else self._settle_singly
        async with (
            self._connection(name) as connection,
            connection.subscribe(
                queue, acknowledge=mode, prefetch=self.settings.prefetch
            ) as subscription,
        ):
            await settle(name, subscription, connection)

    async def _settle_singly(
        self, name: str, subscription: Subscription, connection: Connection
    ) -> None:
        chance = random.Random(f"{self.settings.seed} {name}")  # noqa: S311 - no secret
        held: set[str] = set()
        rejects = subscription.destination != DEAD_LETTERS
        async with asyncio.TaskGroup() as group:
            async for message in self._messages(name, subscription, connection, held):
                if message is None:
                    continue
                held.add(message.id)
                rejected = rejects and chance.random() < self.settings.reject_share
                # Most are quick, a few are open for long.
                seconds = self.settings.hold_seconds * chance.random() ** 3
                group.create_task(self._settle_later(name, message, held, rejected, seconds))

    async def _settle_later(
        self, name: str, message: Message, held: set[str], rejected: bool, seconds: float
    ) -> None:
        await asyncio.sleep(seconds)
        verb = "reject" if rejected else "acknowledge"
        try:
            await self._settle(name, message, [message.id], verb)
        finally:
            held.discard(message.id)

    async def _settle(self, name: str, message: Message, ids: list[str], verb: str) -> None:
        history = self.history
        history.write("settle", c=name, v=verb, x=ids)
        try:
            if verb == "reject":
                await message.reject(confirm=True)
            else:
                await message.acknowledge(confirm=True)
        except HoldfastError as error:
            code = getattr(error, "code", "")
            history.write("not-settled", c=name, v=verb, x=ids, code=code, text=str(error))
        else:
            history.write("settled", c=name, v=verb, x=ids)

    async def _settle_batches(
        self, name: str, subscription: Subscription, connection: Connection
    ) -> None:
        taken: list[Message] = []
        held: set[str] = set()
        async for message in self._messages(name, subscription, connection, held):
            if message is not None:
                taken.append(message)
                held.add(message.id)
            if taken and (message is None or len(taken) >= _BATCH_COUNT):
                ids = [each.id for each in taken]
                await self._settle(name, taken[-1], ids, "acknowledge")
                taken.clear()
                held.clear()

    async def _relay(self, number: str) -> None:
        settings = self.settings
        name = f"{settings.name}.{number}"
        chance = random.Random(f"{settings.seed} {name}")  # noqa: S311 - no secret
        sequence = 0
        held: set[str] = set()
        async with (
            self._connection(name) as connection,
            connection.subscribe(settings.queues[0], prefetch=10) as subscription,
        ):
            async for message in self._messages(name, subscription, connection, held):
                if message is None:
                    continue
                for _ in range(_RELAY_TRIES_MAX):
                    count = chance.randint(1, 2)
                    rolled_back = chance.random() < settings.abort_share
                    first, sequence = sequence + 1, sequence + count
                    sequences = range(first, sequence + 1)
                    if await self._pass_on(name, connection, message, sequences, rolled_back):
                        break

    async def _pass_on(
        self,
        name: str,
        connection: Connection,
        message: Message,
        sequences: range,
        rolled_back: bool,
    ) -> bool:
        """Acknowledge one message and send others in its place, all at once; whether it is done."""
        history, queue = self.history, self.settings.queues[-1]
        unit = self._unit("r")
        transaction = connection.transaction()
        for sequence in sequences:
            history.write("send", p=name, n=sequence, q=queue, u=unit)
            await transaction.send(queue, make_body(name, sequence))
        await transaction.acknowledge(message)
        if rolled_back:
            history.write("rolled-back", u=unit)
            await transaction.roll_back()
            return False
        history.write("commit", u=unit, c=name, x=[message.id])
        return await self._outcome(unit, transaction.commit())
