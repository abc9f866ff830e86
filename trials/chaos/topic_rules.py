"""
What must hold of a topic's durable subscriptions: by what was committed, whatever was asked for.

* missed: confirmed, sent after the receipt of the subscription's making, selected by it, and never
  delivered to it. It is told among the lost.
* uneven: one subscription got a message, confirmed or not, and another that was there and selects
  it did not, or not every copy of it: a topic stores a message once, for all of them.
* stored twice: two places on the topic. Producer numbers do not count there, so who sends again
  what a lost link left open may have sent it twice: as often as its links were lost between the
  send and its outcome, it may have one place more, and is counted (`sent_again`). What nobody can
  have sent again, and what a transaction sent, has one.
* unexpected: what its selector leaves out, or what was confirmed before it was asked for.
* reordered: messages of one producer stand, by their first places, in the order of sending; and a
  subscription's messages come the first time in the order of the topic.
* in two hands: a subscription has one consumer at a time.
* Each rejection that was confirmed is one dead letter, of that subscription alone.

Pure: lines in the order of time go in, sentences come out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from trials.chaos.group_rules import IN_TWO_HANDS, GroupBook
from trials.chaos.history import Event
from trials.chaos.subscriptions import TOPIC, part_of

UNEVEN: Final = "uneven"
MISSED: Final = "lost"
_Message = tuple[str, int]
_Finding = tuple[str, str]


@dataclass(slots=True)
class _Subscription:
    asked_at: int
    """When it was first asked for."""
    part: int | None
    made_at: int | None = None
    """When the first receipt for it came."""
    places: dict[_Message, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Where on the topic each message that it got stands."""

    def owes(self, message: _Message, sent_at: int) -> bool:
        """Whether it must have a message, if that was stored."""
        return self.made_at is not None and self.made_at < sent_at and self.selects(message)

    def selects(self, message: _Message) -> bool:
        """Whether its selector lets a message through."""
        return self.part is None or part_of(message[1]) == self.part


@dataclass(slots=True)
class Published:
    """One message to the topic, as its producer knows it."""

    at: int
    worker: str
    outcome: str
    """stored, refused, unknown, or open."""
    told_at: int | None
    """When the outcome came; None: never."""
    unit: str | None = None
    is_numbered: bool = False
    """Its producer's client says its link's losses, and sends nothing again but after one."""


