"""
What the broker says of itself: who came, who left, what was made, deleted, expired, buried.

Each is one message on a topic, in memory only, and is built only if somebody listens: as long as
nobody does, nothing is done but to ask that. Nobody is told of who listens. Who begins to listen is
told first what there is, in steps, as fast as it takes that.

What is said is what this leader has decided. What it decided and could not store, as it lost the
lead, it has said all the same; who listens to the next leader is told what there is.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import Errands
from holdfast.broker.flow_control import FlowControl
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.sending import Sending
from holdfast.broker.serving.advises import Advises
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.leadership import Leadership
from holdfast.broker.serving.listeners import AdvisoryTopic, Listeners
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.publishing import Publishing
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.broker.untold import Properties, Untold, UntoldMessages
from holdfast.model import advisories
from holdfast.model.advisories import PREFIX, Advisory, Structure
from holdfast.model.destination import Destination, Kind
from holdfast.model.facts import TOPIC_MARK, Cause
from holdfast.model.reserved_names import OWN_MARK

_PER_STEP: Final = 64
"""So much is told in one step: about 15 µs for each that one topic of listeners wants."""
_UNTOLD_MAX: Final = 100_000
"""So many messages may wait to be told of."""
_RUNS_MAX: Final = 10_000
"""So often they may be of another kind or place: a KiB each."""
_LOOKED_AT_PER_STEP: Final = 256
_SPARE: Final = 1024
"""So much may stand in a roll that is gone."""

_OF_DESTINATIONS: Final = {
    (True, False): advisories.QUEUE,
    (True, True): advisories.TEMPORARY_QUEUE,
    (False, False): advisories.TOPIC,
    (False, True): advisories.TEMPORARY_TOPIC,
}
"""By whether it is a queue, and whether it is temporary."""


class Connected(Protocol):
    """A client, as far as it is told of."""

    id: str
    client_id: str
    is_connected: bool


class Connection(Protocol):
    """Its connection."""

    @property
    def session(self) -> Connected:
        """Who is served by it."""


class Speaker(Protocol):
    """The node that says it."""

    node: str
    cluster: str
    """Short name of the cluster's identity."""
    term: int


class _Nobody:
    """A node without a name."""

    node = cluster = ""
    term = 0


class _Roll(list[Any]):
    """All there is of a kind, found as it is asked for; what comes stands at the end."""

    __slots__ = ("__weakref__", "_source")

    def __init__(self, source: Iterator[Any]) -> None:
        super().__init__()
        self._source = source

    def fill(self) -> bool:
        """Find some more; false: there is no more."""
        before = len(self)
        self.extend(islice(self._source, _LOOKED_AT_PER_STEP))
        return len(self) > before


