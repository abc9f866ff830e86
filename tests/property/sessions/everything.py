"""
Clients that use everything at once, and the books that are kept of what was confirmed to them.

Frames with any of the headers of the reference page, in any order, from some clients with and
without a client-id, while policies change, time passes, connections break and leaders lose their
ends of the log. Of persistent messages to queues it is known where each must be, or have been.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from holdfast.protocols.stomp.codec import encode_frame
from holdfast.protocols.stomp.frames import Frame
from holdfast.server.waking import Waking
from holdfast.store.record_codec import decode_records
from tests.unit.sessions.conftest import Desk, StompClient

QUEUES: Final = ("a.1", "a.2", "b.1", "Consumer.A.VirtualTopic.v", "Consumer.B.VirtualTopic.v")
TOPICS: Final = ("a.1", "b.1", "VirtualTopic.v", "VirtualTopic.w")
CLIENT_IDS: Final = ("", "", "ann", "bob")
SELECTORS: Final = (
    "colour = 'red'",
    "colour <> 'red' OR size > 5",
    "size BETWEEN 2 AND 7",
    "JMSXGroupID IS NULL",
    "JMSPriority > 4",
    "JMSXDeliveryCount = 1 OR colour LIKE 'b%'",
    "NOT (size IN ('1', '2'))",
)
POLICIES: Final = (
    ("queue", "prioritizedMessages", ("true", "false")),
    ("queue", "paused", ("true", "false")),
    ("queue", "maximumRedeliveries", (0, 2, -1)),
    ("queue", "initialRedeliveryDelay", (0, 500)),
    ("queue", "redeliveryKeepsOrder", ("true", "false")),
    ("queue", "suspectAfter", (0, 1)),
    ("queue", "allConsumersExclusiveByDefault", ("true", "false")),
    ("queue", "consumersBeforeDispatchStarts", (0, 2)),
    ("queue", "messageGroupBuckets", (1, 4)),
    ("queue", "deadLetterStrategy", ("shared", "individual")),
    ("queue", "maxLength", (0, 3, 10)),
    ("queue", "overflow", ("reject", "block")),
    ("queue", "mirrored", ("true", "false")),
    ("queue", "gcInactiveDestinations", ("true", "false")),
    ("queue", "slowConsumerStrategy", ("none", "abortSlowAckConsumerStrategy")),
    ("topic", "maximumRedeliveries", (0, 2)),
    ("topic", "durableTopicPrefetch", (1, 5)),
    ("topic", "subscriptionRecoveryPolicy", ("fixedCountSubscriptionRecoveryPolicy",)),
    ("topic", "constantPendingMessageLimitStrategy", (-1, 2)),
    ("topic", "producerFlowControl", ("true", "false")),
    ("topic", "gcInactiveDestinations", ("true", "false")),
    ("topic", "inactiveTimeoutBeforeGC", (1, 5_000)),
)

HARSH: Final = (
    ("topic", "maxLength", (0, 5)),
    ("topic", "offlineDurableSubscriberTimeout", (-1, 5000)),
    ("queue", "deliverySecondsMax", (0, 2)),
    ("queue", "zeroExpirationOverride", (0, 3000)),
    ("queue", "deadLetterStrategy", ("discard", "shared")),
    ("queue", "overflow", ("drop-head",)),
    ("queue", "forwardTo", ("b.1", "topic://VirtualTopic.v when colour = 'red'", "")),
    ("topic", "forwardTo", ("a.1,topic://b.1", "")),
)
"""What lets messages go, or go elsewhere."""

ADVISED: Final = ("Queue", "Consumer.>", "Connection", "MessageDLQd.>", "Expired.Queue.>", ">")
_MANAGEMENT: Final = "/topic/ActiveMQ.Scheduler.Management"
QUESTIONS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("/queue/ActiveMQ.Statistics.Broker", {}),
    ("/queue/ActiveMQ.Statistics.Destination.a.1", {}),
    ("/queue/ActiveMQ.Statistics.Destination.>", {}),
    ("/topic/ActiveMQ.Statistics.Destination.>", {}),
    ("/queue/ActiveMQ.Statistics.Subscription", {}),
    (_MANAGEMENT, {"AMQ_SCHEDULER_ACTION": "BROWSE"}),
    (_MANAGEMENT, {"AMQ_SCHEDULER_ACTION": "REMOVEALL"}),
)

ALL_TOPICS: Final = {"activemq__subscriptionName": "all", "ack": "client"}
"""Of one who subscribes to all topics, is away, and comes at the end."""

Place = tuple[str, str]
"""A message, by its body, and the queue that it was for."""


class Got(NamedTuple):
    """A delivery that nothing was said of yet."""

    frame: Frame
    subscription: str

    @property
    def place(self) -> Place:
        headers = self.frame.headers
        sent_to = headers.get("original-destination", headers["destination"])
        return self.frame.body.decode(), sent_to

    @property
    def is_of_queue(self) -> bool:
        headers = self.frame.headers  # An answer to who asks for what is scheduled is another one.
        return headers["destination"].startswith("/queue/") and "scheduledJobDue" not in headers


class Books:
    """What was confirmed."""

    def __init__(self) -> None:
        self.stored: set[Place] = set()
        """Sent, and confirmed: each is somewhere, or settled."""
        self.settled: set[Place] = set()
        """Acknowledged, and confirmed: nobody gets it again."""
        self.may_be_settled: set[Place] = set()
        """Acknowledged: it may be that the log has it."""
        self.owed: set[Place] = set()
        """Sent to topics, and confirmed: who has subscribed to all of them gets each."""
        self.seen: dict[str, int] = {}
        """Message ids that were delivered, and how often."""

    def confirm(self, places: list[Place]) -> None:
        """Note that these are stored."""
        self.stored.update(it for it in places if it[1].startswith("/queue/"))
        self.owed.update(it for it in places if it[1].startswith("/topic/"))


class Client:
    """One connection, and what it has."""

    def __init__(self, world: World, number: int, client_id: str) -> None:
        headers = {"client_id": client_id} if client_id else {}
        version = world.random.choice(["1.0", "1.1", "1.2", "1.2", "1.2"])
        self.stomp = StompClient(world.desk, version, headers)
        self.world = world
        self.number = number
        self.client_id = client_id
        self.got: dict[str, Got] = {}
        """By what acknowledges it."""
        self.delivered: dict[str, list[Place]] = {}
        """By subscription, all that came of queues."""
        self.modes: dict[str, str] = {}
        """Of subscriptions, by id."""
        self.subscribing: dict[str, str] = {}
        """Of those that are not confirmed, by their receipts."""
        self.transactions: dict[str, tuple[list[Place], list[Place]]] = {}
        """What is sent and settled in each that is open."""
        self.awaited: dict[str, Callable[[], None]] = {}
        """What a receipt means."""
        self.count = 0
        self.is_over = False

    def receipt(self, means: Callable[[], None]) -> str:
        """Give the name of a receipt, and note what it means when it comes."""
        self.count += 1
        name = f"r{self.count}"
        self.awaited[name] = means
        return name

    def read(self) -> None:
        """Take what came."""
        for frame in self.stomp.frames():
            if frame.command == "MESSAGE":
                self._take(frame)
            elif frame.command == "RECEIPT":
                self.awaited.pop(frame.headers["receipt-id"])()
            elif frame.command == "ERROR":
                receipt = frame.headers.get("receipt-id", "")
                self.awaited.pop(receipt, None)
                self.modes.pop(self.subscribing.pop(receipt, ""), None)
                self.world.errors[frame.headers.get("code", "?")] += 1
        if self.stomp.session.is_closing:
            self.is_over = True

    def _take(self, frame: Frame) -> None:
        headers = frame.headers
        if headers.get("browser") == "end":
            return
        key = headers.get("ack") or headers["message-id"]
        got = Got(frame, headers.get("subscription", ""))
        mode = self.modes.get(got.subscription, "")
        if mode == "browser" or not mode:
            return
        is_queue = got.is_of_queue
        if is_queue and headers.get("persistent") == "true":
            self.world.check_delivery(got)
        if mode == "auto":
            if is_queue:
                self.world.books.may_be_settled.add(got.place)
            return
        self.got[key] = got
        if is_queue:
            self.delivered.setdefault(got.subscription, []).append(got.place)


class World:
    """A desk, its clients, and what they know."""

    def __init__(self, random: Random, *, is_harsh: bool, desk: Desk | None = None) -> None:
        self.random = random
        self.is_harsh = is_harsh
        """Whether also what loses messages on purpose is done: then no books are kept."""
        self.desk = desk or Desk(BrokerSettings(known_format_level=NEWEST_LEVEL))
        self.desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
        self.desk.turn()
        self.books = Books()
        self.clients: list[Client] = []
        self.errors: Counter[str] = Counter()
        self.serial = 0
        self.now_ms = self.desk.broker.sending.now_microseconds // 1000
        self.policies: set[str] = set()
        self.wants_all_topics = False
        """Whether somebody has subscribed to all of them, and left."""

    # What is checked

    def check_delivery(self, got: Got) -> None:
        """Nobody gets what is settled, and what was seen before says so."""
        headers, place = got.frame.headers, got.place
        identity = headers["message-id"]
        seen = self.books.seen.get(identity, 0)
        self.books.seen[identity] = seen + 1
        if self.is_harsh:
            return
        assert place not in self.books.settled, f"{place} is settled, and comes again"
        if seen:
            assert headers.get("redelivered") == "true", f"{place} does not say that it was seen"

    def require_whole(self) -> None:
        """Nothing of ours broke, and whoever applies the log has the same state."""
        broker = self.desk.broker
        assert not broker.broken, broker.broken
        assert not broker.errands.broken, broker.errands.broken
        self.require_places()

    def require_places(self) -> None:
        """Each connection that is let in has a place until it is gone, and nobody else has one."""
        places = self.desk.context.connection_shares.users
        assert not any(it.is_gone for it in places), "a place of who is gone"
        there = [it.stomp.session for it in self.clients if not it.stomp.session.is_gone]
        missing = [it.id for it in there if it.is_connected and it not in places]
        assert not missing, f"{missing} are let in and have no place"

    def require_replayed(self) -> None:
        state = self.desk.broker.state
        replayed = BrokerState(self.desk.settings)
        for first, timestamp, body in self.desk.log[
            : len(self.desk.log) - len(self.desk.in_flight)
        ]:
            replayed.apply(first, decode_records(body, with_content=False), timestamp)
        assert digest_of(state) == digest_of(replayed)

    # What is done

    def step(self) -> None:
        actions = {
            self.connect: 2,
            self.subscribe: 6,
            self.send: 14,
            self.settle: 14,
            self.transact: 4,
            self.unsubscribe: 2,
            self.turn: 14,
            self.part_of_turn: 6,
            self.pass_time: 3,
            self.leave: 1.5,
            self.hang_up_unread: 0.5,
            self.say_policy: 1.5,
            self.fail_over: 0.4,
            self.ask: 0.7,
            self.subscribe_to_all_topics: 0.5,
            self.operate: 0.5 if self.is_harsh else 0,
        }
        (action,) = self.random.choices(list(actions), list(actions.values()))
        action()
        self.read()
        self.require_whole()

    def subscribe_to_all_topics(self) -> None:
        """Once: many have sent before, and what their headers come to is remembered."""
        if not self.wants_all_topics:
            client = self.desk.connect(client_id="zed")
            client.subscribe("/topic/>", **ALL_TOPICS)
            self.desk.turn()
            client.leave()
            self.desk.turn()
            self.wants_all_topics = True
            if self.random.random() < 0.7:
                self.store_for_a_while()

    def store_for_a_while(self) -> None:
        """Let somebody want all topics durably, and not any more, before anything is sent there."""
        client = self.desk.connect(client_id="yan")
        for topic in TOPICS:
            for command in ("SUBSCRIBE", "UNSUBSCRIBE"):
                named = {"id": topic, "activemq__subscriptionName": "once"}
                client.say(command, destination=f"/topic/{topic}", **named)
                self.desk.turn()
        client.leave()

    def read(self) -> None:
        for client in list(self.clients):
            client.read()
            if client.is_over:
                self.gone(client)

    def gone(self, client: Client) -> None:
        client.stomp.leave()
        self.clients.remove(client)

    def a_client(self) -> Client | None:
        if not self.clients or (len(self.clients) < 4 and self.random.random() < 0.05):
            self.connect()
        return self.random.choice(self.clients) if self.clients else None

    def connect(self) -> None:
        if len(self.clients) >= 5:
            return
        taken = {it.client_id for it in self.clients if it.client_id}
        client_id = self.random.choice(CLIENT_IDS)
        if client_id in taken:
            client_id = ""
        self.serial += 1
        self.clients.append(Client(self, self.serial, client_id))

    def subscribe(self) -> None:
        client = self.a_client()
        if client is None:
            return
        random = self.random
        client.count += 1
        identity = f"s{client.count}" if random.random() < 0.9 else random.choice(["x", "y"])
        mode = random.choice(["auto", "client", "client-individual", "client-individual"])
        said: dict[str, str] = {"id": identity, "ack": mode}
        kind = random.choice(["queue", "queue", "topic"])
        names = QUEUES if kind == "queue" else TOPICS
        place = f"/{kind}/{random.choice(names)}"
        chance = random.random()
        if chance < 0.15:
            wild = ("a.*", "*.1", "a.>", "Consumer.A.VirtualTopic.>", "VirtualTopic.>")
            place = f"/{kind}/{random.choice(wild)}"
        elif chance < 0.22:
            place = f"{place},/queue/b.1,/topic/b.1"
        elif chance < 0.26:
            place, kind = "/temp-queue/t", "temp"
        elif chance < 0.3:
            place, kind = f"/topic/ActiveMQ.Advisory.{random.choice(ADVISED)}", "advisory"
        if random.random() < 0.35:
            said["selector"] = random.choice(SELECTORS)
        if random.random() < 0.4:
            said["activemq.prefetchSize"] = str(random.choice([1, 2, 5]))
        if kind == "queue" and random.random() < 0.3:
            said["activemq.priority"] = str(random.choice([-1, 1, 127]))
        if kind == "queue" and random.random() < 0.15:
            said["activemq.exclusive"] = "true"
        if kind == "queue" and random.random() < 0.12:
            said["browser"] = "true"
            mode = "browser"
        if kind == "topic":
            if random.random() < (0.5 if client.client_id else 0.03):
                said["activemq.subscriptionName"] = random.choice(["news", "log"])
            elif random.random() < 0.2:
                said["durable"] = "true"
            if random.random() < 0.2:
                said["no-local"] = "true"
            if random.random() < 0.2:
                said["activemq.retroactive"] = "true"
            if random.random() < 0.2:
                said["activemq.maximumPendingMessageLimit"] = "2"
        said["receipt"] = client.receipt(lambda: None)
        if identity not in client.modes:
            client.modes[identity] = mode
            client.subscribing[said["receipt"]] = identity
        self.say(client, "SUBSCRIBE", b"", destination=place, **said)

    def say(self, client: Client, command: str, body: bytes, **headers: str) -> None:
        """Send a frame with its headers' names as they are."""
        data = encode_frame(command, list(headers.items()), body, client.stomp.version)
        session = client.stomp.session
        for _ in range(20):
            if not session.is_left_off:
                client.stomp.raw(data)
                return
            self.turn()  # As a server does it: it reads nothing more of who is not done.
            session.proceed(lambda: False)
        raise AssertionError("what a client said is never done")

    def send(self) -> None:
        client = self.a_client()
        if client is None:
            return
        random = self.random
        self.serial += 1
        body = f"m{self.serial}"
        kind = random.choice(["queue", "queue", "topic"])
        names = [random.choice(QUEUES if kind == "queue" else TOPICS)]
        if random.random() < 0.1:
            names = random.sample(QUEUES, 2)
            kind = "queue"
        places = [f"/{kind}/{name}" for name in names]
        said = self.headers_of_message()
        scheduled = "AMQ_SCHEDULED_DELAY" in said
        is_kept = said.get("persistent") == "true" and not scheduled
        accounted = [(body, place) for place in places] if is_kept and kind == "queue" else []
        owed = [(body, place) for place in places] if is_kept and kind == "topic" else []
        if "expires" in said or not self.wants_all_topics:
            owed = []
        transaction = self.open_transaction(client, 0.2)
        if transaction:
            client.transactions[transaction][0].extend([*accounted, *owed])
            said["transaction"] = transaction
        elif accounted or owed:
            said["receipt"] = client.receipt(lambda: self.books.confirm([*accounted, *owed]))
        elif random.random() < 0.3:
            said["receipt"] = client.receipt(lambda: None)
        self.say(client, "SEND", body.encode(), destination=",".join(places), **said)

    def headers_of_message(self) -> dict[str, str]:
        """Give what a SEND says beside its destination."""
        random = self.random
        if random.random() < 0.4:
            return {"persistent": "true"}  # As most: what that comes to is remembered.
        said: dict[str, str] = {}
        if random.random() < 0.75:
            said["persistent"] = "true"
        if random.random() < 0.4:
            said["colour"] = random.choice(["red", "blue"])
        if random.random() < 0.4:
            said["size"] = str(random.randrange(10))
        if random.random() < 0.4:
            said["JMSXGroupID"] = random.choice("gh")
            if random.random() < 0.1:
                said["JMSXGroupSeq"] = "-1"
        if random.random() < 0.4:
            said["priority"] = str(random.randrange(10))
        if random.random() < 0.15:
            said["expires"] = str(self.now_ms + random.choice([500, 5_000]))
        if random.random() < 0.12:
            said["AMQ_SCHEDULED_DELAY"] = str(random.choice([1, 700, 4_000]))
        return said

    def ask(self) -> None:
        """Ask the broker something, by a message."""
        client = self.a_client()
        if client is None:
            return
        place, more = self.random.choice(QUESTIONS)
        said = {"reply-to": self.random.choice(["/temp-queue/t", "/queue/a.2", "/topic/b.1"])}
        self.say(client, "SEND", b"", destination=place, **said, **more)

    def open_transaction(self, client: Client, chance: float) -> str:
        if not client.transactions or self.random.random() >= chance:
            return ""
        return self.random.choice(list(client.transactions))

    def transact(self) -> None:
        client = self.a_client()
        if client is None:
            return
        if not client.transactions or self.random.random() < 0.3:
            client.count += 1
            name = f"t{client.count}"
            client.transactions[name] = ([], [])
            self.say(client, "BEGIN", b"", transaction=name)
            return
        name = self.random.choice(list(client.transactions))
        stored, settled = client.transactions.pop(name)
        if self.random.random() < 0.3:
            self.say(client, "ABORT", b"", transaction=name)
            return

        def done() -> None:
            self.books.confirm(stored)
            self.books.settled.update(settled)

        self.books.may_be_settled.update(settled)
        self.say(client, "COMMIT", b"", transaction=name, receipt=client.receipt(done))

    def settle(self) -> None:
        client = self.a_client()
        if client is None or not client.got:
            return
        random = self.random
        key = random.choice(list(client.got))
        got = client.got[key]
        mode = client.modes.get(got.subscription, "")
        verb = "ACK" if random.random() < 0.7 or client.stomp.version == "1.0" else "NACK"
        said = {"id": key} if client.stomp.version == "1.2" else {"message-id": key}
        if client.stomp.version == "1.1":
            said["subscription"] = got.subscription
        covered = [key]
        if mode == "client" and verb == "ACK":
            same = [it for it, one in client.got.items() if one.subscription == got.subscription]
            covered = same[: same.index(key) + 1]
        places = [client.got.pop(each) for each in covered]
        places = [it.place for it in places if it.is_of_queue]
        if verb == "ACK":  # It covers also what a transaction gave back, and what was refused.
            before = client.delivered.get(got.subscription, [])
            self.books.may_be_settled.update(before if mode == "client" else places)
        if not mode:
            places = []  # It has left: whether it may be acknowledged is not said here.
        transaction = self.open_transaction(client, 0.3)
        if verb == "NACK":
            if random.random() < 0.3:
                said["requeue"] = random.choice(["true", "false"])
            if random.random() < 0.2:
                said["delay"] = str(random.choice([0, 300]))
            if transaction and random.random() < 0.1:
                said["transaction"] = transaction  # Which is refused.
        elif transaction:
            client.transactions[transaction][1].extend(places)
            said["transaction"] = transaction
        else:
            said["receipt"] = client.receipt(lambda: self.books.settled.update(places))
        self.say(client, verb, b"", **said)

    def unsubscribe(self) -> None:
        client = self.a_client()
        if client is None or not client.modes:
            return
        identity = self.random.choice(list(client.modes))
        said = {"id": identity}
        if self.random.random() < (0.4 if client.client_id else 0.02):
            said["activemq.subscriptionName"] = self.random.choice(["news", "log"])
        else:
            del client.modes[identity]
        self.say(client, "UNSUBSCRIBE", b"", **said)

    def leave(self) -> None:
        if not self.clients:
            return
        client = self.random.choice(self.clients)
        if self.random.random() < 0.3:
            self.say(client, "DISCONNECT", b"", receipt=client.receipt(lambda: None))
            self.turn()
        client.read()
        client.stomp.leave()
        self.clients.remove(client)

    def hang_up_unread(self) -> None:
        """Say all at once, and go before anything of it is read."""
        client = self.desk.connect(version="")
        client.session.disconnected()
        client.say("CONNECT", accept_version="1.2", client_id="eve")
        client.say("SUBSCRIBE", destination="/queue/a.1", id="1", ack="client")
        client.session.leave()

    def turn(self) -> None:
        self.desk.turn()

    def part_of_turn(self) -> None:
        """Some of what a turn does, in any order: entries are on their way for a while."""
        desk = self.desk
        for part in self.random.sample([desk.seal, desk.commit, desk.dispatch, self.errands], 2):
            part()

    def errands(self) -> None:
        left = iter(range(self.random.randrange(4)))
        self.desk.broker.errands.run(lambda: next(left, None) is None)

    def pass_time(self, after_ms: int = 0) -> None:
        self.now_ms += after_ms or self.random.choice([1, 100, 1_000, 6_000, 40_000])
        broker = self.desk.broker
        broker.sending.now_microseconds = self.now_ms * 1000
        broker.returning.look_at_the_clock()
        waking = Waking(broker, self.desk, self._damaged)
        for _ in range(20):
            self.desk.turn()
            waking.step(lambda: False)
            if not broker.receipts.has_batch():
                break

    @staticmethod
    def _damaged(error: Exception) -> None:
        raise AssertionError(error)

    def say_policy(self) -> None:
        policies = POLICIES + (HARSH if self.is_harsh else ())
        kind, key, values = self.random.choice(policies)
        names = QUEUES if kind == "queue" else TOPICS
        pattern = f"{kind}://{self.random.choice([*names, '>', 'a.*'])}"
        said = {key: self.random.choice(values)}
        if self.random.random() < 0.4:
            _, key, values = self.random.choice([it for it in policies if it[0] == kind])
            said[key] = self.random.choice(values)
        self.policies.add(pattern)
        self.desk.broker.receipts.record(PolicyRecord(pattern, json.dumps(said)))

    def operate(self) -> None:
        name = self.random.choice(QUEUES)
        destinations = self.desk.broker.destinations
        if not destinations.has_queue(name) or not self.clients:
            return
        replier = self.clients[0].stomp.session
        receipt = self.clients[0].receipt(lambda: None).encode()
        try:
            if self.random.random() < 0.5:
                self.desk.broker.delete(name, replier, receipt)
            else:
                self.desk.broker.purge(name, replier, receipt)
        except DestinationError:
            pass  # It has consumers.

    def fail_over(self) -> None:
        """The next leader has the log without some entries at its end that were not committed."""
        self.read()
        desk = self.desk
        lost = self.random.randrange(len(desk.in_flight) + 1) if desk.in_flight else 0
        if lost:
            del desk.log[-lost:]
        desk.in_flight.clear()
        desk.next_record = 1
        for first, _, body in desk.log:
            desk.next_record = first + len(list(decode_records(body, with_content=False)))
        self.clients.clear()
        desk.fail_over()
        desk.context.forget_sessions()
        desk.broker.sending.now_microseconds = self.now_ms * 1000
        self.require_replayed()

    def come_to_rest(self) -> None:
        """All that was confirmed is somewhere."""
        self.read()
        for client in list(self.clients):
            client.stomp.leave()
        self.clients.clear()
        self.desk.turn()
        for pattern in self.policies:
            self.desk.broker.receipts.record(PolicyRecord(pattern, ""))
        self.desk.turn()
        self.pass_time(3_600_000)
        self.require_whole()
        self.require_replayed()
        self.fail_over()
        self.pass_time(3_600_000)
        if not self.is_harsh:
            self.require_all_there()

    def require_all_there(self) -> None:
        there: set[Place] = set()
        names = self.desk.broker.destinations.queue_names()
        client = self.desk.connect()
        for name in names:
            if not name.startswith("$") and not name.endswith(">"):
                client.subscribe(f"/queue/{name}", name, ack="client", activemq__prefetchSize="0")
        for _ in range(8):
            self.pass_time(1_000)
            for frame in client.frames():
                if frame.command == "MESSAGE":
                    got = Got(frame, "")
                    if frame.headers.get("persistent") == "true":
                        self.check_delivery(got)
                    there.add(got.place)
        client = self.desk.connect(client_id="zed")
        client.subscribe("/topic/>", **ALL_TOPICS, activemq__prefetchSize="0")
        self.pass_time(1_000)
        came = {Got(it, "").place for it in client.frames() if it.command == "MESSAGE"}
        missed = self.books.owed - came
        assert not missed, f"owed to who wants all topics: {sorted(missed)[:5]} of {len(missed)}"
        lost = self.books.stored - self.books.may_be_settled - there
        assert not lost, f"confirmed, and nowhere: {sorted(lost)[:5]} of {len(lost)}"
        back = there & self.books.settled
        assert not back, f"settled, and there again: {sorted(back)[:5]}"


def walk(seed: int, *, is_harsh: bool, steps: int = 250) -> World:
    """Take so many steps of one story."""
    world = World(Random(seed), is_harsh=is_harsh)
    for _ in range(steps):
        world.step()
    world.come_to_rest()
    return world
