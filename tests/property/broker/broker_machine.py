"""
The broker against a small model: whatever clients, operators, cleaner and failures do.

The machine sends, consumes, acknowledges, rejects, commits, purges, deletes and cleans. It seals
and commits batches one by one, so that any number is under way. It changes the leader, which keeps
a prefix of what was under way and knows the log only: from its first kept entry, from a checkpoint,
or as the old leader elected again. What a batch will change in the model travels with the batch.
"""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from holdfast.broker.broker import Broker
from holdfast.broker.cleaning import homeless, live_copies, on_the_way
from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.snapshot import Snapshot, digest_of, encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.returning import SILENT, Rejection
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.late import served, settled_by
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.errors import DestinationError, UnknownDeliveryError
from holdfast.model.facts import Cause
from holdfast.model.format_level import NEWEST_LEVEL, RETURNS_LEVEL
from holdfast.model.records import (
    CleanedRecord,
    ForgetProducerRecord,
    FormatRecord,
    HoldRecord,
    MessageRecord,
    MoveRecord,
    Record,
)
from holdfast.server.moved_contents import MovedContents
from holdfast.store.record_codec import decode_records, encode_records
from tests.property.broker.clients import SETTINGS, Consumer, OpenTransaction
from tests.property.broker.expected import NAMES, PLACE, QUEUES, SEVERAL
from tests.property.broker.sending_machine import Effect, SendingMachine


