"""
One conversation with a cluster that survives the links it runs over.

The session hands frames to whom they concern, and puts a new link in the state of the lost one:
uncertain acknowledgements by message id, subscriptions, then every request without a receipt in its
old order with its old numbers. Everything that the application holds (producers, subscriptions,
transactions) talks to a session, never to a link.

Another broker than Holdfast knows no message and no producer over the end of a link: it is sent no
numbers and no acknowledgement of what came over an earlier link (`is_holdfast`).

Invariants:
    A request is on the books (`outstanding`) before its bytes leave, and until its outcome.
    `generation` counts links; what a link handed out (delivery ids) is valid in its own only.
    After `failure` is set nothing is sent and nobody waits.

Owned by one event loop; not safe to call from another thread (see `blocking`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from holdfast.client.address import Address
from holdfast.client.contract import EventSink, Subscriber
from holdfast.client.dialer import Dialer, term_of
from holdfast.client.events import BrokerComplaint, Interrupted, Resumed
from holdfast.client.failures import Failures
from holdfast.client.link import Link
from holdfast.client.outstanding import Operation, Outstanding
from holdfast.client.overflow import Overflow
from holdfast.client.refusal import SLOW_CONSUMER, anew, refusal
from holdfast.client.request_timeouts import RequestTimeouts
from holdfast.client.requests import Farewell, Goodbye, SettlementRequest
from holdfast.client.sequence_loans import SequenceLoans
from holdfast.client.settings import ClientSettings
from holdfast.client.settlements import ACKNOWLEDGE, Promise, Settlement, Settlements
from holdfast.client.uri import Target
from holdfast.client.waiters import Waiters
from holdfast.client.wire import control, settlement
from holdfast.environment.randomness import Randomness
from holdfast.errors import HoldfastError, LinkLostError, RefusedError, UnknownDeliveryError
from holdfast.protocols.stomp.frames import Frame

logger = logging.getLogger("holdfast.client")

_OF_SETTLEMENTS = (UnknownDeliveryError.code, RefusedError.code)
"""Codes of a refused acknowledgement; a broker that tells none counts as the second."""

_QUORUM_LOST = "quorum-lost"
"""The code with which a broker takes leave that has lost its cluster."""


class ClientSession:
    """See the module's docstring. `start` it, then use it, then `close` it."""

    def __init__(
        self, target: Target, settings: ClientSettings, randomness: Randomness, sink: EventSink
    ) -> None:
        self.settings = settings
        self.outstanding = Outstanding()
        self.settlements = Settlements()
        self.failures = Failures()
        self.subscribers: dict[str, Subscriber] = {}
        self.generation = 0
        self.failure: HoldfastError | None = None
        self.greeting: dict[str, str] = {}
        """What the broker of the present or last link has said of itself."""

        self.buffered_bytes = 0
        """In memory, delivered and not yet taken by the application, over all subscriptions."""

        self.overflow = Overflow()

        self.loop = asyncio.get_running_loop()
        self._sink = sink
        self._dialer = Dialer(target, settings, randomness)
        self._link: Link | None = None
        self._is_closing = False
        self._reconnecting: asyncio.Task[None] | None = None
        self._interrupted_at = 0.0
        self._timeouts = RequestTimeouts(
            self.outstanding, self._dialer.options.timeout_seconds, self._told_outcomes
        )
        self._identity = randomness.bytes(12).hex()
        # Nothing that follows from the identity: that is in the ids of producers, which are kept.
        self._dialer.shown = randomness.bytes(16).hex()
        self._producers = 0
        self._subscriptions = 0
        self._receipts = 0
        self._room = Waiters()
        self._idle = Waiters()
        self.loans = SequenceLoans(self)
        self._marked_number = 0
        self._complaint: HoldfastError | None = None
        self._faults = 0
        self._is_useful = False
        """Whether the present link has brought a frame yet."""

    async def start(self) -> None:
        """
        Connect for the first time. Cancelling gives up.

        Raises:
            LinkError: Nobody answered within the attempts allowed.
            ProtocolError: A plain URI's broker answered, but not as a STOMP 1.2 broker.
        """
        self._adopt(await self._dialer.open(self))

    async def close(self, *, is_graceful: bool = True) -> None:
        """
        Say goodbye and end the link. What is still unconfirmed fails; waiting for it is the
        caller's choice (`wait_idle`). Cancelling ends the link without the goodbye.

        Acknowledgements that no broker has said it has are noted in `failures`.
        """
        is_goodbye_due = is_graceful and self.failure is None
        try:
            if is_goodbye_due:
                await self._settle_all()
                self._end_reconnecting()
                goodbye = Goodbye(self.loop.create_future(), self.settlements)
                await self._take_leave(goodbye, "DISCONNECT")
        except HoldfastError as error:
            logger.debug("goodbye without an answer: %s", error)
        finally:
            self._end_reconnecting()
            self._shut(None)
        self.settlements.tell(self.failures, is_all=is_graceful)

    async def _settle_all(self) -> None:
        """Wait until no acknowledgement is uncertain; in an outage first for a link."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.close_seconds_max):
                while self._has_to_settle:
                    promise = Promise(self.loop.create_future())
                    self._ask_whether_settled(promise)
                    await promise.outcome

    @property
    def _has_to_settle(self) -> bool:
        if not self.is_holdfast:
            return False
        # What is refused by a delivery is said again by the message's own name, before the goodbye.
        return self.settlements.is_open if self._link is not None else self.settlements.is_late

    def _end_reconnecting(self) -> None:
        self._is_closing = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()

    async def farewell(self, command: str, **headers: str) -> None:
        """
        Send an UNSUBSCRIBE and wait for its receipt, so long as `close_seconds_max`.

        The end of the link does the same, so without a link nothing is waited for.
        """
        await self._take_leave(Farewell(self.loop.create_future()), command, **headers)

    async def _take_leave(self, operation: Farewell, command: str, **headers: str) -> None:
        self.check_open()
        if self._link is None:
            return
        receipt = self.next_receipt()
        self.request(operation, receipt, control(command, receipt=receipt, **headers))
        try:
            async with asyncio.timeout(self.settings.close_seconds_max):
                await operation.outcome
        except TimeoutError:
            logger.debug("%s without an answer", command)

    def _shut(self, error: HoldfastError | None) -> None:
        """End for good: by the application (no error) or because nothing more can be done."""
        if self.failure is not None:
            return
        self.failure = error or LinkLostError("the connection is closed")
        link, self._link = self._link, None
        if link is not None:
            link.close()
        self._timeouts.stop()
        for operation in self.outstanding.take_all():
            operation.abandoned(self.failure)
        for subscriber in list(self.subscribers.values()):
            subscriber.ended(error)
        self.subscribers.clear()
        for waiters in (self._room, self._idle, self.loans.waiters):
            waiters.wake_all()
        self._sink.ended()

    def check_open(self) -> None:
        """Raise what ended the session, if it has ended."""
        if self.failure is not None:
            raise anew(self.failure)

    @property
    def is_holdfast(self) -> bool:
        """
        Whether the present or last link leads to a broker of ours: only such a one knows producers'
        numbers, and messages by their ids over the end of a link.
        """
        return "holdfast-cluster" in self.greeting

    @property
    def address(self) -> Address | None:
        """Where the link leads; None while there is none."""
        return None if self._link is None else self._link.address

    @property
    def term(self) -> int:
        """The highest term seen; 0 if no broker told one."""
        return self._dialer.fence.term

    def next_receipt(self) -> str:
        """A receipt id that this session has not used."""
        self._receipts += 1
        return str(self._receipts)

    def next_producer_id(self) -> str:
        """A producer id that nobody else has."""
        self._producers += 1
        return f"{self._identity}-{self._producers}"

    def next_request_id(self) -> str:
        """A correlation id that nobody else has."""
        return f"{self._identity}-r{self.next_receipt()}"

    def next_subscription_id(self) -> str:
        """A subscription id that this session has not used."""
        self._subscriptions += 1
        return str(self._subscriptions)

    def request(self, operation: Operation, receipt: str, frame: bytes) -> None:
        """Put an operation on the books and its frame on the link; without one it waits there."""
        self.check_open()
        operation.receipt = receipt
        self.outstanding.add(receipt, operation)
        link = self._link
        if link is not None:
            link.write(frame)
            if link.is_paused and self.overflow.is_usable:
                # Its receipt stands behind what we do not read.
                link.resume_reading()
            return
        operation.links = 0
        if operation.is_limited_by_timeout:
            self._timeouts.limit(operation)

    def write(self, frame: bytes) -> None:
        """Send a frame nobody waits for; without a link it is dropped."""
        if self._link is not None:
            self._link.write(frame)

    @property
    def has_room(self) -> bool:
        """Whether less is unconfirmed than the limit."""
        return self.outstanding.bytes < self.settings.unconfirmed_bytes_max

    async def wait_room(self) -> None:
        """
        Wait until less is unconfirmed than the limit. Cancelling stops the wait.

        Raises:
            LinkError: The session ended.
        """
        while not self.has_room and self.failure is None:
            await self.room_was_made()
        self.check_open()

    async def room_was_made(self) -> None:
        """Wait until there may be room; the limit is then to be looked at again."""
        await self._room.wait()

    async def wait_idle(self) -> None:
        """Wait until every request has its outcome. Cancelling stops the wait."""
        while len(self.outstanding):
            await self._idle.wait()

    def settle(
        self, settled: Settlement, delivery_id: str | None, promise: Promise | None = None
    ) -> None:
        """
        Acknowledge or reject, by an id of the present link or, if a lost one has delivered it
        (None), by the message's own. What cannot be said now is said when it can be.

        A `promise` is answered when this and all settled before it is certain.
        """
        self.check_open()
        settlements, link = self.settlements, self._link
        # A broker rejects what it has delivered on the same link only.
        can_be_said = delivery_id is not None or settled.verb == ACKNOWLEDGE
        count = settlements.number + 1 - self._marked_number
        is_due = count >= self.settings.settled_receipt_every_count
        if link is None or not can_be_said:
            settlements.add(settled, None)
            if promise is not None:
                self._ask_whether_settled(promise)
            return
        id = settled.message_id if delivery_id is None else delivery_id
        if promise is None and not is_due:
            settlements.add(settled, id)
            link.write(settlement(settled.verb, id))
            return
        self._marked_number = settlements.add(settled, id, has_receipt=True)
        request = SettlementRequest(settlements, settled, promise)
        request.is_done_by_loss = not self.is_holdfast
        receipt = self.next_receipt()
        self.request(request, receipt, settlement(settled.verb, id, receipt))

    def confirm_settled(self, source: str, places: range) -> asyncio.Future[None] | None:
        """
        Ask whether all is certain that a subscription has settled in these places.

        Gives what to wait for; None if it is.
        """
        promise = Promise(self.loop.create_future())
        is_open = self.settlements.promise(promise, source, places)
        if is_open:
            self._ask_whether_settled(promise)
        elif promise.error is None:
            return None
        else:
            self.settlements.answer(promise)
        return promise.outcome

    def drop_copies(self, id: str) -> None:
        """
        Let no subscription show a message that is settled by its own id.

        A lost link, or a subscription that ended, had brought it; the broker may have given it to
        another subscription of ours before it hears that it is settled.
        """
        for subscriber in self.subscribers.values():
            subscriber.drop_copy(id)

    def _ask_whether_settled(self, promise: Promise) -> None:
        receipt = self.next_receipt()
        request = SettlementRequest(self.settlements, None, promise)
        request.is_done_by_loss = not self.is_holdfast
        self.request(request, receipt, request.question(receipt))

    def _say_more(self, link: Link) -> None:
        """Say again by their own names what was refused by another, then ask what became of it."""
        frames, promises = self.settlements.take_more()
        for frame in frames:
            link.write(frame)
        for promise in promises:
            self._ask_whether_settled(promise)

    def frames_received(self, link: Link, frames: list[Frame]) -> None:
        """Hand frames to whom they concern (LinkOwner)."""
        if link is not self._link:
            return
        take = self.outstanding.take
        subscribers = self.subscribers
        for frame in frames:
            headers = frame.headers
            if frame.command == "RECEIPT":
                receipt = headers["receipt-id"]
                operation = take(receipt)
                if operation is not None:
                    operation.received(receipt)
                self._faults = 0
            elif frame.command == "MESSAGE":
                subscriber = subscribers.get(headers.get("subscription", ""))
                if subscriber is not None:
                    subscriber.delivered(frame)
            elif frame.command == "ERROR":
                self._refused(frame)
        if self.settlements.has_more:
            self._say_more(link)
        if frames[-1].command != "ERROR":
            self._complaint = None
            self._is_useful = True
        self._told_outcomes()
        if self.is_overflowing and not (self.outstanding and self.overflow.is_usable):
            link.pause_reading()

    @property
    def is_overflowing(self) -> bool:
        """Whether what was not taken fills the memory that it may have."""
        return self.buffered_bytes > self.settings.received_bytes_max

    def message_taken(self, size_bytes: int) -> None:
        """The application took a message out of a buffer, or it was dropped."""
        self.buffered_bytes -= size_bytes
        link = self._link
        if (
            link is not None
            and link.is_paused
            and self.buffered_bytes <= self.settings.received_bytes_max // 2
        ):
            link.resume_reading()

    def _refused(self, frame: Frame) -> None:
        receipt = frame.headers.get("receipt-id")
        error = refusal(frame)
        operation = None if receipt is None else self.outstanding.take(receipt)
        if operation is not None and receipt is not None:
            operation.refused(receipt, error)
            return
        subscriber = self.subscribers.get(frame.headers.get("subscription", ""))
        if subscriber is not None and error.code == SLOW_CONSUMER:
            subscriber.ended(error)
            return
        named = frame.headers.get("id")
        is_settlement = (
            receipt is None
            and (named is not None or error.code in _OF_SETTLEMENTS)
            and self.settlements.refused(named, error)
        )
        if error.code == UnknownDeliveryError.code or (is_settlement and named is not None):
            logger.debug("an acknowledgement was refused: %s", error)  # Who waits for it is told.
        else:
            # It may be the broker's last word before it hangs up.
            self._complaint = error
            logger.warning("the broker complains: %s", error)
        self._sink.happened(BrokerComplaint(error))

    def _told_outcomes(self) -> None:
        if self.has_room:
            self._room.wake_all()
        if not self.outstanding:
            self._idle.wake_all()

    def link_lost(self, link: Link, error: HoldfastError) -> None:
        """The link is gone; with a failover URI look for another one (LinkOwner)."""
        if link is not self._link or self.failure is not None:
            return
        self._link = None
        complaint, self._complaint = self._complaint, None
        # That its members do not answer is nothing we have done, and passes.
        is_fault = complaint is not None and getattr(complaint, "code", "") != _QUORUM_LOST
        if complaint is not None:
            self._faults += is_fault
            error = LinkLostError(f"{error}; before, the broker said: {complaint}")
        if self._is_closing or not self._dialer.has_failover:
            self._shut(None if self._is_closing else error)
            return
        if is_fault and self._faults >= self.settings.broker_faults_count_max:
            self._shut(complaint)
            return
        self._interrupt(link, error)

    def _interrupt(self, link: Link, error: HoldfastError) -> None:
        self._interrupted_at = self.loop.time()
        logger.warning("interrupted: %s", error)
        self.settlements.link_lost()
        for subscriber in self.subscribers.values():
            subscriber.interrupted()
        for operation in self.outstanding.take_done_by_loss():
            operation.abandoned(error)
        self._told_outcomes()
        self._timeouts.limit_all()
        self._sink.happened(Interrupted(str(link.address), str(error), len(self.outstanding)))
        self._dialer.lost(link.address, was_useful=self._is_useful)
        self._reconnecting = self.loop.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        try:
            link = await self._dialer.open(self)
            self._adopt(link)
        except HoldfastError as error:
            self._shut(error)
        except Exception as error:
            # A mistake of ours: whoever waits must not wait for ever for a search that has ended.
            logger.exception("reconnecting failed")
            self._shut(LinkLostError(f"reconnecting failed: {error!r}"))

    def _adopt(self, link: Link) -> None:
        """Make a link ours, and put it in the state of the last one."""
        self._reconnecting = None
        self._is_useful = False
        self.generation += 1
        self._timeouts.clear()
        was_holdfast, self.greeting = self.is_holdfast, link.greeting
        self.settlements.knows_names = self.is_holdfast
        if not was_holdfast:
            self.settlements.give_up()
        # First of all the acknowledgements: what they settle need not be delivered again.
        late = self.settlements.frames()
        replays = self.outstanding.take_replays()
        self._link = link
        for frame in late:
            link.write(frame)
        for subscriber in list(self.subscribers.values()):
            subscriber.resubscribe()
        for frame in replays:
            link.write(frame)
        self._told_outcomes()
        if self.generation > 1:
            self._resumed(link, len(replays))

    def _resumed(self, link: Link, resent_count: int) -> None:
        seconds = self.loop.time() - self._interrupted_at
        logger.info("resumed at %s after %.3f s", link.address, seconds)
        node = link.greeting.get("holdfast-node")
        event = Resumed(str(link.address), seconds, resent_count, node, term_of(link))
        self._sink.happened(event)
