"""
Steps of what operators do with single messages: look at them, move, copy, send back, remove them.

A step goes through a queue's messages in slices of the loop's time, with pauses as long between
them; what is to be moved is then put into one batch at once, and answered when that is stored. What
came into somebody's hands meanwhile is left alone. One step looks at a time, so that many who ask
make it later, not the clients' turns longer.

Invariants:
    Nothing is written for a message whose answer was given: each is moved once.
    A step that is refused has written nothing.
    A step is bounded, in messages and in time.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.admin.message_requests import MessageAction, MessageRequest, MessageStep
from holdfast.broker.broker import Broker
from holdfast.broker.moved import read_as_it_stands
from holdfast.broker.outputs import Replier
from holdfast.broker.serving.queue import Queue
from holdfast.environment.clock import Clock
from holdfast.errors import DestinationError, LevelNotReachedError, NotLeaderError, StoreError
from holdfast.model.destination import parse_destination
from holdfast.model.facts import DEAD_LETTER_CAUSES, TOPIC_MARK, Cause
from holdfast.model.format_level import MOVES_LEVEL
from holdfast.model.limits import KiB, MiB
from holdfast.model.records import MessageRecord
from holdfast.model.reserved_names import why_reserved
from holdfast.model.schedules import SCHEDULE_QUEUE
from holdfast.server.audit_trail import AuditTrail
from holdfast.server.parts import Parts
from holdfast.sessions.selection import Selection
from holdfast.sessions.stored_messages import headers_of, is_chosen, selection_of
from holdfast.store.contract import LogStore

_STEP_COUNT_MAX: Final = 1_000
"""Messages that a step moves, or shows."""
_EXAMINED_MAX: Final = 20_000
_TARGETS_MAX: Final = 100
"""Queues to which it sends back: each may have to be declared, and has a record of its own."""
_SHOWN_BYTES_MAX: Final = 4 * MiB
_HEADERS_COST_BYTES: Final = KiB
_SLICE_SECONDS: Final = 0.001
_PAUSE_SECONDS: Final = 0.001
"""Others have half of the time at least."""

_CAUSES: Final = {
    MessageAction.MOVE: Cause.MOVED,
    MessageAction.COPY: Cause.COPIED,
    MessageAction.RETRY: Cause.RETRIED,
    MessageAction.REMOVE: Cause.REMOVED,
}

Stored = Callable[[Callable[[Replier], None]], Awaitable[None]]
"""Asks the broker for something, and waits until all of it is stored."""


class MessageSteps:
    """What operators do with messages of this node's queues, while it leads."""

    def __init__(self, parts: Parts, stored: Stored, trail: AuditTrail) -> None:
        self._trail = trail
        self._broker = parts.broker
        self._store = parts.store
        self._clock = parts.clock
        self._stored = stored
        self._one_at_a_time = asyncio.Lock()

    async def step(self, wanted: MessageRequest) -> MessageStep:
        """
        Do one step; returns when what it changes is stored.

        Raises:
            DestinationError: There is no such queue, or no such target can be.
            SelectorError: The selector cannot be read.
            LevelNotReachedError: Not every member could read the record that moves messages.
            NotLeaderError: The lead ended meanwhile; nothing is changed.
        """
        queue = self._broker.destinations.existing(wanted.queue)
        if wanted.action is not MessageAction.BROWSE:
            self._require_possible(wanted)
        if self._broker.destinations.temporaries.queues.get(wanted.queue) is not None:
            raise DestinationError(f"{wanted.queue!r} is temporary: nothing on it is stored")
        done = MessageStep(queue=wanted.queue, action=wanted.action, after=wanted.after)
        done.through = wanted.through or queue.assigned_sequence - 1
        if wanted.action is MessageAction.COPY:
            # What was asked for before is stored first, so that copies of a step whose answer was
            # lost are seen.
            await self._stored(lambda reply: self._broker.receipts.reply_after_pending(reply, b""))
        async with self._one_at_a_time:
            # To read a selector may take as long as many messages.
            selection = self._selection(queue, wanted.selector)
            look = _Look(self._broker, self._store, self._clock, queue, wanted, selection, done)
            await look.run()
        if wanted.dry_run:
            done.count += sum(map(len, look.picked.values()))
        elif look.picked:
            deed = f"{wanted.action.value} messages", f"{wanted.queue} {wanted.target}".strip()
            await self._stored(lambda reply: look.write(reply, lambda: self._trail.write(*deed)))
            self._trail.tell(deed[0], f"{deed[1]} count={done.count}")
        return done

    def _selection(self, queue: Queue, selector: str) -> Selection | None:
        if not selector:
            return None
        identity = f"ID:{self._broker.moving.cluster}-{queue.number}-"
        return selection_of(selector, queue.name, identity)

    def _require_possible(self, wanted: MessageRequest) -> None:
        if SCHEDULE_QUEUE in {wanted.queue, wanted.target} and (
            wanted.action is not MessageAction.REMOVE
        ):
            raise DestinationError(
                f"{SCHEDULE_QUEUE!r}: what is scheduled can only be looked at and removed"
            )
        if not self._broker.moving.is_possible:
            level = self._broker.state.format_level
            raise LevelNotReachedError.of("messages that are moved", MOVES_LEVEL, level)
        is_to_target = wanted.action in {MessageAction.MOVE, MessageAction.COPY}
        if not is_to_target:
            return
        named = parse_destination(wanted.target).name if wanted.target else ""
        if named != wanted.target or named in {"", wanted.queue}:
            raise DestinationError(
                f"{wanted.target!r}: the name of another queue is needed, to move or copy to"
            )
        why = why_reserved(named)
        if why:
            raise DestinationError(f"{wanted.target!r}: {why}")