class BrokerMachine(SendingMachine):
    """A leader, its log, its clients, and the model beside it."""

    # Consuming ------------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(QUEUES),
        mode=st.sampled_from(AcknowledgeMode),
        prefetch=st.integers(1, 6),
    )
    def subscribe(self, name: str, mode: AcknowledgeMode, prefetch: int) -> None:
        consumer = Consumer(name, mode, prefetch)
        self.consumers.append(consumer)
        self.broker.subscribe(consumer.subscription, self.broker.queue(name))

    def consumer(self, number: int) -> Consumer:
        return self.consumers[number % len(self.consumers)]

    @precondition(lambda self: self.consumers)
    @rule(number=st.integers(0, 99))
    def consumer_dies(self, number: int) -> None:
        consumer = self.consumer(number)
        self.consumers.remove(consumer)
        self.broker.unsubscribe(consumer.subscription)
        self.gives_back(list(consumer.held.values()))

    def gives_back(self, places: list[PLACE]) -> None:
        self.model.returned.update(set(places) & self.model.live - self.model.leaving)

    @precondition(lambda self: any(consumer.held for consumer in self.consumers))
    @rule(number=st.integers(0, 99), place=st.integers(0, 99))
    def acknowledge(self, number: int, place: int) -> None:
        holders = [consumer for consumer in self.consumers if consumer.held]
        consumer = holders[number % len(holders)]
        key = list(consumer.held)[place % len(consumer.held)]
        places = [consumer.held.pop(each) for each in self.settled_by(consumer, key)]
        receipt = self.gone(self.leaves(places))
        self.broker.acknowledge(consumer.subscription, key, self, receipt)

    @rule(
        name=st.sampled_from(QUEUES),
        guess=st.integers(-8, 40),
        is_open=st.booleans(),
        number=st.integers(0, 99),
    )
    def acknowledge_by_guess(self, name: str, guess: int, number: int, *, is_open: bool) -> None:
        """A stranger says that it is done with a message: whatever number it can think of."""
        found = self.broker.destinations.find(name)
        queue_number = found[0].number if found is not None and number % 10 else number // 10
        queue = served(self.broker.state, self.broker.destinations.leadership, queue_number)
        serial = self.broker.sending.serial
        key = guess if guess >= 0 else serial and -1 - (-guess % serial)
        place = self.place_of(queue, key)
        may_be = self.may_be_settled_late(place)
        opened = self.transaction(number) if is_open and self.transactions else None
        receipt = b"%d" % (self.count + 1)
        try:
            if opened is not None:
                self.broker.hold_identity(opened.transaction, queue_number, key)
            else:
                lasting = {place} - self.model.transient if place is not None else set()
                assert receipt == self.gone(lasting)
                self.broker.acknowledge_identity(queue_number, key, self, receipt)
        except UnknownDeliveryError:
            self.checks.pop(receipt, None)
            assert not may_be, f"{place} was delivered before and nobody has it"
            return
        if place is None or place in self.model.leaving:
            return
        assert may_be or place not in self.model.fresh, f"{place} was settled and never delivered"
        assert not self.is_held(place), f"{place} was settled and is somebody else's"
        # Should this word be lost, the message comes behind what was delivered meanwhile.
        self.model.claimed.add(place)
        self.model.returned.discard(place)
        due_ms = self.model.coming.pop(place, None)
        if opened is not None and queue is not None:
            opened.due[place] = due_ms
            opened.late.append((queue, key, place))
        else:
            self.leaves([place])

    def place_of(self, queue: Queue | None, key: int) -> PLACE | None:
        """Tell which live message has this key."""
        if queue is None:
            return None
        if key in queue.transients:
            return queue.name, queue.transients[key].body
        if key > 0 and queue.index.is_live(key):
            return queue.name, self.read(queue.index.record_number(key)).body or b""
        return None

    def is_held(self, place: PLACE) -> bool:
        """Whether somebody has it, in delivery or in a transaction."""
        return any(place in each.held.values() for each in self.consumers) or any(
            place in held.values() for each in self.transactions for _, held in each.settled
        )

    def may_be_settled_late(self, place: PLACE | None) -> bool:
        """Whether it was delivered in this leadership and nobody has it now."""
        given_back = self.model.returned | self.model.coming.keys()
        return place in given_back & self.model.live - self.model.leaving

    @staticmethod
    def settled_by(consumer: Consumer, key: int) -> list[int]:
        if consumer.subscription.mode is AcknowledgeMode.INDIVIDUAL:
            return [key]
        return (keys := list(consumer.held))[: keys.index(key) + 1]

    def leaves(self, places: list[PLACE]) -> set[PLACE]:
        """Note that messages are settled with the gathering batch."""
        lasting = [place for place in places if place not in self.model.transient]
        self.model.settle([place for place in places if place in self.model.transient])
        self.model.leaving.update(lasting)
        self.effects.append(lambda: self.model.settle(lasting))
        return set(lasting)

    def gone(self, places: set[PLACE]) -> bytes:
        """Give a receipt that may come only when these messages are gone."""
        return self.receipt(lambda: not self.model.live & places)

    @precondition(lambda self: any(consumer.held for consumer in self.consumers))
    @rule(number=st.integers(0, 99))
    def reject(self, number: int) -> None:
        holders = [consumer for consumer in self.consumers if consumer.held]
        consumer = holders[number % len(holders)]
        key, place = next(iter(consumer.held.items()))
        if place[0] == "dead" or not self.is_one_of_several_at("dead", place):
            self.rejects(consumer, key, place)

    def rejects(self, consumer: Consumer, key: int, place: PLACE) -> None:
        queue = consumer.subscription.queue
        assert queue is not None
        record: MessageRecord | TransientMessage | None = queue.transients.get(key)
        if key > 0 and queue.index.is_live(key):
            record = self.read(queue.index.record_number(key))
        if place[0] == "dead":
            if key > 0:
                self.goes_back_where_it_is_dead(consumer, key, place)
                return
            record = None
        del consumer.held[key]
        receipt = self.gone(self.leaves([place]))
        if record is not None:
            self.model.seen.discard(("dead", place[1]))
            dead = self.model.sent("dead", place[1])
            self.arrives(dead)
        self.broker.reject(consumer.subscription, key, record, self, receipt)

    def is_one_of_several_at(self, name: str, place: PLACE) -> bool:
        """Whether another place of the same message is, or was, on a queue."""
        return place[1] in self.several and (name, place[1]) in self.model.order

    def goes_back_where_it_is_dead(self, consumer: Consumer, key: int, place: PLACE) -> None:
        """There is no other queue for it: it comes again, and is never lost."""
        due_ms = self.broker.returning.due_of(consumer.subscription, key, SILENT)
        assert due_ms is not None, "it would be dropped"
        if self.broker.state.format_level < RETURNS_LEVEL:
            assert due_ms == 0, "nobody could be told"
            self.gives_back([place])
        self.comes_again(consumer, key, place, due_ms)

    @precondition(
        lambda self: (
            self.broker.state.format_level >= RETURNS_LEVEL
            and any(consumer.held for consumer in self.consumers)
        )
    )
    @rule(number=st.integers(0, 99), delay_ms=st.sampled_from([0, 0, 5, 50]))
    def reject_for_now(self, number: int, delay_ms: int) -> None:
        """It comes again, and not before it is due; those behind it may go first."""
        holders = [consumer for consumer in self.consumers if consumer.held]
        consumer = holders[number % len(holders)]
        key, place = list(consumer.held.items())[number % len(consumer.held)]
        said = Rejection(True, delay_ms)
        due_ms = self.broker.returning.due_of(consumer.subscription, key, said)
        assert due_ms == (self.broker.returning.now_ms + delay_ms if delay_ms else 0)
        self.comes_again(consumer, key, place, due_ms)

    def comes_again(self, consumer: Consumer, key: int, place: PLACE, due_ms: int) -> None:
        del consumer.held[key]
        is_counted = self.broker.state.format_level >= RETURNS_LEVEL
        if is_counted and place in self.model.live - self.model.leaving:
            self.model.returned.discard(place)
            self.model.coming[place] = due_ms
            if key > 0:
                self.model.uncounted.add(place)
                self.effects.append(lambda: self.model.uncounted.discard(place))
        receipt = self.receipt(lambda: place not in self.model.uncounted)
        self.broker.give_back(consumer.subscription, key, due_ms, self, receipt)

    @rule(milliseconds=st.integers(1, 60))
    def time_passes(self, milliseconds: int) -> None:
        self.broker.sending.now_microseconds += 1000 * milliseconds
        self.broker.wake()

    # Transactions ---------------------------------------------------------------------------------

    @rule()
    def raise_the_level(self) -> None:
        self.broker.receipts.record(FormatRecord(NEWEST_LEVEL))

    @rule()
    def begin(self) -> None:
        self.transactions.append(OpenTransaction())

    def transaction(self, number: int) -> OpenTransaction:
        return self.transactions[number % len(self.transactions)]

    @precondition(lambda self: self.transactions)
    @rule(number=st.integers(0, 99), name=st.sampled_from(NAMES))
    def send_in_transaction(self, number: int, name: str) -> None:
        opened = self.transaction(number)
        body = self.body()
        queue = self.broker.queue(name)
        facts = self.model.facts_of(body)
        self.broker.hold(opened.transaction, queue, b"", body, persistent=True, facts=facts)
        opened.sends.append((name, body))

    @precondition(lambda self: self.transactions)
    @rule(number=st.integers(0, 99), names=st.sampled_from(SEVERAL))
    def send_to_all_in_transaction(self, number: int, names: tuple[str, ...]) -> None:
        opened = self.transaction(number)
        body = self.body()
        self.several.add(body)
        queues = [self.broker.queue(name) for name in names]
        before = opened.transaction.held_bytes
        cost = self.broker.hold_for_all(opened.transaction, queues, b"", body, persistent=True)
        assert cost == opened.transaction.held_bytes - before
        opened.sends += [(name, body) for name in names]

    @precondition(
        lambda self: self.transactions and any(consumer.held for consumer in self.consumers)
    )
    @rule(number=st.integers(0, 99), place=st.integers(0, 99))
    def acknowledge_in_transaction(self, number: int, place: int) -> None:
        opened = self.transaction(number)
        holders = [consumer for consumer in self.consumers if consumer.held]
        consumer = holders[number % len(holders)]
        key = list(consumer.held)[place % len(consumer.held)]
        keys = settled_by(consumer.subscription, key)
        assert keys == self.settled_by(consumer, key)
        opened.transaction.add_settlement(consumer.subscription, keys)
        opened.settled.append((consumer, {each: consumer.held.pop(each) for each in keys}))
        self.broker.refill(consumer.subscription)

    @precondition(lambda self: self.transactions)
    @rule(number=st.integers(0, 99))
    def commit_transaction(self, number: int) -> None:
        opened = self.transaction(number)
        self.transactions.remove(opened)
        places = [self.model.sent(name, body) for name, body in opened.sends]
        settled = [place for _, held in opened.settled for place in held.values()]
        settled += [place for _, _, place in opened.late]
        gone = self.leaves(settled)
        for place in places:
            self.effects.append(lambda place=place: self.model.store(place))
        receipt = self.receipt(
            lambda: set(places) <= self.model.stored and not gone & self.model.live
        )
        self.broker.commit(opened.transaction, self, receipt)

    @precondition(lambda self: self.transactions)
    @rule(number=st.integers(0, 99))
    def abort_transaction(self, number: int) -> None:
        opened = self.transaction(number)
        self.transactions.remove(opened)
        deque(self.broker.abort(opened.transaction), maxlen=0)
        for consumer, held in reversed(opened.settled):
            if consumer in self.consumers:
                consumer.held = {**held, **consumer.held}
            else:
                self.gives_back(list(held.values()))
        for queue, key, place in opened.late:
            back = queue.custody.comebacks
            if queue.is_withheld(key) or (back and key in back.under_way):  # It is yet to come.
                self.model.coming[place] = queue.returned_so_far(key).due_ms
            elif key in queue.choice.returned:
                self.gives_back([place])
            elif place in self.model.uncounted:  # It is still on its way back.
                self.model.coming[place] = opened.due[place] or 0

    # Operators ------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(QUEUES), is_whole=st.booleans())
    def purge_or_delete(self, name: str, *, is_whole: bool) -> None:
        found = self.broker.destinations.find(name)
        if found is None or (is_whole and found[1] is not None and found[1].subscriptions):
            operation = self.broker.delete if is_whole else self.broker.purge
            with pytest.raises(DestinationError):
                operation(name, self, b"refused")
            return
        places = self.model.of(name)
        self.model.returned.difference_update(places)
        # What leaves before may be moved back here behind this.
        before = set(self.model.leaving)
        receipt = self.gone(self.leaves(places) - before)
        if is_whole:
            self.broker.delete(name, self, receipt)
        else:
            self.broker.purge(name, self, receipt)

    @rule(index=st.integers(0, 5))
    def keep_log(self, index: int) -> None:
        self.broker.keep_log(HoldRecord("archive", index, 9), self, self.receipt(lambda: True))

    @precondition(lambda self: self.broker.moving.is_possible)
    @rule(
        name=st.sampled_from(QUEUES),
        to=st.sampled_from((*QUEUES, "")),
        picks=st.lists(st.integers(0, 9), max_size=4),
    )
    def move(self, name: str, to: str, picks: list[int]) -> None:
        """Some of what nobody has goes to another queue, or nowhere."""
        if name == to or not self.broker.destinations.has_queue(name):
            return
        moving, queue = self.broker.moving, self.broker.destinations.existing(name)
        keys = list(queue.index.sequences(1, queue.lasting.next_sequence))
        keys = [keys[pick] for pick in sorted({pick for pick in picks if pick < len(keys)})]
        keys = [key for key in keys if moving.is_at_hand(queue, key)]
        keys = [key for key in keys if not moving.is_closed(queue, key)]
        found = {key: self.place_of(queue, key) for key in keys}
        keys = [key for key, it in found.items() if it and not self.is_one_of_several_at(to, it)]
        if not keys:
            return
        places = [found[key] for key in keys]
        receipt = self.gone(self.leaves([place for place in places if place is not None]))
        self.model.returned.difference_update(places)
        self.model.overtaken.update(place for place in places if place is not None)
        for place in places:
            self.model.coming.pop(place, None)  # type: ignore[arg-type]
        targets = [self.broker.queue(to)] if to else []
        moving.take(queue, targets, keys, Cause.MOVED, moved_at=7)
        moving.keep_from_all(queue, keys)
        for place in places:
            assert place is not None, "it is at hand"
            if to:
                self.model.seen.discard((to, place[1]))  # Who stood there before is gone.
                self.arrives(self.model.sent(to, place[1]))
        self.broker.receipts.reply_with_batch(self, receipt)

    def arrives(self, place: PLACE) -> None:
        """It has an id of its own there, whatever it has been through, also there."""
        # What stood here before is gone, or nothing could come back; this one may leave at once.
        self.model.leaving.discard(place)
        self.model.transient.discard(place)  # Another one was, which is a dead letter since.

        def arrive() -> None:
            model = self.model
            model.store(place)
            for each in (model.seen, model.claimed, model.overtaken):
                each.discard(place)

        self.effects.append(arrive)

    # The log --------------------------------------------------------------------------------------

    @rule()
    def seal(self) -> None:
        if not self.broker.receipts.has_batch():
            return
        batch = self.broker.receipts.take_batch()
        body = b"".join(encode_records(batch.records))
        self.log[self.next_index] = (self.next_record, self.next_index, body)
        for record in decode_records(body):
            self.records[self.next_record] = record
            self.next_record += 1
        self.under_way.append((self.next_index, batch, self.effects))
        self.effects = []
        self.next_index += 1

    @precondition(lambda self: self.under_way)
    @rule()
    def commit(self) -> None:
        index, batch, effects = self.under_way.popleft()
        first, timestamp, _ = self.log[index]
        self.broker.apply_batch(batch, first, timestamp)
        self.applied(index, effects)
        for replier, receipt in batch.replies:
            replier.reply(receipt)

    def applied(self, index: int, effects: list[Effect]) -> None:
        self.applied_index = index
        for record in decode_records(self.log[index][2], with_content=False):
            if isinstance(record, ForgetProducerRecord):
                self.forget(record.producer_id)
        for effect in effects:
            effect()
        for each in [each for each in self.log if each <= self.broker.state.cleaned_through]:
            first, _, body = self.log.pop(each)
            for number, _ in enumerate(decode_records(body), start=first):
                del self.records[number]

    def forget(self, producer: str) -> None:
        """An idle producer begins anew with 1, unless it has woken up meanwhile."""
        last = self.model.last.get(producer, 0)
        if self.assigned.get(producer, last) == last:
            self.model.last.pop(producer, None)
            self.assigned.pop(producer, None)

    @rule()
    def dispatch(self) -> None:
        given_back = dict.fromkeys(QUEUES, 0)
        deliveries = (each for step in self.broker.dispatch() for each in step)
        for subscription, key, message, record_number, flagged in deliveries:
            consumer = subscription.receiver
            assert consumer in self.consumers
            queue = subscription.queue
            assert queue is not None
            assert queue.lasting.may_be_sent(key), "above the mark"
            content = message or self.read(record_number)
            assert isinstance(content, MessageRecord | TransientMessage)
            assert content.body is not None
            place = (queue.name, content.body)
            assert not self.is_held(place)
            assert not any(place == late for each in self.transactions for _, _, late in each.late)
            returned = queue.returned_so_far(key)
            if key > 0 and returned.attempts:
                assert flagged == max(2, returned.attempts + 1), "it is told as it is counted"
            assert returned.due_ms <= self.broker.returning.now_ms, f"{place} rests"
            if place in self.model.coming:
                assert flagged, f"{place} comes again and does not say so"
                assert place not in self.model.uncounted, f"{place} came before the log said so"
                assert self.broker.returning.now_ms >= self.model.coming[place], "it rests"
            else:
                self.check_order(subscription, place, given_back)
            self.model.delivered(place, flagged=flagged > 0)
            if subscription.mode is AcknowledgeMode.AUTO:
                self.leaves([place])
            else:
                consumer.held[key] = place
                assert len(subscription.unacknowledged) <= self.prefetch_of(subscription)

    def prefetch_of(self, subscription: Subscription) -> int:
        """Give how much somebody may have."""
        return subscription.prefetch

    def check_order(
        self, subscription: Subscription, place: PLACE, given_back: dict[str, int]
    ) -> None:
        """What was given back goes first, in its old order."""
        name, order = place[0], self.model.order[place]
        if place in self.model.returned:
            assert order > given_back[name], "given back, and out of order"
            given_back[name] = order
        else:
            assert not any(each == name for each, _ in self.model.returned), "overtaken"

    def read(self, record_number: int) -> MessageRecord:
        record = self.records[record_number]
        assert isinstance(record, MessageRecord)
        return record

    def read_move(self, record_number: int) -> MoveRecord:
        record = self.records[record_number]
        assert isinstance(record, MoveRecord)
        return record

    @precondition(lambda self: self.log and min(self.log) <= self.applied_index)
    @rule(count=st.integers(1, 4))
    def clean(self, count: int) -> None:
        """Write again what lives in the oldest entries, so that they may go."""
        if self.finishing is not None:
            self.finish_cleaning(*self.finishing)
            return
        start = max(min(self.log), self.cleaning_through + 1)
        through = min(start + count - 1, self.applied_index)
        if through < start:
            return
        copies: list[Record] = []
        last_record = 0
        for index in range(start, through + 1):
            first, timestamp, body = self.log[index]
            for number, record in enumerate(decode_records(body), start=first):
                last_record = number
                if isinstance(record, MessageRecord):
                    wanted: dict[int, set[int]] = {}
                    for queue_number, sequence in record.places:
                        wanted.setdefault(queue_number, set()).add(sequence)
                    under_way = on_the_way(self.broker, wanted)
                    copies += live_copies(self.broker, record, number, timestamp, under_way)
        self.broker.receipts.add_records(copies)
        moved = MovedContents(self.broker, self, last_record)  # type: ignore[arg-type]
        self.finish_cleaning(through, last_record, moved)

    def finish_cleaning(self, through: int, last_record: int, moved: MovedContents) -> None:
        """Write again what was moved, once what is being moved now is applied; then the rest."""
        self.finishing = (through, last_record, moved)
        for _ in range(20):
            copies = moved.step(lambda: False)
            if copies is None:
                break
            self.broker.receipts.add_records(copies)
        else:
            return
        for piece in homeless(self.broker, last_record, self.broker.state.timestamp):
            self.broker.receipts.add_records(piece)
        self.broker.receipts.record(CleanedRecord(through))
        self.broker.moving.closed_through = 0
        self.cleaning_through = through
        self.finishing = None

    # Checkpoints ----------------------------------------------------------------------------------

    @precondition(lambda self: self.snapshot is None)
    @rule()
    def begin_checkpoint(self) -> None:
        """Take the state of now; what comes after must not be in it."""
        state = self.broker.state
        self.snapshot = state.snapshot = Snapshot(state)
        self.expected = digest_of(state)

    @precondition(lambda self: self.snapshot is not None)
    @rule(work=st.integers(1, 3))
    def go_on_with_checkpoint(self, work: int) -> None:
        """Write some of it down."""
        assert self.snapshot is not None
        if self.snapshot.step(work):
            written = decode_state(b"".join(self.snapshot.parts), SETTINGS)
            assert digest_of(written) == self.expected
            self.snapshot = self.broker.state.snapshot = None

    # Failures -------------------------------------------------------------------------------------

    @rule(survivors=st.integers(0, 5), way=st.sampled_from(["log", "checkpoint", "same", "same"]))
    def change_leader(self, survivors: int, way: str) -> None:
        """Keep a prefix of what was under way; the rest was never promised to anybody."""
        if way == "log":
            state = self.replayed()
        elif way == "checkpoint":
            state = decode_state(b"".join(encode_state(self.broker.state)), SETTINGS)
        else:
            state = self.broker.state
        broker = self.broker if way == "same" else Broker(SETTINGS, state)
        broker.follow()
        broker.sending.now_microseconds = self.broker.sending.now_microseconds
        self.broker = broker
        self.snapshot = broker.state.snapshot
        self.model.changes_leader()
        self.consumers.clear()
        self.transactions.clear()
        kept = list(self.under_way)[:survivors]
        self.under_way.clear()
        self.effects = []
        for index, _, effects in kept:
            first, timestamp, body = self.log[index]
            broker.apply_entry(first, decode_records(body, with_content=False), timestamp)
            self.applied(index, effects)
        for index in [index for index in self.log if index > self.applied_index]:
            first, _, body = self.log.pop(index)
            for number, _ in enumerate(decode_records(body), start=first):
                del self.records[number]
        self.next_index = self.applied_index + 1
        self.next_record = max(self.records, default=self.next_record - 1) + 1
        self.assigned.clear()
        self.checks.clear()
        self.cleaning_through = 0
        self.finishing = None
        broker.lead()
        for lasting in broker.state.queues.values():
            for key in lasting.index.sequences(1, lasting.next_sequence):
                due_ms = lasting.index.returned(key).due_ms
                if due_ms:  # It rests on, or has rested: in either case it comes at its old place.
                    body = self.read(lasting.index.record_number(key)).body or b""
                    self.model.coming[lasting.name, body] = due_ms
        known = broker.state.producers.by_id
        self.model.last = {each: last for each, last in self.model.last.items() if each in known}

    def replayed(self) -> BrokerState:
        """Give the state of a node that was sent the log from its first kept entry."""
        state = BrokerState(SETTINGS)
        for index in sorted(self.log):
            if index <= self.applied_index:
                first, timestamp, body = self.log[index]
                state.apply(first, decode_records(body, with_content=False), timestamp)
        return state

    # What is always true --------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost_and_nothing_comes_back(self) -> None:
        """The queues hold exactly what lives."""
        for name in QUEUES:
            halves = self.broker.destinations.find(name)
            live = {place for place in self.model.live if place[0] == name}
            if halves is None or not halves[0].is_declared:
                continue
            lasting, queue = halves
            keys = list(lasting.index.sequences(1, lasting.next_sequence))
            bodies = [self.read(lasting.index.record_number(key)).body for key in keys]
            assert {(name, body) for body in bodies} == live - self.model.transient
            for key, body in zip(keys, bodies, strict=True):
                assert lasting.index.group_hash(key) == self.model.groups.get(body or b"", 0)
            if queue is None:
                continue
            freed = self.being_freed(queue)
            transient = {(name, message.body) for message in queue.transients.values()}
            assert transient - freed == live & self.model.transient
            assert not freed & live

    def being_freed(self, queue: Queue) -> set[PLACE]:
        """Give the non-persistent messages that a commit has settled and an errand yet frees."""
        open_keys = {
            key
            for each in self.transactions
            for subscription, keys in each.transaction.settlements.items()
            if subscription.queue is queue
            for key in keys
        }
        open_keys.update(*(each.transaction.late.get(queue, ()) for each in self.transactions))
        kept = queue.custody.reserved & queue.transients.keys() - open_keys
        assert not kept or self.broker.errands, "nobody has these, and nobody will free them"
        return {(queue.name, queue.transients[key].body) for key in kept}

    @invariant()
    def memory_is_accounted_for(self) -> None:
        """What is in memory is what is counted, and within the limit but for transients."""
        flow, lead = self.broker.flow, self.broker.destinations.leadership
        halves = [*lead.by_name.values(), *lead.plans.values(), *lead.leaving.values()]
        queues = {id(queue): queue for queue in halves}
        stored = [record for queue in queues.values() for record in queue.cache.values()]
        transient = [each for queue in queues.values() for each in queue.transients.values()]
        discarded = list(flow.discards.contents())
        cost = sum(each.size + flow.overhead for each in (*stored, *transient, *discarded))
        assert flow.memory_bytes == cost or (flow.discards._later and flow.memory_bytes > cost)
        for queue in queues.values():
            assert queue.transient_bytes == sum(it.size for it in queue.transients.values())
        under_way = sum(batch.size_bytes for _, batch, _ in self.under_way)
        assert (
            self.broker.receipts.uncommitted_bytes
            == under_way + self.broker.receipts.batch.size_bytes
        )
        held = sum(each.transaction.held_bytes for each in self.transactions)
        assert self.broker.flow.held_bytes == held
        sends = [body for each in self.transactions for _, body in each.sends]
        assert held >= len(sends) * flow.overhead

    @invariant()
    def sums_are_over_all_queues(self) -> None:
        """What is told of all queues together is what each of them says."""
        state = self.broker.state
        queues = state.queues.values()
        assert state.live_count() == sum(queue.index.live_count for queue in queues)
        assert state.live_bytes() == sum(queue.index.live_bytes for queue in queues)

    @invariant()
    def equal_logs_give_equal_states(self) -> None:
        """A node that has only what is kept of the log knows the same."""
        assert digest_of(self.replayed()) == digest_of(self.broker.state)

    @rule(count=st.integers(1, 5))
    def let_go(self, count: int) -> None:
        """Do some steps of freeing what a purge, a deletion or a leadership's end has left."""
        left = iter(range(count - 1))
        self.broker.let_go(lambda: next(left, None) is None)

    @rule(count=st.integers(1, 5))
    def run_errands(self, count: int) -> None:
        """Do some steps of giving back what somebody who is gone held."""
        left = iter(range(count - 1))
        self.broker.errands.run(lambda: next(left, None) is None)

    @rule()
    def turn(self) -> None:
        """What a quick disk does: everything at once."""
        self.seal()
        while self.under_way:
            self.commit()
        self.broker.errands.finish()
        self.dispatch()

    def check(self) -> None:
        self.nothing_is_lost_and_nothing_comes_back()
        self.memory_is_accounted_for()
        self.sums_are_over_all_queues()
        self.equal_logs_give_equal_states()

    def teardown(self) -> None:
        """Everything that lives is delivered to somebody who comes at last, and then it is over."""
        for consumer in list(self.consumers):
            self.consumers.remove(consumer)
            self.broker.unsubscribe(consumer.subscription)
            self.gives_back(list(consumer.held.values()))
        while self.transactions:
            self.abort_transaction(0)
        for name in QUEUES:
            self.subscribe(name, AcknowledgeMode.AUTO, 1)
        for _ in range(200):
            self.time_passes(50)
            self.seal()
            while self.under_way:
                self.commit()
            self.broker.errands.finish()
            self.dispatch()
            if (
                not self.broker.receipts.has_batch()
                and not self.broker.destinations.leadership.alarms
            ):
                break
        assert not self.model.live
        self.broker.let_go(lambda: False)
        assert self.broker.flow.memory_bytes == 0
        assert self.broker.receipts.uncommitted_bytes == 0
        assert not self.checks
