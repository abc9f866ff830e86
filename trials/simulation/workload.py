"""
The clients of a simulated world: they speak STOMP by hand, over streams in memory.

Producers number their messages and send again what was not confirmed; some use transactions, some
have no numbers. After a refusal they do as holdfast.client does: go on once all have their answers,
and under another id where the broker does not know the one they had. Consumers acknowledge one by
one, cumulatively or never, reject some, die with unacknowledged messages and settle late what they
had done before. A mover consumes and sends in one transaction. All follow the leader by trying.
None shares code with the broker's sessions.

Invariants:
    A sequence number is used for one message or transaction only, also when it is sent again.
    Everything done and told is in the history before the next thing is done.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

from holdfast.errors import ProducerForgottenError, SequenceGapError
from trials.simulation.history import place_of
from trials.simulation.simulated_network import ClientPipe

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

CONNECT = b"CONNECT\naccept-version:1.2\nhost:simulated\nheart-beat:1500,800\n\n\0"
_REDIAL_SECONDS = 0.1
_WATCH_SECONDS = 0.25
_SILENCE_SECONDS = 1.3
_WATCHES_PER_BEAT = 3
_BEAT_BLUR_SECONDS = 0.002
_MOVED_MAX = 5
RENEWED = "goes on under another producer id"
_ANEW = frozenset({SequenceGapError.code, ProducerForgottenError.code})
"""Refusals after which the numbers under one id can never be right again."""
_NUMBER = re.compile(rb"producer-id:.*\nproducer-sequence:.*\n")
_FILLER = b"".join(b"%d," % number for number in range(4000))


def make_frame(command: bytes, *lines: bytes, body: bytes = b"") -> bytes:
    """Write a STOMP frame; the lines are taken as they are."""
    return b"%b\n%b\n\n%b\0" % (command, b"\n".join(lines), body)


def split_frames(data: bytes) -> list[bytes]:
    """Cut bytes into frames, by their content-length where they say it; last what is left."""
    frames = []
    start = 0
    while (end := data.find(b"\0", start)) >= 0:
        head_end = data.find(b"\n\n", _skip_beats(data, start))
        if 0 <= head_end < end:
            _, found, length = data[start : head_end + 1].partition(b"\ncontent-length:")
            if found:
                end = head_end + 2 + int(length.partition(b"\n")[0])
                if end >= len(data):
                    break
        frames.append(data[start:end])
        start = end + 1
    frames.append(data[start:])
    return frames


def _skip_beats(data: bytes, start: int) -> int:
    while data[start : start + 1] == b"\n":
        start += 1
    return start


class ProducerNumbers:
    """The numbers that a client gives what it sends, under ids that nobody else has."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._renewals = 0
        self._last = 0

    def next_lines(self) -> bytes:
        """Give the header lines of the next number."""
        self._last += 1
        anew = b"~%d" % self._renewals if self._renewals else b""
        name = self._name.encode() + anew
        return b"producer-id:%b\nproducer-sequence:%d" % (name, self._last)

    @property
    def last(self) -> int:
        """The last number given."""
        return self._last

    def renew(self) -> None:
        """Begin anew under another id."""
        self._renewals += 1
        self._last = 0


