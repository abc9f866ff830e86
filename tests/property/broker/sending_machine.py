"""
What the broker is sent in its property test, and what must be true of it: see `broker_machine`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.snapshot import Snapshot
from holdfast.broker.outputs import Batch
from holdfast.errors import SequenceGapError
from holdfast.model.records import Record
from holdfast.server.moved_contents import MovedContents
from tests.property.broker.clients import SETTINGS, Consumer, OpenTransaction
from tests.property.broker.expected import NAMES, SEVERAL, Model

Effect = Callable[[], None]


class SendingMachine(RuleBasedStateMachine):
    """A leader, its log, its clients, and the model beside it: what they send."""

    id = sent_as = ""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.broker = Broker(SETTINGS)
        self.broker.lead()
        self.log: dict[int, tuple[int, int, bytes]] = {}
        """Index to first record, timestamp, body of the entries that are kept."""
        self.records: dict[int, Record] = {}
        self.snapshot: Snapshot | None = None
        """A checkpoint that is being written down."""
        self.expected = b""
        """The digest of the state that it is of."""
        self.next_index = 1
        self.next_record = 1
        self.effects: list[Effect] = []
        self.under_way: deque[tuple[int, Batch, list[Effect]]] = deque()
        self.applied_index = 0
        self.cleaning_through = 0
        self.finishing: tuple[int, int, MovedContents] | None = None
        """A part of the log that was gone through, and may not go yet."""
        self.consumers: list[Consumer] = []
        self.transactions: list[OpenTransaction] = []
        self.assigned: dict[str, int] = {}
        self.checks: dict[bytes, Callable[[], bool]] = {}
        self.count = 0
        self.several: set[bytes] = set()
        """What was sent to several queues: the model tells a message by its queue and its body, so
        none of it goes where another one of it is, or was."""

    # Replies --------------------------------------------------------------------------------------

    def reply(self, receipt: bytes) -> None:
        assert self.checks.pop(receipt)(), f"{receipt!r} was confirmed too early"

    def receipt(self, check: Callable[[], bool]) -> bytes:
        self.count += 1
        self.checks[b"%d" % self.count] = check
        return b"%d" % self.count

    def body(self) -> bytes:
        self.count += 1
        return b"message %d" % self.count

    # Sending --------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 4))
    def send(self, name: str, count: int) -> None:
        for _ in range(count):
            place = self.model.sent(name, self.body())
            receipt = self.receipt(lambda place=place: place in self.model.stored)
            facts = self.model.facts_of(place[1])
            queue = self.broker.queue(name)
            self.broker.send(queue, b"h:1\n", place[1], self, receipt, facts=facts)
            self.effects.append(lambda place=place: self.model.store(place))

    @rule(name=st.sampled_from(NAMES))
    def send_transient(self, name: str) -> None:
        place = self.model.sent(name, self.body())
        facts = self.model.facts_of(place[1])
        self.broker.send_transient(self.broker.queue(name), b"", place[1], facts)
        self.model.transient.add(place)
        self.model.live.add(place)

    @rule(name=st.sampled_from(NAMES), producer=st.sampled_from("pq"), step=st.integers(-2, 2))
    def send_numbered(self, name: str, producer: str, step: int) -> None:
        last = self.assigned.get(producer, self.model.last.get(producer, 0))
        number = last + step
        if number < 1:
            return
        place = (name, self.body())
        queue = self.broker.queue(name)
        if step == 2:
            with pytest.raises(SequenceGapError):
                self.broker.send(queue, b"", place[1], self, b"gap", producer, number)
            return
        receipt = self.receipt(lambda: self.model.last.get(producer, 0) >= number)
        self.broker.send(queue, b"", place[1], self, receipt, producer, number)
        if step == 1:
            self.assigned[producer] = number
            self.model.sent(*place)
            self.effects.append(lambda: self.model.store(place))
            self.effects.append(lambda: self.model.last.update({producer: number}))

    @rule(names=st.sampled_from(SEVERAL), producer=st.sampled_from("pq-"), step=st.integers(0, 2))
    def send_to_all(self, names: tuple[str, ...], producer: str, step: int) -> None:
        """One message for several queues: on all of them, or nowhere."""
        identity = None if producer == "-" else producer
        last = self.assigned.get(producer, self.model.last.get(producer, 0))
        number = 0 if identity is None else last + step
        if identity is not None and number < 1:
            return
        queues, body = [self.broker.queue(name) for name in names], self.body()
        self.several.add(body)

        def send(receipt: bytes) -> None:
            told = (self, receipt)
            facts = self.model.facts_of(body)
            self.broker.send_to_all(
                queues, b"", body, told, identity, number, persistent=True, facts=facts
            )

        if identity is not None and step == 2:
            with pytest.raises(SequenceGapError):
                send(b"gap")
            return
        if identity is not None and step == 0:
            send(self.receipt(lambda: self.model.last.get(producer, 0) >= number))
            return
        places = [self.model.sent(name, body) for name in names]
        send(self.receipt(lambda: self.model.stored.issuperset(places)))
        self.effects += [lambda place=place: self.model.store(place) for place in places]
        if identity is not None:
            self.assigned[producer] = number
            self.effects.append(lambda: self.model.last.update({producer: number}))
