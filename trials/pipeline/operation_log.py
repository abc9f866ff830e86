"""
A log written directly, and beside it what every operation did: the truth that a restore is held to.

Operations are drawn from a seed: sends by numbered producers, acknowledgements, rejections, moves,
purges, deletions, copies by the cleaner, and beside them policies, users and grants. After every
entry what lives is noted, by plain dictionaries that share no code with the broker's state.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holdfast.journal.entry import KIND_CONFIG, KIND_NOOP
from holdfast.journal.settings import KiB
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.facts import Cause
from holdfast.model.owners import Owner
from holdfast.model.producer_ids import room_of
from holdfast.model.records import (
    AcknowledgeRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    MessageRecord,
    MoveRecord,
    PolicyRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    Run,
)
from holdfast.replication.membership import Member, Membership, encode_membership
from trials.pipeline.written_log import CLUSTER_ID, WrittenLog

USERS_ONE: Final = room_of(Owner("n-0")) + "one"
"""What user n-0 calls `one`; `two` is from before there were users."""

HEADERS: Final = (b"content-type:text/plain\npersistent:true\n", b"persistent:true\npriority:7\n")


@dataclass(frozen=True)
class Live:
    """One message that lives."""

    queue: str
    sequence: int
    headers: bytes
    body: bytes
    redelivery_count: int
    stored_at: int


@dataclass(frozen=True)
class Moment:
    """What is true after one entry."""

    index: int
    time: int
    live: tuple[Live, ...]
    """By queue, then sequence."""
    producers: dict[str, int]
    policies: dict[tuple[int, str], str]
    """By revision of the file (0: at run time) and pattern."""
    access: dict[str, str | int]
    """Users and grants: what each has, by its name, and by role and pattern."""


@dataclass
class OperationLog:
    """Writes a log of random operations into `directory`; use `run`, then look at `moments`."""

    directory: Path
    seed: int = 1
    segment_bytes: int = 16 * KiB
    moves: int = 1
    """How often messages are moved, beside ten batches of messages."""
    moments: list[Moment] = field(default_factory=list)
    messages: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 - repeatable on purpose
        self._queues: dict[int, str] = {}
        self._next: dict[int, int] = {}
        self._live: dict[tuple[int, int], MessageRecord] = {}
        self._producers: dict[str, int] = {}
        self._number = 0
        # Beside the others: a kind of record more draws none of them otherwise.
        self._policy_chance = random.Random(f"policies {self.seed}")  # noqa: S311 - the same
        self._policies: dict[tuple[int, str], str] = {}
        self._revision = 0
        self._access_chance = random.Random(f"access {self.seed}")  # noqa: S311 - the same
        self._access: dict[str, str | int] = {}

    def run(self, entry_count: int) -> None:
        """Append so many entries."""
        with WrittenLog(self.directory, segment_bytes=self.segment_bytes) as log:
            if log.journal.last_index == 0:
                member = Member("a", "", "voter", "", bytes(16).hex())
                membership = Membership((member,), cluster_id=CLUSTER_ID.hex())
                log.put(kind=KIND_CONFIG, body=encode_membership(membership))
                log.put(kind=KIND_NOOP)
            for _ in range(entry_count):
                # Nothing in one entry may depend on another thing in it.
                records = self._batch(log.time + 1) + self._say_policies()
                records += self._change_access(log.time)
                entry = log.put(*records)
                self._note(entry.index, entry.timestamp)

    def at(self, index: int) -> Moment:
        """What was true after an entry."""
        return next(moment for moment in reversed(self.moments) if moment.index <= index)

    def _batch(self, time: int) -> list[Record]:
        chance = self._chance
        if len(self._queues) < 3:
            return self._declare()
        drawn: list[tuple[int, Callable[[int], list[Record]]]] = [
            (10, self._send),
            (5, self._acknowledge),
            (1, self._reject),
            (self.moves, self._move),
            (1, self._purge),
            (1, self._copy),
            (1, self._commit),
            (1, self._mark),
            (1, self._delete),
        ]
        weights = [weight for weight, _ in drawn]
        operation = chance.choices([each for _, each in drawn], weights)[0]
        return operation(time) or self._send(time)

    def _declare(self) -> list[Record]:
        self._number += 1
        name = f"queue-{self._number}"
        self._queues[self._number] = name
        self._next[self._number] = 1
        return [QueueRecord(self._number, name, 1, 4096)]

    def _message(self, number: int, time: int) -> MessageRecord:
        chance = self._chance
        headers = chance.choice(HEADERS)
        # Some of it is delivered as STOMP: a text ends where a NUL stands.
        body = chance.randbytes(chance.choice((0, 1, 40, 700))).replace(b"\0", b"\1")
        producer = chance.choice((None, USERS_ONE, "two"))
        sequence = self._next[number]
        self._next[number] += 1
        own = 0
        if producer is not None:
            own = self._producers[producer] = self._producers.get(producer, 0) + 1
        size = len(headers) + len(body)
        record = MessageRecord(number, sequence, headers, body, size, producer, own)
        record.stored_at = time
        self._live[number, sequence] = record
        self.messages += 1
        return record

    def _send(self, time: int) -> list[Record]:
        numbers = self._chance.choices(sorted(self._queues), k=self._chance.randint(1, 12))
        return [self._message(number, time) for number in numbers]

    def _some(self, count: int) -> tuple[int, list[int]]:
        number = self._chance.choice(sorted(self._queues))
        own = sorted(sequence for queue, sequence in self._live if queue == number)
        return number, sorted(self._chance.sample(own, min(count, len(own))))

    def _acknowledge(self, time: int) -> list[Record]:
        number, sequences = self._some(self._chance.randint(1, 15))
        for sequence in sequences:
            del self._live[number, sequence]
        return [AcknowledgeRecord(number, sequences)] if sequences else []

    def _reject(self, time: int) -> list[Record]:
        number, sequences = self._some(1)
        if not sequences:
            return []
        del self._live[number, sequences[0]]
        return [DeadLetterRecord(number, sequences)]

    def _move(self, time: int) -> list[Record]:
        """Some go to another queue, or nowhere; a copy stays where it was, too."""
        number, sequences = self._some(self._chance.randint(1, 6))
        target = self._chance.choice([it for it in (*sorted(self._queues), 0) if it != number])
        is_copy = bool(target) and self._chance.random() < 0.3
        runs: list[Run] = []
        for sequence in sequences:
            record = copy(self._live[number, sequence])
            record.redelivery_count = 0  # It begins anew there.
            if not is_copy:
                del self._live[number, sequence]
            place = 0
            if target:
                place = self._next[target]
                self._next[target] += 1
                self._live[target, place] = record
                self.messages += 1
            runs.append(Run(sequence, place, 1))
        cause = Cause.COPIED if is_copy else Cause.MOVED if target else Cause.REMOVED
        name = self._queues[number]
        move = MoveRecord(
            number, target, cause, runs, queue_name=name, moved_at=time // 1000, is_copy=is_copy
        )
        return [move] if runs else []

    def _purge(self, time: int) -> list[Record]:
        number = self._chance.choice(sorted(self._queues))
        through = self._next[number] - 1 - self._chance.randint(0, 3)
        for key in [key for key in self._live if key[0] == number and key[1] <= through]:
            del self._live[key]
        return [PurgeRecord(number, through)] if through > 0 else []

    def _delete(self, time: int) -> list[Record]:
        number = min(self._queues)
        for key in [key for key in self._live if key[0] == number]:
            del self._live[key]
        del self._queues[number]
        return [DeleteQueueRecord(number)]

    def _copy(self, time: int) -> list[Record]:
        number, sequences = self._some(4)
        copies: list[Record] = []
        for sequence in sequences:
            old = self._live[number, sequence]
            again = MessageRecord(
                number,
                sequence,
                old.headers,
                old.body,
                old.size,
                old.producer_id,
                old.producer_sequence,
            )
            again.rewritten, again.stored_at = True, old.stored_at
            again.redelivery_count = old.redelivery_count + 1
            self._live[number, sequence] = again
            copies.append(again)
        return copies

    def _commit(self, time: int) -> list[Record]:
        self._producers[USERS_ONE] = self._producers.get(USERS_ONE, 0) + 1
        return [ProducerRecord(USERS_ONE, self._producers[USERS_ONE], time)]

    def _mark(self, time: int) -> list[Record]:
        number = self._chance.choice(sorted(self._queues))
        return [DispatchMarkRecord(number, self._next[number] + 5000)]

    def _say_policies(self) -> list[Record]:
        """An operator says or takes back something now and then, or a newer file does."""
        chance = self._policy_chance
        drawn = chance.random()
        pattern = f"queue://queue-{chance.randrange(5)}.>"
        values = f'{{"queuePrefetch":{chance.randrange(1, 100)}}}' if chance.random() < 0.7 else ""
        if drawn > 0.2:
            return []
        if drawn > 0.05:
            self._policies.pop((0, pattern), None)
            if values:
                self._policies[0, pattern] = values
            return [PolicyRecord(pattern, values)]
        self._revision += 1
        self._policies = {key: it for key, it in self._policies.items() if not key[0]}
        for each in ("", pattern) if values else ("",):
            self._policies[self._revision, each] = values if each else ""
        of_file = [key for key in self._policies if key[0]]
        return [PolicyRecord(it[1], self._policies[it], self._revision) for it in of_file]

    def _change_access(self, time: int) -> list[Record]:
        """A user or grant is changed or removed now and then; who did it stands behind it."""
        chance = self._access_chance
        drawn, name = chance.random(), f"n-{chance.randrange(4)}"
        is_gone, count = chance.random() < 0.3, chance.randrange(1, 8)
        if drawn > 0.2:
            return []
        audit = AuditRecord(time // 1000, "root", "here", "change", name, "done")
        if drawn > 0.1:
            values = "" if is_gone else f'{{"roles":["r-{count}"]}}'
            self._put(name, values)
            return [UserRecord(name, values, time), audit]
        rights, pattern = (0 if is_gone else count), "queue://a.>"
        self._put(f"{name} {pattern}", rights)
        return [GrantRecord(name, pattern, rights), audit]

    def _put(self, key: str, value: str | int) -> None:
        self._access.pop(key, None)
        if value:
            self._access[key] = value

    def _note(self, index: int, time: int) -> None:
        live = sorted(
            (
                Live(
                    self._queues[number],
                    sequence,
                    record.headers or b"",
                    record.body or b"",
                    record.redelivery_count,
                    record.stored_at,
                )
                for (number, sequence), record in self._live.items()
            ),
            key=lambda each: (each.queue, each.sequence),
        )
        known = dict(self._producers), dict(self._policies), dict(self._access)
        self.moments.append(Moment(index, time, tuple(live), *known))