class Client:
    """One client process: connects, reads frames, connects again."""

    def __init__(self, world: Simulation, name: str) -> None:
        self.world = world
        self.name = name
        self.chance = random.Random(f"{world.seed}:{name}")  # noqa: S311 - to be repeated
        self.pipe: ClientPipe | None = None
        self.is_connected = False
        self.is_ended = False
        self.term = 0
        """Of the present connection."""
        self.term_seen = 0
        self.greeting = CONNECT
        self._buffer = b""
        self._heard_at = 0.0
        self._watches = 0
        self._tried = self.chance.randrange(8)
        self._redial_planned = False
        world.timeline.after(self.chance.random() * 0.3, self._dial)
        world.timeline.after(_WATCH_SECONDS, self._watch)

    # What a kind of client does -------------------------------------------------------------------

    def connected(self) -> None:
        """Take up the work on a new connection."""

    def disconnected(self) -> None:
        """Forget what only the connection knew."""

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a frame that was sent at `at`."""

    def turned_back(self) -> None:
        """The cluster goes on with a copy that lags: undo what was done by what it lacks."""

    @property
    def is_waiting(self) -> bool:
        """Whether silence means that something is wrong."""
        return True

    def soon(self, seconds: float) -> float:
        """
        Return how long to wait until about `seconds` from now, on the beat that all clients keep.

        Together they make few and large batches, as they do under load; in worlds without a beat
        everybody acts for himself.
        """
        beat = self.world.plan.beat_seconds
        if not beat:
            return seconds
        now = self.world.timeline.now
        due = (int((now + seconds) / beat) + 1) * beat
        return due - now + self.chance.random() * _BEAT_BLUR_SECONDS

    def counts(self, act: str) -> None:
        """Count what clients did, by its name."""
        self.world.acts[act] += 1

    # The connection -------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send bytes, if connected."""
        if self.pipe is not None:
            self.pipe.send(data)

    def _dial(self) -> None:
        self._redial_planned = False
        if self.pipe is not None or self.is_ended:
            return
        nodes = self.world.dialled_nodes
        self._tried += 1
        node = nodes[self._tried % len(nodes)]
        if node.is_listening and not self.world.is_client_cut(self.name, node):
            self._buffer = b""
            self._heard_at = self.world.timeline.now
            self.pipe = ClientPipe(self.world, node, self)
            self.pipe.send(self.greeting)
        else:
            self._redial()

    def _redial(self) -> None:
        if not self._redial_planned:
            self._redial_planned = True
            pause = _REDIAL_SECONDS * (0.5 + self.chance.random())
            self.world.timeline.after(pause, self._dial)

    def _watch(self) -> None:
        if self.is_ended:
            return
        now = self.world.timeline.now
        silence = now - self._heard_at
        if self.pipe is not None and silence > _SILENCE_SECONDS and self.is_waiting:
            self.drop()
        self._watches += 1
        if self.is_connected and not self._watches % _WATCHES_PER_BEAT:
            self.send(b"\n")  # Else a connection that is cut off would hold its messages for ever.
        self.world.timeline.after(_WATCH_SECONDS, self._watch)

    def drop(self) -> None:
        """End the connection without a word, and connect again."""
        pipe, self.pipe = self.pipe, None
        if pipe is not None:
            pipe.drop()
            self._gone()

    def end(self) -> None:
        """Stop for good."""
        self.is_ended = True
        self.drop()

    def lost(self, pipe: ClientPipe) -> None:
        """The other side has closed the connection."""
        if pipe is self.pipe:
            self.pipe = None
            self._gone()

    def _gone(self) -> None:
        self.is_connected = False
        self.disconnected()
        self._redial()

    def received(self, pipe: ClientPipe, data: bytes, sent_at: float) -> None:
        """Take bytes: cut them into frames."""
        if pipe is not self.pipe:
            return
        self._heard_at = self.world.timeline.now
        if self._buffer:
            data = self._buffer + data
        frames = data.split(b"\0")
        if self.world.plan.is_binary:
            frames = split_frames(data)
        self._buffer = frames.pop()
        for raw in frames:
            head, _, body = raw.lstrip(b"\n").partition(b"\n\n")
            command, *lines = head.split(b"\n")
            lines.reverse()  # Of a header that comes twice the first one counts.
            headers = {key: value for key, _, value in [line.partition(b":") for line in lines]}
            if command == b"CONNECTED":
                self._accepted(headers)
            else:
                self.frame(command, headers, body, sent_at)
            if pipe is not self.pipe:
                return

    def _accepted(self, headers: dict[bytes, bytes]) -> None:
        self.term = int(headers[b"holdfast-term"])
        if self.term < self.term_seen:
            self.counts("deposed leader refused")
            self.drop()  # A leader that was deposed and does not know it yet.
            return
        if self.term_seen < self.term and self.term_seen:
            self.counts("failover followed")
        self.term_seen = self.term
        self.is_connected = True
        self.connected()

    def check_term(self) -> None:
        """Hold a success against the newest term seen."""
        self.world.history.check_term(self.name, self.term_seen, self.term)


