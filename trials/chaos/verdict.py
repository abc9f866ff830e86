"""
What the histories of a run say of the broker: pure functions, and nobody's word but the clients'.

What counts as what (a message is a producer and a sequence; it may be stored under several ids):

* lost: confirmed, alone or in a committed transaction, and never delivered. Vanished: delivered,
  nobody asked to settle it but in a transaction that was refused, and it never came again. Both
  presume that all was drained at the end.
* unexpected: delivered and never sent, changed on the way, refused, or rolled back.
* stored twice: two ids in one queue, of a producer that numbers its messages. Of others it is
  merely `duplicated`: their own retry.
* unflagged: a delivery that was certainly not the first of its message id and did not say so.
* resurrected: a delivery sent after the broker had confirmed the acknowledgement.
* in two hands, out of group order: see `group_rules`; of topics and their durable subscriptions,
  and uneven: `topic_rules`. early: a scheduled message came before its time, while every clock was
  right. A time that never fired is lost, one that fired twice is stored twice: `schedule_rules`.
* reordered: the order of a producer's messages in a queue (message ids count places), and of what
  one link delivered unflagged. Consumers that compete see no common order, so none is asked for.

What a link delivered may have been long on its way. A delivery was certainly sent after a moment if
its link began after it, or had already delivered something that was sent after it (`Link.since`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from trials.chaos.group_rules import GroupBook
from trials.chaos.history import DEAD_LETTERS, GROUPED, SWEEPER, Event, History
from trials.chaos.schedule_rules import Plan
from trials.chaos.subscriptions import TOPIC, is_of_topic
from trials.chaos.topic_rules import Published, TopicBook

GAP_SECONDS: Final = 0.05
"""Silences at least so long are listed."""

EXAMPLES_MAX: Final = 5
"""Of each kind of violation so many are told in full."""

_MS: Final = 1e6
_Message = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without any confirm while some were due; seconds of the monotonic clock."""

    begin: float
    end: float

    @property
    def milliseconds(self) -> float:
        """How long it was."""
        return (self.end - self.begin) * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The account of a run, in messages unless said otherwise."""

    attempts: int = 0
    confirmed: int = 0
    refused: int = 0
    """Refused, or rolled back by the client."""
    unknown: int = 0
    delivered: int = 0
    """Different messages that reached a consumer."""
    recovered: int = 0
    """Delivered although never confirmed."""
    duplicated: int = 0
    """Stored twice by the retry of a producer without numbers."""
    redelivered: int = 0
    """Deliveries beyond the first of their id."""
    flagged: int = 0
    """Deliveries that said so."""
    dead_letters: int = 0
    transactions: int = 0
    """Those whose commit was asked for."""

    lost: int = 0
    lost_prefix: int = 0
    """Of the lost, those before the first of their producer that arrived."""
    lost_middle: int = 0
    lost_suffix: int = 0
    vanished: int = 0
    unexpected: int = 0
    stored_twice: int = 0
    unflagged: int = 0
    resurrected: int = 0
    reordered: int = 0
    torn_transactions: int = 0
    shown_twice: int = 0
    """Given by the library to a program that still had it: the library promises not to."""
    gave_up: int = 0
    """Times a library stopped trying."""
    grouped: int = 0
    """Messages of groups that were sent."""
    scheduled: int = 0
    """Messages that were sent to come later."""
    repeated: int = 0
    """Of these, messages that were to come more than once."""
    in_two_hands: int = 0
    out_of_group_order: int = 0
    early: int = 0
    published: int = 0
    """Messages that were sent to the topic with durable subscriptions."""
    for_nobody: int = 0
    """Of these, confirmed before there was a subscription that must get them; nobody got them."""
    subscriptions: int = 0
    """Durable subscriptions that were made."""
    owed: int = 0
    """Confirmed messages that subscriptions had to get, over all of them."""
    sent_again: int = 0
    """Stored twice on the topic, where a lost link made its sender say it again."""
    uneven: int = 0
    """What one subscription got and another one that it was for did not."""
    undrained: int = 0
    """Queues that nobody saw empty at the end."""

    gaps: tuple[Gap, ...] = ()
    unavailable_ms: tuple[float, ...] = ()
    """For each mark, the longest silence before the next one; of all the run if there is none."""
    complaints: dict[str, int] = field(default_factory=dict)
    """ERROR frames by code."""
    problems: list[str] = field(default_factory=list)
    """One sentence for each thing that must not be."""

    @property
    def is_good(self) -> bool:
        """Whether nothing was wrong."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return asdict(self)


