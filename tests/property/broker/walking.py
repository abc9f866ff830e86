"""
A long walk of a machine whose consumers say something of themselves, by weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.property.broker.claim_machine import ClaimMachine
from tests.property.broker.expected import QUEUES
from tests.property.broker.test_broker_model import arguments, is_possible


def walk(
    machine: ClaimMachine,
    random: Random,
    weights: Mapping[str, float],
    says: Callable[[], dict[str, object]],
) -> None:
    """Take 120 steps, checking now and then, and come to rest; each SUBSCRIBE `says` more."""
    for step in range(120):
        (name,) = random.choices(list(weights), list(weights.values()))
        if is_possible(machine, name):
            if name == "browse":
                machine.browse(random.choice(QUEUES))
            elif name in {"deadlines_pass", "come_to_rest"}:
                getattr(machine, name)()
            else:
                said = arguments(name, random)
                more = says() if name == "subscribe" else {}
                getattr(machine, name)(**said, **more)
        if step % 8 == 0:
            machine.check()
    machine.come_to_rest()
    machine.check()
    machine.teardown()
