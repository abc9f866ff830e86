"""
The mixed half of the traffic, through the client library, and both halves together.

A backlog that grows and is drained; transactions that send to two queues, and that take from one
and send to the next; messages that need not last; a topic; connections that come and go each
second; and one old message that nobody acknowledges for long, so that the cleaner has to carry it.

Invariants:
    What `send` or `commit` returned for is confirmed and must come, once; only the books that are
    not strict forgive loss.
    No task ends because of an error: it is noted in the books and the task goes on.

One thread owns the loop, the connections and the books.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial

from holdfast.client import Connection, Message, Subscription, connect
from holdfast.errors import HoldfastError
from trials.soak.books import Books, Meter
from trials.soak.samples import AccountRow
from trials.soak.settings import SoakSettings
from trials.soak.strict_load import StrictLoads

_WAIT_SECONDS = 0.25
_ERRORS_KEPT = 20
_BACKLOG_RATE = 60.0
_BACKLOG_REST = 5
"""Drained enough, while more is produced."""
_FLEETING_RATE = 40.0
_TOPIC_RATE = 25.0
_TRANSACTION_RATE = 5.0
_TRANSACTION_PARTS = 3
_CHURN_SECONDS = 1.0
_SIZES = (100, 200, 500, 1000, 2000, 8000)
_STALLED_SECONDS = 20.0

BACKLOG, FLEETING, TOPIC = "/queue/soak.backlog", "/queue/soak.fleeting", "/topic/soak.news"
LEFT, RIGHT, DONE = "/queue/soak.left", "/queue/soak.right", "/queue/soak.done"
OLD, CHURN = "/queue/soak.old", "/queue/soak.churn"


@dataclass(slots=True)
class _Pace:
    """Turns a rate into waiting; what was missed during an outage is not made up for."""

    rate: float
    next_at: float = 0.0

    async def wait(self) -> None:
        now = time.monotonic()
        self.next_at = max(self.next_at + 1 / self.rate, now - 1.0)
        await asyncio.sleep(max(0.0, self.next_at - now))


class MixedClients:
    """All clients that use the library, in one thread."""

    def __init__(self, uri: str, settings: SoakSettings, meter: Meter, run: int) -> None:
        self.uri = uri
        self.settings = settings
        self.meter = meter
        self.randomness = random.Random(settings.seed)  # noqa: S311 - sizes of bodies
        self.backlog = Books("backlog", run)
        self.fleeting = Books("not-persistent", run, is_strict=False)
        self.news = [
            Books(f"topic-{number}", run, is_strict=False, label="topic") for number in (1, 2)
        ]
        self.left = Books("transacted-left", run)
        self.right = Books("transacted-right", run)
        self.done = Books("forwarded", run)
        self.old = Books("old-message", run)
        self.churn = Books("come-and-go", run, is_strict=False)
        self.is_producing = True
        self.churn_count = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._resting = asyncio.Event()
        """Set when nobody shall wait any longer: the run is ending."""
        self._ending = asyncio.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="clients", daemon=True)

    @property
    def books(self) -> list[Books]:
        """All of them."""
        transacted = [self.left, self.right, self.done]
        return [self.backlog, *transacted, self.old, self.fleeting, *self.news, self.churn]

    def start(self) -> None:
        """Connect and begin."""
        self._thread.start()

    def stop_producing(self) -> None:
        """Send nothing new; what is under way is finished."""
        self.is_producing = False
        self._set(self._resting)

    def finish(self, seconds: float, at: float) -> list[AccountRow]:
        """Wait until all that was confirmed has come, at most so long; give the accounts."""
        self.stop_producing()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._thread.is_alive():
            if not any(books.missing_count for books in self.books if books.is_strict):
                break
            time.sleep(0.05)
        self._set(self._ending)
        self._thread.join(10)
        if self._thread.is_alive():
            self.backlog.errors.append("the clients did not end")
        if self._failure is not None:
            self.backlog.errors.append(f"the clients broke: {self._failure!r}")
        return [books.row(at) for books in self.books]

    def _set(self, event: asyncio.Event) -> None:
        if self._loop is None or self._loop.is_closed():
            event.set()  # the thread has not begun, or has ended
        else:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(event.set)

    async def _rest(self, seconds: float) -> None:
        """Wait, unless the run is ending."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._resting.wait()

    # The thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - told by finish
            self._failure = error

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            producing, taking = [
                await stack.enter_async_context(connect(self.uri)) for _ in range(2)
            ]
            fleeting = partial(self._produce, producing, is_lasting=False)
            works: list[tuple[Books, Callable[[], Awaitable[None]]]] = [
                (self.backlog, partial(self._produce, producing, BACKLOG, [self.backlog])),
                (self.backlog, partial(self._take_backlog, taking)),
                (self.fleeting, partial(fleeting, FLEETING, [self.fleeting])),
                (self.fleeting, partial(self._take, taking, FLEETING, self.fleeting)),
                (self.news[0], partial(fleeting, TOPIC, self.news)),
                (self.news[0], partial(self._take, taking, TOPIC, self.news[0])),
                (self.news[1], partial(self._take, taking, TOPIC, self.news[1])),
                (self.left, partial(self._transact, producing)),
                (self.left, partial(self._forward, taking)),
                (self.right, partial(self._take, taking, RIGHT, self.right)),
                (self.done, partial(self._take, taking, DONE, self.done)),
                (self.old, partial(self._hold_old, taking)),
                (self.churn, self._come_and_go),
            ]
            tasks = [asyncio.create_task(self._go_on(books, work)) for books, work in works]
            await self._ending.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _go_on(self, books: Books, work: Callable[[], Awaitable[None]]) -> None:
        """Begin a work again after every error."""
        while True:
            try:
                await work()
                return
            except (HoldfastError, OSError) as error:
                if len(books.errors) < _ERRORS_KEPT:
                    books.errors.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(_WAIT_SECONDS)

    def _size(self) -> int:
        return self.randomness.choice(_SIZES)

    # Producing ------------------------------------------------------------------------------------

    async def _produce(
        self, connection: Connection, destination: str, books: list[Books], is_lasting: bool = True
    ) -> None:
        rates = {BACKLOG: _BACKLOG_RATE, FLEETING: _FLEETING_RATE, TOPIC: _TOPIC_RATE}
        pace = _Pace(rates[destination] * self.settings.rate)
        producer = connection.producer(destination, window=200)
        while self.is_producing:
            number, body = books[0].next_body(self._size())
            for other in books[1:]:
                other.next_body(0)
            sent_at = time.monotonic()
            confirmation = await producer.send(body, persistent=is_lasting)
            confirmation.add_done_callback(partial(self._confirmed, books, number, sent_at))
            await pace.wait()
        await producer.flush()

    def _confirmed(
        self, books: list[Books], number: int, sent_at: float, outcome: asyncio.Future[None]
    ) -> None:
        if outcome.cancelled() or outcome.exception() is not None:
            return
        now = time.monotonic()
        self.meter.note_confirmed(now, now - sent_at)
        for each in books:
            each.note_confirmed(number)

    async def _transact(self, connection: Connection) -> None:
        """Two messages to one queue and one to another, together."""
        pace = _Pace(_TRANSACTION_RATE * self.settings.rate)
        while self.is_producing:
            numbers = []
            began = time.monotonic()
            async with connection.transaction() as transaction:
                for books, queue in ((self.left, LEFT), (self.left, LEFT), (self.right, RIGHT)):
                    number, body = books.next_body(self._size())
                    numbers.append((books, number))
                    await transaction.send(queue, body)
            now = time.monotonic()
            self.meter.note_confirmed(now, now - began)
            for books, number in numbers:
                books.note_confirmed(number)
            await pace.wait()

    # Consuming ------------------------------------------------------------------------------------

    def _note(self, books: Books, message: Message) -> None:
        self.meter.note_delivered()
        books.note_delivered(message.body, redelivered=message.redelivered)

    async def _take(self, connection: Connection, destination: str, books: Books) -> None:
        async with connection.subscribe(destination, prefetch=100) as messages:
            async for message in messages:
                self._note(books, message)
                await message.acknowledge()

    async def _take_backlog(self, connection: Connection) -> None:
        """Let it grow, then drain it, again and again."""
        while True:
            await self._rest(self.settings.backlog_seconds)
            async with connection.subscribe(BACKLOG, prefetch=500) as messages:
                while await self._take_one(messages, self.backlog, 1.0):
                    if self.is_producing and self.backlog.missing_count <= _BACKLOG_REST:
                        break

    async def _take_one(
        self, messages: Subscription, books: Books, seconds: float | None
    ) -> Message | None:
        message = await messages.receive(seconds)
        if message is not None:
            self._note(books, message)
            await message.acknowledge()
        return message

    async def _forward(self, connection: Connection) -> None:
        """Take from one queue and send to the next, in one transaction."""
        async with connection.subscribe(LEFT, prefetch=20) as messages:
            async for message in messages:
                number, body = self.done.next_body(len(message.body))
                async with connection.transaction() as transaction:
                    await transaction.acknowledge(message)
                    await transaction.send(DONE, body)
                self.done.note_confirmed(number)
                self._note(self.left, message)

    async def _hold_old(self, connection: Connection) -> None:
        """Keep one message unacknowledged for long, while everything else moves on."""
        while self.is_producing:
            number, body = self.old.next_body(1000)
            await connection.send(OLD, body)
            self.old.note_confirmed(number)
            async with connection.subscribe(OLD, prefetch=1) as messages:
                message = await messages.receive()
                await self._rest(self.settings.old_message_seconds)
                if message is not None:
                    await message.acknowledge(confirm=True)
                    self._note(self.old, message)

    async def _come_and_go(self) -> None:
        """Connect, subscribe, send, take, leave: politely or not."""
        pace = _Pace(1 / _CHURN_SECONDS)
        while self.is_producing:
            connection = await connect(self.uri)
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_STALLED_SECONDS):
                        await self._visit(connection)
            finally:
                await connection.close(is_graceful=self.churn_count % 2 == 0)
            self.churn_count += 1
            await pace.wait()

    async def _visit(self, connection: Connection) -> None:
        async with connection.subscribe(CHURN) as messages:
            number, body = self.churn.next_body(self._size())
            await connection.send(CHURN, body, persistent=False)
            self.churn.note_confirmed(number)
            await self._take_one(messages, self.churn, 2.0)


class Traffic:
    """Both halves."""

    def __init__(
        self, addresses: list[str], uri: str, settings: SoakSettings, meter: Meter
    ) -> None:
        run = random.Random(f"traffic {settings.seed}").getrandbits(32)  # noqa: S311 - a name
        self.strict = StrictLoads(addresses, settings, meter)
        self.mixed = MixedClients(uri, settings, meter, run)

    def start(self) -> None:
        """Begin; returns at once."""
        self.strict.start()
        self.mixed.start()

    @property
    def due_count(self) -> int:
        """Strict messages whose receipt is awaited."""
        return self.strict.due_count

    def finish(self, seconds: float, at: float) -> list[AccountRow]:
        """Send nothing new, drain, and give the accounts; the second half waits for the first."""
        self.mixed.stop_producing()
        self.strict.stop_producing()
        return [*self.strict.finish(seconds, at), *self.mixed.finish(seconds, at)]
