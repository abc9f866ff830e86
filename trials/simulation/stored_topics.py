"""
Stored topics and durable subscriptions, as the log tells of them to somebody who trusts no broker.

To whoever judges, a subscription is a queue: what is put on its topic while it is there, and is not
left out by its selector, stands in a place of its own, (its number, the topic's sequence). So what
is asked of queues' messages is asked of these: each is settled by who had it, none is dropped while
it lives, none comes again after its end.

Invariants (each violation is raised with its name):
    M8: a message is for every subscription that is there, but for those whose selector leaves it
    out, and those of who sent it that do not want their own; a copy by the cleaner is for those
    that still need it, and says what came of it for each.
    S18: where a topic is told of again, it says how many subscriptions it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.broker.lasting.topic_index import bits_of
from trials.simulation.history import ViolationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.model.records import DeleteQueueRecord, MessageRecord
    from holdfast.model.topic_records import SubscriptionRecord, TopicRecord

Key = tuple[str, str]
"""Client-id and name."""


class Subscribed(NamedTuple):
    """One durable subscription."""

    number: int
    topic: int
    slot: int
    key: Key
    kind: str
    """It wants messages of this kind only; empty: all."""
    first: int
    has_no_local: bool = False
    """It does not want what its client sends."""

    def wants(self, body: bytes) -> bool:
        """Whether a message is for it."""
        is_own = self.has_no_local and body.split(b".", 1)[0].decode() == self.key[0]
        return self.kind in {"", kind_of(body)} and not is_own


class StoredTopics:
    """Which subscriptions there are, as far as the log is committed."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        """Of topics, by number."""
        self.by_number: dict[int, Subscribed] = {}
        self.by_key: dict[Key, Subscribed] = {}
        self.changing: set[Key] = set()
        """Those that a client has asked to end, or to be another."""
        self.cut_checks: dict[str, Callable[[Subscribed, int], None]] = {}
        """By topic: asked of a subscription and a sequence through which all may go."""
        self._leaving: dict[tuple[int, int], Subscribed] = {}
        """What a copy of this entry says is not needed any more, and is not settled so far."""
        self.copied_count = 0
        """Copies by the cleaner that somebody did not need any more."""

    def topic(self, record: TopicRecord) -> None:
        """Take a topic that is declared, or told of again."""
        count = len(list(self._of(record.topic_number)))
        if record.subscription_count != count:
            raise ViolationError(
                "S18", f"{record.name} says {record.subscription_count} subscriptions of {count}"
            )
        self.names[record.topic_number] = record.name

    def subscription(self, record: SubscriptionRecord) -> str:
        """Take a subscription that is declared, or told of again; give what it is called here."""
        key = record.client_id, record.name
        kind = record.selector.split("'")[1] if record.selector else ""
        known = self.by_number.get(record.number)
        if known is None:
            if key in self.by_key:
                raise ViolationError("M8", f"there are two subscriptions {key}")
            known = Subscribed(
                *(record.number, record.topic_number, record.slot, key, kind),
                *(record.first_sequence, record.has_no_local),
            )
            self.by_number[record.number] = self.by_key[key] = known
        said = (record.topic_number, record.slot, key, kind, record.has_no_local)
        if said != (known.topic, known.slot, known.key, known.kind, known.has_no_local):
            raise ViolationError("S18", f"{known} is told of again as {said}")
        return called(key)

    def delete(self, record: DeleteQueueRecord) -> list[Subscribed] | None:
        """Give the subscriptions that end here, None if it is a queue that does."""
        ended = list(self._of(record.queue_number))
        if record.topic_number:
            ended = [self.by_number[record.queue_number]]
        elif self.names.pop(record.queue_number, None) is None:
            return None
        for each in ended:
            del self.by_number[each.number], self.by_key[each.key]
        return ended

    def check_removed(self, number: int, through: int) -> None:
        """Hold what is taken off a subscription against who has asked for it, or its limits."""
        known = self.by_number[number]
        check = self.cut_checks.get(self.names.get(known.topic, ""))
        if check is not None:
            check(known, through)
        elif known.key not in self.changing:
            raise ViolationError("S6", f"{known.key} lost messages, and nobody asked")

    def _of(self, topic: int) -> Iterator[Subscribed]:
        return (each for each in self.by_number.values() if each.topic == topic)

    def places_of(
        self, record: MessageRecord, live: dict[tuple[int, int], int]
    ) -> list[tuple[int, int]] | None:
        """Give where a message of a topic stands; None: it is on queues."""
        if record.queue_number not in self.names:
            return None
        slots = set(bits_of(b"" if record.facts is None else record.facts.skips or b""))
        places = []
        for each in self._of(record.queue_number):
            place = each.number, record.sequence
            if record.sequence < each.first:
                continue
            if record.rewritten:
                is_wanted = place in live
                self.copied_count += not is_wanted
            else:
                is_wanted = each.wants(record.body or b"")
            if is_wanted and each.slot in slots and record.rewritten:
                # Acknowledgements stand at the end of the entry that they gather in.
                self._leaving[place] = each
                continue
            if is_wanted == (each.slot in slots):
                what = "wants" if is_wanted else "does not want"
                raise ViolationError("M8", f"{each.key} {what} {place}; the log says otherwise")
            if is_wanted:
                places.append(place)
        return places

    def end_entry(self, live: dict[tuple[int, int], int]) -> None:
        """Hold what copies say is not needed any more against what was settled with them."""
        for place, each in self._leaving.items():
            if place in live:
                raise ViolationError("M8", f"{each.key} wants {place}; the log says otherwise")
        self._leaving.clear()


def called(key: Key) -> str:
    """Give what a subscription is called where queues have names."""
    return f"{key[1]} of {key[0]}"


def kind_of(body: bytes) -> str:
    """Give the kind of a message: the second word of its body."""
    return body.split(b" ", 2)[1].decode()
