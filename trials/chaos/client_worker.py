"""
The worker over our own client library: everything that the library promises, used at once.

Producers with a window of numbered messages, transactions, relays that take and send in one
transaction, consumers that acknowledge one by one or cumulatively, on queues and durable
subscriptions. Each consumer and each relay has a connection of its own, so that its death gives
back what it holds.

Invariants:
    A line stands in the history before the library hears of the deed.
    What a consumer holds it settles, or the end of its connection gives it back.

One event loop, in the main thread.
"""

from __future__ import annotations

import asyncio
import os
import random
import zlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Literal, TypeAlias

from holdfast.client import Connection, Message, Subscription, connect
from holdfast.errors import HoldfastError, RefusedError
from trials.chaos.history import DEAD_LETTERS, GROUPED, SCHEDULED, HistoryFile, make_body
from trials.chaos.schedule_rules import Plan
from trials.chaos.subscriptions import (
    PART_HEADER,
    SUBSCRIPTIONS,
    TOPIC,
    DurableSubscription,
    part_of,
)
from trials.chaos.worker import (
    DELAY_MS_MAX,
    LOGIN_VARIABLE,
    PASSCODE_VARIABLE,
    PERIOD_MS_MAX,
    REPEATS_MAX,
    TOPIC_SLOWNESS,
    TRANSACTION_COUNT_MAX,
    Signals,
    WorkerSettings,
)

_Mode: TypeAlias = Literal["client", "client-individual"]

_POLL_SECONDS = 0.05
_BATCH_COUNT = 10
_RELAY_TRIES_MAX = 5
_HEART_BEAT_SECONDS = 1.0
_AGAIN_SECONDS = 0.2
"""After so long somebody asks again for a subscription that was refused."""

_VISIT_SECONDS = (0.5, 3.0)
"""So long a visitor is there, and away."""

_REPEATED_ONE_IN = 8
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
        plan = _plan(name, sequence)
        once = {"d": plan.delay_ms}, {"delay": plan.delay_ms / 1000}
        if not plan.repeats:
            return once
        again = {"dp": plan.period_ms, "dr": plan.repeats}
        return {**once[0], **again}, {
            **once[1],
            "period": plan.period_ms / 1000,
            "repeats": plan.repeats,
        }
    if queue == TOPIC:
        return {}, {"headers": {PART_HEADER: str(part_of(sequence))}}
    return {}, {}


def _plan(name: str, sequence: int) -> Plan:
    """Tell when a scheduled message is to come; one in a few comes several times."""
    draw = zlib.crc32(b"%b %d" % (name.encode(), sequence))
    delay_ms = 1 + draw % DELAY_MS_MAX
    if sequence % _REPEATED_ONE_IN:
        return Plan(delay_ms)
    return Plan(delay_ms, 1 + draw % PERIOD_MS_MAX, 1 + draw % REPEATS_MAX)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a consumer takes from, and how it stands in the history."""

    subscription: Subscription
    place: str
    until: float = inf
    """By the loop's clock."""