@dataclass(slots=True)
class _Link:
    """What is known of the connection a consumer has now."""

    began: int = 0
    since: int = 0
    """Everything it delivers from now on was sent after this moment."""
    highest: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By queue: the furthest place delivered unflagged, and its id."""


@dataclass(slots=True)
class _Sent:
    """One message as its producer knows it."""

    at: int
    queue: str
    unit: str | None
    worker: str
    group: str
    plan: Plan
    told: int | None = None
    """When the outcome came."""
    outcome: str = "open"
    """stored, refused, unknown (the client said so) or open (it never said anything)."""


class _Findings:
    """Counts violations and keeps a few in words."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = defaultdict(list)

    def add(self, kind: str, sentence: str) -> None:
        self.counts[kind] += 1
        if len(self.examples[kind]) < EXAMPLES_MAX:
            self.examples[kind].append(sentence)

    def problems(self) -> list[str]:
        found = []
        for kind, count in self.counts.items():
            words = kind.replace("_", " ")
            found += [f"{words} ({count}): {sentence}" for sentence in self.examples[kind]]
        return found


class _Books:
    """Everything the histories say, by message and by id."""

    def __init__(self) -> None:
        self.findings = _Findings()
        self.sent: dict[_Message, _Sent] = {}
        self.units: dict[str, list[_Message]] = defaultdict(list)
        self.unit_outcomes: dict[str, str] = {}
        """open (nobody asked for the commit), asked, committed, refused or unknown."""
        self.unit_settles: dict[str, tuple[str, list[str]]] = {}
        self.identities: dict[_Message, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        """By message and queue: the ids it was delivered under."""
        self.deliveries: dict[str, list[tuple[int, bool, str]]] = defaultdict(list)
        """By id: when, whether flagged, to whom."""
        self.messages: dict[str, _Message] = {}
        self.settle_asked: dict[str, set[str]] = defaultdict(set)
        """By id: the verbs asked for."""
        self.asks: Counter[str] = Counter()
        """By id: how often anything was asked for."""
        self.refused_asks: Counter[str] = Counter()
        """By id: how often in a transaction that was refused."""
        self.settled: dict[str, int] = {}
        """By id: when its acknowledgement was first confirmed."""
        self.rejected: set[str] = set()
        """Ids whose rejection was confirmed."""
        self.numbered: dict[str, bool] = {}
        self.complaints: Counter[str] = Counter()
        self.confirms: list[int] = []
        self.dues: list[tuple[int, int]] = []
        self.marks: list[int] = []
        self.links: dict[str, _Link] = defaultdict(_Link)
        self.due: dict[str, set[object]] = defaultdict(set)
        self.due_count = 0
        self.silent_since = 0
        self.gaps: list[Gap] = []
        self.groups = GroupBook()
        self.topics = TopicBook()
        self.are_clocks_true = True
        """Whether no broker's clock was set wrong so far: then nobody can say what is early."""
        self.drained: set[str] = set()
        self.subscribed: set[str] = set()
        self.last = 0

    def read(self, history: Iterable[Event]) -> None:
        """Take every line."""
        takers = self._TAKERS
        for event in history:
            self.last = event["t"]
            take = takers.get(event["e"])
            if take is not None:
                take(self, event)

    # What producers say --------------------------------------------------------------------------

    def _begin(self, event: Event) -> None:
        self.numbered[event["w"]] = bool(event["numbered"])

    def _send(self, event: Event) -> None:
        key = (event["p"], event["n"])
        unit = event.get("u")
        assert key not in self.sent, f"{key} stands for one message only"
        plan = Plan(event.get("d", 0), event.get("dp", 0), event.get("dr", 0))
        group = event.get("g", "")
        self.sent[key] = _Sent(event["t"], event["q"], unit, event["w"], group, plan)
        if unit is None:
            self._is_due(event, key)
        else:
            self.units[unit].append(key)
            self.unit_outcomes.setdefault(unit, "open")

    def _outcome(self, event: Event) -> None:
        key = (event["p"], event["n"])
        self.sent[key].outcome = event["e"]
        self.sent[key].told = event["t"]
        self._is_told(event, key, confirmed=event["e"] == "stored")

    def _commit(self, event: Event) -> None:
        unit = event["u"]
        self.unit_outcomes[unit] = "unknown"
        self._is_due(event, unit)
        if "x" in event:
            self.unit_settles[unit] = (event["c"], event["x"])
            self.topics.hands.ask(event["c"], event["x"], event["t"])
            for identity in event["x"]:
                self.settle_asked[identity].add("acknowledge")
                self.asks[identity] += 1

    def _commit_outcome(self, event: Event) -> None:
        unit = event["u"]
        outcome = {"committed": "committed", "commit-refused": "refused", "rolled-back": "refused"}
        self.unit_outcomes[unit] = outcome.get(event["e"], "unknown")
        for key in self.units[unit]:
            self.sent[key].told = event["t"]
        if event["e"] == "commit-refused" and unit in self.unit_settles:
            self._take_back(self.unit_settles[unit][1])
        if event["e"] == "committed" and unit in self.unit_settles:
            self.topics.hands.confirm(*self.unit_settles[unit])
            for identity in self.unit_settles[unit][1]:
                self.settled.setdefault(identity, event["t"])
        self._is_told(event, unit, confirmed=event["e"] == "committed")

    def _take_back(self, identities: Iterable[str]) -> None:
        """Nothing came of a transaction that was refused: what it acknowledged comes again."""
        for identity in identities:
            self.refused_asks[identity] += 1

    # Silence -------------------------------------------------------------------------------------

    def _is_due(self, event: Event, what: object) -> None:
        if not self.due_count:
            self.silent_since = event["t"]
        self.due[event["w"]].add(what)
        self.due_count += 1

    def _is_told(self, event: Event, what: object, *, confirmed: bool) -> None:
        waiting = self.due[event["w"]]
        if what in waiting:
            waiting.discard(what)
            self.due_count -= 1
        if confirmed:
            self.confirms.append(event["t"])
            self._end_silence(event["t"])

    def _end_silence(self, now: int) -> None:
        if now - self.silent_since >= GAP_SECONDS * 1e9 and self.silent_since:
            self.gaps.append(Gap(self.silent_since / 1e9, now / 1e9))
        self.silent_since = now

    def _worker_gone(self, event: Event) -> None:
        # Nobody waits any more for what this one was still owed.
        self.due_count -= len(self.due.pop(event["w"], ()))

    def _mark(self, event: Event) -> None:
        self.marks.append(event["t"])
        self.are_clocks_true &= not event.get("text", "").startswith("clock")

    # What consumers say --------------------------------------------------------------------------

    def _link(self, event: Event) -> None:
        self.links[event["c"]] = _Link(event["t"], event["t"])
        self.groups.relink(event["c"])
        self.topics.hands.relink(event["c"])

    def _delivery(self, event: Event) -> None:
        identity, flagged, now = event["id"], event["r"], event["t"]
        key = (event["p"], event["n"])
        link = self.links[event["c"]]
        self.subscribed.add(event["q"])
        self._check_resurrected(event, link)
        self._check_flag(event, link)
        # A group that a consumer gets later may have messages from before.
        if not flagged and event["q"] != GROUPED:
            self._check_link_order(event, link)
        known = self.messages.setdefault(identity, key)
        if known != key:
            self.findings.add("unexpected", f"id {identity} was {known} and is {key}")
        self.identities[key][event["q"]].add(identity)
        self.deliveries[identity].append((now, flagged, event["c"]))
        sent = self.sent.get(key)
        if is_of_topic(event["q"]):
            self.topics.deliver(event, place_of(identity) or 0)
        elif "o" in event and event["q"] == DEAD_LETTERS:
            self.topics.bury(event)
        if sent is not None and event["q"] != DEAD_LETTERS:
            link.since = max(link.since, sent.at)
            if sent.group:
                self.groups.deliver(event, sent.group, place_of(identity) or 0)
            if self.are_clocks_true and sent.plan.delay_ms:
                self._check_early(event, sent)

    def _check_early(self, event: Event, sent: _Sent) -> None:
        ids = self.identities[event["p"], event["n"]][event["q"]]
        places = [place_of(identity) or 0 for identity in ids]
        elapsed_ms = (event["t"] - sent.at) / _MS
        early_ms = sent.plan.early_ms(place_of(event["id"]) or 0, places, elapsed_ms)
        if early_ms > 0:
            self.findings.add("early", f"{_shown(event)}, {early_ms:.0f} ms before its time")

    def _check_resurrected(self, event: Event, link: _Link) -> None:
        settled = self.settled.get(event["id"])
        if settled is not None and link.since > settled:
            late = (event["t"] - settled) / _MS
            self.findings.add(
                "resurrected",
                f"{_shown(event)} came {late:.0f} ms after its acknowledgement was confirmed,"
                f" over a link that was at work after that",
            )

    def _check_flag(self, event: Event, link: _Link) -> None:
        earlier = self.deliveries.get(event["id"])
        if event["r"] or not earlier:
            return
        # Only one delivery can be the first; and none that was sent after another had arrived.
        other = next((each for each in earlier if not each[1] or each[0] < link.since), None)
        if other is not None:
            before = (event["t"] - other[0]) / _MS
            self.findings.add(
                "unflagged",
                f"{_shown(event)} says it is the first, {other[2]} had it {before:.0f} ms before",
            )

    def _check_link_order(self, event: Event, link: _Link) -> None:
        place = place_of(event["id"])
        highest = link.highest.get(event["q"])
        if place is None:
            return
        if highest is not None and place < highest[0]:
            self.findings.add(
                "reordered", f"{_shown(event)} came after {highest[1]} over the same link"
            )
        if highest is None or place > highest[0]:
            link.highest[event["q"]] = (place, event["id"])

    def _damaged(self, event: Event) -> None:
        self.findings.add(
            "unexpected",
            f"id {event['id']} on {event['q']} has a body nobody sent: {event['text']!r}",
        )

    def _shown_twice(self, event: Event) -> None:
        self.findings.add("shown_twice", f"{event['id']} to {event['c']}, which still had it")

    def _settle(self, event: Event) -> None:
        for book in (self.groups, self.topics.hands):
            book.ask(event["c"], event["x"], event["t"])
        for identity in event["x"]:
            self.settle_asked[identity].add(event["v"])
            self.asks[identity] += 1

    def _settled(self, event: Event) -> None:
        for book in (self.groups, self.topics.hands):
            book.confirm(event["c"], event["x"])
        for identity in event["x"]:
            self.settled.setdefault(identity, event["t"])
            if event["v"] == "reject":
                self.rejected.add(identity)

    def _drained(self, event: Event) -> None:
        if event["w"].endswith(SWEEPER):
            self.drained.add(event["q"])

    def _subscribe(self, event: Event) -> None:
        self.topics.ask(event)

    def _subscribed(self, event: Event) -> None:
        self.topics.make(event)

    def _interrupted(self, event: Event) -> None:
        self.topics.lose_link(event)

    def _again(self, event: Event) -> None:
        self.topics.send_again(event)

    def _complaint(self, event: Event) -> None:
        self.complaints[event.get("code") or "(no code)"] += 1

    def _refusal(self, event: Event) -> None:
        if event.get("code"):
            self.complaints[event["code"]] += 1

    def _gave_up(self, event: Event) -> None:
        self.findings.add("gave_up", f"worker {event['w']}: {event['text']}")

    _TAKERS: dict[str, Callable[[_Books, Event], None]] = {  # noqa: RUF012 - a table, never changed
        "begin": _begin,
        "send": _send,
        "stored": _outcome,
        "refused": _outcome,
        "unknown": _outcome,
        "commit": _commit,
        "committed": _commit_outcome,
        "rolled-back": _commit_outcome,
        "commit-refused": _commit_outcome,
        "commit-unknown": _commit_outcome,
        "end": _worker_gone,
        "died": _worker_gone,
        "finished": _worker_gone,
        "mark": _mark,
        "link": _link,
        "delivery": _delivery,
        "damaged": _damaged,
        "shown-twice": _shown_twice,
        "settle": _settle,
        "settled": _settled,
        "drained": _drained,
        "subscribe": _subscribe,
        "subscribed": _subscribed,
        "not-subscribed": _refusal,
        "interrupted": _interrupted,
        "again": _again,
        "complaint": _complaint,
        "not-settled": _refusal,
        "gave-up": _gave_up,
    }


def judge(paths: Sequence[Path], *, is_drained: bool = True) -> Verdict:
    """
    Judge the histories of a run.

    Args:
        paths: What `Workload.finish` gave.
        is_drained: Whether everything was consumed at the end; else nothing is called lost.

    Raises:
        HistoryError: A history makes no sense.
    """
    return judge_history(History.read(paths), is_drained=is_drained)


def judge_history(history: Iterable[Event], *, is_drained: bool = True) -> Verdict:
    """Judge lines in the order of time; see `judge`."""
    books = _Books()
    books.read(history)
    findings = books.findings
    _settle_units(books)
    lost: list[_Message] = []
    if is_drained:
        lost = _find_lost(books)
        _find_vanished(books)
        _find_undrained(books)
    _find_unexpected(books)
    _find_torn(books, is_drained=is_drained)
    _find_copies(books, is_drained=is_drained)
    _find_log_order(books)
    for kind, sentence in books.groups.violations():
        findings.add(kind, sentence)
    _judge_topic(books, is_drained=is_drained)
    gaps = _closed_gaps(books)
    places = Counter(_place_of_lost(books, lost))
    counts = findings.counts
    outcomes = Counter(sent.outcome for sent in books.sent.values())
    arrived = [key for key in books.identities if key in books.sent]
    return Verdict(
        attempts=len(books.sent),
        confirmed=outcomes["stored"],
        refused=outcomes["refused"],
        unknown=outcomes["unknown"] + outcomes["open"],
        delivered=len(arrived),
        grouped=sum(bool(sent.group) for sent in books.sent.values()),
        scheduled=sum(bool(sent.plan.delay_ms) for sent in books.sent.values()),
        repeated=sum(bool(sent.plan.repeats) for sent in books.sent.values()),
        published=sum(sent.queue == TOPIC for sent in books.sent.values()),
        for_nobody=_for_nobody(books),
        subscriptions=len(books.topics.places),
        owed=books.topics.owed,
        sent_again=books.topics.sent_again,
        recovered=sum(books.sent[key].outcome != "stored" for key in arrived),
        duplicated=_copies(books),
        redelivered=sum(len(each) - 1 for each in books.deliveries.values()),
        flagged=sum(flagged for each in books.deliveries.values() for _, flagged, _ in each),
        dead_letters=sum(DEAD_LETTERS in queues for queues in books.identities.values()),
        transactions=sum(outcome != "open" for outcome in books.unit_outcomes.values()),
        lost_prefix=places["prefix"],
        lost_middle=places["middle"],
        lost_suffix=places["suffix"],
        gaps=tuple(gaps),
        unavailable_ms=tuple(_unavailable(gaps, [mark / 1e9 for mark in books.marks])),
        complaints=dict(books.complaints),
        problems=findings.problems(),
        **{
            name: counts[name]
            for name in (
                *("lost", "vanished", "unexpected", "stored_twice", "unflagged", "resurrected"),
                *("reordered", "torn_transactions", "shown_twice", "gave_up", "undrained"),
                *("in_two_hands", "out_of_group_order", "early", "uneven"),
            )
        },
    )


def confirm_seconds(paths: Sequence[Path]) -> list[float]:
    """When each confirm came, in seconds of the monotonic clock, ascending."""
    history = History.read(paths)
    return [event["t"] / 1e9 for event in history.of_kind("stored", "committed")]


def place_of(identity: str) -> int | None:
    """The place in its queue that a message id tells; None for one that is not in the log."""
    last = identity.rpartition("-")[2]
    return int(last) if last.isdecimal() else None


# The rules ----------------------------------------------------------------------------------------


def _shown(event: Event) -> str:
    return f"{event['p']} {event['n']} ({event['id']}) to {event['c']}"


def _named(books: _Books, key: _Message) -> str:
    sent = books.sent[key]
    unit = f" in transaction {sent.unit}" if sent.unit else ""
    return f"{key[0]} {key[1]} to {sent.queue}{unit}, sent at {sent.at / 1e9:.3f}"


def _settle_units(books: _Books) -> None:
    """The messages of a transaction share its outcome."""
    names = {"committed": "stored", "refused": "refused", "open": "refused"}
    for unit, keys in books.units.items():
        for key in keys:
            books.sent[key].outcome = names.get(books.unit_outcomes[unit], "unknown")


def _find_lost(books: _Books) -> list[_Message]:
    lost = []
    for key, sent in books.sent.items():
        is_of_queue = sent.queue != TOPIC
        if is_of_queue and sent.outcome == "stored" and key not in books.identities:
            lost.append(key)
            books.findings.add("lost", f"{_named(books, key)}, was confirmed and never delivered")
    for identity in sorted(books.rejected):
        key = books.messages[identity]
        if key in books.sent and books.sent[key].queue == TOPIC:
            continue  # Each subscription rejects for itself: `topic_rules`.
        verbs = books.settle_asked[identity]
        if "acknowledge" not in verbs and DEAD_LETTERS not in books.identities[key]:
            lost.append(key)
            books.findings.add(
                "lost", f"{_named(books, key)}, was rejected and is no dead letter ({identity})"
            )
    return lost


def _find_vanished(books: _Books) -> None:
    for identity, deliveries in books.deliveries.items():
        if books.asks[identity] <= books.refused_asks[identity]:
            consumers = ", ".join(dict.fromkeys(consumer for _, _, consumer in deliveries))
            books.findings.add(
                "vanished",
                f"{books.messages[identity]} ({identity}) was delivered to {consumers}, nobody"
                f" settled it, and it never came again",
            )


def _find_undrained(books: _Books) -> None:
    if not books.sent:
        return
    wanted = {sent.queue for sent in books.sent.values()} - {TOPIC}
    wanted |= {DEAD_LETTERS} | books.topics.places
    for queue in sorted(wanted - books.drained):
        books.findings.add("undrained", f"{queue}: the sweeper did not see it empty")


def _find_unexpected(books: _Books) -> None:
    add = books.findings.add
    for key, queues in books.identities.items():
        sent = books.sent.get(key)
        if sent is None:
            add("unexpected", f"{key} was delivered and never sent")
            continue
        if sent.outcome == "refused":
            what = "rolled back" if sent.unit else "refused"
            add("unexpected", f"{_named(books, key)}, was {what} and delivered")
        for queue in queues:
            if sent.queue == TOPIC and (queue == DEAD_LETTERS or is_of_topic(queue)):
                continue
            if queue == DEAD_LETTERS:
                ids = queues.get(sent.queue, set())
                if not any("reject" in books.settle_asked[identity] for identity in ids):
                    add("unexpected", f"{_named(books, key)}, is a dead letter nobody rejected")
            elif queue != sent.queue:
                add("unexpected", f"{_named(books, key)}, came from {queue}")


def _is_for_somebody(books: _Books, key: _Message) -> bool:
    sent = books.sent[key]
    return sent.queue != TOPIC or books.topics.is_owed(key, sent.at)


def _for_nobody(books: _Books) -> int:
    return sum(
        sent.outcome == "stored"
        for key, sent in books.sent.items()
        if key not in books.identities and not _is_for_somebody(books, key)
    )


def _judge_topic(books: _Books, *, is_drained: bool) -> None:
    published = {
        key: Published(
            sent.at,
            sent.worker,
            sent.outcome,
            sent.told,
            sent.unit,
            is_numbered=books.numbered.get(sent.worker, False),
        )
        for key, sent in books.sent.items()
        if sent.queue == TOPIC
    }
    asked = {id for id, verbs in books.settle_asked.items() if "reject" in verbs}
    rejected = [id for id in books.rejected if "acknowledge" not in books.settle_asked[id]]
    found = books.topics.violations(published, rejected, asked, is_drained=is_drained)
    for kind, sentence in found:
        books.findings.add(kind, sentence)


def _find_torn(books: _Books, *, is_drained: bool) -> None:
    for unit, every in books.units.items():
        # Before the topic had subscriptions what was sent there was for nobody.
        keys = [key for key in every if _is_for_somebody(books, key)]
        arrived = [key for key in keys if key in books.identities]
        if arrived and len(arrived) < len(keys) and is_drained:
            missing = [key for key in keys if key not in books.identities]
            books.findings.add(
                "torn_transactions",
                f"{unit} ({books.unit_outcomes[unit]}): {len(arrived)} of {len(keys)} messages"
                f" arrived, {missing[0]} did not",
            )


def _find_copies(books: _Books, *, is_drained: bool) -> None:
    """A message of a numbered producer, or of a transaction, is stored once."""
    for key, queues in books.identities.items():
        sent = books.sent.get(key)
        if sent is None or sent.queue == TOPIC:
            continue
        ids = queues.get(sent.queue, set())
        dead = queues.get(DEAD_LETTERS, set())
        is_single = books.numbered.get(sent.worker, False) or sent.unit is not None
        if sent.plan.delay_ms:
            _find_times(books, key, len(ids), is_drained=is_drained)
        elif len(ids) > 1 and is_single:
            books.findings.add("stored_twice", f"{_named(books, key)}, as {', '.join(sorted(ids))}")
        if len(dead) > max(1, len(ids)):
            books.findings.add(
                "stored_twice", f"{_named(books, key)}, as dead letters {', '.join(sorted(dead))}"
            )


def _find_times(books: _Books, key: _Message, count: int, *, is_drained: bool) -> None:
    sent = books.sent[key]
    # What nobody ever got of it is told already, if it was confirmed.
    kind = sent.plan.wrong_count(count, is_stored=sent.outcome == "stored") if count else ""
    if kind == "stored_twice" or (kind == "lost" and is_drained):
        came = f"came {count} times of {sent.plan.times}"
        books.findings.add(kind, f"{_named(books, key)}, {came}")


def _copies(books: _Books) -> int:
    return sum(
        max(0, len(ids) - books.sent[key].plan.times)
        for key, queues in books.identities.items()
        for queue, ids in queues.items()
        if key in books.sent and queue != DEAD_LETTERS and not is_of_topic(queue)
    )


def _find_log_order(books: _Books) -> None:
    """In each queue the messages of a producer stand in the order in which it sent them."""
    highest: dict[tuple[str, str], tuple[int, _Message]] = {}
    for key, sent in sorted(books.sent.items()):
        ids = books.identities.get(key, {}).get(sent.queue)
        if not ids or sent.outcome == "unknown" or sent.plan.delay_ms:
            continue  # what its client has given up may be done late; and what is scheduled is
        place = min((place_of(identity) or 0) for identity in ids)
        lane = (key[0], sent.queue)
        last = highest.get(lane)
        if last is not None and place < last[0]:
            books.findings.add(
                "reordered",
                f"{_named(books, key)}, stands at place {place}, {last[1]} before it at {last[0]}",
            )
        if last is None or place > last[0]:
            highest[lane] = (place, key)


def _place_of_lost(books: _Books, lost: Iterable[_Message]) -> Iterable[str]:
    bounds: dict[str, tuple[int, int]] = {}
    for producer, sequence in books.identities:
        low, high = bounds.get(producer, (sequence, sequence))
        bounds[producer] = (min(low, sequence), max(high, sequence))
    for producer, sequence in lost:
        low, high = bounds.get(producer, (0, 0))
        if sequence > high:
            yield "suffix"
        elif sequence < low:
            yield "prefix"
        else:
            yield "middle"


def _closed_gaps(books: _Books) -> list[Gap]:
    if books.due_count > 0 and books.last - books.silent_since >= GAP_SECONDS * 1e9:
        return [*books.gaps, Gap(books.silent_since / 1e9, books.last / 1e9)]
    return books.gaps


def _unavailable(gaps: list[Gap], marks: list[float]) -> Iterable[float]:
    """For each mark the longest silence that ended after it and began before the next one."""
    if not marks:
        yield max((gap.milliseconds for gap in gaps), default=0.0)
        return
    for mark, following in zip(marks, [*marks[1:], float("inf")], strict=True):
        found = [gap for gap in gaps if gap.end > mark and gap.begin < following]
        yield max((gap.milliseconds for gap in found), default=0.0)