class TopicBook:
    """What producers and consumers of the topic told."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, _Subscription] = {}
        self.hands = GroupBook()
        self.sent_again = 0
        """Places beyond the first of a message, where it may have been sent again."""
        self.owed = 0
        """Confirmed messages that subscriptions had to get, over all of them."""
        self._losses: dict[str, list[int]] = defaultdict(list)
        """By worker: when its producers' link was lost."""
        self._again: dict[_Message, int] = defaultdict(int)
        """By message: how often its producer says that it sent it again."""
        self._dead: dict[str, set[str]] = defaultdict(set)
        """By the id of a delivery: ids of its dead letters."""
        self._deliveries: dict[str, tuple[str, _Message]] = {}
        """By id: subscription and message."""

    # What is read ---------------------------------------------------------------------------------

    def ask(self, event: Event) -> None:
        """A subscription is asked for, perhaps not for the first time."""
        if event["s"] not in self.subscriptions:
            self.subscriptions[event["s"]] = _Subscription(event["t"], event.get("k"))

    def make(self, event: Event) -> None:
        """The receipt came."""
        found = self.subscriptions[event["s"]]
        if found.made_at is None:
            found.made_at = event["t"]

    def lose_link(self, event: Event) -> None:
        """A client said that a link is lost; one without consumers is its producers'."""
        if not event.get("c"):
            self._losses[event["w"]].append(event["t"])

    def send_again(self, event: Event) -> None:
        """A worker sends a message once more, itself."""
        self._again[event["p"], event["n"]] += 1

    def deliver(self, event: Event, place: int) -> None:
        """A subscription's consumer got a message."""
        message = (event["p"], event["n"])
        found = self.subscriptions[event["q"]]
        found.places[message].add(place)
        self._deliveries[event["id"]] = (event["q"], message)
        self.hands.deliver(event, event["q"], place)

    def bury(self, event: Event) -> None:
        """A dead letter that was a subscription's came."""
        self._dead[event["o"]].add(event["id"])

    # What is found --------------------------------------------------------------------------------

    @property
    def places(self) -> set[str]:
        """How the subscriptions that there are stand in the histories."""
        return {name for name, each in self.subscriptions.items() if each.made_at is not None}

    def is_owed(self, message: _Message, sent_at: int) -> bool:
        """Whether somebody must have a message, if that was stored."""
        return any(each.owes(message, sent_at) for each in self.subscriptions.values())

    def violations(
        self,
        published: dict[_Message, Published],
        rejected: Iterable[str],
        asked: Iterable[str],
        *,
        is_drained: bool,
    ) -> Iterator[_Finding]:
        """
        Give (kind, sentence) for everything that must not be.

        Args:
            published: What was sent to the topic.
            rejected: Ids whose rejection was confirmed, and nothing else was asked for.
            asked: Ids whose rejection was asked for.
            is_drained: Everything was consumed at the end.
        """
        for message, sent in published.items():
            if is_drained:
                yield from self._missing(message, sent)
            yield from self._copies(message, sent)
            yield from self._strangers(message, sent)
        for name, subscription in self.subscriptions.items():
            yield from self._order(name, subscription, published)
        yield from self._dead_letters(set(rejected), set(asked), is_drained=is_drained)
        for kind, sentence in self.hands.violations("subscription"):
            yield (kind if kind == IN_TWO_HANDS else "reordered"), sentence

    def _missing(self, message: _Message, sent: Published) -> Iterator[_Finding]:
        owing = {
            name: each.places.get(message, set())
            for name, each in self.subscriptions.items()
            if each.owes(message, sent.at)
        }
        self.owed += len(owing) if sent.outcome == "stored" else 0
        everywhere = set().union(*owing.values())
        for name, places in owing.items():
            what = f"{_shown(message, sent)}, never came to {name}"
            if sent.outcome == "stored" and not places:
                yield MISSED, f"{what}, and was confirmed"
            elif places != everywhere:
                missing = sorted(everywhere - places)
                yield UNEVEN, f"{what} from its place {missing[0]}, where others had it"

    def _copies(self, message: _Message, sent: Published) -> Iterator[_Finding]:
        places = set().union(*(each.places.get(message, ()) for each in self._all()))
        allowed = 1 + self._times_sent_again(message, sent)
        if len(places) > allowed:
            stands = ", ".join(map(str, sorted(places)))
            sentence = f"{_shown(message, sent)}, stands at {stands}; it was sent {allowed} times"
            yield "stored_twice", sentence
        self.sent_again += max(0, min(len(places), allowed) - 1)

    def _times_sent_again(self, message: _Message, sent: Published) -> int:
        """At most so often; what a transaction sent is never sent again under another number."""
        if sent.unit is not None:
            return 0
        if not sent.is_numbered:
            return self._again[message]
        losses = self._losses[sent.worker]
        last = len(losses) if sent.told_at is None else bisect_right(losses, sent.told_at)
        return last - bisect_right(losses, sent.at)

    def _strangers(self, message: _Message, sent: Published) -> Iterator[_Finding]:
        for name, each in self.subscriptions.items():
            if message not in each.places:
                continue
            if not each.selects(message):
                yield "unexpected", f"{_shown(message, sent)}, is not what {name} selects"
            is_before = sent.told_at is not None and sent.told_at < each.asked_at
            if is_before and sent.outcome == "stored":
                yield "unexpected", f"{_shown(message, sent)}, was there before {name} was"

    def _order(
        self, name: str, subscription: _Subscription, published: dict[_Message, Published]
    ) -> Iterator[_Finding]:
        highest: dict[str, tuple[int, _Message]] = {}
        for message in sorted(subscription.places):
            sent = published.get(message)
            is_judged = sent is not None and subscription.owes(message, sent.at)
            if sent is None or not is_judged or sent.outcome == "unknown":
                continue  # What its client has given up may be done late.
            place = min(subscription.places[message])
            last = highest.get(message[0])
            if last is not None and place < last[0]:
                sentence = f"{_shown(message, sent)}, stands at {place} for {name}"
                yield "reordered", f"{sentence}, {last[1]} before it at {last[0]}"
            if last is None or place > last[0]:
                highest[message[0]] = (place, message)

    def _dead_letters(
        self, rejected: set[str], asked: set[str], *, is_drained: bool
    ) -> Iterator[_Finding]:
        for identity, (name, message) in self._deliveries.items():
            dead = self._dead.get(identity, set())
            what = f"{message} of {name} ({identity})"
            if len(dead) > 1:
                yield "stored_twice", f"{what}, as dead letters {', '.join(sorted(dead))}"
            if dead and identity not in asked:
                yield "unexpected", f"{what}, is a dead letter nobody rejected"
            if is_drained and identity in rejected and not dead:
                yield "lost", f"{what}, was rejected and is no dead letter"

    def _all(self) -> Iterable[_Subscription]:
        return self.subscriptions.values()


def _shown(message: _Message, sent: Published) -> str:
    unit = f" in transaction {sent.unit}" if sent.unit else ""
    return f"{message[0]} {message[1]} to {TOPIC}{unit}, sent at {sent.at / 1e9:.3f}"
