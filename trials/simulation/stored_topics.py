"""
Stored topics and durable subscriptions, as the log tells of them to somebody who trusts no broker.

To whoever judges, a subscription is a queue: what is put on its topic while it is there, and is not
left out by its selector, stands in a place of its own, (its number, the topic's sequence). So what
is asked of queues' messages is asked of these: each is settled by who had it, none is dropped while
it lives, none comes again after its end.

Invariants (each violation is raised with its name):
    M8: a message is for every subscription that is there, also by a part for those of wildcards
    that mean its topic, but for those whose selector leaves it out, and those of who sent it that
    do not want their own; a copy by the cleaner is for those that still need it, and says what came
    of it for each.
    S18: where a topic is told of again, it says how many subscriptions it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.broker.lasting.topic_index import bits_of
from holdfast.model.destination import Kind, has_wildcards
from holdfast.model.topic_records import whole_of
from holdfast.model.wildcards import Pattern, parse_pattern
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
    whole: int = 0
    """The number of that of a wildcard that it is a part of, whose key it has; 0: of none."""

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
        self.wild: dict[int, Pattern] = {}
        """By number: what those of wildcards mean."""
        self.parts: set[tuple[int, int]] = set()
        """The numbers of those and of the topics on which they have parts."""
        self.changing: set[Key] = set()
        """Those that a client has asked to end, or to be another."""
        self.cut_checks: dict[str, Callable[[Subscribed, int], None]] = {}
        """By topic: asked of a subscription and a sequence through which all may go."""
        self._leaving: dict[tuple[int, int], Subscribed] = {}
        """What a copy of this entry says is not needed any more, and is not settled so far."""
        self.emptied_count = 0
        """Parts of subscriptions of wildcards that went when there was nothing of them."""
        self._part_numbers: set[int] = set()
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
        known = self.by_number.get(record.number)
        whole = whole_of(record.name)
        key = self._key_of(record, whole, known)
        kind = record.selector.split("'")[1] if record.selector else ""
        if known is None:
            known = Subscribed(
                *(record.number, record.topic_number, record.slot, key, kind),
                *(record.first_sequence, record.has_no_local, whole),
            )
            self._add(known)
        said = (record.topic_number, record.slot, key, kind, record.has_no_local)
        if said != (known.topic, known.slot, known.key, known.kind, known.has_no_local):
            raise ViolationError("S18", f"{known} is told of again as {said}")
        return called(key)

    def _key_of(self, record: SubscriptionRecord, whole: int, known: Subscribed | None) -> Key:
        """Give whose it is; of a part that of the whole, which may have ended since."""
        if not whole:
            return record.client_id, record.name
        if known is not None:
            return known.key
        if whole not in self.by_number:
            raise ViolationError("M8", f"there is a part of {whole}, which is not there")
        return self.by_number[whole].key

    def _add(self, new: Subscribed) -> None:
        place = new.whole, new.topic
        if place in self.parts or (not new.whole and new.key in self.by_key):
            raise ViolationError("M8", f"there are two subscriptions {new.key}")
        self.by_number[new.number] = new
        if new.whole:
            self.parts.add(place)
            self._part_numbers.add(new.number)
            return
        self.by_key[new.key] = new
        name = self.names.get(new.topic, "")
        if has_wildcards(name):
            self.wild[new.number] = parse_pattern(f"topic://{name}")

    def _remove(self, gone: Subscribed) -> None:
        del self.by_number[gone.number]
        self.wild.pop(gone.number, None)
        if gone.whole:
            self.parts.discard((gone.whole, gone.topic))
        else:
            del self.by_key[gone.key]

    def _check_parts(self, topic: int) -> None:
        """M8: whoever wants what is sent to a topic has a part there."""
        for number, pattern in self.wild.items():
            means = pattern.matches(Kind.TOPIC, self.names[topic])
            if means and (number, topic) not in self.parts:
                key = self.by_number[number].key
                raise ViolationError("M8", f"{key} has no part on {self.names[topic]}")

    def delete(self, record: DeleteQueueRecord) -> list[Subscribed] | None:
        """Give the subscriptions that end here, None if it is a queue that does."""
        ended = list(self._of(record.queue_number))
        if record.topic_number:
            ended = [self.by_number[record.queue_number]]
        elif self.names.pop(record.queue_number, None) is None:
            return None
        for each in ended:
            self._remove(each)
        return ended

    def is_part(self, number: int) -> bool:
        """Whether it is, or was, the part of a subscription of a wildcard."""
        return number in self._part_numbers

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
        if self.wild and not record.rewritten:
            self._check_parts(record.queue_number)
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
