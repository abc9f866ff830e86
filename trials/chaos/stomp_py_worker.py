"""
The worker over stomp.py: plain STOMP as a stranger speaks it, with receipts and nothing else.

Its producers do not number their messages: one that had no receipt when the link broke is sent
again, so it may be stored twice, under two message ids. Transactions whose outcome is not known are
left at that. Every producer and consumer has a connection and a thread of its own and goes round
over all brokers until one serves.

Invariants:
    A line stands in the history before stomp.py hears of the deed.
    What was open on a lost link is said again (sends) or stays unknown (everything else).
"""

from __future__ import annotations

import logging
import os
import queue
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from math import inf
from typing import Any

import stomp  # type: ignore[import-untyped]
from stomp.exception import StompException  # type: ignore[import-untyped]

from trials.chaos.history import HistoryFile, make_body
from trials.chaos.subscriptions import (
    PART_HEADER,
    SUBSCRIPTIONS,
    TOPIC,
    DurableSubscription,
    part_of,
)
from trials.chaos.worker import (
    LOGIN_VARIABLE,
    PASSCODE_VARIABLE,
    TOPIC_SLOWNESS,
    TRANSACTION_COUNT_MAX,
    Signals,
    WorkerSettings,
)

logger = logging.getLogger("trials")

_CONNECT_SECONDS = 2.0
_HEART_BEAT_MS = 1_000
_PAUSE_SECONDS = 0.05
_POLL_SECONDS = 0.02
_COMMIT_SECONDS = 15.0
_BATCH_COUNT = 10
_AGAIN_SECONDS = 0.2
_VISIT_SECONDS = (0.5, 3.0)
_SUBSCRIBED = "subscribed"
_LOST = (StompException, OSError, AttributeError)
"""What stomp.py raises when its socket is gone; some of it comes from a None in its place."""


def run(settings: WorkerSettings, history: HistoryFile, signals: Signals) -> None:
    """Work until told to end."""
    producers: list[_Member] = [
        _Producer(settings, history, signals, number) for number in range(settings.producers)
    ]
    producers += [
        _Transactor(settings, history, signals, settings.producers + number)
        for number in range(settings.transactions)
    ]
    producers += [
        _TopicProducer(settings, history, signals, settings.producers + settings.transactions + n)
        for n in range(settings.topic_producers)
    ]
    consumers: list[_Member] = [
        (_BatchConsumer if number % 2 else _Consumer)(settings, history, signals, number)
        for number in range(settings.consumers)
    ]
    consumers += [
        (_BatchSubscriber if each.mode == "client" else _Subscriber)(
            settings, history, signals, each
        )
        for each in map(SUBSCRIPTIONS.__getitem__, settings.subscriptions)
    ]
    threads = [threading.Thread(target=each.guarded) for each in (*producers, *consumers)]
    for thread in threads:
        thread.start()
    # The main thread hears the signals, so it must not block for ever.
    while not signals.stop.wait(1.0):
        pass
    for thread in threads[: len(producers)]:
        thread.join()
    history.write("finished")
    while not signals.end.wait(1.0):
        pass
    for thread in threads:
        thread.join()


def _headers(destination: str, sequence: int) -> dict[str, str]:
    part = {PART_HEADER: str(part_of(sequence))} if destination == TOPIC else {}
    return {"persistent": "true", **part}


