"""
A log of topics as a leader would write it, with a cleaner, and who needs what kept in plain sets.

What a test does is applied to `state` at once, and stands in `entries`, of which the cleaner drops
the oldest: whoever begins with what is left must come to the same state.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from holdfast.broker.broker import Broker
from holdfast.broker.cleaning import OnTheWay, homeless, is_kept, live_copies
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topic_index import bitmap_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Cause, MessageFacts
from holdfast.model.records import (
    DeleteQueueRecord,
    MessageRecord,
    MoveRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnCause,
    ReturnedRecord,
    Run,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import DetachedRecord, SubscriptionRecord, TopicRecord

DEAD = 1
"""The number of the queue that dead letters are moved to."""


@dataclass
class Needs:
    """What is known of one subscription."""

    topic: int
    slot: int
    sequences: set[int] = field(default_factory=set)
    attempts: dict[int, int] = field(default_factory=dict)


class TopicLog:
    """A leader's log, and the state that it gives."""

    def __init__(self) -> None:
        self.state = BrokerState(BrokerSettings())
        self.entries: list[tuple[int, list[Record]]] = []
        """Number of the first record, and the records, of each."""
        self.next_record = 1
        self.next_number = DEAD + 1
        self.needs: dict[int, Needs] = {}
        """By number of the subscription."""
        self.next_sequence: dict[int, int] = {}
        """By number of the topic."""
        self.dead = 0
        self.dead_next = 1
        self.append([QueueRecord(DEAD, "dead")])

    def append(self, records: list[Record]) -> None:
        """Write an entry, and apply it."""
        self.entries.append((self.next_record, records))
        self.state.apply(self.next_record, iter(records), self.next_record)
        self.next_record += len(records)

    def topic(self) -> int:
        """Declare one."""
        number, self.next_number = self.next_number, self.next_number + 1
        self.next_sequence[number] = 1
        self.append([TopicRecord(number, f"t{number}")])
        return number

    def subscribe(self, topic: int) -> int:
        """Declare a subscription."""
        number, self.next_number = self.next_number, self.next_number + 1
        taken = {each.slot for each in self.needs.values() if each.topic == topic}
        slot = min(set(range(len(taken) + 1)) - taken)
        first = self.next_sequence[topic]
        record = SubscriptionRecord(
            number, topic, slot, "client", f"s{number}", selector="a = 1", first_sequence=first
        )
        self.append([record])
        self.needs[number] = Needs(topic, slot)
        return number

    def takers(self, topic: int) -> dict[int, Needs]:
        """Give a topic's subscriptions."""
        return {number: it for number, it in self.needs.items() if it.topic == topic}

    def send(self, topic: int, count: int, skipping: set[int] = frozenset(), gap: int = 0) -> None:  # type: ignore[assignment]
        """Store some messages for all but some, if there is anybody."""
        takers = self.takers(topic)
        if not takers:
            return
        records: list[Record] = []
        self.next_sequence[topic] += gap
        for _ in range(count):
            sequence = self.next_sequence[topic]
            self.next_sequence[topic] += 1
            record = MessageRecord(topic, sequence, b"", bytes(7), 7)
            slots = bitmap_of(takers[each].slot for each in skipping if each in takers)
            record.facts = MessageFacts(skips=slots) if slots else None
            records.append(record)
            for number, needs in takers.items():
                if number not in skipping:
                    needs.sequences.add(sequence)
        self.append(records)

    def settle(self, number: int, sequences: list[int]) -> None:
        """Acknowledge."""
        needs = self.needs[number]
        needs.sequences.difference_update(sequences)
        self.append([SubscriptionAcknowledgeRecord(number, sequences, needs.topic)])

    def give_back(self, number: int, sequences: list[int]) -> None:
        """Let some come back."""
        needs = self.needs[number]
        for each in sequences:
            needs.attempts[each] = needs.attempts.get(each, 0) + 1
        self.append([ReturnedRecord(number, ReturnCause.LOST, sequences, 0, needs.topic)])

    def bury(self, number: int, sequences: list[int]) -> None:
        """Move to the dead letters."""
        needs = self.needs[number]
        runs = []
        for each in sequences:
            runs.append(Run(each, self.dead_next, 1))
            self.dead_next += 1
        needs.sequences.difference_update(sequences)
        self.dead += len(sequences)
        move = MoveRecord(number, DEAD, Cause.REJECTED, runs, topic_number=needs.topic)
        self.append([move])

    def purge(self, number: int, through: int) -> None:
        """Take away what stands up to a sequence."""
        needs = self.needs[number]
        needs.sequences = {each for each in needs.sequences if each > through}
        self.append([PurgeRecord(number, through, needs.topic)])

    def unsubscribe(self, number: int) -> None:
        """End a subscription."""
        needs = self.needs.pop(number)
        self.append([DeleteQueueRecord(number, needs.topic)])

    def detach(self, number: int, at_ms: int) -> None:
        """Say since when nobody is there."""
        self.append([DetachedRecord(number, at_ms)])

    def delete(self, topic: int) -> None:
        """End a topic and all on it."""
        for number in self.takers(topic):
            del self.needs[number]
        del self.next_sequence[topic]
        self.append([DeleteQueueRecord(topic)])

    def clean(self, count: int) -> None:
        """Write again what lives in the oldest entries, and drop them."""
        count = min(count, len(self.entries) - 1)
        old, self.entries = self.entries[:count], self.entries[count:]
        through = old[-1][0] + len(old[-1][1]) - 1 if old else 0
        broker = Broker(BrokerSettings(), self.state)
        copies: list[Record] = []
        for first, records in old:
            for number, record in enumerate(records, first):
                if isinstance(record, MessageRecord) and is_kept(broker, record, number, {}):
                    copies += live_copies(broker, record, number, 0, OnTheWay({}, {}, {}))
        copies += self._merged(through)
        for some in homeless(broker, through, 0):
            copies += some
        if copies:
            self.append(copies)

    def _merged(self, through: int) -> list[Record]:
        """Give what was moved and has its bytes in what goes, as messages of where it is."""
        index = self.state.queues[DEAD].index
        copies: list[Record] = []
        for sequence in index.sequences(1, self.dead_next):
            if index.move_number(sequence) and index.record_number(sequence) <= through:
                copy = MessageRecord(DEAD, sequence, b"", bytes(7), index.size(sequence))
                copy.rewritten = True
                copies.append(copy)
        return copies

    def begin_late(self) -> BrokerState:
        """Give the state of who has but what is left of the log."""
        state = BrokerState(BrokerSettings())
        for first, records in self.entries:
            state.apply(first, iter(records), first)
        return state

    def check(self, state: BrokerState) -> None:
        """Compare a state with what the sets say."""
        assert digest_of(state) == digest_of(self.state)
        living: dict[int, set[int]] = {}
        for number, needs in self.needs.items():
            queue = state.queues[number]
            assert list(queue.index.sequences(1, 1 << 60)) == sorted(needs.sequences)
            assert queue.index.live_count == len(needs.sequences)
            assert queue.index.live_bytes == 7 * len(needs.sequences)
            for sequence in needs.sequences:
                assert queue.index.returned(sequence).attempts == needs.attempts.get(sequence, 0)
            living.setdefault(needs.topic, set()).update(needs.sequences)
        for topic in self.next_sequence:
            index = state.queues[topic].index
            assert list(index.sequences(1, 1 << 60)) == sorted(living.get(topic, ()))
        count = self.dead + sum(map(len, living.values()))
        assert state.live_count() == count
        assert state.live_bytes() == 7 * count
        assert len(state.subscriptions) == len(self.needs)
        assert len(state.topics) == len(self.next_sequence)
        assert len(state.queues) == 1 + len(self.needs) + len(self.next_sequence)


