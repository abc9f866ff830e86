"""
What the log says, read by somebody who does not trust the broker.

Every committed entry is fed once, in order. From it follows which messages live, which are settled,
and by which record; how the broker itself keeps that is not asked. It also holds the log to what
it must look like by itself: one record per producer sequence, transactions whole, identities kept.

Invariants (each violation is raised with its name):
    S9: the sequence numbers of a producer stand in the log without gap or double, and so does what
        it numbers, unless its number was forgotten and it could not know.
    S14: what one transaction sent stands in one entry, all of it; and what one SEND sent to
        several queues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from holdfast.journal.entry import KIND_CONFIG, KIND_RECORDS, Entry
from holdfast.model.facts import DEAD_LETTER_CAUSES, Cause
from holdfast.model.limits import FLOOR_ID
from holdfast.model.producer_ids import ROOM_ID, said_id
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    FiredRecord,
    ForgetProducerRecord,
    MessageRecord,
    MoveRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnCause,
    ReturnedRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import CountedRecord, SubscriptionRecord, TopicRecord
from holdfast.replication.membership import Membership, decode_membership
from holdfast.store.record_codec import decode_records
from trials.simulation.audits import Audits
from trials.simulation.calendars import Calendars
from trials.simulation.history import History, ViolationError
from trials.simulation.stored_topics import StoredTopics

DEAD_LETTERS = "ActiveMQ.DLQ"


_TO_BLAME = (ReturnCause.REJECTED, ReturnCause.TIMEOUT, ReturnCause.LOST_ALONE)
_COUNT_MAX = 255


class Returned(NamedTuple):
    """How often a message came back, how often it is to blame, and until when it rests."""

    attempts: int = 0
    failures: int = 0
    due_ms: int = 0

    def again(self, due_ms: int, cause: ReturnCause) -> Returned:
        """Once more."""
        failures = self.failures + (cause in _TO_BLAME)
        return Returned(min(self.attempts + 1, _COUNT_MAX), min(failures, _COUNT_MAX), due_ms)


NEVER = Returned()


def token_of(body: bytes) -> str:
    """The name of a message: what stands before the first blank of its body."""
    return body.split(b" ", 1)[0].decode()


class CommittedLog:
    """The messages of the log as far as it is committed."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.calendars = Calendars(history)
        self.topics = StoredTopics()
        self.audits = Audits()
        self._to_count: dict[tuple[int, int], Returned] = {}
        """Of what the present entry has written again of topics: what came of it, and is still to
        be said."""
        self.last_index = 0
        self.entries: list[Entry] = []
        """All of them, to be read again where a promotion by force turns the log back."""
        self.chains: dict[int, bytes] = {}
        """The chain value of every committed entry."""
        self.live: dict[tuple[int, int], int] = {}
        """Queue number and sequence of every live message, and the entry of its newest copy."""
        self.expires: dict[tuple[int, int], int] = {}
        """When what was sent with a time expires, in milliseconds since the epoch."""
        self.settled: dict[tuple[int, int], str] = {}
        self.removed: dict[tuple[int, int], str] = {}
        """What operators took off its queue, by the token."""
        self.moved: set[tuple[int, int]] = set()
        """What operators moved to another queue."""
        self.returns: dict[tuple[int, int], Returned] = {}
        """What of the live messages came back so far."""
        self.identities: dict[str, list[tuple[int, int]]] = {}
        """By token: where the message was put or moved to; put several times only for producers
        without numbers."""
        self.names: dict[int, str] = {}
        self.tokens: dict[tuple[int, int], str] = {}
        self.memberships: list[tuple[int, Membership]] = []
        self.cleaned: list[tuple[int, int]] = []
        """Up to which entry nothing lives any more, and the entry that says so; both rising."""
        self.message_count = 0
        self._last_sequence: dict[str, int] = {}
        self._floors: dict[str, int] = {}
        """By name: of its producers, those with a lower number are done with."""
        self._forgotten: set[str] = set()
        """
        Producers of which the log knows nothing any more. One that sends its very first message or
        transaction once more is as good as new: what it stored before is stored again.
        """
        self._began_as_users: set[str] = set()
        """Producers of users, or of nobody beside these, that began with 1."""
        self._stored_before: dict[str, int] = {}
        """How far those were that began again so: what follows the first is stored twice too."""
        self._twice = ""
        """Stored again by a transaction whose producer is not known yet; or nothing."""
        self._first_on: dict[tuple[str, int], int] = {}
        """By token and queue: in which entry one that was sent to several was put there."""
        self._several: dict[str, list[str]] = {}
        """By token: on which queues the present entry puts what was sent to several."""

    def feed(self, entry: Entry) -> None:
        """Take the next committed entry."""
        assert entry.index == self.last_index + 1, "entries are fed in order"
        self.last_index = entry.index
        self.entries.append(entry)
        self.chains[entry.index] = entry.chain
        if entry.kind == KIND_CONFIG:
            self.memberships.append((entry.index, decode_membership(bytes(entry.body))))
        if entry.kind != KIND_RECORDS:
            return
        sent: dict[str, int] = {}
        for record in decode_records(entry.body):
            self.audits.take(record, entry.index)
            if type(record) is MessageRecord:
                self._message(record, entry.index, sent)
            else:
                if type(record) is not DispatchMarkRecord:  # It may stand before a unit's number.
                    self._end_unit(record)
                if type(record) is CleanedRecord:
                    self.cleaned.append((record.through_index, entry.index))
                take = self._TAKERS.get(type(record))
                if take is not None:
                    take(self, record)
        self.audits.end_change(entry.index)
        self._end_unit(None)
        self._check_several(entry.index)
        self.topics.end_entry(self.live)
        if self._to_count:
            raise ViolationError("S18", f"nothing is said of {self._to_count}, which came back")
        self.calendars.end_entry(entry.index)
        for check in self._history.entry_checks:
            check()
        for unit, count in sent.items():
            expected = self._history.transactions[unit]
            if count != expected:
                raise ViolationError(
                    "S14", f"entry {entry.index} has {count} of {expected} sends of {unit}"
                )

    def _check_several(self, index: int) -> None:
        """S14: all that one SEND sent to several queues stands in one entry."""
        for token, names in self._several.items():
            note = self._history.sent[token]
            if sorted(names) != sorted((note.queue, *note.others)):
                raise ViolationError("S14", f"entry {index} has {token} on {names} only")
        self._several.clear()

    def _message(self, record: MessageRecord, index: int, sent: dict[str, int]) -> None:
        assert record.body is not None
        token = token_of(record.body)
        places = self.topics.places_of(record, self.live)
        if places is not None:
            self._message_of_topic(record, places, token, index)
        elif record.rewritten:
            for place in record.places:
                self._written_again(record, place, token, index)
        else:
            for place in record.places:
                self._put(record, place, token, index)
        if not record.rewritten:
            self._judge_sender(record, token, sent)

    def _message_of_topic(
        self, record: MessageRecord, places: list[tuple[int, int]], token: str, index: int
    ) -> None:
        """Take a message that stands with each of some subscriptions."""
        if record.rewritten:
            for place in places:
                self.live[place] = index
                if (known := self.returns.get(place, NEVER)) != NEVER:
                    self._to_count[place] = known
            return
        once = token not in self._history.unnumbered and token not in self._history.doubtful
        if once and self.identities.get(token):
            raise ViolationError("S9", f"{token} was stored twice")
        self.identities.setdefault(token, [])
        for place in places:
            self._stand(record, place, token, index)
            self.identities[token].append(place)

    def _counted(self, record: CountedRecord) -> None:
        """Hold what is said of a copy against what came of it."""
        for sequence in record.sequences:
            place = (record.queue_number, sequence)
            said = Returned(record.attempts, record.failures, record.due_ms)
            known = self._to_count.pop(place, NEVER)
            if said != known:
                raise ViolationError("S18", f"{place} came back {known}, and it is said {said}")

    def _written_again(
        self, record: MessageRecord, place: tuple[int, int], token: str, index: int
    ) -> None:
        if self.tokens.get(place) != token:
            raise ViolationError("S18", f"{token} was written again as another message")
        if place not in self.live:
            raise ViolationError("S18", f"{token} was written again after it had ended")
        self.live[place] = index
        if record.is_scheduled:
            self.calendars.check_copy(place, token, record)
        else:
            self._check_counts(record, place)

    def _stand(self, record: MessageRecord, place: tuple[int, int], token: str, index: int) -> None:
        if place in self.tokens:
            raise ViolationError("S9", f"{token} has the place {place} of {self.tokens[place]}")
        note = self._history.sent.get(token)
        if note is None or note.body != record.body:
            raise ViolationError("S8", f"{token} is in the log and nobody sent it so")
        self.message_count += 1
        self.tokens[place] = token
        if record.facts is not None and record.facts.expires_ms:
            self.expires[place] = record.facts.expires_ms
        self.live[place] = index
        if record.is_scheduled:
            self.calendars.put(place, record)

    def _put(self, record: MessageRecord, place: tuple[int, int], token: str, index: int) -> None:
        self._stand(record, place, token, index)
        note = self._history.sent[token]
        places = self.identities.setdefault(token, [])
        if self._is_twice(token, place[0]):
            self._twice = token
        places.append(place)
        name = self.names.get(place[0], "")
        if note.others and name != DEAD_LETTERS:
            self._several.setdefault(token, []).append(name)

    def _judge_sender(self, record: MessageRecord, token: str, sent: dict[str, int]) -> None:
        note = self._history.sent[token]
        if record.producer_id is not None:
            self._end_unit(record)
            self._count(record.producer_id, record.producer_sequence)
        if note.unit and self.names.get(record.queue_number) != DEAD_LETTERS:
            sent[note.unit] = sent.get(note.unit, 0) + 1
        if note.is_aborted:
            raise ViolationError("S14", f"{token} was rolled back and is in the log")

    def _check_counts(self, record: MessageRecord, place: tuple[int, int]) -> None:
        """A copy by the cleaner says how often its message came back, and until when it rests."""
        facts = record.facts
        attributes = None if facts is None else facts.attributes
        said = Returned(
            record.redelivery_count,
            0 if attributes is None else attributes.failures,
            0 if facts is None else facts.due_ms or 0,
        )
        known = self.returns.get(place, NEVER)
        if said != known:
            raise ViolationError(
                "S18", f"{self.tokens[place]} came back {known} and was written again with {said}"
            )

    def _is_twice(self, token: str, queue_number: int) -> bool:
        """Whether a message that must be stored once is stored again, and not as a dead letter."""
        if token in self._history.unnumbered or token in self._history.doubtful:
            return False
        if self.names.get(queue_number) == DEAD_LETTERS:
            return False  # Whatever stood twice before was judged when it was stored.
        if self._history.sent[token].others:
            # Each of its queues has it once, unless an operator put it there beside its own.
            own = self._first_on.setdefault((token, queue_number), len(self.entries))
            return own != len(self.entries)
        return any(self.names.get(it) != DEAD_LETTERS for it, _ in self.identities[token])

    def _end_unit(self, record: Record | None) -> None:
        """
        What is stored again began with the first of a forgotten producer, or the broker is wrong.

        The number of a message stands in its own record, that of a transaction in the one behind.
        """
        token, self._twice = self._twice, ""
        if not token:
            return
        if isinstance(record, MessageRecord):
            number = record.producer_id, record.producer_sequence
        elif isinstance(record, ProducerRecord) and not record.used_at:
            number = record.producer_id, record.sequence
        else:
            number = None, 0
        begins_again = number[0] in self._forgotten and number[1] == 1
        goes_on = 1 < number[1] <= self._stored_before.get(number[0] or "", 0)
        if not (begins_again or goes_on or self._begins_as_a_user(*number)):
            raise ViolationError("S9", f"{token} was stored twice")

    def _begins_as_a_user(self, producer: str | None, sequence: int) -> bool:
        """
        Whether one sends from its first number on what it had sent before there were users.

        Then it is as good as new, too: somebody else might be called so.
        """
        if producer is None or not producer.startswith(ROOM_ID):
            return False
        began = sequence == 1 or producer in self._began_as_users
        return began and sequence <= self._last_sequence.get(said_id(producer), 0)

    def _forget(self, record: ForgetProducerRecord) -> None:
        self._forgotten.add(record.producer_id)

    def _count(self, producer: str, sequence: int) -> None:
        if any(_is_below(producer, name, floor) for name, floor in self._floors.items()):
            raise ViolationError("S9", f"{producer} is done with and has {sequence} in the log")
        last = self._last_sequence.get(producer, 0)
        begins_again = sequence == 1 and producer in self._forgotten
        if sequence != last + 1 and not begins_again:
            raise ViolationError("S9", f"{producer} has {sequence} after {last} in the log")
        if begins_again:
            self._stored_before[producer] = max(last, self._stored_before.get(producer, 0))
        if sequence == 1 and producer.startswith(ROOM_ID):
            self._began_as_users.add(producer)
        self._last_sequence[producer] = sequence
        self._forgotten.discard(producer)

    def _queue(self, record: QueueRecord) -> None:
        self.names[record.queue_number] = record.name

    def _topic(self, record: TopicRecord) -> None:
        self.topics.topic(record)

    def _subscription(self, record: SubscriptionRecord) -> None:
        self.names[record.number] = self.topics.subscription(record)

    def _settle(self, record: AcknowledgeRecord | DeadLetterRecord) -> None:
        for sequence in record.sequences:
            place = (record.queue_number, sequence)
            if self.live.pop(place, None) is None:
                continue
            name = self.names.get(record.queue_number, "")
            self._history.check_settled(name, place, self.tokens[place])
            self.settled[place] = self.tokens[place]

    def _return(self, record: ReturnedRecord) -> None:
        for sequence in record.sequences:
            place = (record.queue_number, sequence)
            if place in self.live:
                before = self.returns.get(place, NEVER)
                self.returns[place] = before.again(record.due_ms, record.cause)

    def _move(self, record: MoveRecord) -> None:
        """Let messages stand elsewhere, or nowhere, if somebody has asked for it."""
        name = self.names.get(record.queue_number, "")
        for run in record.runs:
            for place in range(run.length):
                source = (record.queue_number, run.first + place)
                if source not in self.live:
                    raise ViolationError("M1", f"{source} is moved and does not live")
                if record.cause is Cause.EXPIRED:
                    is_over = 0 < self.expires.get(source, 0) <= record.moved_at
                    self._history.check_expired(name, self.tokens[source], is_over=is_over)
                    self.settled[source] = self.tokens[source]
                elif record.cause is Cause.MAXLEN:
                    self._history.check_dropped(name, source, self.tokens[source])
                    self.settled[source] = self.tokens[source]
                elif record.cause in DEAD_LETTER_CAUSES:
                    self._history.check_dead(name, self.tokens[source])
                    self._history.check_settled(name, source, self.tokens[source])
                    self.settled[source] = self.tokens[source]
                elif record.cause is Cause.FIRED:
                    self.calendars.fires(source, self.tokens[source], ends=not record.is_copy)
                else:
                    self._history.check_moved(source, name)
                target = (record.target_number, run.target_first + place)
                self._move_one(source, target, is_copy=record.is_copy)

    def _move_one(self, source: tuple[int, int], target: tuple[int, int], *, is_copy: bool) -> None:
        token = self.tokens[source]
        if target[0]:
            if target in self.tokens:
                raise ViolationError("S9", f"{token} has the place {target} of another")
            self.tokens[target] = token
            self.identities[token].append(target)
            self.live[target] = self.live[source]  # There its bytes are.
        if is_copy:
            return
        del self.live[source]
        self.returns.pop(source, None)
        if target[0]:
            self.moved.add(source)
        else:
            self.removed[source] = token

    def _fired(self, record: FiredRecord) -> None:
        place = (record.queue_number, record.sequence)
        self.calendars.again(place, self.tokens[place], record)

    def _purge(self, record: PurgeRecord) -> None:
        number, through = record.queue_number, record.through_sequence
        if self._is_empty_part(number):
            pass  # Nobody loses anything by it.
        elif record.topic_number:
            self.topics.check_removed(number, through)
        else:
            self._history.check_removed(number, through, self.names.get(number, ""))
        self._remove(number, through)

    def _delete(self, record: DeleteQueueRecord) -> None:
        ended = self.topics.delete(record)
        number = record.queue_number
        if ended is not None:
            for each in ended:
                if self._is_empty_part(each.number):
                    self.topics.emptied_count += 1
                elif each.key not in self.topics.changing:
                    raise ViolationError("S6", f"{each.key} ended, and nobody asked")
                self._remove(each.number, None)
            return
        name = self.names.get(number, "")
        if name not in self._history.idle_names:
            self._history.check_removed(number, None, name)
            self._remove(number, None)
        elif any(place[0] == number for place in self.live):
            raise ViolationError("Q61", f"{name} went, and there was a message on it")

    def _is_empty_part(self, number: int) -> bool:
        """Whether it is the part of a subscription of a wildcard, and there is nothing of it."""
        return self.topics.is_part(number) and not any(place[0] == number for place in self.live)

    def _remove(self, queue_number: int, through: int | None) -> None:
        """Take what stands up to a sequence off a queue, or a subscription."""
        for place in [it for it in self.live if it[0] == queue_number]:
            if through is None or place[1] <= through:
                del self.live[place]
                self.removed[place] = self.tokens[place]

    def _producer(self, record: ProducerRecord) -> None:
        if record.producer_id.startswith(FLOOR_ID):
            name = record.producer_id.removeprefix(FLOOR_ID)
            self._floors[name] = max(record.sequence, self._floors.get(name, 0))
        elif not record.used_at:
            self._count(record.producer_id, record.sequence)
        elif record.producer_id in self._history.short_lived:
            return
        elif record.sequence > self._last_sequence.get(record.producer_id, 0):
            raise ViolationError("S9", f"{record.producer_id} was carried on with another number")

    _TAKERS: dict[type, Callable[..., None]] = {  # noqa: RUF012 - a table, never changed
        AcknowledgeRecord: _settle,
        DeadLetterRecord: _settle,
        DeleteQueueRecord: _delete,
        QueueRecord: _queue,
        ForgetProducerRecord: _forget,
        MoveRecord: _move,
        FiredRecord: _fired,
        ProducerRecord: _producer,
        PurgeRecord: _purge,
        ReturnedRecord: _return,
        SubscriptionAcknowledgeRecord: _settle,
        SubscriptionRecord: _subscription,
        TopicRecord: _topic,
        CountedRecord: _counted,
    }

    def is_committed(self, token: str) -> bool:
        """Whether a message of this name is in the committed log."""
        return token in self.identities

    def complete_from(self, first_index: int) -> int:
        """From which entry on a log that begins at `first_index` tells the whole state."""
        if first_index == 1:
            return 0
        found = [index for through, index in self.cleaned if through >= first_index - 1]
        return found[0] if found else self.last_index + 1

    @property
    def membership(self) -> Membership | None:
        """The newest committed membership."""
        return self.memberships[-1][1] if self.memberships else None


def _is_below(producer: str, name: str, floor: int) -> bool:
    """Whether this is a producer of this name with a number below its floor."""
    number = producer.removeprefix(f"{name}-").partition("-")
    return producer.startswith(f"{name}-") and bool(number[1]) and int(number[0]) < floor