class _Link(stomp.ConnectionListener):  # type: ignore[misc] # stomp.py has no types
    """One connection: what it hears goes into a queue, and at its end a None."""

    def __init__(self) -> None:
        self.heard: queue.Queue[Any] = queue.Queue()
        self.is_lost = threading.Event()
        self._is_connected = threading.Event()
        self.connection: Any = None

    def open(self, broker: str, headers: dict[str, str]) -> bool:
        """Connect to one broker; False if it does not serve."""
        host, _, port = broker.rpartition(":")
        self.connection = stomp.Connection12(
            [(host, int(port))],
            reconnect_attempts_max=1,
            reconnect_sleep_initial=0,
            timeout=_CONNECT_SECONDS,
            heartbeats=(_HEART_BEAT_MS, _HEART_BEAT_MS),
        )
        self.connection.set_listener("", self)
        try:
            login = os.environ.get(LOGIN_VARIABLE, "chaos")
            self.connection.connect(login, os.environ.get(PASSCODE_VARIABLE), headers=headers)
        except _LOST:
            self.close()
            return False
        if not self._is_connected.wait(_CONNECT_SECONDS):
            self.close()
            return False
        return True

    def close(self) -> None:
        """End the connection without a word."""
        self.is_lost.set()
        with suppress(*_LOST):
            self.connection.transport.disconnect_socket()

    def on_connected(self, _frame: Any) -> None:
        self._is_connected.set()

    def on_message(self, frame: Any) -> None:
        self.heard.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.heard.put(frame)

    def on_error(self, frame: Any) -> None:
        self.heard.put(frame)

    def on_heartbeat_timeout(self) -> None:
        self.close()

    def on_disconnected(self) -> None:
        self.is_lost.set()
        self.heard.put(None)


class _Member:
    """One producer or consumer: connects, works until the link is lost, and connects again."""

    kind = ""
    said: dict[str, str] = {}  # noqa: RUF012 - what else CONNECT says; never changed
    slowness = 1

    def __init__(
        self, settings: WorkerSettings, history: HistoryFile, signals: Signals, number: int
    ) -> None:
        self.settings = settings
        self.history = history
        self.signals = signals
        self.number = number
        self.name = f"{settings.name}.{self.kind}{number}"
        self.chance = random.Random(f"{settings.seed} {self.name}")  # noqa: S311 - no secret
        self.receipts = count(1)
        self.link = _Link()

    def guarded(self) -> None:
        """Run; a mistake of ours is a finding like others, and must not hide in a thread."""
        try:
            self.run()
        except Exception as error:
            logger.exception("%s failed", self.name)
            self.history.write("gave-up", text=f"{self.name}: {type(error).__name__}: {error}")
        finally:
            self.link.close()

    def run(self) -> None:
        """Work until told to end."""
        raise NotImplementedError

    def connected(self, deadline: float | None = None) -> bool:
        """Find a broker that serves; False if it is time to end, or the deadline is over."""
        self.link.close()
        brokers = list(self.settings.brokers)
        while not self.is_over(deadline):
            self.chance.shuffle(brokers)
            for broker in brokers:
                link = _Link()
                if link.open(broker, self.said):
                    self.link = link
                    self.history.write("link", c=self.name)
                    return True
            time.sleep(_PAUSE_SECONDS)
        return False

    def is_over(self, deadline: float | None) -> bool:
        """Whether there is nothing more to be had from connecting."""
        return deadline is not None and time.monotonic() > deadline

    def next_frame(self, seconds: float) -> Any:
        """Give what the link heard, None if nothing (or its end) came in time."""
        try:
            return self.link.heard.get(timeout=seconds)
        except queue.Empty:
            return None

    def complained(self, frame: Any) -> tuple[str, str]:
        """Note an ERROR; gives its code and the receipt it answers."""
        headers = frame.headers
        code = headers.get("code", "")
        receipt = headers.get("receipt-id", "")
        text = headers.get("message", "")
        self.history.write("complaint", c=self.name, code=code, receipt=receipt, text=text)
        return code, receipt

    def paced(self) -> Iterator[float]:
        """Give, until told to stop, how long to wait until the next is due; 0: now."""
        share = self.settings.share(self.number) * self.slowness
        due = time.monotonic() + share
        while not self.signals.stop.is_set():
            now = time.monotonic()
            if due > now:
                yield min(due - now, _POLL_SECONDS)
            else:
                due = max(due + share, now - 1.0)
                yield 0.0


