"""
Queues that are paused and go on, against the model of consumers that are not equal.

While the log says that a queue is paused nobody gets anything of it; when it says so no more, what
may go to somebody goes. Whatever else happens: leaders change, consumers come and die.
"""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.pausing import Pausing
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.records import PolicyRecord
from tests.property.broker.claim_machine import CLAIMS, ClaimMachine
from tests.property.broker.expected import QUEUES
from tests.property.broker.test_claims_model import CLAIMING
from tests.property.broker.walking import walk

SAID_EACH = 0.12


class PausingMachine(ClaimMachine):
    """A leader and clients, and an operator who pauses queues and lets them go on."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self.random = random

    def turn(self) -> None:
        """Before some turns something else is said of a queue, or of all."""
        if self.random.random() < SAID_EACH:
            self.say(self.random.choice(["*", *QUEUES]), self.random.choice(["true", "false", ""]))
        super().turn()

    def say(self, pattern: str, paused: str) -> None:
        values = json.dumps({"paused": paused}) if paused else ""
        self.broker.receipts.record(PolicyRecord(f"queue://{pattern}", values))

    def dispatch(self) -> None:
        """What was changed is looked at first, as the loop does it."""
        if self.broker.pausing.has_any:
            self.broker.pausing.step()
        super().dispatch()

    def is_paused(self, queue: Queue) -> bool:
        """Say by the log alone whether it is: the exact word before that of all."""
        for pattern in (f"queue://{queue.name}", "queue://*"):
            for record in self.broker.state.policies.by_key.values():
                if record.pattern == pattern and record.values:
                    return json.loads(record.values)["paused"] == "true"
        return False

    def check_turn(self, subscription: Subscription, key: int) -> None:
        assert subscription.queue is not None
        assert not self.is_paused(subscription.queue), "nobody may have any of it"
        super().check_turn(subscription, key)

    def of(self, queue: Queue) -> list[Subscription]:
        """Give who may get anything of a queue."""
        return [] if self.at_rest and self.is_paused(queue) else super().of(queue)

    at_rest = False

    def come_to_rest(self) -> None:
        """What may go does, but of paused queues."""
        for _ in range(self.TURNS):
            self.turn()
        said, self.random = self.random, Random(1)
        self.random.random = lambda: 1.0  # type: ignore[method-assign]
        self.at_rest = True
        super().come_to_rest()
        self.at_rest, self.random = False, said

    def teardown(self) -> None:
        """All go on at the end."""
        for pattern in ("*", *QUEUES):
            self.say(pattern, "")
        super().teardown()


def walked(seed: int) -> None:
    random = Random(seed)
    machine = PausingMachine(random)
    walk(machine, random, CLAIMING, lambda: {"claim": random.choice(CLAIMS)})


@given(seed=st.integers(0, 1 << 32))
def test_nobody_gets_anything_of_a_paused_queue_and_all_goes_on_after_it(seed: int) -> None:
    """By what the log says, whoever leads."""
    walked(seed)


def test_one_that_is_forgotten_when_it_goes_on_is_found_out(monkeypatch) -> None:
    """The ablation: paused queues are not remembered, so nothing gives them their turn again."""
    is_paused = Pausing.is_paused

    def forgets(pausing: Pausing, queue: Queue) -> bool:
        found = is_paused(pausing, queue)
        pausing._destinations.leadership.paused.clear()
        return found

    monkeypatch.setattr(Pausing, "is_paused", forgets)
    with pytest.raises(AssertionError):
        for seed in range(40):
            walked(seed)
