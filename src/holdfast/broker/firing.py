"""
Scheduled messages whose time has come: sent to where they were to go, each time once.

What goes out are copies by moves, so the bytes stay where they are; in the same entry it is said
when the message is due again, or it leaves the schedule with the last of them. So whoever leads
after this entry knows that it was sent, and whoever leads without it sends it.

What was sent to topics, or is not to be kept, goes out as that entry is applied, as it does with a
transaction: the log knows that it was its time, and not who got it.

Invariants:
    Nothing is proposed twice: what is on its way to the log has the time for which it was.
    What cannot be sent holds up nothing else, and takes little of the loop's time.
    A disk that is almost full stops nothing that is due for the last time, of which there is only
    so much; what is due again and again waits, as it would fill the disk.
    No more goes into one batch than one record moves, but for one message with more places.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from holdfast.broker.destinations import Destinations
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.moving import Moving
from holdfast.broker.outputs import Publications
from holdfast.broker.parts import stored_beside
from holdfast.broker.receipts import Receipts
from holdfast.broker.returning import Returning
from holdfast.broker.serving.durable import StoredTopic
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.broker.serving.transactions import Publication
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.settling import Settling
from holdfast.model.access_records import AuditRecord
from holdfast.model.facts import Attributes, Cause, MessageFacts, Origin
from holdfast.model.format_level import OWNERS_LEVEL
from holdfast.model.records import (
    MESSAGE_OVERHEAD_BYTES,
    MOVE_COUNT_MAX,
    FiredRecord,
    MessageRecord,
    MoveRecord,
    Run,
)
from holdfast.model.schedules import SCHEDULE_QUEUE, Due, Schedule

_AGAIN_MS: Final = 1_000
"""What cannot be sent now is tried again so much later, or when its turn comes after that."""
_VAIN_MAX: Final = 250
"""After so many tries in vain there is none for so long: it is what the loop has time for."""
_UNDER_WAY_MIN: Final = 2_048


class Firing:
    """Sends what is due."""

    def __init__(
        self,
        settings: BrokerSettings,
        state: BrokerState,
        *,
        receipts: Receipts,
        destinations: Destinations,
        policies: PolicyBook,
        moving: Moving,
        returning: Returning,
    ) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self._destinations = destinations
        self._policies = policies
        self._moving = moving
        self._returning = returning
        self._under_way: dict[tuple[int, int], int] = {}
        """What was sent, with the time for which it was; may be applied by now. By number of the
        queue and sequence: an operator may delete the queue, and it is another one then."""
        self._look_at = _UNDER_WAY_MIN
        """At so many it is seen which of them are applied."""
        self.removal_count = 0
        """So many take back what is due in some time, in steps."""
        self._cut_short: list[int] = []
        """What is due and was given to be sent, and there was no time for it."""
        self._again: deque[int] = deque()
        """What could not be sent."""
        self._tries_left = self._vain_count = 0
        """Of these, how many are tried in this round yet; how many were in vain."""
        self._again_ms = 0
        """When the next round begins."""
        self.is_full = False
        """Whether nothing new is stored, as a disk is almost full."""
        self.fired_total = 0
        """Times that a scheduled message was sent, of all leaderships of this process."""
        self.refused_total = 0
        """Scheduled messages that their senders might not send any more, likewise."""

    def lead(self) -> None:
        """Begin to look after what is scheduled."""
        if SCHEDULE_QUEUE in self._state.by_name:
            self._destinations.existing(SCHEDULE_QUEUE)

    def follow(self) -> None:
        """Forget all."""
        self._under_way, self._look_at = {}, _UNDER_WAY_MIN
        self._cut_short, self._again = [], deque()
        self._tries_left = self._vain_count = self._again_ms = 0

    @property
    def queue(self) -> Queue | None:
        """Where scheduled messages stand; None: there never were any."""
        return self._destinations.leadership.by_name.get(SCHEDULE_QUEUE)

    @property
    def next_place(self) -> tuple[int, int] | None:
        """Give number and sequence of what is scheduled next; None: nothing ever was."""
        queue = self.queue
        return None if queue is None else (queue.number, queue.assigned_sequence)

    @property
    def has_any(self) -> bool:
        """Whether anything may be due at some time."""
        queue = self.queue
        return queue is not None and queue.expiry is not None and bool(queue.index.live_count)

    @property
    def soonest_ms(self) -> int:
        """When there may be something to send, in milliseconds since the epoch; 0: never."""
        queue = self.queue
        if queue is None or queue.expiry is None:
            return 0
        return queue.expiry.soonest

    def give_up(self, sequence: int, settling: Settling, audit: AuditRecord) -> None:
        """
        Let a message that is due be a dead letter, with who may not send it, in the same entry.

        Before every member can read that it stays, and is looked at again.

        Raises:
            DestinationError: There are too many queues to declare that of the dead letters.
        """
        queue = self.queue
        assert queue is not None, "it is on it"
        if self._state.format_level < OWNERS_LEVEL:
            self.later(sequence)
            return
        now_ms = self._returning.now_ms
        places = self._policies.burial_places(queue)
        settling.bury(queue, places, [sequence], Cause.FORBIDDEN, now_ms)
        self._moving.keep_from_all(queue, [sequence])
        self._receipts.add_records([audit])
        self.refused_total += 1

    def take_back(self, sequences: Sequence[int]) -> int:
        """
        Let these be scheduled no more, as far as they are; gives how many were.

        What the cleaner is about to write again is settled instead of moved: that holds anywhere.
        """
        queue, moving = self.queue, self._moving
        if queue is None:
            return 0
        there = sorted(it for it in sequences if moving.is_at_hand(queue, it))
        moving.keep_from_all(queue, there)
        movable = [it for it in there if moving.is_possible and not moving.is_closed(queue, it)]
        if movable:
            now_ms = self._returning.now_ms
            moving.take(queue, [], movable, Cause.REMOVED, moved_at=now_ms)
        if len(movable) < len(there):
            moved = set(movable)
            self._receipts.settle(queue, [it for it in there if it not in moved])
        return len(there)

    def due(self, count_max: int) -> list[int]:
        """Give some of what is due by now, each once, as far as this batch takes more."""
        queue = self.queue
        if queue is None or queue.expiry is None:
            return []
        count_max = min(count_max, MOVE_COUNT_MAX - self._receipts.batch.moved_count)
        if count_max <= 0:
            return []
        now_ms = self._returning.now_ms
        found, self._cut_short = self._cut_short[:count_max], self._cut_short[count_max:]
        while len(found) < count_max and self._may_try(now_ms):
            found.append(self._again.popleft())
            self._tries_left -= 1
        if len(found) < count_max:
            found += queue.expiry.due(now_ms, count_max - len(found))[0]
        return [it for it in dict.fromkeys(found) if self._is_due(queue, it, now_ms)]

    @property
    def has_due(self) -> bool:
        """Whether there may be something due that this batch takes yet."""
        queue = self.queue
        if queue is None or queue.expiry is None:
            return False
        if self._receipts.batch.moved_count >= MOVE_COUNT_MAX:
            return False  # The next turn comes when this batch goes.
        now_ms = self._returning.now_ms
        if self._cut_short or self._may_try(now_ms):
            return True
        return 0 < queue.expiry.soonest <= now_ms

    def _is_due(self, queue: Queue, sequence: int, now_ms: int) -> bool:
        due_ms = queue.index.expires_ms(sequence)
        if self._under_way.get((queue.number, sequence)) == due_ms:
            return False  # It is sent already; of its next time it will be told.
        if not 0 < due_ms <= now_ms or not self._moving.is_at_hand(queue, sequence):
            return False
        if self._moving.is_closed(queue, sequence):
            self.later(sequence)
            return False
        return True

    def _may_try(self, now_ms: int) -> bool:
        """
        Whether it is time to try again with what could not be sent.

        Each is tried once in a round; a round ends early where too many tries are in vain.
        """
        if self._tries_left:
            return True
        if not self._again or now_ms < self._again_ms:
            return False
        self._tries_left, self._vain_count = len(self._again), 0
        self._again_ms = now_ms + _AGAIN_MS
        return True

    def later(self, sequence: int) -> None:
        """Try again with a message that cannot be sent now."""
        again_ms = self._returning.now_ms + _AGAIN_MS
        if not self._again:
            self._again_ms = max(self._again_ms, again_ms)
        self._again.append(sequence)
        self._vain_count += 1
        if self._tries_left and self._vain_count >= _VAIN_MAX:
            self._tries_left, self._again_ms = 0, again_ms

    def put_back(self, sequences: Sequence[int]) -> None:
        """Go on with these the next time: there was no time for them."""
        self._cut_short[:0] = sequences

    def fire(
        self,
        message: MessageRecord,
        schedule: Schedule,
        targets: Sequence[Queue | Topic],
        *,
        persistent: bool,
        lifetime_ms: int,
    ) -> None:
        """Send a message that is due to these, whom its destination means now."""
        queue = self.queue
        assert queue is not None, "it is on it"
        sequence, now_ms = message.sequence, self._returning.now_ms
        due = Due(queue.index.expires_ms(sequence), queue.index.repeats(sequence))
        following = schedule.following(due, now_ms)
        if self.is_full and following is not None:
            self.later(sequence)
            return
        kept = [it for it in targets if persistent and isinstance(it, Queue)]
        published = [it for it in targets if not (persistent and isinstance(it, Queue))]
        moves = self._moves(queue, sequence, kept, now_ms, lifetime_ms, ends=following is None)
        receipts = self._receipts
        size = sum(move.size for move in moves) + MESSAGE_OVERHEAD_BYTES
        is_much = receipts.batch.moved_count and (
            receipts.batch.moved_count + len(moves) > MOVE_COUNT_MAX
        )
        if is_much or not receipts.batch.has_room(size, self._settings.batch_bytes_max):
            receipts.close_batch()
        receipts.add_records(moves)
        for target, move in zip(kept, moves, strict=False):
            if isinstance(target, StoredTopic):
                receipts.add_records(target.skipping_moved(move, message))
        if following is None:
            receipts.batch.settled_count += 1
            self._moving.keep_from_all(queue, [sequence])
        else:
            receipts.record(FiredRecord(queue.number, sequence, *following))
        self._publish(message, published, now_ms, lifetime_ms, persistent=persistent)
        self.fired_total += 1
        self._note(queue, sequence, due.due_ms)

    def _moves(
        self,
        queue: Queue,
        sequence: int,
        kept: Sequence[Queue],
        now_ms: int,
        lifetime_ms: int,
        *,
        ends: bool,
    ) -> list[MoveRecord]:
        """Give what puts it on these queues and, if it `ends`, takes it off the schedule."""
        moves = []
        expires_ms = self._expires_ms(kept, now_ms, lifetime_ms)
        for place, target in enumerate(kept or [None] * ends, 1):
            first = 0 if target is None else self._moving.assign(target, 1)
            moves.append(
                MoveRecord(
                    queue.number,
                    0 if target is None else target.number,
                    Cause.FIRED,
                    [Run(sequence, first, 1)],
                    queue_name=queue.name,
                    moved_at=now_ms,
                    is_copy=not (ends and place >= len(kept)),
                    clears_expiry=True,
                    expires_ms=expires_ms,
                )
            )
        return moves

    def _expires_ms(self, targets: Sequence[Queue | Topic], now_ms: int, lifetime_ms: int) -> int:
        """Give when it expires that is sent now: the time counts from here."""
        said_ms = now_ms + lifetime_ms if lifetime_ms else 0
        rules = {self._policies.of(it).lifetimes for it in targets if isinstance(it, Queue)}
        times = [rule.expires_ms(said_ms, 0, now_ms) for rule in rules] or [said_ms]
        return min(filter(None, times), default=0)

    def _publish(
        self,
        message: MessageRecord,
        targets: Sequence[Queue | Topic],
        now_ms: int,
        lifetime_ms: int,
        *,
        persistent: bool,
    ) -> None:
        """Let it go, once it is in the log that it was sent, to those who do not keep it."""
        if not targets:
            return
        assert message.headers is not None and message.body is not None
        queue = self.queue
        assert queue is not None, "it is on it"
        expires_ms = self._expires_ms(targets, now_ms, lifetime_ms)
        before = message.facts.attributes if message.facts is not None else None
        attributes = (before or Attributes())._replace(expires_ms=expires_ms, repeats=0)
        identity = f"ID:{self._moving.cluster}-{queue.number}-{message.sequence}"
        facts = MessageFacts(
            attributes=None if attributes == Attributes() else attributes,
            origin=Origin(Cause.FIRED, queue.name, identity),
        )
        held = [
            Publication(it, message.headers, message.body, facts, persistent, is_stored_beside=True)
            for it in targets
        ]
        current = dict(zip(targets, targets, strict=True))
        stored = stored_beside(self._destinations, targets)
        publications = Publications(current, held, _Nobody(), None, stored)
        self._receipts.batch.publications.append(publications)
        self._receipts.batch.is_urgent = True

    def _note(self, queue: Queue, sequence: int, due_ms: int) -> None:
        under_way = self._under_way
        under_way[queue.number, sequence] = due_ms
        if len(under_way) > self._look_at:
            expires_ms = queue.index.expires_ms
            left = {
                (number, key): due
                for (number, key), due in under_way.items()
                if number == queue.number and expires_ms(key) == due
            }
            self._under_way, self._look_at = left, max(_UNDER_WAY_MIN, 2 * len(left))


class _Nobody:
    """Nobody waits for what is sent because its time has come, and it is nobody's own."""

    id = sent_as = ""
    payer = None

    def reply(self, receipt: bytes) -> None:
        """Never asked: there is no receipt."""

    def confirm(self, receipt: bytes) -> None:
        """Never asked, either."""
