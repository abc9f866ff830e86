"""
What a message needs on topics before it goes there: parts of the wildcards that mean them.

A part takes some 80 microseconds, and a message may go to a thousand topics. So those of one topic
are given at once, those of several over as many turns as it takes, and the message waits. A part
that is there some entries before its first message is as right as one in the same.

Others may make wildcards as fast as parts are given. So where a message was put off a few times,
whoever subscribes to one durably waits as well, until it has gone or is put off no more.

Who needs no part to keep a promise is not refused where there may be no more: what is not
persistent is for who is there, and a mirror stops nobody who sends to its queue.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from holdfast.broker.addressing import RouteUnknownError
from holdfast.broker.destinations import Destinations
from holdfast.broker.durables import Durables
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.broker.serving.transactions import Transaction
from holdfast.broker.stored_topics import StoredTopics
from holdfast.model.destination import Destination, Kind
from holdfast.model.forwarding import is_mirror

PARTS_PER_STEP: Final = 64
"""So many are given in one turn to one message, or those of one topic: some 5 ms."""
PUT_OFF_MAX: Final = 250
"""What was put off so often gets all at once. Without wildcards that begin meanwhile 10,000 parts,
which is all that there may be, take fewer turns."""
PART_EFFORT: Final = 8
"""To give one takes as long as so many ordinary requests."""
_HURRIED_AFTER: Final = 16
"""What was put off so often is not to be kept from going by wildcards that begin meanwhile."""
_HURRIED_MICROSECONDS: Final = 500_000
"""For so long after it was put off last: whoever sent it may be gone."""
_LOOKED_PER_STEP: Final = 512

Spares = Callable[[Destination], bool]
"""Whether a message may go to a topic also where wildcards that mean it can have no part."""


def spares_of(written: Container[Destination], *, is_stored: bool) -> Spares:
    """Give which topics stop nobody, of those where a message goes that is sent to these."""
    if not is_stored:
        return lambda _: True
    return lambda each: is_mirror(each.name) and each not in written


def mirrors_among(written: Iterable[Destination]) -> tuple[str, ...]:
    """Give the topics of mirrors to which somebody sends who writes these."""
    return tuple([it.name for it in written if it.kind is Kind.TOPIC and is_mirror(it.name)])


class Parts:
    """Gives topics the parts that are lacking, a step at a time."""

    __slots__ = ("_durables", "_hurried_until", "_now", "_stored")

    def __init__(
        self, destinations: Destinations, durables: Durables, now: Callable[[], int]
    ) -> None:
        """
        Begin with nothing that waits.

        Args:
            destinations: Where messages go.
            durables: Whose parts they are.
            now: Gives microseconds of a clock.
        """
        self._durables = durables
        self._stored = destinations.stored
        self._now = now
        self._hurried_until = 0

    @property
    def effort(self) -> int:
        """What all took that were given so far, in ordinary requests."""
        return self._durables.given_total * PART_EFFORT

    @property
    def is_hurried(self) -> bool:
        """Whether who subscribes durably to a wildcard is to wait for what was put off often."""
        return 0 < self._hurried_until - self._now() <= _HURRIED_MICROSECONDS

    def _put_off(self, count: int) -> None:
        """Note that something is put off once more."""
        if count >= _HURRIED_AFTER:
            self._hurried_until = self._now() + _HURRIED_MICROSECONDS

    def _gone(self, put_off_count: int) -> None:
        """Note that something goes that was put off so often."""
        if put_off_count > _HURRIED_AFTER:
            self._hurried_until = 0  # Who else is put off says so again.

    def among(
        self, written: Sequence[Destination], spares: Spares, put_off_count: int = 0
    ) -> list[StoredTopic]:
        """
        Give those of some destinations that are topics with durable subscriptions.

        Args:
            written: The destinations.
            spares: Of which of them the message is not refused for want of a part.
            put_off_count: How often this was put off before.

        Raises:
            DestinationError: There are too many subscriptions for that.
            RouteUnknownError: To give all their parts takes more than one turn.
        """
        found, before = [], self._durables.given_total
        may_put_off = put_off_count < PUT_OFF_MAX
        for each in written:
            if each.kind is Kind.TOPIC:
                if may_put_off and self._is_much(each.name, before):
                    self._put_off(put_off_count)
                    raise RouteUnknownError
                found.append(self._find(each.name, is_spared=spares(each)))
        self._gone(put_off_count)
        return [each for each in found if each is not None]

    def before_commit(self, transaction: Transaction) -> Iterator[None]:
        """
        Give in steps all parts that what a transaction sends needs now.

        Raises:
            DestinationError: There are too many subscriptions for that.
        """
        put_off_count, seen = 0, -1
        before = self._durables.given_total
        while seen != self._durables.need_changes:
            # Wildcards may have begun, or parts gone, since it passed a topic: it passes all again.
            seen = self._durables.need_changes
            for count, (name, is_spared) in enumerate(_topics_of(transaction).items(), 1):
                if self._is_much(name, before) or not count % _LOOKED_PER_STEP:
                    self._put_off(put_off_count)
                    put_off_count += 1
                    yield
                    before = self._durables.given_total
                self._find(name, is_spared=is_spared)
        self._gone(put_off_count)

    def left_out(self, written: Sequence[Destination]) -> int:
        """Of how many of these that are mirrors wildcards that mean them have no part now."""
        names = [each.name for each in written if each.kind is Kind.TOPIC and is_mirror(each.name)]
        return sum(self._stored.lacks_parts(name, self._stored.known(name)) for name in names)

    def _find(self, name: str, *, is_spared: bool) -> StoredTopic | None:
        return self._stored.at_hand(name) if is_spared else self._stored.topic(name)

    def _is_much(self, name: str, before: int) -> bool:
        """Whether to give this topic its parts is too much, after what was given since."""
        given = self._durables.given_total - before
        if not given:
            return False
        topic = self._stored.known(name)
        if not self._stored.lacks_parts(name, topic):
            return False
        return given + len(self._durables.lacking(name, topic)) > PARTS_PER_STEP


def _topics_of(transaction: Transaction) -> dict[str, bool]:
    """Give the topics that a transaction sends to, and whether each stops nobody."""
    kept = [each.name for each in transaction.by_queue if isinstance(each, StoredTopic)]
    found = {name: _is_spared(transaction, name) for name in (*kept, *transaction.unstored)}
    for each in transaction.targets:
        if isinstance(each, StoredTopic) or (isinstance(each, Topic) and each.is_stored):
            found.setdefault(each.name, True)
    return found


def _is_spared(transaction: Transaction, name: str) -> bool:
    """Whether a topic stops nobody who commits what is kept of it; see `spares_of`."""
    return is_mirror(name) and name not in transaction.mirrors


def topics_now(
    stored: StoredTopics, transaction: Transaction, current: Mapping[Queue | Topic, Queue | Topic]
) -> tuple[dict[str, StoredTopic], int]:
    """
    Give those that what was sent to topics before they were stored goes to now, as it is committed.

    All have the parts then that they need; also given is how many messages mirrors lack, as there
    may be no more parts.

    Raises:
        DestinationError: There are too many subscriptions for that.
    """
    found: dict[str, StoredTopic] = {}
    left_out = 0
    for sent_to, place in current.items() if stored.have_wildcards else ():
        if isinstance(place, StoredTopic):
            assert isinstance(sent_to, Queue), "a topic that is not stored is none"
            count = len(transaction.by_queue.get(sent_to, ()))
            is_spared = not count or _is_spared(transaction, place.name)
            left_out += _now(stored, place.name, count, is_spared=is_spared)[1]
    for name, sends in transaction.unstored.items():
        is_spared = _is_spared(transaction, name)
        topic, lacking = _now(stored, name, len(sends.records), is_spared=is_spared)
        left_out += lacking
        if topic is not None:
            found[name] = topic
    return found, left_out


def _now(
    stored: StoredTopics, name: str, count: int, *, is_spared: bool
) -> tuple[StoredTopic | None, int]:
    """Give a topic to which so many messages go that are kept, and how many of them it lacks."""
    if not is_spared:
        return stored.topic(name), 0
    topic = stored.at_hand(name)
    return topic, count * stored.lacks_parts(name, topic)


def stored_beside(
    destinations: Destinations, places: Iterable[Queue | Topic]
) -> dict[Queue | Topic, StoredTopic]:
    """Give, by those of these that are such topics, what is sent to for their subscriptions."""
    live = [it for it in places if isinstance(it, Topic) and it.is_stored]
    found = {each: destinations.stored.at_hand(each.name) for each in live}
    return {each: stored for each, stored in found.items() if stored is not None}