class _Worker:
    def __init__(self, settings: WorkerSettings, history: HistoryFile, signals: Signals) -> None:
        self.settings = settings
        self.history = history
        self.signals = signals
        inner = ",".join(f"stomp://{broker}" for broker in settings.brokers)
        self.uri = f"failover:({inner})?{settings.failover_options}"
        self._units = 0
        self._passed: dict[str, int] = {}
        """By relay: the last number that it gave a message."""

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
            for each in settings.subscriptions:
                task = self._take_up(SUBSCRIPTIONS[each])
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
    async def _connection(
        self, *consumers: str, client_id: str | None = None
    ) -> AsyncIterator[Connection]:
        """A connection whose new links stand in the history."""
        history = self.history
        connection = await connect(
            self.uri,
            heart_beat_send_seconds=_HEART_BEAT_SECONDS,
            heart_beat_receive_seconds=_HEART_BEAT_SECONDS,
            connect_seconds_max=2.0,
            client_id=client_id,
            login=os.environ.get(LOGIN_VARIABLE),
            passcode=os.environ.get(PASSCODE_VARIABLE),
            plain_without_tls=True,  # Its hosts are of this run's own network.
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
        """Plain producers come first, then transactions, groups, the scheduled, and the topic."""
        settings = self.settings
        place = number - settings.producers
        if place < 0:
            queue = settings.queues[number % len(settings.queues)]
            return self._produce(connection, number, queue)
        if place < settings.transactions:
            return self._transact(connection, number)
        place -= settings.transactions
        if place < settings.group_producers:
            return self._produce(connection, number, GROUPED)
        is_scheduled = place < settings.group_producers + settings.schedulers
        return self._produce(connection, number, SCHEDULED if is_scheduled else TOPIC)

    async def _stopped(self) -> None:
        """Wait until nothing new is to be sent."""
        while not self.signals.stop.is_set():  # noqa: ASYNC110 - set by a signal, not by the loop
            await asyncio.sleep(_POLL_SECONDS)

    async def _paced(self, number: int, slowness: int = 1) -> AsyncIterator[int]:
        """Give 1, 2, 3 … at this producer's pace, until told to stop."""
        loop = asyncio.get_running_loop()
        share = self.settings.share(number) * slowness
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
        # What is sent to the topic many get.
        async for sequence in self._paced(number, TOPIC_SLOWNESS if queue == TOPIC else 1):
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
        places = (*settings.queues, TOPIC) if settings.topic_producers else settings.queues
        async for turn in self._paced(number):
            if turn % 3:
                continue  # a transaction has three messages on average
            unit = self._unit("t")
            transaction = connection.transaction()
            for _ in range(chance.randint(2, TRANSACTION_COUNT_MAX)):
                sequence += 1
                queue = places[sequence % len(places)]
                history.write("send", p=name, n=sequence, q=queue, u=unit)
                _, properties = _dressed(name, sequence, queue)
                await transaction.send(queue, make_body(name, sequence), **properties)
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
        self, name: str, taken: _Taken, connection: Connection, held: set[str]
    ) -> AsyncIterator[Message | None]:
        """
        Give messages as they come, noted, and None whenever none came for a moment.

        Ends when told to end and nothing came, over a working link, for the quiet time; or when its
        time is over, if it has one.
        """
        settings, signals, history = self.settings, self.signals, self.history
        loop = asyncio.get_running_loop()
        quiet_since, ending_since = loop.time(), 0.0
        while True:
            message = await taken.subscription.receive(_POLL_SECONDS)
            now = loop.time()
            if message is not None:
                history.delivery(name, taken.place, message.headers, message.body)
                if message.id in held:
                    history.write("shown-twice", c=name, id=message.id)
                yield message
                quiet_since = loop.time()
                continue
            yield None
            if held or connection.address is None or connection.unconfirmed_count:
                quiet_since = now
            if not signals.end.is_set():
                if now > taken.until:
                    return
                continue
            ending_since = ending_since or now
            if now - max(quiet_since, ending_since) > settings.quiet_seconds:
                history.write("drained", c=name, q=taken.place)
                return
            if now - ending_since > settings.drain_seconds:
                return

    async def _consume(self, number: str, queue: str, mode: _Mode) -> None:
        name = f"{self.settings.name}.{number}"
        async with (
            self._connection(name) as connection,
            connection.subscribe(
                queue, acknowledge=mode, prefetch=self.settings.prefetch
            ) as subscription,
        ):
            await self._settle_all(name, _Taken(subscription, queue), connection)

    async def _settle_all(self, name: str, taken: _Taken, connection: Connection) -> None:
        is_cumulative = taken.subscription.mode == "client"
        settle = self._settle_batches if is_cumulative else self._settle_singly
        await settle(name, taken, connection)

    async def _take_up(self, durable: DurableSubscription) -> None:
        """Consume from a durable subscription until told to end, and be away now and then."""
        name = f"{self.settings.name}.{durable.name}"
        chance = random.Random(f"{self.settings.seed} {name} visits")  # noqa: S311 - no secret
        signals = self.signals
        while True:
            is_refused = await self._visit(name, durable, chance)
            if signals.end.is_set() and not is_refused:
                return
            loop = asyncio.get_running_loop()
            pause = _AGAIN_SECONDS if is_refused else chance.uniform(*_VISIT_SECONDS)
            back_at = loop.time() + pause
            # Set by a signal, not by the loop. Told to end, a visitor comes back at once.
            while loop.time() < back_at and (is_refused or not signals.end.is_set()):  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)

    async def _visit(self, name: str, durable: DurableSubscription, chance: random.Random) -> bool:
        """Consume until told to end, or for a visitor's time; gives whether it was refused."""
        history, loop = self.history, asyncio.get_running_loop()
        seconds = chance.uniform(*_VISIT_SECONDS) if durable.is_visitor else inf
        goes_without_a_word = chance.random() < 0.5
        told = {"c": name, "s": durable.place}
        is_refused = False
        try:
            async with self._connection(name, client_id=durable.name) as connection:
                part = {} if durable.part is None else {"k": durable.part}
                history.write("subscribe", **told, **part)
                async with connection.subscribe(
                    TOPIC,
                    acknowledge=durable.mode,
                    prefetch=self.settings.prefetch,
                    selector=durable.selector,
                    durable=durable.name,
                ) as subscription:
                    history.write("subscribed", **told)
                    taken = _Taken(subscription, durable.place, loop.time() + seconds)
                    # Who sweeps up sends nothing new.
                    is_relay = durable.is_relay and not self.settings.dead_letters
                    take = self._pass_all_on if is_relay else self._settle_all
                    await take(name, taken, connection)
                    if goes_without_a_word:
                        await connection.close(is_graceful=False)
        except* RefusedError as group:
            is_refused = True
            for error in group.exceptions:
                code = getattr(error, "code", "")
                history.write("not-subscribed", **told, code=code, text=str(error))
        return is_refused

    async def _settle_singly(self, name: str, taken: _Taken, connection: Connection) -> None:
        chance = random.Random(f"{self.settings.seed} {name}")  # noqa: S311 - no secret
        held: set[str] = set()
        rejects = taken.place != DEAD_LETTERS
        async with asyncio.TaskGroup() as group:
            async for message in self._messages(name, taken, connection, held):
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

    async def _settle_batches(self, name: str, taken: _Taken, connection: Connection) -> None:
        batch: list[Message] = []
        held: set[str] = set()
        async for message in self._messages(name, taken, connection, held):
            if message is not None:
                batch.append(message)
                held.add(message.id)
            if batch and (message is None or len(batch) >= _BATCH_COUNT):
                ids = [each.id for each in batch]
                await self._settle(name, batch[-1], ids, "acknowledge")
                batch.clear()
                held.clear()

    async def _relay(self, number: str) -> None:
        queue = self.settings.queues[0]
        name = f"{self.settings.name}.{number}"
        async with (
            self._connection(name) as connection,
            connection.subscribe(queue, prefetch=10) as subscription,
        ):
            await self._pass_all_on(name, _Taken(subscription, queue), connection, at_once=1)

    async def _pass_all_on(
        self, name: str, taken: _Taken, connection: Connection, *, at_once: int = _BATCH_COUNT
    ) -> None:
        chance = random.Random(f"{self.settings.seed} {name}")  # noqa: S311 - no secret
        held: set[str] = set()
        batch: list[Message] = []
        async for message in self._messages(name, taken, connection, held):
            if message is not None:
                batch.append(message)
                held.add(message.id)
            if batch and (message is None or len(batch) >= at_once):
                await self._pass_batch_on(name, connection, batch, chance)
                batch.clear()
                held.clear()

    async def _pass_batch_on(
        self, name: str, connection: Connection, batch: list[Message], chance: random.Random
    ) -> None:
        for _ in range(_RELAY_TRIES_MAX):
            rolled_back = chance.random() < self.settings.abort_share
            sequences = self._next_sequences(name, chance.randint(1, 2))
            if await self._pass_on(name, connection, batch, sequences, rolled_back):
                return

    def _next_sequences(self, name: str, count: int) -> range:
        """Give numbers that this relay has not used, also before it was refused and came again."""
        first = self._passed.get(name, 0) + 1
        self._passed[name] = first + count - 1
        return range(first, first + count)

    async def _pass_on(
        self,
        name: str,
        connection: Connection,
        batch: list[Message],
        sequences: range,
        rolled_back: bool,
    ) -> bool:
        """Acknowledge messages and send others in their place, all at once; whether it is done."""
        history, queue = self.history, self.settings.queues[-1]
        unit = self._unit("r")
        transaction = connection.transaction()
        for sequence in sequences:
            history.write("send", p=name, n=sequence, q=queue, u=unit)
            await transaction.send(queue, make_body(name, sequence))
        for message in batch:
            await transaction.acknowledge(message)
        if rolled_back:
            history.write("rolled-back", u=unit)
            await transaction.roll_back()
            return False
        history.write("commit", u=unit, c=name, x=[message.id for message in batch])
        return await self._outcome(unit, transaction.commit())
