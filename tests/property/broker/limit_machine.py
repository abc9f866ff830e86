"""
The broker against its model with consumers that may have each message for so long only; see
`broker_machine`.

Beside what is true of all deliveries: what was in delivery for longer is taken, and nothing else
is; whoever had it may say late that it is done. It comes again or is dead, as a rejected one.
"""

from __future__ import annotations

from holdfast.broker.returning import SILENT
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.model.format_level import FACTS_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from tests.property.broker.broker_machine import BrokerMachine, Consumer
from tests.property.broker.expected import PLACE

LIMIT_MS = 1_000
POLICY = (
    '{"deliverySecondsMax":1,"maximumRedeliveries":2,"initialRedeliveryDelay":%d,"suspectAfter":%d}'
)


class Limited(Consumer):
    """One from which messages are taken."""

    def __init__(
        self, machine: LimitMachine, name: str, mode: AcknowledgeMode, prefetch: int
    ) -> None:
        super().__init__(name, mode, prefetch)
        self.machine = machine
        self.since: dict[int, int] = {}
        """By key: what time it was when it came."""

    def overdue(self, _subscription: object, keys: list[int]) -> None:
        for key in keys:
            self.machine.taken(self, key)


class LimitMachine(BrokerMachine):
    """A leader whose policy has a limit, and slow clients."""

    def __init__(self, delay_ms: int = 0) -> None:
        super().__init__()
        self.passed_ms = 0
        self.taken_count = 0
        self.broker.sending.now_microseconds = 1
        self.broker.returning.look_at_the_clock()
        self.broker.receipts.record(FormatRecord(FACTS_LEVEL))
        self.broker.receipts.record(PolicyRecord("queue://>", POLICY % (delay_ms, 0)))
        self.turn()

    def subscribe(self, name: str, mode: AcknowledgeMode, prefetch: int) -> None:
        consumer = Limited(self, name, mode, prefetch)
        self.consumers.append(consumer)
        self.broker.subscribe(consumer.subscription, self.broker.queue(name))
        limit_ms = LIMIT_MS if mode is AcknowledgeMode.INDIVIDUAL else 0
        assert consumer.subscription.delivery_ms_max == limit_ms

    def taken(self, consumer: Limited, key: int) -> None:
        """It is as if its consumer had rejected it now."""
        self.taken_count += 1
        assert self.passed_ms - consumer.since.pop(key) >= LIMIT_MS, "it was taken too early"
        place: PLACE = consumer.held[key]
        due_ms = self.broker.returning.due_of(consumer.subscription, key, SILENT)
        if due_ms is None or (place[0] == "dead" and key > 0 and not due_ms):
            self.rejects(consumer, key, place)
        else:
            self.comes_again(consumer, key, place, due_ms)

    def note_times(self) -> None:
        """Whatever somebody has now and did not have before is in delivery from now on."""
        for consumer in self.consumers:
            assert isinstance(consumer, Limited)
            since = consumer.since
            consumer.since = {key: since.get(key, self.passed_ms) for key in consumer.held}

    def dispatch(self) -> None:
        self.note_times()
        super().dispatch()
        self.note_times()

    def reject_for_now(self, number: int, delay_ms: int) -> None:
        super().reject_for_now(number, delay_ms)
        self.note_times()  # It may come to the same one again.

    def acknowledge_in_transaction(self, number: int, place: int) -> None:
        super().acknowledge_in_transaction(number, place)
        self.note_times()

    def abort_transaction(self, number: int) -> None:
        super().abort_transaction(number)
        self.note_times()

    def time_passes(self, milliseconds: int) -> None:
        milliseconds *= 15
        self.passed_ms += milliseconds
        super().time_passes(milliseconds)
        for consumer in self.consumers:
            assert isinstance(consumer, Limited)
            late = [key for key in consumer.held if self.is_late(consumer, key)]
            assert not late, f"{late} are in delivery for too long"

    def is_late(self, consumer: Limited, key: int) -> bool:
        limit_ms = consumer.subscription.delivery_ms_max
        return bool(limit_ms) and self.passed_ms - consumer.since[key] >= limit_ms

    def late_word(self, number: int, *, is_open: bool) -> None:
        """Somebody from whom a message was taken is done with it after all."""
        slow = [it for it in self.consumers if it.subscription.overdue]
        if not slow:
            return
        consumer = slow[number % len(slow)]
        overdue = consumer.subscription.overdue
        assert overdue
        key = [*overdue][number % len(overdue)]
        assert consumer.subscription.answered(key)
        self.broker.refill(consumer.subscription)
        self.acknowledge_by_guess(consumer.queue, key, 11, is_open=is_open)

    def change_leader(self, survivors: int, way: str) -> None:
        super().change_leader(survivors, way)
        self.broker.returning.look_at_the_clock()