class _Producer(_Member):
    """Keeps a window of messages under way, and sends again what a lost link left open."""

    kind = "p"

    @property
    def destination(self) -> str:
        return self.settings.queues[self.number % len(self.settings.queues)]

    def run(self) -> None:
        settings = self.settings
        self.queue = self.destination
        self.open: OrderedDict[int, bool] = OrderedDict()
        """By sequence: whether it was sent more than once."""
        self.sequence = 0
        self.reconnect(None)
        for seconds in self.paced():
            if self.link.is_lost.is_set():
                self.reconnect(None)
            if seconds or len(self.open) >= settings.window:
                self.hear(max(seconds, 0.001))
                continue
            self.sequence += 1
            self.open[self.sequence] = False
            self.history.write("send", p=self.name, n=self.sequence, q=self.queue)
            self.send(self.sequence)
            self.hear(0)
        deadline = time.monotonic() + settings.finish_seconds
        while self.open and time.monotonic() < deadline:
            if self.link.is_lost.is_set():
                self.reconnect(deadline)
            self.hear(_POLL_SECONDS)

    def send(self, sequence: int) -> None:
        body = make_body(self.name, sequence).decode()
        try:
            headers = _headers(self.queue, sequence)
            self.link.connection.send(self.queue, body, receipt=f"m{sequence}", headers=headers)
        except _LOST:
            self.link.close()

    def reconnect(self, deadline: float | None) -> None:
        self.drain_heard()
        if not self.connected(deadline):
            return
        for sequence in list(self.open):
            self.open[sequence] = True
            self.history.write("again", p=self.name, n=sequence)
            self.send(sequence)

    def drain_heard(self) -> None:
        """Take what a lost link has still heard: receipts count."""
        while not self.link.heard.empty():
            self.hear(0)

    def hear(self, seconds: float) -> None:
        """Take one frame, and all that are there already."""
        while True:
            try:
                frame = self.link.heard.get(block=seconds > 0, timeout=seconds or None)
            except queue.Empty:
                return
            seconds = 0
            if frame is None:
                self.link.is_lost.set()
            elif frame.cmd == "RECEIPT":
                sequence = int(frame.headers["receipt-id"][1:])
                if self.open.pop(sequence, None) is not None:
                    self.history.write("stored", p=self.name, n=sequence)
            elif frame.cmd == "ERROR":
                self.refused(*self.complained(frame))

    def refused(self, code: str, receipt: str) -> None:
        if receipt[:1] != "m":
            return
        sequence = int(receipt[1:])
        again = self.open.pop(sequence, None)
        if again is not None:
            # Sent twice and refused once says nothing of the other time.
            self.history.write(
                "unknown" if again else "refused", p=self.name, n=sequence, code=code
            )


class _TopicProducer(_Producer):
    """Sends to the topic that has durable subscriptions."""

    slowness = TOPIC_SLOWNESS

    @property
    def destination(self) -> str:
        return TOPIC


class _Transactor(_Member):
    """Sends in transactions, one after the other; what it was not told stays unknown."""

    kind = "t"

    def run(self) -> None:
        self.sequence = 0
        turn = 0
        self.connected()
        for seconds in self.paced():
            if self.link.is_lost.is_set():
                self.connected()
            if seconds:
                time.sleep(seconds)
                continue
            turn += 1
            if turn % 3 == 0:
                self.transact(f"{self.name}.{turn}")

    def transact(self, unit: str) -> None:
        history, connection, queues = self.history, self.link.connection, self.settings.queues
        queues = (*queues, TOPIC) if self.settings.topic_producers else queues
        is_asked = False
        try:
            connection.begin(unit)
            for _ in range(self.chance.randint(2, TRANSACTION_COUNT_MAX)):
                self.sequence += 1
                place = queues[self.sequence % len(queues)]
                history.write("send", p=self.name, n=self.sequence, q=place, u=unit)
                body = make_body(self.name, self.sequence).decode()
                headers = _headers(place, self.sequence)
                connection.send(place, body, transaction=unit, headers=headers)
            # What it begins with is rolled back, so that some is, however slow the machine is.
            is_begun = self.sequence > TRANSACTION_COUNT_MAX
            if not is_begun or self.chance.random() < self.settings.abort_share:
                history.write("rolled-back", u=unit)
                connection.abort(unit)
                return
            history.write("commit", u=unit)
            is_asked = True
            connection.commit(unit, receipt=unit)
        except _LOST:
            self.link.close()
        if is_asked:
            self.await_outcome(unit)

    def await_outcome(self, unit: str) -> None:
        deadline = time.monotonic() + _COMMIT_SECONDS
        while time.monotonic() < deadline:
            frame = self.next_frame(_POLL_SECONDS)
            if frame is None:
                if self.link.is_lost.is_set() and self.link.heard.empty():
                    break
            elif frame.cmd == "RECEIPT" and frame.headers["receipt-id"] == unit:
                self.history.write("committed", u=unit)
                return
            elif frame.cmd == "ERROR":
                code, receipt = self.complained(frame)
                if receipt == unit:
                    self.history.write("commit-refused", u=unit, code=code)
                    return
        else:
            self.link.close()  # so that its late outcome cannot be taken for another's
        self.history.write("commit-unknown", u=unit)