def some(chance: random.Random, needed: set[int]) -> list[int]:
    """Choose messages, in order or not."""
    ordered = sorted(needed)
    if chance.random() < 0.6:
        start = chance.randrange(len(ordered)) if chance.random() < 0.3 else 0
        return ordered[start : start + chance.choice((1, 5, 600))]
    return chance.sample(ordered, min(len(ordered), chance.choice((1, 20))))


def step(log: TopicLog, chance: random.Random) -> None:
    """Do anything."""
    if not log.next_sequence or (len(log.next_sequence) < 3 and chance.random() < 0.05):
        log.topic()
    topic = chance.choice(list(log.next_sequence))
    takers = log.takers(topic)
    kind = chance.random()
    if not takers or (kind < 0.06 and len(takers) < 6):
        log.subscribe(topic)
    elif kind < 0.4:
        skipping = {it for it in takers if chance.random() < 0.15} if kind < 0.2 else set()
        gap = chance.choice((0, 0, 0, 0, 700, 1 << 23))
        log.send(topic, chance.choice((1, 3, 40, 700)), skipping, gap)
    elif kind < 0.5:
        log.clean(chance.randrange(1, 12))
    else:
        number = chance.choice(list(takers))
        needed = takers[number].sequences
        if kind < 0.55:
            log.detach(number, chance.randrange(1 << 40))
        elif kind < 0.58:
            log.purge(number, chance.randrange(log.next_sequence[topic]))
        elif kind < 0.6:
            log.unsubscribe(number)
        elif kind < 0.61:
            log.delete(topic)
        elif needed and kind < 0.68:
            log.give_back(number, some(chance, needed)[:50])
        elif needed and kind < 0.74:
            log.bury(number, some(chance, needed)[:50])
        elif needed:
            log.settle(number, some(chance, needed))