class _Look:
    """One way through some of a queue's messages."""

    def __init__(
        self,
        broker: Broker,
        store: LogStore,
        clock: Clock,
        queue: Queue,
        wanted: MessageRequest,
        selection: Selection | None,
        done: MessageStep,
    ) -> None:
        self._broker = broker
        self._store = store
        self._clock = clock
        self._queue = queue
        self._wanted = wanted
        self._selection = selection
        self._done = done
        self._count_max = min(wanted.count_max, _STEP_COUNT_MAX)
        self._shown_bytes = 0
        self._origins: dict[int, tuple[Cause, str]] = {}
        """By the record that moved messages: why, and from which queue."""
        self.picked: dict[str, list[int]] = {}
        """What is to be done with something, by the name of the queue where it goes."""
        self._picked_count = 0

    async def run(self) -> None:
        """
        Go through them, until the step is full or there are no more.

        Raises:
            NotLeaderError: The lead under which it was asked for is over.
            DestinationError: The queue is deleted.
        """
        self._require_same_lead()
        await self._go_through()
        destinations, target = self._broker.destinations, self._wanted.target
        if self._wanted.action is MessageAction.COPY and destinations.has_queue(target):
            await self._pass_over_copies(destinations.existing(target))

    async def _go_through(self) -> None:
        done, queue = self._done, self._queue
        end = done.through + 1
        ends_at = self._clock.monotonic() + _SLICE_SECONDS
        while not self._is_full():
            sequence = queue.index.next_live(done.after + 1, end)
            if sequence >= end:
                done.is_done = True
                return
            if not self._take(sequence):
                return  # The cleaner is there just now: the next step goes on with it.
            done.after = sequence
            done.examined += 1
            # Each time: one message may be read with an entry of many MiB.
            if self._clock.monotonic() >= ends_at:
                await asyncio.sleep(_PAUSE_SECONDS)
                self._require_same_lead()
                ends_at = self._clock.monotonic() + _SLICE_SECONDS

    def _is_full(self) -> bool:
        count = max(self._picked_count, len(self._done.messages))
        return (
            count >= self._count_max
            or self._done.examined >= _EXAMINED_MAX
            or len(self.picked) >= _TARGETS_MAX
            or self._shown_bytes >= _SHOWN_BYTES_MAX
        )

    def _take(self, sequence: int) -> bool:
        """Look at a message; false if it cannot be moved at this very moment."""
        done, moving = self._done, self._broker.moving
        is_look = self._wanted.action is MessageAction.BROWSE
        is_at_hand = moving.is_at_hand(self._queue, sequence)
        if not is_look:
            if not is_at_hand and self._wanted.action is not MessageAction.COPY:
                done.in_delivery += 1
                return True
            if moving.is_closed(self._queue, sequence):
                return False
        try:
            self._choose(sequence, is_at_hand=is_at_hand)
        except StoreError:
            done.unreadable += 1
        return True

    def _choose(self, sequence: int, *, is_at_hand: bool) -> None:
        """
        Show a message, or pick it, if it is one of those that are wanted.

        Raises:
            StoreError: It cannot be read now.
        """
        if not self._is_due_then(sequence):
            self._done.not_matching += 1
            return
        is_look = self._wanted.action is MessageAction.BROWSE
        message = self._read(sequence) if is_look or self._selection is not None else None
        if message is not None:
            if self._selection is not None and not is_chosen(self._selection, message, sequence):
                self._done.not_matching += 1
                return
            if is_look:
                self._show(sequence, message, is_at_hand=is_at_hand)
                return
        target = self._target(sequence, message)
        if target is None:
            self._done.skipped += 1
        else:
            self.picked.setdefault(target, []).append(sequence)
            self._picked_count += 1

    def _is_due_then(self, sequence: int) -> bool:
        """Whether what is scheduled is due in the time that is asked for; others always are."""
        wanted = self._wanted
        if not (wanted.due_from or wanted.due_through):
            return True
        due_ms = self._queue.index.expires_ms(sequence)
        return wanted.due_from <= due_ms <= (wanted.due_through or due_ms)

    def _target(self, sequence: int, message: MessageRecord | None) -> str | None:
        """Give where a message goes, empty for nowhere; None: it stays."""
        if self._wanted.action is not MessageAction.RETRY:
            return "" if self._wanted.action is MessageAction.REMOVE else self._wanted.target
        found = self._came_from(sequence, message)
        if found is None or found[0] not in DEAD_LETTER_CAUSES or found[1] == self._queue.name:
            return None
        if found[1].startswith(TOPIC_MARK):
            return None  # A subscription's: to the topic it would come for all the others, too.
        if found[1] == SCHEDULE_QUEUE:
            return None  # It has no time any more: move it to where it was to go.
        return found[1]

    def _came_from(self, sequence: int, message: MessageRecord | None) -> tuple[Cause, str] | None:
        """Give why and from which queue a message came here; None: it did not."""
        number = self._queue.index.move_number(sequence)
        if number and number in self._origins:
            return self._origins[number]
        message = message or self._read(sequence)
        origin = None if message.facts is None else message.facts.origin
        if origin is None:
            return None
        if number:
            self._origins[number] = (origin.cause, origin.queue)
        return origin.cause, origin.queue

    def _read(self, sequence: int) -> MessageRecord:
        """
        Give a message as its consumers see it.

        Raises:
            StoreError: It cannot be read now.
        """
        queue = self._queue
        index = queue.index
        content = None if index.move_number(sequence) else queue.cache.find(sequence)
        if content is not None:
            return content
        number, cluster = index.record_number(sequence), self._broker.moving.cluster
        return read_as_it_stands(self._store, number, queue.number, index, sequence, cluster)

    def _show(self, sequence: int, message: MessageRecord, *, is_at_hand: bool) -> None:
        assert message.body is not None, "it was read with its content"
        shown = message.body[: self._wanted.body_bytes_max]
        self._shown_bytes += message.size - len(message.body) + len(shown) + _HEADERS_COST_BYTES
        self._done.count += 1
        self._done.in_delivery += not is_at_hand
        due = {}
        if self._queue.name == SCHEDULE_QUEUE:
            index = self._queue.index
            due = {"due_ms": index.expires_ms(sequence), "repeats": index.repeats(sequence)}
        self._done.messages.append(
            {
                **due,
                "message_id": f"ID:{self._broker.moving.cluster}-{self._queue.number}-{sequence}",
                "sequence": sequence,
                "stored_at": message.stored_at,
                "headers": headers_of(message),
                "body_bytes": len(message.body),
                "body_base64": base64.b64encode(shown).decode(),
                "in_delivery": not is_at_hand,
                "redelivered": self._queue.is_flagged(sequence),
            }
        )

    async def _pass_over_copies(self, target: Queue) -> None:
        """Leave out what has a copy on the target, as far as that can be known."""
        sequences = self.picked.get(target.name, [])
        index = self._queue.index
        contents = {index.record_number(sequence) for sequence in sequences} - {0}
        known: set[int] = set()
        ends_at = self._clock.monotonic() + _SLICE_SECONDS
        for chunk in list(target.index.chunks.values()):
            if chunk.moves is not None:
                known |= contents.intersection(chunk.record_numbers)
            if self._clock.monotonic() >= ends_at:
                await asyncio.sleep(_PAUSE_SECONDS)
                ends_at = self._clock.monotonic() + _SLICE_SECONDS
        left = [it for it in sequences if index.record_number(it) not in known]
        self._done.skipped += len(sequences) - len(left)
        self.picked = {target.name: left} if left else {}

    def _come_to_nothing(self) -> None:
        """Let it be as if nothing had been looked at: it is asked for again."""
        done = self._done
        done.after, done.is_done = self._wanted.after, False
        done.examined = done.in_delivery = done.skipped = done.not_matching = done.unreadable = 0

    def _require_same_lead(self) -> None:
        """
        Refuse to go on where this lead is over, though a later one may be here.

        Who has which of the messages, only those know who lead now.

        Raises:
            NotLeaderError: It is.
            DestinationError: The queue is deleted.
        """
        leadership = self._broker.destinations.leadership
        if not self._broker.is_leading or self._queue.leadership is not leadership:
            raise NotLeaderError
        if self._queue.is_deleted:
            raise DestinationError(f"there is no queue {self._queue.name!r}")

    def write(self, reply: Replier, note: Callable[[], None]) -> None:
        """
        Put what is to be done into the batch; what somebody has got meanwhile stays.

        Who asked for it is noted first: what moves fills several entries, each of which may be the
        last one that is stored.

        Raises:
            NotLeaderError: The lead ended meanwhile.
            DestinationError: The queue was deleted, or there are too many to declare another.
        """
        self._require_same_lead()
        broker, queue, done = self._broker, self._queue, self._done
        is_copy = self._wanted.action is MessageAction.COPY
        moving = broker.moving
        moved_at = broker.sending.now_microseconds // 1000
        if any(moving.is_closed(queue, it) for picked in self.picked.values() for it in picked):
            self._come_to_nothing()  # The cleaner has come since they were looked at.
            self.picked = {}
        destinations = broker.destinations
        destinations.require_queues(
            sum(bool(name) and not destinations.has_queue(name) for name in self.picked)
        )
        if self.picked:
            note()
        for name, picked in self.picked.items():
            if is_copy:
                sequences = moving.lasting(queue, picked)
            else:
                sequences = [it for it in picked if moving.is_at_hand(queue, it)]
                done.in_delivery += len(picked) - len(sequences)
            if not sequences:
                continue
            # On the very queue that is named: what was forwarded has its other places already.
            targets = [destinations.queue(name)] if name else []
            cause = _CAUSES[self._wanted.action]
            moving.take(queue, targets, sequences, cause, moved_at=moved_at, is_copy=is_copy)
            if not is_copy:
                moving.keep_from_all(queue, sequences)
            done.count += len(sequences)
        broker.receipts.reply_after_pending(reply, b"")
