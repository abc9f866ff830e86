"""
STOMP as the broker understands it: what each frame asks, and what the client is told.

Semantics follow the specification and ActiveMQ: a message is persistent only if it says so,
acknowledgement modes are auto, client (cumulative) and client-individual, NACK sends to the
dead-letter queue. A request that is refused gets an ERROR frame and the connection lives; a broken
protocol rule gets an ERROR frame and the connection is closed.

The session is fed bytes and collects bytes in `out`; the server sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from typing import Any, ClassVar

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.broker.serving.queue import Queue, TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.broker.serving.transactions import Transaction
from holdfast.errors import (
    IncompleteFrameError,
    ProtocolError,
    RefusedError,
    StoreFullError,
    TransactionError,
)
from holdfast.model.destination import Destination, Kind, parse_destination
from holdfast.model.records import MessageRecord
from holdfast.protocols.stomp.codec import encode_frame, encode_receipt, escape
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    FrameRefused,
    HeaderBlock,
    ProtocolFailed,
    SendFrame,
)
from holdfast.protocols.stomp.heart_beat import HEART_BEAT, HeartBeat
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import VERSIONS
from holdfast.sessions.client_ids import forget_shown, introduce, let_go
from holdfast.sessions.context import SessionContext
from holdfast.sessions.refusals import IGNORED_EXPIRY, IGNORED_OPTION
from holdfast.sessions.session import LARGE_BYTES, Session
from holdfast.sessions.stomp_acknowledging import acknowledge_identity, settle
from holdfast.sessions.stomp_delivery import DeliveryFormat
from holdfast.sessions.stomp_headers import (
    SendTarget,
    no_room,
    read_finished,
    read_number,
    read_producer_id,
    require_obeyable,
    require_served_name,
    require_short,
    unknown_name,
)
from holdfast.sessions.stomp_subscribing import subscribe, unsubscribe
from holdfast.sessions.waiting_sends import WaitingSends

ReadMessage = Callable[[int], MessageRecord]


_MUCH = 1 << 30
"""The effort of a frame after which the clock is looked at."""

_HEART_BEAT_MS_MIN = 100
"""A client that wants beats more often gets them so often; more would only cost."""


class LastReceipt(bytes):
    """The receipt id of a DISCONNECT: told apart from an equal one of an earlier frame."""

    __slots__ = ()


class StompSession(Session):
    """One client connection."""

    def __init__(
        self,
        broker: Broker,
        context: SessionContext,
        settings: StompSettings,
        read_message: ReadMessage,
        *,
        opened_at: float | None = None,
    ) -> None:
        context.session_count += 1
        super().__init__(f"{context.node}-{context.term}-{context.session_count}")
        self.broker = broker
        self.context = context
        self.protocol = StompConnection("server", settings, opened_at=opened_at)
        self.read_message = read_message
        """Reads a stored message by record number; a rejected one may not be in memory."""
        self.by_ordinal: dict[bytes, Subscription] = {}
        self.ordinal = 0
        self.held: list[Event] = []
        """An acknowledgement that waits until no other leader may deliver, and what came after."""
        self.waiting = WaitingSends(context, broker.settings)
        self._is_next = False
        """What is being done is the first of what waited."""
        self.events: Iterator[Event] = iter(())
        """What came and is not done yet."""
        self.effort = 0
        """What the present frame cost beside itself, in ordinary frames."""
        self.rollback: Iterator[None] | None = None
        """The rest of an ABORT, or of the end of this client's old connection; what comes behind it
        waits, as it counts on what that gives back."""
        self.rollback_count = 0
        """The operations of that transaction, or what that connection held."""
        self.spreading: Topic | None = None
        """Where the last message published is on its way to many; what comes behind it waits."""
        self.spreading_receipt: bytes | None = None
        self.unconfirmed_count = 0
        """Receipts that wait until what they confirm is out: only this node has it."""
        self.last_receipt: LastReceipt | None = None
        """A goodbye that waits for those."""
        self._leaving: Iterator[None] | None = None
        self.carries_headers = False
        """Its messages are copies: what their headers wish was an affair of another broker."""

    @property
    def protocol_name(self) -> str:
        return f"STOMP {self.protocol.version}"

    # ---- what comes in

    def receive(self, data: bytes, is_spent: IsSpent = lambda: False) -> bool:
        self._parse(data)
        return self.proceed(is_spent)

    def _parse(self, data: bytes) -> None:
        """Parse what came, or some of it: 64 KiB of SUBSCRIBEs take long."""
        self.protocol.receive_data(data, slow_frames_max=self.broker.settings.step_count_max)
        self.events = iter(self.protocol.events_received())

    def go_on(self) -> bool:
        if not self.held:
            return False
        self.events = chain(self.held, self.events)
        self.held = []
        self.is_left_off = True
        return True

    def proceed(self, is_spent: IsSpent) -> bool:
        self.is_left_off = not (self._proceed(is_spent) and self._parse_on(is_spent))
        return not self.is_left_off

    def _parse_on(self, is_spent: IsSpent) -> bool:
        """Parse and do what is not parsed yet; True if all is done now."""
        while self.protocol.has_more and not self._is_stopped():
            self._parse(b"")
            if not self._proceed(is_spent):
                return False
            if is_spent():
                return not self.protocol.has_more
        return True

    def _proceed(self, is_spent: IsSpent) -> bool:
        if self.rollback is not None and not self.proceed_with_endings(is_spent):
            return False
        if self.spreading is not None and self._is_on_its_way():
            return False
        effort = 0
        effort_max = self.broker.settings.step_count_max
        send = self._send
        acknowledge = self._hold_back if self.context.is_lease_awaited else self._acknowledge
        for event in () if self._is_stopped() else self.events:
            try:
                if type(event) is SendFrame:
                    send(event)
                elif type(event) is AcknowledgeFrame:
                    acknowledge(event)
                    if self.held:
                        break
                else:
                    self._do(event)
                    if self.is_closing:
                        break
            except RefusedError as error:
                self._refuse(error, event)
            except ProtocolError as error:
                self._fail(error, event.receipt)
                break
            effort += 1
            if self.effort:
                effort += self.effort
                self.effort = 0
            if effort >= effort_max:
                effort = 0
                if is_spent() or not self.proceed_with_endings(is_spent) or self._is_on_its_way():
                    return False
        self.events = iter(())
        return True

    def _is_stopped(self) -> bool:
        """Whether nothing more is done now: it is closing, or what comes waits for a lease."""
        if self.held:
            self.held.extend(self.events)
        return self.is_closing or bool(self.held)

    def _hold_back(self, frame: AcknowledgeFrame) -> None:
        """Let an acknowledgement, and what comes behind it, wait for a lease."""
        self.held.append(frame)
        self.held.extend(self.events)

    def _do(self, event: Event) -> None:
        """Do what anything but a SEND or an acknowledgement asks."""
        if type(event) is ProtocolFailed:
            self._fail(event.error, event.receipt)
        elif type(event) is Frame:
            self._COMMANDS[event.command](self, event)
        elif type(event) is FrameRefused:
            self._refuse(event.error, event)

    def proceed_with_endings(self, is_spent: IsSpent) -> bool:
        if self.rollback is not None:
            for _ in self.rollback:
                if is_spent():
                    return False
            self.rollback = None
            self.rollback_count = 0
        return True

    def _is_on_its_way(self) -> bool:
        """Whether a message published is still on its way; else more would come in than leaves."""
        if self.spreading is not None and not self.spreading.spread_count:
            self.spreading = None
            self._confirm(self.spreading_receipt)
        return self.spreading is not None

    def _send(self, frame: SendFrame) -> None:
        target = frame.block.memo
        if type(target) is not SendTarget or target.destination.is_deleted:
            target = self._resolve(frame.block, may_be_late=self._is_repetition(frame))
        receipt = frame.receipt
        broker = self.broker
        queue = target.queue
        if target.transaction is not None:
            transaction = self.transaction(target.transaction)
            self.transaction_bytes += broker.hold(
                transaction,
                target.destination,
                target.lines,
                frame.body,
                persistent=target.persistent,
            )
            if receipt is not None:
                self.reply(receipt)
            return
        waiting = self.waiting
        if target.persistent:
            producer_id = target.producer_id
            refusal = self.context.refusal
            assert queue is not None, "only queues keep messages"
            if (
                waiting.bytes
                and not self._is_next
                and (waiting.holds(queue) or waiting.holds_producer(producer_id))
            ):
                # Behind what was sent there, or has an earlier number.
                if waiting.has_place:
                    waiting.add(frame, queue, producer_id)
                    return
                refusal = "too much waits for room before this message; send it again later"
            sequence = 0
            if producer_id is not None:
                sequence = read_number(frame.producer_sequence, "producer-sequence")
            if refusal is not None and not broker.has_taken(producer_id, sequence):
                raise StoreFullError(refusal)
            broker.send(queue, target.lines, frame.body, self, receipt, producer_id, sequence)
            return
        destination = target.destination
        if queue is not None:  # As `has_room` says it, without a call for each message.
            has_room = broker.state.volatile_bytes <= broker.settings.memory_bytes
        else:
            has_room = broker.has_room(destination)
        if (waiting.bytes and not self._is_next) or not has_room:
            self._wait(frame, destination)
            return
        waiting.is_refusing = False
        if type(destination) is Topic:
            broker.publish(destination, target.lines, frame.body)
            self.effort = len(destination.subscriptions)
            if destination.spread_count:
                self.spreading = destination
                self.spreading_receipt = receipt
                self.effort = _MUCH
                return
        elif queue is not None:
            broker.send_transient(queue, target.lines, frame.body)
        if receipt is not None:
            self._confirm(receipt)

    def _confirm(self, receipt: bytes | None) -> None:
        """Say that a message was taken that only this node has, once it is out and ours still."""
        if receipt is not None:
            self.unconfirmed_count += 1
            self.broker.publishing.confirm(self, receipt)

    def _wait(self, frame: SendFrame, destination: Queue | Topic) -> None:
        """Set a SEND aside until there is room, or refuse it if it must not wait any more."""
        waiting = self.waiting
        if not waiting.is_allowed:
            raise StoreFullError(no_room(destination))
        waiting.add(frame, destination)
        self.context.waiting[self] = None

    def send_waiting(self, is_spent: IsSpent = lambda: False) -> None:
        waiting = self.waiting
        effort = 0
        while effort < self.broker.settings.step_count_max or not is_spent():
            effort = effort % self.broker.settings.step_count_max + 1 + self.effort
            self.effort = 0
            if self._is_on_its_way():
                return
            if not waiting:
                self.context.waiting.pop(self, None)
                return
            frame = waiting.first()
            if isinstance(frame, Frame):
                waiting.remove_first()
                self._disconnect(frame)
                continue
            if not waiting.is_late and not self._has_room(frame):
                return
            self._is_next = True
            try:
                if not self._has_room(frame):
                    waiting.is_refusing = True
                    raise StoreFullError(no_room(self._target(frame.block).destination))
                self._send(frame)
            except RefusedError as error:
                self._refuse(error, frame)
            finally:
                self._is_next = False
                waiting.remove_first()

    def _has_room(self, frame: SendFrame) -> bool:
        try:
            target = self._target(frame.block)
        except RefusedError:
            return True  # It is refused in its turn.
        return target.persistent or self.broker.has_room(target.destination)

    def _target(self, block: HeaderBlock) -> SendTarget:
        """What a SEND with these headers means now."""
        target = block.memo
        if type(target) is not SendTarget or target.destination.is_deleted:
            target = self._resolve(block)
        return target

    def _is_repetition(self, frame: SendFrame) -> bool:
        """Whether a message is stored already: it is confirmed, however late it is by now."""
        sequence = frame.producer_sequence
        if sequence is None or not sequence.isdigit():
            return False
        producer_id = frame.block.headers.get("producer-id")
        return self.broker.has_taken(producer_id, read_number(sequence, "producer-sequence"))

    def _resolve(self, block: HeaderBlock, *, may_be_late: bool = False) -> SendTarget:
        """Work out what a SEND with these headers means and keep it with the headers."""
        headers = block.headers
        written = parse_destination(headers["destination"])
        if written.options:
            self.ignored(written.read_options())
        is_to_expire = may_be_late or (not self.carries_headers and self._is_to_expire(headers))
        destination = self.destination(written)
        lines = block.lines
        reply_to = headers.get("reply-to", "").strip()
        if reply_to.startswith(("/temp-queue/", "/temp-topic/")):
            lines = self._with_remote_reply(lines, parse_destination(reply_to))
        persistent = headers.get("persistent")
        wanted = self.context.default_persistent if persistent is None else persistent == "true"
        lasting = isinstance(destination, Queue) and not destination.is_temporary
        target = SendTarget(destination, lines, persistent=wanted and lasting)
        target.transaction = headers.get("transaction")
        producer_id = headers.get("producer-id")
        if producer_id is not None and target.persistent and target.transaction is None:
            target.producer_id = read_producer_id(producer_id)
        if not is_to_expire:
            block.memo = target  # Else it is looked at anew: it may expire between two messages.
        return target

    def _is_to_expire(self, headers: dict[str, str]) -> bool:
        """Whether a SEND has a lifetime; refuses what it wishes that would be ignored."""
        is_to_expire = require_obeyable(headers, self.broker.now_microseconds // 1000)
        if is_to_expire:
            text = "messages do not expire yet; header 'expires' is kept and does nothing"
            self.context.refusals.note(self, IGNORED_EXPIRY, text)
        return is_to_expire

    def _with_remote_reply(self, lines: bytes, reply_to: Destination) -> bytes:
        """Show the client's temporary queue to others under its full name."""
        self.destination(reply_to)
        full = escape(f"/remote-{reply_to.kind.value}/{self.id}.{reply_to.name}", "1.2").encode()
        return b"".join(
            b"reply-to:%b\n" % full if line.startswith(b"reply-to:") else line
            for line in lines.splitlines(keepends=True)
        )

    def ignored(self, options: Iterable[str]) -> None:
        """Tell the operator of options that are cut off a destination and not obeyed."""
        for name in options:
            text = f"option {name[:80]!r} of a destination is not obeyed here"
            self.context.refusals.note(self, IGNORED_OPTION, text)

    def destination(self, parsed: Destination) -> Queue | Topic:
        """
        Give the destination of this name, declaring it if it is new.

        Raises:
            DestinationError: It cannot be used, or there are too many.
        """
        require_served_name(parsed)
        kind = parsed.kind
        broker = self.broker
        if kind is Kind.QUEUE:
            return broker.queue(parsed.name)
        if kind is Kind.TOPIC:
            return broker.topic(parsed.name)
        if kind is Kind.TEMPORARY_QUEUE:
            return broker.temporaries.queue(f"{self.id}.{parsed.name}", owner=self)
        if kind is Kind.REMOTE_TEMPORARY_QUEUE:
            return broker.temporaries.queue(parsed.name)
        if kind is Kind.TEMPORARY_TOPIC:
            return broker.temporaries.topic(f"{self.id}.{parsed.name}", owner=self)
        return broker.temporaries.topic(parsed.name)

    # ---- acknowledging

    def _acknowledge(self, frame: AcknowledgeFrame) -> None:
        name = frame.id
        ordinal, _, digits = name.partition(b"-")
        subscription = self.by_ordinal.get(ordinal)
        if subscription is None:
            self.effort = _MUCH
            acknowledge_identity(self, frame)
            return
        try:
            key = int(digits)
        except ValueError:
            raise unknown_name(name) from None
        if frame.block is None and not frame.negative:
            self.effort = self.broker.acknowledge(subscription, key, self, frame.receipt)
        else:
            self.effort = _MUCH
            settle(self, frame, subscription, key)

    # ---- the other frames

    def _connect(self, frame: Frame) -> None:
        self.client = introduce(self, frame.headers)
        self.carries_headers = frame.headers.get("holdfast-carry") == "true"
        headers = [
            ("version", self.protocol.version),
            ("session", self.id),
            ("server", self.context.server),
            ("heart-beat", self._heart_beats()),
            ("holdfast-cluster", self.context.cluster),
            ("holdfast-term", str(self.context.term)),
            ("holdfast-node", self.context.node),
        ]
        if self.context.promotion:
            headers.append(("holdfast-promotion", self.context.promotion))
        request = frame.headers.get("request-id") or frame.headers.get("receipt")
        if request is not None:
            headers += [("response-id", request), ("receipt-id", request)]
        self.is_connected = True
        self.write(encode_frame("CONNECTED", headers, b"", self.protocol.version))

    def _heart_beats(self) -> str:
        """Promise what the client wants and want what it promises, as ActiveMQ does."""
        theirs = self.protocol.peer_heart_beat
        mine = tuple(max(_HEART_BEAT_MS_MIN, beat) if beat else 0 for beat in reversed(theirs))
        outgoing, incoming = mine
        self.protocol.negotiate_heart_beats((outgoing, incoming), theirs)
        return f"{outgoing},{incoming}"

    def _begin(self, frame: Frame) -> None:
        name = frame.headers["transaction"]
        if name in self.transactions:
            raise TransactionError(f"transaction {name!r} has begun already")
        require_short(name, "transaction name")
        count_max = self.broker.settings.transaction_count_max
        if len(self.transactions) >= count_max:
            raise TransactionError(f"at most {count_max:,} open transactions on one connection")
        transaction = self.transactions[name] = self.broker.begin(name)
        self.transaction_bytes += transaction.own_bytes
        if frame.receipt is not None:
            self.reply(frame.receipt)

    def _commit(self, frame: Frame) -> None:
        transaction = self.transaction(frame.headers["transaction"])
        if transaction.failure is not None:
            self._roll_back(transaction, None)
            raise TransactionError(
                f"transaction {transaction.name!r} is rolled back, because a part of it was"
                f" refused: {transaction.failure}"
            )
        producer_id = frame.headers.get("producer-id")
        sequence = 0
        if producer_id is not None:
            producer_id = read_producer_id(producer_id)
            text = frame.headers.get("producer-sequence", "")
            sequence = read_number(text.encode(), "producer-sequence")
            if self.waiting.holds_producer(producer_id):
                raise StoreFullError(
                    f"messages of producer {producer_id} with earlier numbers wait for room"
                )
        finished = read_finished(frame)
        has_sends = transaction.records or transaction.targets
        has_taken = self.broker.has_taken(producer_id, sequence)
        if has_sends and not has_taken:
            self._require_store(transaction)
        if finished is not None:
            self.broker.finished.forget(*finished)
        self.broker.commit(transaction, self, frame.receipt, producer_id, sequence)
        self._forget(transaction)
        if frame.receipt is not None and transaction.publications and not has_taken:
            self.unconfirmed_count += 1

    def _forget(self, transaction: Transaction) -> None:
        del self.transactions[transaction.name]
        self.transaction_bytes -= transaction.held_bytes

    def _require_store(self, transaction: Transaction) -> None:
        """Refuse what there is no room for, and what would go before SENDs that wait for room."""
        if self.context.refusal is not None:
            raise StoreFullError(self.context.refusal)
        for destination in transaction.destinations:
            if self.waiting.holds(destination):
                raise StoreFullError(no_room(destination))
        for destination in transaction.targets:
            if not self.broker.has_room(destination):
                raise StoreFullError(no_room(destination))

    def _abort(self, frame: Frame) -> None:
        self._roll_back(self.transaction(frame.headers["transaction"]), frame.receipt)

    def _roll_back(self, transaction: Transaction, receipt: bytes | None) -> None:
        self._forget(transaction)
        self.wait_for(self._rolling_back(transaction, receipt), transaction.operation_count)

    def wait_for(self, steps: Iterator[None], count: int) -> None:
        """Do nothing else before these steps are done, which give back about so much."""
        self.rollback = steps
        self.rollback_count = count
        self.effort = self.broker.settings.step_count_max  # It is gone on with before anything.

    def _rolling_back(self, transaction: Transaction, receipt: bytes | None) -> Iterator[None]:
        yield from self.broker.abort(transaction)
        self.rollback_count = 0
        if receipt is not None:
            self.reply(receipt)

    def transaction(self, name: str) -> Transaction:
        """
        Give an open transaction of this connection.

        Raises:
            TransactionError: It has not begun.
        """
        transaction = self.transactions.get(name)
        if transaction is None:
            raise TransactionError(f"transaction {name!r} has not begun; send BEGIN first")
        return transaction

    def _disconnect(self, frame: Frame) -> None:
        if self.waiting:
            self.waiting.add(frame)
            return
        self.context.leave(self)
        if frame.receipt is None:
            self.is_closing = True
            if not self.out:
                self.context.dirty.append(self)  # Nothing to send, but to be closed.
            return
        self.broker.receipts.reply_after_pending(self, LastReceipt(frame.receipt))

    _COMMANDS: ClassVar[dict[str, Callable[[Any, Frame], None]]] = {
        "CONNECT": _connect,
        "SUBSCRIBE": subscribe,
        "UNSUBSCRIBE": unsubscribe,
        "BEGIN": _begin,
        "COMMIT": _commit,
        "ABORT": _abort,
        "DISCONNECT": _disconnect,
    }

    # ---- how it is

    @property
    def is_full(self) -> bool:
        return bool(self.held) or self.waiting.is_full

    @property
    def is_spreading(self) -> bool:
        return self.spreading is not None

    @property
    def is_idle(self) -> bool:
        return super().is_idle and not (self.waiting or self.held or self.rollback_count)

    @property
    def unfinished_bytes(self) -> int:
        return self.protocol.unfinished_bytes

    def give_up(self) -> None:
        self.protocol.give_up()

    # ---- time

    @property
    def received_at(self) -> float | None:
        return self.protocol.received_at

    def note_received(self, now: float) -> None:
        self.protocol.note_received(now)

    def note_sent(self, now: float) -> None:
        self.protocol.note_sent(now)

    @property
    def deadline(self) -> float | None:
        return self.protocol.deadline

    def handle_deadline(self, now: float) -> bytes | None:
        outcome = self.protocol.handle_deadline(now)
        if outcome is HeartBeat.SEND:
            self.protocol.note_sent(now)
            return HEART_BEAT
        return None if outcome is HeartBeat.PEER_DEAD else b""

    # ---- what goes out

    def write(self, data: bytes) -> None:
        """Put bytes behind what is to be sent already."""
        if not self.out:
            self.context.dirty.append(self)
        self.out.append(data)

    def recount_room(self) -> None:
        if not self.out:
            self.context.dirty.append(self)

    def reply(self, receipt: bytes) -> None:
        if type(receipt) is LastReceipt:
            if self.unconfirmed_count:
                self.last_receipt = receipt
                return
            self.is_closing = True
        out = self.out
        if not out:
            self.context.dirty.append(self)
        self.context.receipt_count += 1
        out.append(encode_receipt(receipt))

    def confirm(self, receipt: bytes) -> None:
        """Tell the client that what it published is out; a goodbye waits for the last of these."""
        self.unconfirmed_count -= 1
        self.context.receipt_count += 1
        self.write(encode_receipt(receipt))
        if self.last_receipt is not None:
            self.reply(self.last_receipt)

    def deliver(
        self,
        subscription: Subscription,
        key: int,
        message: MessageRecord | TransientMessage,
        *,
        redelivered: bool,
    ) -> None:
        form = subscription.memo
        assert type(form) is DeliveryFormat, "every subscription has its format"
        if not self.out:
            self.context.dirty.append(self)
        if subscription.topic is not None and type(message) is TransientMessage:
            form.write_shared(self.out, key, message)
            if message.size >= LARGE_BYTES:
                self.large.append(message)
        else:
            form.write(self.out, key, message, redelivered=redelivered)

    def _refuse(self, error: RefusedError | IncompleteFrameError, event: Event) -> None:
        """Say that a request is refused; a transaction it was part of cannot commit any more."""
        headers: dict[str, str] = {}
        if isinstance(event, FrameRefused):
            headers = event.headers
        elif isinstance(event, SendFrame | AcknowledgeFrame) and event.block is not None:
            headers = event.block.headers
        transaction = self.transactions.get(headers.get("transaction", ""))
        if transaction is not None and transaction.failure is None:
            transaction.failure = str(error)
        self.context.refusals.note(self, error.code, str(error))
        named = event.id if isinstance(event, AcknowledgeFrame) else None
        self._error(str(error), error.code, event.receipt, named)

    def _fail(self, error: ProtocolError, receipt: bytes | None) -> None:
        self.context.refusals.note(self, error.code, str(error))
        self._error(str(error), error.code, receipt)
        self.is_closing = True

    def _error(
        self, text: str, code: str, receipt: bytes | None, named: bytes | None = None
    ) -> None:
        """STOMP 1.2, ERROR: say what went wrong, and for which frame (`named`: the id it names)."""
        version = self.protocol.version
        headers = [("message", text.splitlines()[0]), ("code", code)]
        if code == "version":
            # STOMP 1.2, Protocol Negotiation: say what we speak.
            headers.append(("version", ",".join(VERSIONS)))
        headers.append(("content-type", "text/plain"))
        frame = encode_frame("ERROR", headers, text.encode(), version)
        if receipt is not None:
            frame = frame.replace(b"ERROR\n", b"ERROR\nreceipt-id:%b\n" % receipt, 1)
        elif named is not None:
            frame = frame.replace(b"ERROR\n", b"ERROR\nid:%b\n" % named, 1)
        self.write(frame)

    # ---- the end

    def farewell(self, text: str, code: str) -> None:
        self.context.refusals.count(code)
        self._error(text, code, None)
        self.is_closing = True

    def disconnected(self) -> None:
        let_go(self)

    def leaving(self) -> Iterator[None]:
        if self._leaving is None:
            self._leaving = self._leave_in_steps()
        return self._leaving

    def _leave_in_steps(self) -> Iterator[None]:
        try:
            yield from self._give_back()
        except Exception:
            self._leaving = None  # It can be begun anew.
            raise

    def _give_back(self) -> Iterator[None]:
        """Give back what this connection holds; nothing is delivered from the first step on."""
        self.events = iter(())
        self.by_ordinal.clear()
        let_go(self)
        self.waiting.clear()
        self.context.waiting.pop(self, None)
        subscriptions = self.subscriptions
        for subscription in subscriptions.values():
            subscription.prefetch = 0
        while subscriptions:
            self.broker.unsubscribe(subscriptions.pop(next(iter(subscriptions))))
            yield
        yield from self.rollback or ()
        while self.transactions:
            yield from self.broker.abort(self.transactions.popitem()[1])
            yield
        yield from self.broker.drop_temporary(self)
        forget_shown(self)

    @property
    def held_count(self) -> int:
        held = sum(each.operation_count for each in self.transactions.values())
        held += len(self.subscriptions) + len(self.transactions) + self.rollback_count
        return held + self.broker.temporaries.count_of(self)

    def forget(self) -> list[Collection[object]]:
        return [*super().forget(), self.by_ordinal]
