"""
The broker against a small model, walked at random, and far by weights; see `broker_machine`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.model.format_level import RETURNS_LEVEL
from tests.property.broker.broker_machine import BrokerMachine
from tests.property.broker.expected import NAMES, QUEUES, SEVERAL

STEPS = {
    **dict.fromkeys(("send", "send_transient", "send_numbered", "subscribe"), 1.0),
    **dict.fromkeys(
        ("acknowledge", "acknowledge_by_guess", "turn", "seal", "commit", "dispatch"), 1.0
    ),
    **dict.fromkeys(("consumer_dies", "reject", "begin", "send_in_transaction"), 0.4),
    **dict.fromkeys(("acknowledge_in_transaction", "commit_transaction"), 0.4),
    **dict.fromkeys(("abort_transaction", "clean"), 0.4),
    **dict.fromkeys(("reject_for_now", "time_passes", "raise_the_level"), 0.3),
    "move": 0.4,
    **dict.fromkeys(("purge_or_delete", "keep_log", "change_leader"), 0.15),
    **dict.fromkeys(("let_go", "run_errands", "begin_checkpoint", "go_on_with_checkpoint"), 0.4),
    # Last, and only where a story asks for them: so old examples stay what they are.
    **dict.fromkeys(("send_to_all", "send_to_all_in_transaction"), 0.0),
}
"""How often each step is taken, unless its story says otherwise."""

STORIES = {
    "returns": {
        "raise_the_level": 2,
        "reject_for_now": 5,
        "time_passes": 2,
        "consumer_dies": 2,
        "send": 4,
        "subscribe": 3,
        "turn": 5,
        "seal": 2,
        "commit": 2,
        "dispatch": 2,
        "change_leader": 0.5,
        "clean": 2,
        "acknowledge_by_guess": 1,
    },
    "returns and late words": {
        "raise_the_level": 2,
        "reject_for_now": 6,
        "time_passes": 1,
        "consumer_dies": 1,
        "send": 4,
        "subscribe": 3,
        "turn": 8,
        "dispatch": 3,
        "begin": 4,
        "abort_transaction": 4,
        "commit_transaction": 1,
        "acknowledge_by_guess": 14,
        "run_errands": 1,
    },
    "cleaning": {"clean": 4, "send": 3, "acknowledge": 4, "turn": 4, "seal": 3, "commit": 2},
    "failures": {"change_leader": 1, "send": 4, "turn": 5, "acknowledge": 3, "seal": 2},
    "transactions": {
        "begin": 2,
        "send_in_transaction": 4,
        "acknowledge_in_transaction": 6,
        "turn": 5,
        "commit_transaction": 3,
        "abort_transaction": 3,
        "acknowledge": 4,
        "send": 4,
    },
    "moves": {
        "raise_the_level": 0.5,
        "move": 8,
        "clean": 5,
        "send": 5,
        "turn": 2,
        "seal": 3,
        "commit": 3,
        "acknowledge": 2,
    },
    "several destinations": {
        "raise_the_level": 1,
        "send_to_all": 6,
        "send_to_all_in_transaction": 4,
        "begin": 2,
        "commit_transaction": 2,
        "subscribe": 3,
        "acknowledge": 5,
        "clean": 4,
        "turn": 4,
        "seal": 2,
        "commit": 2,
        "move": 1,
        "change_leader": 0.5,
        "reject_for_now": 2,
    },
    "operators": {"purge_or_delete": 3, "clean": 3, "keep_log": 2, "seal": 3, "send": 5, "turn": 2},
}
"""What happens often; everything else happens now and then."""


def arguments(name: str, random: Random) -> dict[str, object]:
    """Choose what a step of the machine wants."""
    number = random.randrange(100)
    names = random.choice(NAMES)
    return {
        "send": {"name": names, "count": random.randint(1, 4)},
        "send_transient": {"name": names},
        "send_to_all": _for_several(number),
        "send_to_all_in_transaction": {"number": number, "names": SEVERAL[number % 3]},
        "send_numbered": {
            "name": names,
            "producer": random.choice("pq"),
            "step": random.choice((1, 1, 1, 0, -1, 2)),
        },
        "subscribe": {
            "name": random.choice((*QUEUES, "a")),
            "mode": random.choice(list(AcknowledgeMode)),
            "prefetch": random.randint(1, 6),
        },
        "consumer_dies": {"number": number},
        "acknowledge": {
            "number": number,
            "place": random.randrange(100),
        },
        "acknowledge_by_guess": {
            "name": random.choice(QUEUES),
            "guess": random.randint(-8, 40),
            "number": number,
            "is_open": random.random() < 0.5,
        },
        "reject": {"number": number},
        "reject_for_now": {"number": number, "delay_ms": random.choice((0, 0, 5, 50))},
        "time_passes": {"milliseconds": random.randint(1, 60)},
        "raise_the_level": {},
        "begin": {},
        "send_in_transaction": {"number": number, "name": names},
        "acknowledge_in_transaction": {"number": number, "place": random.randrange(100)},
        "commit_transaction": {"number": number},
        "abort_transaction": {"number": number},
        "purge_or_delete": {"name": random.choice(QUEUES), "is_whole": bool(number % 2)},
        "keep_log": {"index": number % 6},
        "move": {
            "name": random.choice(QUEUES),
            "to": random.choice((*QUEUES, "")),
            "picks": random.sample(range(10), 4),
        },
        "seal": {},
        "commit": {},
        "dispatch": {},
        "begin_checkpoint": {},
        "go_on_with_checkpoint": {"work": random.randint(1, 3)},
        "let_go": {"count": random.randint(1, 5)},
        "run_errands": {"count": random.randint(1, 5)},
        "turn": {},
        "clean": {"count": random.randint(1, 4)},
        "change_leader": {
            "survivors": random.choice((0, 0, 1, 2, 5)),
            "way": random.choice(("log", "checkpoint", "same")),
        },
    }[name]


def _for_several(number: int) -> dict[str, object]:
    """Choose by this number alone, so that older steps of an example stay what they are."""
    return {
        "names": SEVERAL[number % 3],
        "producer": "pq-"[number // 3 % 3],
        "step": (1, 1, 1, 0, 2)[number // 9 % 5],
    }


def is_possible(machine: BrokerMachine, name: str) -> bool:
    """Whether there is anything for a step to work on."""
    needs = {
        "consumer_dies": bool(machine.consumers),
        "acknowledge": any(each.held for each in machine.consumers),
        "reject": any(each.held for each in machine.consumers),
        "reject_for_now": any(each.held for each in machine.consumers)
        and machine.broker.state.format_level >= RETURNS_LEVEL,
        "send_in_transaction": bool(machine.transactions),
        "send_to_all_in_transaction": bool(machine.transactions),
        "acknowledge_in_transaction": bool(machine.transactions)
        and any(each.held for each in machine.consumers),
        "commit_transaction": bool(machine.transactions),
        "abort_transaction": bool(machine.transactions),
        "commit": bool(machine.under_way),
        "clean": bool(machine.log) and min(machine.log) <= machine.applied_index,
        "move": machine.broker.moving.is_possible,
        "subscribe": len(machine.consumers) < 4,
        "begin_checkpoint": machine.snapshot is None,
        "go_on_with_checkpoint": machine.snapshot is not None,
    }
    return needs.get(name, True)


@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
@example(seed=520132).via("a commit settled more non-persistent messages than one step frees")
@example(seed=16).via("a late word about what rested was rolled back")
@example(seed=62027).via("a late word about what was on its way back was rolled back")
@example(seed=414).via("what was moved was purged while it was on its way")
@example(seed=998).via("a rejection was lost, its queue purged, and it was made again")
def test_long_stories_keep_to_the_model(story: str, seed: int) -> None:
    """
    The same machine, walked far and by weights: deep states that a uniform choice hardly reaches.
    """
    random = Random(seed)
    machine = BrokerMachine()
    weights = [STORIES[story].get(name, often) for name, often in STEPS.items()]
    for step in range(150):
        (name,) = random.choices(list(STEPS), weights)
        if is_possible(machine, name):
            getattr(machine, name)(**arguments(name, random))
        if step % 8 == 0:
            machine.check()
    machine.check()
    machine.teardown()


BrokerMachine.TestCase.settings = settings(stateful_step_count=60)
TestBrokerAgainstModel = BrokerMachine.TestCase