class _Consumer(_Member):
    """Acknowledges one by one, after a while and with receipts; rejects a few."""

    kind = "c"
    mode = "client-individual"

    @property
    def queue(self) -> str:
        """Where its messages come from, as the history has it."""
        return self.settings.queues[self.number % len(self.settings.queues)]

    def run(self) -> None:
        self.held: list[tuple[float, str, str]] = []
        """When to settle, the delivery's id, the message's."""
        self.asked: dict[str, tuple[str, list[str]]] = {}
        """By receipt: verb and message ids."""
        self.ending_since = 0.0
        self.heard_at = time.monotonic()
        self.subscribe()
        while not self.is_drained():
            if self.link.is_lost.is_set() and self.link.heard.empty():
                self.subscribe()
            frame = self.next_frame(_POLL_SECONDS)
            if frame is not None:
                self.take(frame)
            self.settle_due(is_idle=frame is None)

    def subscribe(self) -> None:
        # Delivery ids and receipts were the lost link's; its messages come again.
        self.held.clear()
        self.asked.clear()
        deadline = self.ending_since + self.settings.drain_seconds if self.ending_since else None
        if not self.connected(deadline):
            return
        headers = {"activemq.prefetchSize": str(self.settings.prefetch)}
        try:
            self.ask(headers)
        except _LOST:
            self.link.close()

    def ask(self, headers: dict[str, str]) -> None:
        self.link.connection.subscribe(self.queue, id="0", ack=self.mode, headers=headers)

    def is_over(self, deadline: float | None) -> bool:
        # Only the time to drain ends the search; it begins when the end is asked for.
        if self.signals.end.is_set() and not self.ending_since:
            self.ending_since = time.monotonic()
        if deadline is None and self.ending_since:
            deadline = self.ending_since + self.settings.drain_seconds
        return super().is_over(deadline)

    def is_drained(self) -> bool:
        now = time.monotonic()
        if self.held or self.asked or self.link.is_lost.is_set():
            self.heard_at = now
        if not self.signals.end.is_set():
            return False
        self.ending_since = self.ending_since or now
        if now - max(self.heard_at, self.ending_since) > self.settings.quiet_seconds:
            self.history.write("drained", c=self.name, q=self.queue)
            return True
        return now - self.ending_since > self.settings.drain_seconds

    def take(self, frame: Any) -> None:
        self.heard_at = time.monotonic()
        if frame.cmd == "MESSAGE":
            headers = frame.headers
            self.history.delivery(self.name, self.queue, headers, frame.body.encode())
            seconds = self.settings.hold_seconds * self.chance.random() ** 3
            self.held.append((self.heard_at + seconds, headers["ack"], headers["message-id"]))
        elif frame.cmd == "RECEIPT":
            verb, ids = self.asked.pop(frame.headers["receipt-id"], ("", []))
            if ids:
                self.history.write("settled", c=self.name, v=verb, x=ids)
        else:
            code, receipt = self.complained(frame)
            verb, ids = self.asked.pop(receipt, ("", []))
            if ids:
                self.history.write("not-settled", c=self.name, v=verb, x=ids, code=code)

    def settle_due(self, *, is_idle: bool) -> None:
        now = time.monotonic()
        due = [each for each in self.held if each[0] <= now]
        for each in due:
            self.held.remove(each)
            rejected = self.chance.random() < self.settings.reject_share
            self.settle("reject" if rejected else "acknowledge", each[1], [each[2]])

    def settle(self, verb: str, delivery: str, ids: list[str]) -> None:
        connection = self.link.connection
        receipt = f"s{next(self.receipts)}"
        self.asked[receipt] = (verb, ids)
        self.history.write("settle", c=self.name, v=verb, x=ids)
        try:
            (connection.nack if verb == "reject" else connection.ack)(delivery, receipt=receipt)
        except _LOST:
            self.link.close()