class Advising(Advises):
    """Says what happens."""

    __slots__ = (
        *("_destinations", "_errands", "_flow", "_publishing", "_rolls", "_sending"),
        *("_is_telling", "_state", "_untold", "connections", "missed_total", "speaker"),
    )

    def __init__(
        self,
        state: BrokerState,
        *,
        destinations: Destinations,
        flow: FlowControl,
        publishing: Publishing,
        sending: Sending,
        errands: Errands,
    ) -> None:
        super().__init__()
        self._state = state
        self._destinations = destinations
        self._flow = flow
        self._publishing = publishing
        self._sending = sending
        self._errands = errands
        self._rolls: WeakValueDictionary[str, _Roll] = WeakValueDictionary()
        """The same for all who are told at once what there is: each has only its place."""
        self._untold = UntoldMessages(_UNTOLD_MAX, _RUNS_MAX)
        self._is_telling = False
        self.listeners: Listeners = Listeners(self._note_heard)
        """Whether anybody listens is asked of them before anything is done."""
        self.connections: Collection[Connection] = ()
        """Who is connected, or about to."""
        self.speaker: Speaker = _Nobody()
        self.missed_total = 0
        """Advisories that nobody was told: too much was on its way, or a mistake was made."""

    @property
    def leadership(self) -> Leadership:
        """The one of this broker."""
        return self._destinations.leadership

    @property
    def state(self) -> BrokerState:
        """What lasts."""
        return self._state

    def _note_heard(self, is_heard: bool) -> None:
        self.is_heard = is_heard

    def clear(self) -> None:
        """Forget all: the leadership is over, and its errands are."""
        self.listeners.clear()
        self._rolls.clear()
        self._untold.clear()
        self._is_telling = False

    @property
    def effort(self) -> int:
        """What saying something takes at most, counted in deliveries."""
        return self.listeners.effort

    def came(self, destination: Queue | Topic) -> None:
        """Say that there is a new queue or topic."""
        self._note("destinations", destination, self._count)
        self.say(_of_place(destination, is_gone=False))

    def went(self, destination: Queue | Topic) -> None:
        """Say that a queue or topic is gone."""
        self.say(_of_place(destination, is_gone=True))

    def connected(self, session: Connected) -> None:
        """Say that a client has connected."""
        self._note("sessions", session, self.connections.__len__)
        self.say(_of_connection(session))

    def disconnected(self, session: Connected) -> None:
        """Say that a client is gone."""
        came = _of_connection(session) if self.listeners else None
        if came is not None:
            removed: Structure = {"objectId": {"value": session.id}}
            self.say(came._replace(kind="RemoveInfo", structure=removed))

    def subscribed(self, subscription: Subscription, destination: Queue | Topic) -> None:
        """Say that somebody consumes from a queue or topic; tell a listener what there is."""
        if isinstance(destination, AdvisoryTopic):
            self._tell(subscription, destination)
            return
        self._note("consumers", subscription, lambda: self._flow.subscription_count)
        self.say(of_consumer(subscription, destination, is_gone=False))

    def unsubscribed(self, subscription: Subscription, destination: Queue | Topic) -> None:
        """Say that somebody does not do so any more."""
        if not isinstance(destination, AdvisoryTopic):
            self.say(of_consumer(subscription, destination, is_gone=True))

    def died(self, queue: Queue, keys: Sequence[int], cause: Cause, *, is_buried: bool) -> None:
        """Say of messages of a queue that they have expired, or are dead letters now, or both."""
        kinds = [advisories.EXPIRED] if cause is Cause.EXPIRED else []
        if is_buried:
            kinds.append(advisories.DEAD)
        if kinds:
            self._tell_of(tuple(kinds), queue, keys)

    def _tell_of(
        self,
        kinds: tuple[str, ...],
        place: Queue | Topic,
        keys: Sequence[int],
        more: Properties = (),
    ) -> None:
        """Say something of each of these messages when there is time, behind what waits for it."""
        self._begin_to_tell(self._untold.add(kinds, place, keys, more))

    def _begin_to_tell(self, missed: int) -> None:
        self.missed_total += missed
        if self._untold.count and not self._is_telling:
            self._is_telling = True
            self._errands.tell(self._tell_untold(), self)

    def _tell_untold(self) -> Iterator[None]:
        yield from self._untold.told(self._say_of, self._failed, _PER_STEP)
        self._is_telling = False

    def _say_of(self, untold: Untold) -> int:
        message_id = self.id_of(untold.place, untold.key)
        for kind in untold.kinds:
            self.say(of_message(kind, untold.place, message_id, *untold.more))
        return len(untold.kinds) * self.effort

    def _failed(self, error: Exception, count: int) -> None:
        self.missed_total += 1
        if count == 1:  # Of many in a row the first is logged.
            self._errands.fail(None, error)

    def expired_on_topic(self, topic: Topic, key: int) -> None:
        """Say that a message of a topic has expired before somebody had it."""
        if not isinstance(topic, AdvisoryTopic):
            self.say(of_message(advisories.EXPIRED, topic, self.id_of(topic, key)))

    def id_of(self, place: Queue | Topic, key: int) -> str:
        """Give the id of a message of a queue or topic."""
        named = key if key > 0 else f"t{self.speaker.term}.{-key}"
        number = place.number if isinstance(place, Queue) else 0
        return f"ID:{self.speaker.cluster}-{number}-{named}"

    def say(self, advisory: Advisory | None) -> None:
        """Give an advisory to who listens to it, if there is one."""
        if advisory is None:
            return
        topics = self.listeners.of(advisory.name)
        if topics and not self._publishing.has_room_for_advice:
            self.missed_total += len(topics)
            return
        messages: dict[bool, TransientMessage] = {}
        for topic in topics:
            message = messages.get(topic.is_xml)
            if message is None:
                message = messages[topic.is_xml] = self.message(advisory, is_xml=topic.is_xml)
            self.missed_total += not self._publishing.advise(topic, message)

    def hand_out(self, name: str, message: TransientMessage) -> None:
        """Give a message as it is to who listens to a topic."""
        for topic in self.listeners.of(name):
            self.missed_total += not self._publishing.advise(topic, message)

    def raw_message(self, lines: bytes, body: bytes) -> TransientMessage:
        """Make a message of headers as they are stored, and a body."""
        return self._sending.topic_message(lines, body)

    def message(self, advisory: Advisory, *, is_xml: bool) -> TransientMessage:
        """Make an advisory a message."""
        broker = (self.speaker.node, f"ID:{self.speaker.cluster}-{self.speaker.node}")
        lines = advisories.lines_of(advisory, broker, is_xml=is_xml)
        return self._sending.topic_message(lines, advisories.body_of(advisory, is_xml=is_xml))

    def _note(self, name: str, item: object, count: Callable[[], int]) -> None:
        """Let those be told of something new who are being told what there is."""
        roll = self._rolls.get(name)
        if roll is not None:
            roll.append(item)
            if len(roll) > 2 * count() + _SPARE:
                del self._rolls[name]  # Who has it reads on; of what comes it hears anyway.

    def _tell(self, subscription: Subscription, topic: AdvisoryTopic) -> None:
        """Tell who begins to listen what there is."""
        told = self._there_is(topic)

        def go_on() -> None:
            replay = self._replay(subscription, topic, told, go_on)
            self._errands.begin_to_tell(replay, subscription.receiver)

        go_on()

    def _replay(
        self,
        subscription: Subscription,
        topic: AdvisoryTopic,
        told: Iterator[Advisory | None],
        go_on: Callable[[], None],
    ) -> Iterator[None]:
        yield  # The subscription is whole when the next step is done.
        for count, advisory in enumerate(told, 1):
            if advisory is None or not count % _PER_STEP:
                yield
            if subscription.is_closed:
                return
            if advisory is None or not topic.means(advisory.name):
                continue
            self._publishing.advise_one(
                topic, self.message(advisory, is_xml=topic.is_xml), subscription
            )
            if subscription.pending or not subscription.has_room():
                topic.replays[subscription] = go_on
                return

    def _there_is(self, topic: AdvisoryTopic) -> Iterator[Advisory | None]:
        """Give what is to be told of what there is; None after each bit of looking."""
        name = topic.name
        if advisories.wants(name, advisories.CONNECTION):
            for session in self._each("sessions", self._all_sessions):
                yield None if session is None else _of_connection(session)
        if any(advisories.wants(name, kind) for kind in _OF_DESTINATIONS.values()):
            for destination in self._each("destinations", self._all_destinations):
                yield None if destination is None else self._of_known(destination)
        if advisories.wants(name, advisories.CONSUMER):
            for consumer in self._each("consumers", self._all_consumers):
                yield None if consumer is None else _of_known_consumer(consumer)

    def _each(self, name: str, source: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """Give all of a kind, and None after each bit of looking."""
        roll = self._rolls.get(name)
        if roll is None:
            roll = self._rolls[name] = _Roll(source())
        place = 0
        while place < len(roll) or roll.fill():
            some = roll[place : place + _PER_STEP]
            place += len(some)
            yield from some
            yield None

    def _all_sessions(self) -> Iterator[Connected]:
        for each in list(self.connections):
            yield each.session

    def _all_destinations(self) -> Iterator[Queue | Topic | str | Destination]:
        """Give all queues and topics; of what the log has and nobody uses the name."""
        destinations = self._destinations
        leadership = destinations.leadership
        yield from list(self._state.by_name)
        yield from [it for it in leadership.plans.values() if type(it) is Queue]
        stored = destinations.stored.names()
        for name in stored:
            yield Destination(Kind.TOPIC, name)
        yield from [it for it in destinations.topics.values() if it.name not in stored]
        yield from list(destinations.temporaries.queues.values())
        yield from list(destinations.temporaries.topics.values())

    def _all_consumers(self) -> Iterator[Consumer | None]:
        """Give all consumers of queues and topics, and None after each of these."""
        destinations, temporaries = self._destinations, self._destinations.temporaries
        leadership = destinations.leadership
        places: tuple[dict[Any, Any], ...] = (
            *(leadership.by_name, destinations.topics, leadership.durables),
            *(temporaries.queues, temporaries.topics),
        )
        for by_name in places:
            for place in list(by_name.values()):
                yield from list(place.subscriptions)
                yield None

    def _of_known(self, known: Queue | Topic | str | Destination) -> Advisory | None:
        """Say that there is what was found, if it is there still."""
        if isinstance(known, Destination):
            destinations, name = self._destinations, known.name
            if not (destinations.stored.is_stored(name) or name in destinations.topics):
                return None
            return _of_destination(advisories.TOPIC, name, f"topic://{name}", is_gone=False)
        if isinstance(known, str):
            found = self._destinations.find(known)
            if found is None or known.startswith(OWN_MARK):
                return None
            return _of_destination(advisories.QUEUE, known, f"queue://{known}", is_gone=False)
        if known.is_deleted and not (type(known) is Topic and self._is_stored(known)):
            return None
        return _of_place(known, is_gone=False)

    def _is_stored(self, topic: Topic) -> bool:
        """Whether the messages of a topic are stored, so that it is there without subscribers."""
        return not topic.is_temporary and self._destinations.stored.is_stored(topic.name)

    def _count(self) -> int:
        destinations, temporaries = self._destinations, self._destinations.temporaries
        count = destinations.queue_count + len(destinations.topics) + len(self._state.topics)
        return count + len(temporaries.queues) + len(temporaries.topics)


def _is_queue(place: Queue | Topic) -> bool:
    """Whether it is one; a stored topic and a durable subscription, served as such, are none."""
    return isinstance(place, Queue) and not (place.topic_number or type(place) is StoredTopic)


def name_of(place: Queue | Topic) -> str:
    """Give what a queue or topic is called."""
    return place.name if _is_queue(place) else place.name.removeprefix(TOPIC_MARK)


def kind_of(place: Queue | Topic) -> str:
    """Give by which word the topics of advisories name what a queue or topic is."""
    return _OF_DESTINATIONS[_is_queue(place), place.is_temporary]


def written(place: Queue | Topic) -> str:
    """Write a queue or topic as JMS does."""
    kind = "queue" if _is_queue(place) else "topic"
    return f"temp-{kind}://{place.name}" if place.is_temporary else f"{kind}://{name_of(place)}"


def _of_place(place: Queue | Topic, *, is_gone: bool) -> Advisory | None:
    if place.name.startswith(OWN_MARK):
        return None
    return _of_destination(kind_of(place), place.name, written(place), is_gone=is_gone)


def _of_destination(kind: str, name: str, written: str, *, is_gone: bool) -> Advisory:
    structure: Structure = {"destination": written, "operationType": int(is_gone)}
    properties = (("destinationName", name), ("operationType", int(is_gone)))
    return Advisory(f"{PREFIX}{kind}", properties, "DestinationInfo", structure)


def _of_connection(session: Connected) -> Advisory | None:
    if not session.is_connected:
        return None
    structure: Structure = {"connectionId": session.id, "clientId": session.client_id}
    properties = (("connectionId", session.id),)
    return Advisory(f"{PREFIX}{advisories.CONNECTION}", properties, "ConnectionInfo", structure)


def _of_known_consumer(consumer: Consumer) -> Advisory | None:
    assert isinstance(consumer, Subscription), "every consumer is one"
    place = consumer.queue or consumer.topic
    if consumer.is_closed or place is None:
        return None
    return of_consumer(consumer, place, is_gone=False)


def of_consumer(
    subscription: Subscription,
    place: Queue | Topic,
    *,
    is_gone: bool,
    kind: str = advisories.CONSUMER,
) -> Advisory | None:
    """Say of a consumer of a queue or topic that it is one, or not any more."""
    if place.name.startswith(OWN_MARK):
        return None
    connection = subscription.receiver.id
    identity: Structure = {"connectionId": connection, "value": subscription.ordinal}
    name = f"{PREFIX}{kind}.{kind_of(place)}.{name_of(place)}"
    properties = (
        ("consumerCount", len(place.subscriptions)),
        ("consumerId", f"{connection}:{subscription.ordinal}"),
    )
    if is_gone:
        return Advisory(name, properties, "RemoveInfo", {"objectId": identity})
    selector = subscription.selector
    structure: Structure = {
        "consumerId": identity,
        "destination": written(place),
        "prefetchSize": subscription.width,
        "priority": subscription.claim.priority,
        "exclusive": subscription.claim.is_exclusive,
        "selector": "" if selector is None else selector.condition,
    }
    return Advisory(name, properties, "ConsumerInfo", structure)


def of_message(
    kind: str, place: Queue | Topic, message_id: str, *more: tuple[str, str | int]
) -> Advisory:
    """Say something of a message of a queue or topic."""
    structure: Structure = {"messageId": message_id, "destination": written(place)}
    properties = (
        ("orignalMessageId", message_id),
        ("orignalDestination", written(place)),
        *more,
    )
    name = f"{PREFIX}{kind}.{kind_of(place)}.{name_of(place)}"
    return Advisory(name, properties, "ActiveMQMessage", structure)
