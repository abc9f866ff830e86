"""
STOMP as the broker understands it: what each frame asks, and what the client is told.

Semantics follow the specification and ActiveMQ: a message is persistent only if it says so,
acknowledgement modes are auto, client (cumulative) and client-individual, NACK sends to the
dead-letter queue. A request that is refused gets an ERROR frame and the connection lives; a broken
protocol rule gets an ERROR frame and the connection is closed.

The session is fed bytes and collects bytes in `out`; the server sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, ClassVar, Final

from holdfast.broker.addressing import RouteUnknownError
from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.errors import (
    AuthenticationError,
    IncompleteFrameError,
    ProtocolError,
    RefusedError,
    RemoteProtocolError,
)
from holdfast.model.records import MessageRecord
from holdfast.protocols.stomp.codec import encode_frame, encode_receipt
from holdfast.protocols.stomp.connection import StompConnection
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    FrameRefused,
    ProtocolFailed,
    SendFrame,
)
from holdfast.protocols.stomp.heart_beat import HEART_BEAT, HeartBeat
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import VERSIONS
from holdfast.sessions.client_ids import introduce, own_of
from holdfast.sessions.client_session import NOT_AUTHENTICATED, ClientSession
from holdfast.sessions.context import SessionContext
from holdfast.sessions.credentials import Answer
from holdfast.sessions.holder import unnamed
from holdfast.sessions.holdings import ReadMessage
from holdfast.sessions.sending import MUCH
from holdfast.sessions.session import LARGE_BYTES
from holdfast.sessions.stomp_acknowledging import acknowledge_identity, settle, settle_overdue
from holdfast.sessions.stomp_connecting import Login, connected, login_by, read_credential
from holdfast.sessions.stomp_durables import may_begin_wildcard
from holdfast.sessions.stomp_headers import ZERO, negative_key, unknown_name
from holdfast.sessions.stomp_sending import judge_unfinished, resolve
from holdfast.sessions.stomp_subscribing import subscribe, unsubscribe
from holdfast.sessions.stomp_transactions import abort, begin, commit
from holdfast.sessions.target import Goodbye, Outgoing, Target

_FRAME_BYTES: Final = 400
_HEADER_BYTES: Final = 200
"""What a frame that waits costs beside its headers, and each of these beside its text."""


class LastReceipt(bytes):
    """The receipt id of a DISCONNECT: told apart from an equal one of an earlier frame."""

    __slots__ = ()


class StompSession(ClientSession):
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
        super().__init__(broker, context, read_message)
        self.protocol = StompConnection("server", settings, opened_at=opened_at)
        self.step_count_max = broker.settings.step_count_max
        self._connect_by = (
            None if opened_at is None else opened_at + settings.connect_timeout_seconds
        )
        self._steals_links = settings.allow_link_stealing
        self.login: Login | None = None
        """A CONNECT of which it is found out whose it is."""
        self.held: list[Event] = []
        """An acknowledgement that waits until no other leader may deliver, and what came after; or
        what came after a CONNECT that waits."""
        self.events: Iterator[Event] = iter(())
        """What came and is not done yet."""
        self.last_receipt: LastReceipt | None = None
        """A goodbye that waits for what is not confirmed."""
        self.policy_change_count = 0
        self.carries_headers = False
        """Its messages are copies: what their headers wish was an affair of another broker."""

    @property
    def protocol_name(self) -> str:
        return f"STOMP {self.protocol.version}"

    def receive(self, data: bytes, is_spent: IsSpent = lambda: False) -> bool:
        if self.login is not None:
            self.login.unread += data
            return True
        self._parse(data)
        return self.proceed(is_spent)

    def _parse(self, data: bytes) -> None:
        """Parse what came, or some of it: 64 KiB of SUBSCRIBEs take long."""
        # Behind a CONNECT nothing is parsed before its answer: frames are many times their bytes.
        count_max = self.step_count_max if self.is_connected else 1
        change_count = self.holdings.broker.state.policies.change_count
        if change_count != self.policy_change_count:
            # What the headers of a SEND come to is kept with them, and policies have a part in it.
            self.policy_change_count = change_count
            self.protocol.forget_heads()
            self.templates.forget()
        self.protocol.receive_data(data, slow_frames_max=count_max)
        self.events = iter(self.protocol.events_received())

    def go_on(self) -> bool:
        if not self.held or self.login is not None:
            return False
        self._release()
        return True

    def _release(self) -> None:
        """Let `proceed` do what was held."""
        self.events = chain(self.held, self.events)
        self.held = []
        self.is_left_off = True

    def proceed(self, is_spent: IsSpent) -> bool:
        self.is_left_off = not (self._proceed(is_spent) and self._parse_on(is_spent))
        if self.protocol.unjudged is not None:
            judge_unfinished(self, self.protocol)
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
        holdings = self.holdings
        sending = holdings.sending
        if holdings.rollback is not None and not holdings.go_on_rolling_back(is_spent):
            return False
        is_busy = sending.spreading is not None or sending.steps is not None
        if is_busy and sending.is_on_its_way(self):
            return False
        effort = 0
        patterns = holdings.broker.destinations.leadership.patterns
        effort_max = self.step_count_max // (1 + holdings.broker.advising.effort)
        send = sending.send
        acknowledge = self._hold_back if self.context.is_lease_awaited else self._acknowledge
        for event in () if self._is_stopped() else self.events:
            try:
                if type(event) is SendFrame:
                    target = event.block.memo
                    if (
                        type(target) is not Target
                        or target.wild_count != patterns.change_count
                        or target.basis.is_outdated
                    ):
                        target = resolve(self, event, is_copy=self.carries_headers)
                    send(self, target, event)
                elif type(event) is AcknowledgeFrame:
                    acknowledge(event)
                    if self.held:
                        break
                else:
                    self._do(event)
                    if self.is_closing or self.login is not None:
                        break
            except RefusedError as error:
                self._refuse(error, event)
            except RouteUnknownError:
                self.events = iter((event, *self.events))  # No deeper, however often.
                return False
            except ProtocolError as error:
                self._fail(error, event.receipt)
                break
            effort += 1
            if self.effort:
                effort += self.effort
                self.effort = 0
            if effort >= effort_max:
                effort = 0
                if is_spent() or not self.proceed_with_endings(is_spent):
                    return False
                if sending.is_on_its_way(self):
                    return False
        self.events = iter(())
        return True

    def _is_stopped(self) -> bool:
        """Whether nothing more is done now: it is closing, or what comes waits for something."""
        is_waiting = self.login is not None or bool(self.held)
        if is_waiting:
            self.held.extend(self.events)
        return self.is_closing or self.is_leaving or is_waiting

    def _hold_back(self, frame: AcknowledgeFrame) -> None:
        """Let an acknowledgement, and what comes behind it, wait for a lease."""
        self.held += (frame, *self.events)

    def _do(self, event: Event) -> None:
        """Do what anything but a SEND or an acknowledgement asks."""
        if type(event) is ProtocolFailed:
            self._fail(event.error, event.receipt)
        elif type(event) is Frame:
            self._COMMANDS[event.command](self, event)
        elif type(event) is FrameRefused:
            self._refuse(event.error, event)

    def _is_outdated(self, target: Target) -> bool:
        patterns = self.holdings.broker.destinations.leadership.patterns
        return target.wild_count != patterns.change_count or target.basis.is_outdated

    def target_of(self, sending: Outgoing) -> Target:
        assert type(sending) is SendFrame, "what was set aside"
        target = sending.block.memo
        if type(target) is not Target or self._is_outdated(target):
            target = resolve(self, sending, is_copy=self.carries_headers)
        return target

    def refuse(self, error: RefusedError, sending: Outgoing) -> None:
        assert type(sending) is SendFrame, "what was set aside"
        self._refuse(error, sending)

    def goodbye(self, goodbye: Goodbye) -> None:
        if self.waiting:
            self.waiting.add(goodbye)
            return
        self.context.leave(self)
        if goodbye.receipt is None:
            self.is_closing = True
            self.recount_room()  # Nothing to send, but to be closed.
            return
        self.holdings.reply_after_pending(self, LastReceipt(goodbye.receipt))

    def _acknowledge(self, frame: AcknowledgeFrame) -> None:
        name = frame.id
        ordinal, _, digits = name.partition(b"-")
        subscription = self.holdings.by_ordinal.get(ordinal)
        if subscription is None:
            self.effort = MUCH
            acknowledge_identity(self, frame, is_late_only=self.protocol.version == "1.2")
            return
        try:
            key = int(digits) if digits.isdigit() and digits[0] != ZERO else negative_key(digits)
        except ValueError:
            raise unknown_name(name) from None
        if subscription.overdue:
            self.effort = MUCH
            settle_overdue(self, frame, subscription, key)
        elif frame.block is None and not frame.negative:
            self.effort = self.holdings.acknowledge(subscription, key, self, frame.receipt)
        else:
            self.effort = MUCH
            settle(self, frame, subscription, key)

    def _connect(self, frame: Frame) -> None:
        answer = self.context.check(self, read_credential(frame.headers))
        if answer is not None:
            self._admit(frame, answer)
            return
        self.login = Login(frame, login_by(self._connect_by, self.context.now))
        self.held.extend(self.events)

    def authenticated(self, answer: Answer) -> None:
        login, self.login = self.login, None
        if login is None or self.is_closing:
            return
        try:
            self._admit(login.frame, answer)
        except ProtocolError as error:
            self._fail(error, login.frame.receipt)
            return
        self.protocol.receive_data(login.unread, slow_frames_max=self.step_count_max)
        self.events = chain(self.events, self.protocol.events_received())
        self._release()

    def _admit(self, frame: Frame, answer: Answer) -> None:
        """Let a client in, or not."""
        if isinstance(answer, AuthenticationError):
            raise RemoteProtocolError(str(answer), code=NOT_AUTHENTICATED)
        self.principal = answer
        said, book = frame.headers, self.holdings.broker.access_book
        self.client, lost = introduce(
            self,
            self.context,
            client_id=own_of(said.get("client-id", ""), answer, book),
            shown=own_of(said.get("holdfast-client", ""), answer, book),
            steals=self._steals_links,
            address_key=self.context.address_key() if book.is_guarded else b"",
            life=book.owner(answer.name).life,
        )
        self.take_place(answer, lost)
        self.given_client_id = said.get("client-id", "")
        if lost:
            self.holdings.wait_for_earlier(self, lost)
        self.carries_headers = said.get("holdfast-carry") == "true"
        self.is_connected = True
        self.write(connected(self.protocol, self.context, self.id, said))
        self.is_told_of = True
        if self.holdings.broker.advising.listeners:
            self.holdings.broker.advising.connected(self)

    def _subscribe(self, frame: Frame) -> None:
        if self.holdings.broker.parts.is_hurried and may_begin_wildcard(frame.headers):
            raise RouteUnknownError
        self.effort = MUCH  # A durable subscription takes up to half a millisecond.
        subscribe(self, frame, self.protocol.version)
        if self.holdings.broker.publishing.replaying:
            self.holdings.sending.wait_for_replay(self)

    def _disconnect(self, frame: Frame) -> None:
        self.holdings.has_said_goodbye = True
        headers = frame.headers
        size = sum(map(len, headers)) + sum(map(len, headers.values()))
        size += len(frame.receipt or b"") + _FRAME_BYTES + _HEADER_BYTES * len(headers)
        self.goodbye(Goodbye(frame.receipt, size))

    _COMMANDS: ClassVar[dict[str, Callable[[Any, Frame], None]]] = {
        "CONNECT": _connect,
        "SUBSCRIBE": _subscribe,
        "UNSUBSCRIBE": unsubscribe,
        "BEGIN": begin,
        "COMMIT": commit,
        "ABORT": abort,
        "DISCONNECT": _disconnect,
    }

    @property
    def is_full(self) -> bool:
        return bool(self.held) or self.login is not None or self.waiting.is_full

    @property
    def is_idle(self) -> bool:
        return not self.held and self.login is None and super().is_idle

    @property
    def unfinished_bytes(self) -> int:
        size = self.protocol.unfinished_bytes
        if self.login is not None:
            size += self.protocol.unparsed_bytes + len(self.login.unread)
        return size

    @property
    def frame_number(self) -> int:
        return self.protocol.frame_count

    def give_up(self) -> None:
        self.login = None
        self.protocol.give_up()

    @property
    def received_at(self) -> float | None:
        return self.protocol.received_at

    def note_received(self, now: float) -> None:
        self.protocol.note_received(now)

    def note_sent(self, now: float) -> None:
        self.protocol.note_sent(now)

    @property
    def deadline(self) -> float | None:
        if self.login is not None:
            return self.login.deadline
        deadline, who = self.protocol.deadline, self.principal
        if who is None or who.expires_at is None:
            return deadline
        return who.expires_at if deadline is None else min(deadline, who.expires_at)

    def handle_deadline(self, now: float) -> bytes | None:
        if self.login is not None:
            by = self.login.deadline
            return None if by is not None and now >= by else b""
        if self.is_over(now):
            return b""
        outcome = self.protocol.handle_deadline(now)
        if outcome is HeartBeat.SEND:
            self.protocol.note_sent(now)
            return HEART_BEAT
        return None if outcome is HeartBeat.PEER_DEAD else b""

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
        subscription: Consumer,
        key: int,
        message: MessageRecord | TransientMessage,
        *,
        redelivered: int,
    ) -> None:
        form = subscription.form
        assert form is not None, "every subscription has its format"
        if not self.out:
            self.context.dirty.append(self)
        if subscription.is_on_topic and isinstance(message, TransientMessage):
            form.write_shared(self.out, key, message)
            if message.size >= LARGE_BYTES:
                self.large.append(message)
        else:
            if message.facts is not None:
                form.groups = subscription.groups
            form.write(self.out, key, message, redelivered=redelivered)

    def _refuse(self, error: RefusedError | IncompleteFrameError, event: Event) -> None:
        """Say that a request is refused; a transaction it was part of cannot commit any more."""
        headers: dict[str, str] = {}
        if isinstance(event, FrameRefused):
            headers = event.headers
        elif isinstance(event, SendFrame | AcknowledgeFrame) and event.block is not None:
            headers = event.block.headers
        self.holdings.transactions.fail(headers.get("transaction"), str(error))
        self.context.refusals.note(self, error.code, str(error))
        named = event.id if isinstance(event, AcknowledgeFrame) else None
        self._error(str(error), error.code, event.receipt, named)

    def _fail(self, error: ProtocolError, receipt: bytes | None) -> None:
        self.say_refused(error, receipt)
        self.is_closing = True

    def _error(
        self,
        text: str,
        code: str,
        receipt: bytes | None,
        named: bytes | None = None,
        about: Iterable[tuple[str, str]] = (),
    ) -> None:
        """STOMP 1.2, ERROR: say what went wrong, and for which frame (`named`: the id it names)."""
        version = self.protocol.version
        headers = [("message", (text.splitlines() or [code])[0]), ("code", code), *about]
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

    def say_refused(self, error: RefusedError | ProtocolError, receipt: bytes | None) -> None:
        self.context.refusals.note(self, error.code, str(error))
        self._error(str(error), error.code, receipt)

    def say_ended(self, error: RefusedError, subscription: Subscription) -> None:
        self.context.refusals.note(self, error.code, str(error))
        named = subscription.id != unnamed(subscription.ordinal)
        lines = [("subscription", subscription.id)] if named else []
        self._error(str(error), error.code, None, about=lines)

    def farewell(self, text: str, code: str) -> None:
        self.context.refusals.count(code)
        self._error(text, code, None)
        self.is_closing = True

    def leaving(self) -> Iterator[None]:
        self.events = iter(())
        self.login = None
        return super().leaving()