class _BatchConsumer(_Consumer):
    """Acknowledges cumulatively."""

    mode = "client"

    def settle_due(self, *, is_idle: bool) -> None:
        if self.held and (is_idle or len(self.held) >= _BATCH_COUNT):
            taken, self.held = self.held, []
            self.settle("acknowledge", taken[-1][1], [each[2] for each in taken])


class _Durable(_Consumer):
    """Consumes from a durable subscription; a visitor goes without a word, and comes back."""

    kind = "d"

    def __init__(
        self,
        settings: WorkerSettings,
        history: HistoryFile,
        signals: Signals,
        durable: DurableSubscription,
    ) -> None:
        super().__init__(settings, history, signals, 0)
        self.durable = durable
        self.name = f"{settings.name}.{durable.name}"
        self.said = {} if durable.in_rabbitmq_words else {"client-id": durable.name}
        self.leaves_at = inf
        self.pause_seconds = 0.0

    @property
    def queue(self) -> str:
        return self.durable.place

    def subscribe(self) -> None:
        back_at = time.monotonic() + self.pause_seconds
        while time.monotonic() < back_at and not self.signals.end.is_set():
            time.sleep(_PAUSE_SECONDS)
        self.pause_seconds = 0.0
        super().subscribe()
        if self.durable.is_visitor:
            self.leaves_at = time.monotonic() + self.chance.uniform(*_VISIT_SECONDS)

    def ask(self, headers: dict[str, str]) -> None:
        durable = self.durable
        part = {} if durable.part is None else {"k": durable.part}
        said = {"receipt": _SUBSCRIBED, **headers}
        if durable.selector is not None:
            said["selector"] = durable.selector
        if durable.in_rabbitmq_words:
            said |= {"durable": "true", "auto-delete": "false"}
        else:
            said["activemq.subscriptionName"] = durable.name
        self.history.write("subscribe", c=self.name, s=durable.place, **part)
        self.link.connection.subscribe(TOPIC, id=durable.name, ack=self.mode, headers=said)

    def take(self, frame: Any) -> None:
        told = {"c": self.name, "s": self.durable.place}
        if frame.headers.get("receipt-id") != _SUBSCRIBED:
            super().take(frame)
        elif frame.cmd == "RECEIPT":
            self.history.write("subscribed", **told)
        else:
            code, text = frame.headers.get("code", ""), frame.headers.get("message", "")
            self.history.write("not-subscribed", **told, code=code, text=text)
            self.pause_seconds = _AGAIN_SECONDS
            self.link.close()

    def settle_due(self, *, is_idle: bool) -> None:
        if self.link.is_lost.is_set():
            return  # Nobody would hear it, and it comes again.
        super().settle_due(is_idle=is_idle)
        if time.monotonic() > self.leaves_at and not self.signals.end.is_set():
            self.leaves_at = inf
            self.pause_seconds = self.chance.uniform(*_VISIT_SECONDS)
            self.link.close()


class _Subscriber(_Durable):
    """Acknowledges one by one."""


class _BatchSubscriber(_Durable, _BatchConsumer):
    """Acknowledges cumulatively."""
