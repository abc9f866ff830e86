"""
A broker with a conductor that commits when it is told to, and consumers without sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.outputs import Batch
from holdfast.broker.serving.consumer import NO_CLAIM, AcknowledgeMode, Claim
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.examiner import Examiner
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import MessageRecord
from holdfast.store.record_codec import decode_records, encode_records


class Client:
    """A connection as the broker sees it: it takes deliveries and replies and keeps them."""

    sent_as = ""

    def __init__(self) -> None:
        self.id = f"client-{id(self)}"
        self.room_bytes = 1 << 30
        self.taken_bytes = 0
        self.subscriptions: dict[str, Subscription] = {}
        self.replies: list[bytes] = []
        self.deliveries: list[tuple[int, bool]] = []
        """Key and redelivered flag."""
        self.counts: list[tuple[int, int]] = []
        """Key and which delivery it is said to be, 0 for one that is not flagged."""

    def reply(self, receipt: bytes) -> None:
        self.replies.append(receipt)

    confirm = reply

    def recount_room(self) -> None:
        """There is as much room as before."""

    @property
    def keys(self) -> list[int]:
        return [key for key, _ in self.deliveries]


class Desk:
    """A leading broker, its log and what is in flight."""

    def __init__(self, settings: BrokerSettings | None = None) -> None:
        self.settings = settings or BrokerSettings()
        self.broker = Broker(self.settings)
        self.broker.lead()
        self.log: list[tuple[int, int, bytes]] = []
        """First record, timestamp and body of each entry."""
        self.next_record = 1
        self.in_flight: list[tuple[int, int, Batch]] = []
        self.client = Client()

    @property
    def state(self) -> BrokerState:
        return self.broker.state

    def queue(self, name: str = "orders") -> Queue:
        return self.broker.queue(name)

    def send(self, body: bytes, queue: str = "orders", receipt: bytes | None = None) -> None:
        self.broker.send(self.queue(queue), b"", body, self.client, receipt)

    def subscribe(
        self,
        queue: str = "orders",
        *,
        mode: AcknowledgeMode = AcknowledgeMode.INDIVIDUAL,
        prefetch: int = 100,
        client: Client | None = None,
        claim: Claim = NO_CLAIM,
    ) -> Subscription:
        client = client or Client()
        name = f"s{len(client.subscriptions)}"
        subscription = Subscription(client, name, mode=mode, prefetch=prefetch)
        subscription.claim = claim
        client.subscriptions[name] = subscription
        self.broker.subscribe(subscription, self.queue(queue))
        return subscription

    def seal(self) -> None:
        """Make what has gathered an entry of the log, not yet committed."""
        if not self.broker.receipts.has_batch():
            return
        batch = self.broker.receipts.take_batch()
        for _ in chain.from_iterable(batch.unnumbered):
            pass
        body = b"".join(encode_records(batch.records))
        timestamp = 1_000_000 + len(self.log)
        self.log.append((self.next_record, timestamp, body))
        self.in_flight.append((self.next_record, timestamp, batch))
        self.next_record += len(batch.records)

    def commit(self) -> None:
        """Commit and apply everything in flight, then reply."""
        while self.in_flight:
            first, timestamp, batch = self.in_flight.pop(0)
            self.broker.apply_batch(batch, first, timestamp)
            for replier, receipt in batch.replies:
                replier.reply(receipt)

    def dispatch(self) -> None:
        for subscription, key, message, record_number, flagged in chain.from_iterable(
            self.broker.dispatch()
        ):
            assert message is not None or record_number
            if isinstance(subscription, Examiner):
                subscription.examine(key, self.read(record_number))
                continue
            subscription.receiver.deliveries.append((key, flagged > 0))  # type: ignore[attr-defined]
            subscription.receiver.counts.append((key, flagged))  # type: ignore[attr-defined]

    def read(self, record_number: int) -> MessageRecord:
        """Read a message from the log."""
        for first, _, body in self.log:
            for number, record in enumerate(decode_records(body), start=first):
                if number == record_number and isinstance(record, MessageRecord):
                    return record
        raise AssertionError(f"there is no record {record_number}")

    def confirm(self) -> None:
        """Tell those whose messages are out."""
        for publisher, receipt in self.broker.publishing.take_receipts(1_000_000):
            publisher.confirm(receipt)

    def turn(self) -> None:
        """Seal, commit and dispatch until nothing is left to do."""
        for _ in range(100):
            self.seal()
            self.commit()
            self.dispatch()
            self.broker.let_go(lambda: False)
            self.confirm()
            if not self.broker.receipts.has_batch():
                return
        raise AssertionError("the broker does not come to rest")

    def replayed(self) -> BrokerState:
        """Give the state of a node that applied the same log, decoded from bytes."""
        state = BrokerState(self.settings)
        for first, timestamp, body in self.log:
            state.apply(first, decode_records(body), timestamp)
        return state

    def fail_over(self) -> None:
        """Let another node take over that has only the log."""
        read_selector = self.broker.destinations.read_selector
        self.broker = Broker(self.settings, self.replayed())
        self.broker.destinations.read_selector = read_selector
        self.in_flight.clear()
        self.broker.lead()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def new_desk() -> Callable[[BrokerSettings], Desk]:
    return Desk


@pytest.fixture
def new_client() -> Callable[[], Client]:
    return Client