class Producer(Client):
    """Sends numbered messages; up to `window` are unconfirmed."""

    def __init__(
        self, world: Simulation, name: str, *, queues: list[str], count: int, is_numbered: bool
    ) -> None:
        super().__init__(world, name)
        self.queues = queues
        self.count = count
        self.is_numbered = is_numbered
        self.window = self.chance.choice((8, 30, 80))
        self.made = 0
        self.burst_max = 24
        self.unconfirmed: dict[int, tuple[str, bytes]] = {}
        self._numbers = ProducerNumbers(name)
        self._awaited: set[int] = set()
        """What was sent on this connection and is not answered."""
        self._doubtful: set[int] = set()
        """What was sent on an earlier connection and not answered there."""
        self._refused_by = ""
        """The code of the first refusal since all was sent."""
        self.appendix = b""
        """Bytes of any kind that the next message ends with."""
        self._again_planned = False
        self._interval = world.chaos_seconds / max(1, count / 12)
        world.timeline.after(self.chance.random() * 0.5, self._produce)

    @property
    def is_done(self) -> bool:
        """Whether everything is sent and confirmed."""
        return self.made >= self.count and not self.unconfirmed

    @property
    def left_count(self) -> int:
        """How many messages are not made or not confirmed."""
        return self.count - self.made + len(self.unconfirmed)

    @property
    def is_waiting(self) -> bool:
        """Whether something is unconfirmed."""
        return bool(self.unconfirmed) or not self.is_connected

    def hurry(self) -> None:
        """Make what is left quickly."""
        self.burst_max = 80
        self._interval = 0.05
        self._produce()

    def _produce(self) -> None:
        """Make a few messages now and then."""
        if self.is_ended:
            return
        made = []
        burst = self.chance.randrange(1, self.burst_max)
        room = 0 if self._refused_by else self.window - len(self.unconfirmed)
        for number in range(self.made + 1, self.made + 1 + min(burst, room)):
            if number > self.count:
                break
            self.made = number
            token, data = self._make(number)
            self.unconfirmed[number] = (token, data)
            made.append(data)
        if made and self.is_connected:
            self._awaited.update(range(self.made - len(made) + 1, self.made + 1))
            self.world.history.operation_count += len(made)
            self.send(b"".join(made))
        if self.made < self.count:
            pause = self._interval * (0.5 + self.chance.random())
            self.world.timeline.after(self.soon(pause), self._produce)

    def _make(self, number: int) -> tuple[str, bytes]:
        token = f"{self.name}.{number}"
        queue = self.queues[self.chance.randrange(len(self.queues))]
        size = self.chance.randrange(20, 200)
        if self.chance.random() < 0.01:
            size = self.chance.randrange(3000, 9000)
        appendix, self.appendix = self.appendix, b""
        body = b"%b %b%b" % (token.encode(), _FILLER[:size], appendix)
        self.world.history.send(token, queue, body)
        lines = [b"destination:/queue/" + queue.encode(), b"persistent:true"]
        if appendix:
            lines.append(b"content-length:%d" % len(body))
        if self.is_numbered:
            lines.append(self._numbers.next_lines())
        else:
            self.world.history.unnumbered.add(token)
        lines.append(b"receipt:%d" % number)
        return token, make_frame(b"SEND", *lines, body=body)

    def _numbered(self, number: int, destination: str, body: bytes, *more: bytes) -> bytes:
        """Give the bytes of the next persistent message, with a number of ours and more headers."""
        return make_frame(
            b"SEND",
            b"destination:" + destination.encode(),
            b"persistent:true",
            self._numbers.next_lines(),
            b"receipt:%d" % number,
            *more,
            body=body,
        )

    def connected(self) -> None:
        """Send again what is unconfirmed, in its order."""
        self._refused_by = ""
        self._doubtful |= self._awaited
        self._awaited.clear()
        if self.unconfirmed:
            self._awaited.update(self.unconfirmed)
            self.world.acts["sent again"] += len(self.unconfirmed)
            self.world.history.operation_count += len(self.unconfirmed)
            self.send(b"".join([data for _, data in self.unconfirmed.values()]))

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a confirmation, or a refusal; after one go on when all have their answers."""
        number = int(headers.get(b"receipt-id", b"0"))
        if command == b"RECEIPT":
            item = self.unconfirmed.pop(number, None)
            if item is not None:
                self.check_term()
                self.world.history.confirm([item[0]])
        elif command == b"ERROR":
            code = headers.get(b"code", b"?").decode()
            self.world.count_refusal(code)
            self._refused_by = self._refused_by or code
        self._awaited.discard(number)
        if self._refused_by and not self._awaited and not self._again_planned:
            self._again_planned = True
            self.world.timeline.after(0.1, self._again)

    def _again(self) -> None:
        self._again_planned = False
        if self.is_connected and self._refused_by and not self._awaited:
            if self._refused_by in _ANEW and self.is_numbered:
                self._begin_anew()
            self.connected()

    def _begin_anew(self) -> None:
        """Number what is unconfirmed again, under another id; some of it may be stored already."""
        self.counts(RENEWED)
        self._numbers.renew()
        for number, (token, data) in self.unconfirmed.items():
            lines = self._numbers.next_lines() + b"\n"
            self.unconfirmed[number] = token, _NUMBER.sub(lines, data, count=1)
            if number in self._doubtful:
                self.world.history.doubtful.add(token)


class TransactionProducer(Client):
    """Sends transactions one after the other; some are rolled back."""

    def __init__(self, world: Simulation, name: str, *, queues: list[str], count: int) -> None:
        super().__init__(world, name)
        self.queues = queues
        self.count = count
        self.made = 0
        self.pending: tuple[list[str], bytes] | None = None
        """The tokens of the transaction under way, and its frames but the last."""
        self._numbers = ProducerNumbers(name)
        self._number_lines = b""
        """Of the transaction under way."""
        self._is_doubtful = False
        """It was sent on an earlier connection."""
        self._interval = world.chaos_seconds / max(1, count)
        world.timeline.after(self.chance.random() * 0.5, self._produce)

    @property
    def is_done(self) -> bool:
        """Whether everything is sent and confirmed."""
        return self.made >= self.count and self.pending is None

    @property
    def left_count(self) -> int:
        """How many transactions are not made or not confirmed."""
        return self.count - self.made + (self.pending is not None)

    @property
    def is_waiting(self) -> bool:
        """Whether something is unconfirmed."""
        return self.pending is not None or not self.is_connected

    def hurry(self) -> None:
        """Make what is left quickly."""
        self._interval = 0.05

    def _produce(self) -> None:
        if self.is_ended:
            return
        if self.pending is None and self.made < self.count and self.is_connected:
            self.made += 1
            if self.chance.random() < 0.2:
                self._leave_unfinished()
            else:
                self.counts("transaction")
                tokens, parts = self._parts(is_aborted=False)
                self.pending = tokens, b"".join(parts)
                self._number_lines = self._numbers.next_lines()
                self._is_doubtful = False
                self._send_unit()
        if self.made < self.count:
            pause = self._interval * (0.5 + self.chance.random())
            self.world.timeline.after(self.soon(pause), self._produce)

    def _leave_unfinished(self) -> None:
        """Roll a transaction back, or die in the middle of it."""
        parts = self._parts(is_aborted=True)[1]
        if self.chance.random() < 0.7:
            self.counts("transaction rolled back")
            self.send(b"".join(parts))
            return
        self.counts("client died in a transaction")
        self.send(b"".join(parts[:-1]))
        self.drop()

    def _parts(self, *, is_aborted: bool) -> tuple[list[str], list[bytes]]:
        unit = f"{self.name}.{self.made}"
        name = b"transaction:%b" % unit.encode()
        history = self.world.history
        tokens, parts = [], [make_frame(b"BEGIN", name)]
        for number in range(self.chance.randrange(1, 5)):
            token = f"{unit}.{number}"
            queue = self.queues[self.chance.randrange(len(self.queues))]
            body, lines = self._made(token, queue)
            history.send(token, queue, body, unit)
            history.sent[token].is_aborted = is_aborted
            parts.append(make_frame(b"SEND", b"persistent:true", name, *lines, body=body))
            tokens.append(token)
        if is_aborted:
            parts.append(make_frame(b"ABORT", name))
        history.operation_count += len(parts) + (not is_aborted)
        return tokens, parts

    def _made(self, token: str, queue: str) -> tuple[bytes, list[bytes]]:
        """Give the body of a message, and the headers that go with it."""
        body = b"%b %b" % (token.encode(), _FILLER[: self.chance.randrange(10, 200)])
        return body, [b"destination:/queue/" + queue.encode()]

    def _send_unit(self) -> None:
        if self.pending is not None:
            name = b"transaction:%b.%d" % (self.name.encode(), self.made)
            receipt = b"receipt:%d" % self.made
            commit = make_frame(b"COMMIT", name, self._number_lines, receipt)
            self.send(self.pending[1] + commit)

    def connected(self) -> None:
        """Try again what is unconfirmed: the number says that it is the same."""
        if self.pending is not None:
            self.counts("transaction sent again")
            self._is_doubtful = True
            self._send_unit()

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a confirmation, or a refusal."""
        if command == b"RECEIPT" and self.pending is not None:
            if int(headers[b"receipt-id"]) == self.made:
                tokens, self.pending = self.pending[0], None
                self.check_term()
                self.world.history.confirm(tokens)
        elif command == b"ERROR":
            code = headers.get(b"code", b"?").decode()
            self.world.count_refusal(code)
            if code in _ANEW and self.pending is not None:
                self._begin_anew(self.pending[0])
            self.world.timeline.after(0.1, self.drop)

    def _begin_anew(self, tokens: list[str]) -> None:
        """Send the transaction under another id; it may be stored already."""
        self.counts(RENEWED)
        self._numbers.renew()
        self._number_lines = self._numbers.next_lines()
        if self._is_doubtful:
            self.world.history.doubtful.update(tokens)


