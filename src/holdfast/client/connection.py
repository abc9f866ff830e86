"""
The client's front door: `connect`, and the connection it gives.

    async with connect("failover:(stomp://a:61613,stomp://b:61613)") as connection:
        await connection.send("/queue/orders", "one")
        async with connection.subscribe("/queue/orders") as subscription:
            async for message in subscription:
                await message.acknowledge()

With a failover URI nothing here fails because a broker did: calls wait until one is there, and what
was not confirmed is sent again and stored once. With a plain URI the loss of the link ends the
connection with LinkLostError.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Generator
from types import TracebackType
from typing import Any, Self, Unpack
from weakref import WeakSet

from holdfast.client.answers import PLACE, Answers
from holdfast.client.browsing import BrowsingSubscription, says_browser
from holdfast.client.consumer import Subscription
from holdfast.client.event_reader import EventReader
from holdfast.client.events import Event, Interrupted, Resumed
from holdfast.client.failures import Failures
from holdfast.client.message import Message
from holdfast.client.pinging import Statistics, ping, statistics
from holdfast.client.producer import Producer, send_single
from holdfast.client.requests import ForgetRequest
from holdfast.client.sent_properties import Properties, headers_with
from holdfast.client.sequence import Sent
from holdfast.client.session import ClientSession
from holdfast.client.settings import ClientSettings, settings_from_options
from holdfast.client.subscribing import end_durable, subscription_lines
from holdfast.client.transaction import Transaction
from holdfast.client.uri import Target, parse_uri
from holdfast.client.wire import AcknowledgeMode, Body, Headers, encode_text
from holdfast.environment.randomness import Randomness, SystemRandomness
from holdfast.errors import ConfigError, LocalProtocolError

logger = logging.getLogger("holdfast.client")


def connect(uri: str, *, randomness: Randomness | None = None, **options: Any) -> Connecting:
    """
    Connect to a broker or a cluster.

    Use it as `async with connect(uri) as connection`, or await it and close the connection
    yourself. Leaving the block normally waits until everything sent is confirmed.

    Args:
        uri: `stomp://host:port`, `stomp+ssl://host:port`, `failover:(uri,uri,...)?options` or
            `discovery:(dns:name,static:(uri,...))?options`.
        randomness: Where ids and the order of addresses come from; for tests.
        options: Any field of `ClientSettings`.

    Raises:
        ConfigError: The URI or an option is wrong; on entering: what asks DNS is not installed.
        LinkError: On entering: nobody answered within the attempts allowed.
    """
    return Connecting(parse_uri(uri), settings_from_options(options), randomness)


class Connecting:
    """A connection to be: await it or enter it."""

    def __init__(
        self, target: Target, settings: ClientSettings, randomness: Randomness | None
    ) -> None:
        self._target = target
        self._settings = settings
        self._randomness = randomness or SystemRandomness()
        self._connection: Connection | None = None

    async def _open(self) -> Connection:
        connection = Connection(self._target, self._settings, self._randomness)
        await connection.start()
        return connection

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._open().__await__()

    async def __aenter__(self) -> Connection:
        """Connect. Cancelling gives up."""
        self._connection = await self._open()
        return self._connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """
        Close; after a block without an error, wait for all confirmations first.

        Raises:
            HoldfastError: A message was not stored and nobody has been told yet; see
                `Connection.close`.
        """
        assert self._connection is not None
        await self._connection.__aexit__(kind, error, trace)


class Connection:
    """A connection to a cluster, over whichever broker leads it; made by `connect`."""

    def __init__(self, target: Target, settings: ClientSettings, randomness: Randomness) -> None:
        self._session = ClientSession(target, settings, randomness, self)
        self._settings = settings
        self._interrupted: list[Callable[[Interrupted], object]] = []
        self._resumed: list[Callable[[Resumed], object]] = []
        self._event_readers: WeakSet[EventReader] = WeakSet()
        self._answers = Answers(self.subscribe)

    async def start(self) -> None:
        """Connect for the first time; `connect` has done it."""
        await self._session.start()

    async def send(
        self,
        destination: str,
        body: Body,
        *,
        headers: Headers | None = None,
        persistent: bool = True,
        **properties: Unpack[Properties],
    ) -> Sent:
        """
        Send a message and wait until the broker has stored it; give which it is.

        May be called by many tasks at once; the messages of different calls have no order.
        Cancelling stops the wait, not the message: once this waits for the receipt the message is
        on its way, and will be resent after a failover.

        Args:
            headers: More headers of the message.
            persistent: Whether it is kept on disk, by as many nodes as the cluster asks for.
            properties: What `Properties` has, by name: `group="ann"`, `ttl=60`, ...

        Raises:
            RefusedError: The broker refused it (`code` tells why); it is not stored.
            LinkError: The connection ended, the failover option `timeout` passed, or the message
                was refused when it was sent again after a failover; whether it is stored is
                unknown.
            LocalProtocolError: The message, or a property of it, can never be sent.
        """
        headers = headers_with(headers, properties)
        return await send_single(self._session, destination, body, headers, persistent=persistent)

    async def request(
        self,
        destination: str,
        body: Body,
        *,
        seconds: float | None = 30.0,
        is_repeatable: bool = False,
        headers: Headers | None = None,
        persistent: bool = True,
        **properties: Unpack[Properties],
    ) -> Message:
        """
        Send a request and wait for its answer, on a temporary queue of this connection's own.

        That address holds over reconnects and failovers; what answer a leader had in memory when it
        died is lost. Cancelling stops the wait; an answer that comes then is dropped.

        Args:
            seconds: How long to wait; None: for ever.
            is_repeatable: The request may be done twice: after an interruption it is sent again if
                it is not answered yet, so that no answer is lost with a leader.
            properties: As `send` has them. A `correlation_id` is made if you give none.

        Raises:
            UnansweredError: No answer came in time; whether it was done is unknown.
            RefusedError, LinkError, LocalProtocolError: As `send` does.
        """
        if properties.get("reply_to") is not None:
            raise LocalProtocolError(
                "property 'reply_to': a request's answer comes to this connection;"
                " use send and subscribe to have it elsewhere",
                code="bad-property",
            )
        id = properties.get("correlation_id") or self._session.next_request_id()
        said: Properties = {**properties, "reply_to": PLACE, "correlation_id": id}
        lines = headers_with(headers, said)

        async def send() -> None:
            await send_single(self._session, destination, body, lines, persistent=persistent)

        return await self._answers.ask(id, send, seconds=seconds, is_repeatable=is_repeatable)

    def producer(
        self, destination: str, *, window: int = 1000, producer_id: str | None = None
    ) -> Producer:
        """
        A producer for one destination, which keeps up to `window` messages unconfirmed.

        Args:
            producer_id: An id of the application's own instead of one that nobody else has. Its
                messages are numbered from 1, so sending the same ones again under the same id
                stores nothing twice, while the cluster remembers it (seven days without use).

        Raises:
            ConfigError: The window is less than 1, the id is empty, or the broker is no Holdfast.
            LocalProtocolError: The destination or the id is no text, or no UTF-8.
        """
        encode_text(destination, "the destination")
        encode_text(producer_id or "", "the producer id")
        problems = []
        if window < 1:
            problems.append(f"window is {window}; it must be 1 or more")
        if producer_id == "":
            problems.append("producer_id is empty; leave it out to get one that nobody else has")
        elif producer_id is not None and self.cluster is None:
            problems.append(
                "producer_id needs a Holdfast: this broker counts no producer's messages"
            )
        if problems:
            raise ConfigError(problems)
        self._session.check_open()
        return Producer(self._session, destination, window, producer_id)

    def transaction(self) -> Transaction:
        """A transaction: commits at the end of its `async with` block, rolls back on an error."""
        self._session.check_open()
        return Transaction(self._session)

    async def forget_producers(self, name: str, *, before: int) -> None:
        """
        Let the cluster be done with producers of the application's own that never send again.

        Those are meant whose id is `NAME-N-` and anything behind it, with a number N below
        `before`. Returns when the cluster has stored that: one of them that sends nevertheless is
        refused with a `ProducerFinishedError`, until the name was not heard of for seven days. They
        are forgotten by and by; if the broker fails over meanwhile some are kept until this is said
        again, or for seven days.

        Raises:
            RefusedError: The name has fewer than 8 bytes or too many, or too many ask at once.
            LinkError: The connection ended, or the failover option `timeout` passed.
        """
        encode_text(name, "the name")
        session = self._session
        session.check_open()
        request = ForgetRequest(session.loop.create_future(), name, before)
        receipt = session.next_receipt()
        session.request(request, receipt, request.frame(receipt))
        await request.outcome

    def subscribe(
        self,
        destination: str,
        *,
        acknowledge: AcknowledgeMode = "client-individual",
        prefetch: int | None = None,
        selector: str | None = None,
        exclusive: bool = False,
        priority: int = 0,
        browse: bool = False,
        durable: str | None = None,
        no_local: bool = False,
        retroactive: bool = False,
        headers: Headers | None = None,
    ) -> Subscription:
        """
        A subscription, to be entered by `async with`; then an iterator of messages.

        Args:
            acknowledge: "client-individual": each message by its own; "client": with all taken
                before it; "auto": by asking for the next one.
            prefetch: Most messages delivered and not acknowledged; None takes the setting.
            selector: A condition on headers, in SQL-92's way: `price > 2 AND region = 'north'`.
                Entering a subscription raises SelectorError, with the column, if it cannot be read.
            exclusive: Be the only one that gets messages of the queue, or wait to be the next.
            priority: -128 to 127: those of a higher one get messages of the queue first.
            browse: Only look through what is on the queue now, taking nothing; it ends by itself.
            durable: Of a topic: the name under which it goes on when this one leaves, and gets what
                is sent meanwhile. Needs the setting `client_id`; `end_durable` ends it.
            no_local: Of a topic: do not get what this client sends itself.
            retroactive: Of a topic: get first what its policy keeps of what was sent before.
            headers: More headers of SUBSCRIBE.

        Raises:
            ConfigError: An unknown mode, a prefetch below 1, a priority that there is not, or
                `durable` without a `client_id`.
            LocalProtocolError: The destination or the selector is no text, or no UTF-8.
        """
        prefetch = self._settings.prefetch_count if prefetch is None else prefetch
        lines = subscription_lines(
            self._session,
            destination,
            acknowledge=acknowledge,
            prefetch=prefetch,
            selector=selector,
            exclusive=exclusive,
            priority=priority,
            browse=browse,
            durable=durable,
            no_local=no_local,
            retroactive=retroactive,
            headers=headers,
        )
        self._session.check_open()
        kind = BrowsingSubscription if says_browser(lines, destination) else Subscription
        return kind(
            self._session, destination, acknowledge=acknowledge, prefetch=prefetch, headers=lines
        )

    async def end_durable(self, name: str) -> None:
        """
        End a durable subscription of this client, with what it has not been given.

        One of this connection is left first; where there is none of this name nothing is done.

        Raises:
            RefusedError: Another connection consumes from it.
            ConfigError: The connection has no `client_id`.
            LinkError: The connection ended, or the failover option `timeout` passed.
        """
        await end_durable(self._session, name)

    @property
    def address(self) -> str | None:
        """The broker we are connected to as a URI; None during an interruption."""
        address = self._session.address
        return None if address is None else str(address)

    @property
    def term(self) -> int:
        """The highest term of a leader seen; 0 if the broker tells none."""
        return self._session.term

    @property
    def cluster(self) -> str | None:
        """
        The cluster's id; None: this is another broker than Holdfast.

        Nothing is promised there beyond at least once: what is sent again after a failover may be
        stored twice.
        """
        return self._session.greeting.get("holdfast-cluster")

    @property
    def unconfirmed_count(self) -> int:
        """Requests whose receipt is awaited."""
        return len(self._session.outstanding)

    @property
    def is_closed(self) -> bool:
        """Whether the connection has ended."""
        return self._session.failure is not None

    async def ping(self, seconds: float | None = None) -> float:
        """
        Wait for an answer of the broker's; gives the seconds it took.

        In an outage it waits until a broker is there. Cancelling stops the wait.

        Raises:
            TimeoutError: None came within so many seconds.
            LinkError: The connection has ended.
        """
        async with asyncio.timeout(seconds):
            return await ping(self._session)

    def statistics(self) -> Statistics:
        """What is in hand now: unconfirmed, buffered, taken, settled."""
        return statistics(self._session)

    async def drain(self) -> None:
        """
        End without leaving anything half done: take no more messages, wait until those taken are
        settled (`Subscription.drain`) and what was sent is confirmed, and close.

        Raises:
            HoldfastError: As `close` does.
        """
        await self.take_no_more()
        await self.close()

    async def take_no_more(self) -> None:
        """Drain all subscriptions."""
        subscribers = list(self._session.subscribers.values())
        await asyncio.gather(*(each.drain() for each in subscribers))

    async def wait_confirmed(self) -> None:
        """Wait until everything sent so far has its outcome. Cancelling stops the wait."""
        await self._session.wait_idle()

    def on_interrupted(
        self, listener: Callable[[Interrupted], object]
    ) -> Callable[[Interrupted], object]:
        """
        Call `listener` whenever the link is lost; usable as a decorator.

        It runs on the event loop and must not block; what it raises is logged.
        """
        self._interrupted.append(listener)
        return listener

    def on_resumed(self, listener: Callable[[Resumed], object]) -> Callable[[Resumed], object]:
        """Call `listener` whenever a link is there again; as `on_interrupted`."""
        self._resumed.append(listener)
        return listener

    def events(self) -> AsyncIterator[Event]:
        """
        Interruptions, resumptions and complaints from now on, until the connection ends.

        A reader that is too slow misses the oldest (`events_count_max`).
        """
        reader = EventReader(self._settings.events_count_max)
        if self.is_closed:
            reader.end()
        else:
            self._event_readers.add(reader)
        return reader

    def happened(self, event: Event) -> None:
        """Tell everybody who listens (EventSink)."""
        for reader in self._event_readers:
            reader.happened(event)
        if isinstance(event, Interrupted):
            _tell(self._interrupted, event)
        elif isinstance(event, Resumed):
            self._answers.resumed()
            _tell(self._resumed, event)

    def ended(self) -> None:
        """Tell everybody who listens that nothing more will happen (EventSink)."""
        for reader in self._event_readers:
            reader.end()
        self._event_readers.clear()

    async def close(self, *, is_graceful: bool = True) -> None:
        """
        Wait for every confirmation, say goodbye and end. Doing it twice does nothing.

        Acknowledgements, too, are waited for, in an outage until a broker is there, but no longer
        than `close_seconds_max`. Cancelling ends the connection at once. Without `is_graceful`
        nothing is waited for.

        Raises:
            HoldfastError: A message was refused, or its outcome stayed unknown, and nobody has been
                told yet. It is the first of them; its notes tell how many, and of the others.
            UnknownDeliveryError: The broker refused acknowledgements, and no call has told it.
            LinkLostError: Whether the last acknowledgements were stored is unknown.
        """
        try:
            await self.end(is_graceful=is_graceful)
        except BaseException as error:
            self.failures.tell_with(error)
            raise
        failure = self.failures.take_all() if is_graceful else None
        if failure is not None:
            raise failure

    async def end(self, *, is_graceful: bool) -> None:
        """As `close`, but leaves what it would raise in `failures`."""
        try:
            if is_graceful and not self.is_closed:
                await self._session.wait_idle()
        except BaseException:
            await self._session.close(is_graceful=False)
            raise
        await self._session.close(is_graceful=is_graceful)

    @property
    def failures(self) -> Failures:
        """What was not stored and nobody has been told of yet."""
        return self._session.failures

    async def __aenter__(self) -> Self:
        """For a connection that was awaited."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; waits for confirmations unless the block failed; its error then tells of them."""
        await self.close(is_graceful=error is None)
        if error is not None:
            self.failures.tell_with(error)


def _tell(listeners: list[Callable[[Any], object]], event: Event) -> None:
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            # The application's fault must not break the connection that tells of it.
            logger.exception("a listener failed at %s", event)