class Consumer(Client):
    """Consumes one queue in one mode; now and then dies with what it holds."""

    def __init__(
        self, world: Simulation, name: str, *, queue: str, mode: str, prefetch: int = 16
    ) -> None:
        super().__init__(world, name)
        self.queue = queue
        self.mode = mode
        self.prefetch = prefetch
        self.death_chance = 0.02
        self.reject_chance = 0.02
        self.pause_seconds = 0.0
        """So much longer it keeps what it has, as long as there is trouble."""
        self.held: list[tuple[bytes, bytes]] = []
        """Message id and ack id of what is to be settled, in the order of delivery."""
        self.unsure: dict[bytes, list[bytes]] = {}
        """By receipt: message ids whose settling is not confirmed."""
        self.late: list[bytes] = []
        self._receipts = 0
        self._is_settling = False
        if mode == "auto":
            world.history.settled_queues.add(queue)

    @property
    def is_waiting(self) -> bool:
        """A consumer may wait for long, but a silent broker may also be a dead one."""
        return True

    def soon(self, seconds: float) -> float:
        """Take its time, too."""
        return super().soon(seconds + self.pause_seconds * self.world.nemesis.is_active)

    def connected(self) -> None:
        """Subscribe, and settle late what was done on an earlier connection."""
        parts = []
        history = self.world.history
        for message_id in self.late:
            self._receipts += 1
            receipt = b"%d" % self._receipts
            self.unsure[receipt] = [message_id]
            parts.append(make_frame(b"ACK", b"id:" + message_id, b"receipt:" + receipt))
        self.world.acts["acknowledged late"] += len(self.late)
        self.late = []
        parts.append(self.subscription_frame())
        history.operation_count += len(parts)
        self.send(b"".join(parts))

    def subscription_frame(self) -> bytes:
        """Give its SUBSCRIBE."""
        to = b"destination:" + self.destination()
        mode = b"ack:" + self.mode.encode()
        window = b"activemq.prefetchSize:%d" % self.prefetch
        return make_frame(b"SUBSCRIBE", b"id:s", to, mode, window, *self.subscription_lines())

    def queue_of(self, message_id: bytes) -> str:
        """Give the queue that a message came of."""
        return self.queue

    def destination(self) -> bytes:
        """Give where its messages come from."""
        return b"/queue/" + self.queue.encode()

    def subscription_lines(self) -> list[bytes]:
        """Give what its SUBSCRIBE says beside what all say."""
        return []

    def disconnected(self) -> None:
        """What was settled and not confirmed is settled late next time, or left to chance."""
        self.held = []
        unsure = [each for many in self.unsure.values() for each in many]
        self.unsure = {}
        if self.chance.random() < 0.7:
            self.late = unsure[-40:]

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a delivery, or the confirmation of an acknowledgement."""
        if command == b"MESSAGE":
            self._delivered(headers, body, at)
        elif command == b"RECEIPT":
            settled = self.unsure.pop(headers[b"receipt-id"], None)
            if settled:
                self.check_term()
                for message_id in settled:
                    self.world.history.settled(self.queue_of(message_id), [message_id])
        elif command == b"ERROR":
            code = headers.get(b"code", b"?").decode()
            self.world.count_refusal(code)
            self.unsure.pop(headers.get(b"receipt-id", b""), None)

    def _delivered(self, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        message_id = headers[b"message-id"]
        flagged = headers.get(b"redelivered") == b"true"
        self.world.history.deliver(
            message_id, body, flagged=flagged, sent_at=at, consumer=self.name
        )
        if self.mode == "auto":
            return
        self.held.append((message_id, headers[b"ack"]))
        if not self._is_settling:
            self._is_settling = True
            pause = 0.005 + self.chance.random() * 0.05
            self.world.timeline.after(self.soon(pause), self._settle)

    def _settle(self) -> None:
        self._is_settling = False
        if not self.held or not self.is_connected:
            return
        if self.chance.random() < self.death_chance:
            self.world.count("client dies with unacknowledged messages")
            self.drop()
            return
        held, self.held = self.held, []
        if self.mode == "client":
            self.send(self._cumulative(held))
        else:
            self.send(b"".join([self._single(*each) for each in held]))

    def _cumulative(self, held: list[tuple[bytes, bytes]]) -> bytes:
        history = self.world.history
        history.operation_count += 1
        for message_id, _ in held:
            history.settle(self.queue_of(message_id), message_id)
        self._receipts += 1
        receipt = b"%d" % self._receipts
        self.unsure[receipt] = [message_id for message_id, _ in held]
        return make_frame(b"ACK", b"id:" + held[-1][1], b"receipt:" + receipt)

    def _single(self, message_id: bytes, acknowledgement: bytes) -> bytes:
        history = self.world.history
        history.operation_count += 1
        history.settle(self.queue_of(message_id), message_id)
        if self.chance.random() < self.reject_chance:
            self.world.count("client rejects a message")
            return make_frame(b"NACK", b"id:" + acknowledgement)
        if self.chance.random() < 0.5:
            return b"ACK\nid:%b\n\n\0" % acknowledgement
        self._receipts += 1
        receipt = b"%d" % self._receipts
        self.unsure[receipt] = [message_id]
        return b"ACK\nid:%b\nreceipt:%b\n\n\0" % (acknowledgement, receipt)


class Mover(Client):
    """Takes from one queue and puts into another, some messages in each transaction."""

    def __init__(self, world: Simulation, name: str, *, source: str, target: str) -> None:
        super().__init__(world, name)
        self.source = source
        self.target = target
        self.sequence = 0
        self.waiting: list[tuple[bytes, bytes, str]] = []
        """Message id, ack id and token of deliveries not yet moved."""
        self.pending: list[tuple[bytes, str, str]] = []
        """Message ids, source's and target's tokens of the transaction whose end is not known."""
        self.moved: dict[bytes, str] = {}
        """
        Message ids of what is moved, with the target's tokens. Not the source's tokens: a producer
        that was forgotten may have stored one twice, and each of the two wants to be moved.
        """
        self._numbers = ProducerNumbers(name)
        self._number_lines = b""
        """Of the transaction under way."""
        self._is_moving = False

    def connected(self) -> None:
        """Subscribe; first finish the transaction that was under way."""
        if self.pending:
            self.counts("transaction sent again")
            self._send_unit([message_id for message_id, _, _ in self.pending])
        to = b"destination:/queue/" + self.source.encode()
        mode = b"ack:client-individual"
        self.world.history.operation_count += 1
        self.send(make_frame(b"SUBSCRIBE", b"id:s", to, mode, b"activemq.prefetchSize:8"))

    def disconnected(self) -> None:
        """What was delivered and not begun comes again."""
        self.waiting = []

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a delivery, or the end of a transaction."""
        if command == b"MESSAGE":
            message_id = headers[b"message-id"]
            flagged = headers.get(b"redelivered") == b"true"
            token = self.world.history.deliver(
                message_id, body, flagged=flagged, sent_at=at, consumer=self.name
            )
            self.waiting.append((message_id, headers[b"ack"], token))
            self._move_soon()
        elif command == b"RECEIPT" and self.pending:
            if int(headers[b"receipt-id"]) == self.sequence:
                self._moved()
        elif command == b"ERROR":
            code = headers.get(b"code", b"?").decode()
            self.world.count_refusal(code)
            if code in _ANEW:
                # Whether it was moved shows by itself: what was not is delivered again.
                self.counts(RENEWED)
                self._numbers.renew()
                self.pending = []
            self.world.timeline.after(0.1, self.drop)

    def turned_back(self) -> None:
        """What is no longer moved comes again; what is no longer there cannot be moved."""
        checkers = self.world.checkers
        kept = checkers.log.identities
        self.moved = {each: target for each, target in self.moved.items() if target in kept}
        lost = checkers.generations.lost
        if any(place_of(message_id) in lost for message_id, _, _ in self.pending):
            self.pending = []

    def _moved(self) -> None:
        pending, self.pending = self.pending, []
        self.check_term()
        history = self.world.history
        self.moved.update((message_id, target) for message_id, _, target in pending)
        history.confirm([target for _, _, target in pending])
        history.settled(self.source, [message_id for message_id, _, _ in pending])
        self._move_soon()

    def _move_soon(self) -> None:
        if not self._is_moving:
            self._is_moving = True
            self.world.timeline.after(self.soon(0.001), self._move)

    def _move(self) -> None:
        self._is_moving = False
        if self.pending or not self.is_connected:
            return
        waiting = [each for each in self.waiting if each[0] not in self.moved]
        taken, self.waiting = waiting[:_MOVED_MAX], waiting[_MOVED_MAX:]
        if not taken:
            return
        self.sequence += 1
        self._number_lines = self._numbers.next_lines()
        self.counts("transaction")
        history = self.world.history
        for message_id, _, token in taken:
            target = f"{token}>{self.sequence}"
            while target in history.sent:
                target += "+"  # The source may have one twice, of a producer that was forgotten.
            body = b"%b moved by %b" % (target.encode(), self.name.encode())
            history.send(target, self.target, body, f"{self.name}.{self.sequence}")
            history.settle(self.source, message_id)
            self.pending.append((message_id, token, target))
        self._send_unit([acknowledgement for _, acknowledgement, _ in taken])

    def _send_unit(self, settled: list[bytes]) -> None:
        history = self.world.history
        name = b"transaction:%b.%d" % (self.name.encode(), self.sequence)
        to = b"destination:/queue/" + self.target.encode()
        parts = [make_frame(b"BEGIN", name)]
        for acknowledgement, (_, _, target) in zip(settled, self.pending, strict=True):
            body = history.sent[target].body
            parts.append(make_frame(b"SEND", to, b"persistent:true", name, body=body))
            parts.append(make_frame(b"ACK", b"id:" + acknowledgement, name))
        receipt = b"receipt:%d" % self.sequence
        parts.append(make_frame(b"COMMIT", name, self._number_lines, receipt))
        history.operation_count += len(parts)
        self.send(b"".join(parts))
