"""
Operators who move, copy and remove single messages, and retry dead letters, in the midst of it all.

They ask as an operator's request does, for what nobody has just then: the leader, once no earlier
one may still deliver. Each message stands in one place after that, whoever leads, or in no place.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from holdfast.model.facts import Cause
from trials.simulation.committed_log import DEAD_LETTERS
from trials.simulation.places import Places
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from holdfast.broker.serving.queue import Queue
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulator import Simulation

MOVED = "operator moves messages"
COPIED = "operator copies messages"
REMOVED = "operator removes messages"
RETRIED = "operator retries dead letters"
_QUEUES = ("q1", "q2", "q3", "q4")
_COUNT_MAX = 12
_REQUESTS = 12
_PAUSE_SECONDS = 0.04


class _Asked:
    """An operator who waits for the answer."""

    def __init__(self, world: Simulation, what: str) -> None:
        self._world = world
        self._what = what

    def reply(self, receipt: bytes) -> None:
        """Count it."""
        del receipt
        self._world.count(self._what)


def move(nemesis: Nemesis) -> bool:
    """Ask for some things, one after the other; each is counted when answered."""
    world = nemesis.world
    if world.places is None:
        world.places = Places(world)
    for number in range(_REQUESTS):
        world.timeline.after(number * _PAUSE_SECONDS, _ask, nemesis)
    return False


def _ask(nemesis: Nemesis) -> None:
    """Do something with some messages of a queue that nobody has."""
    world = nemesis.world
    leader = world.leader()
    if leader is None or leader.conductor.context.is_lease_awaited or not nemesis.is_active:
        return
    broker, chance = leader.broker, nemesis.chance
    destinations, moving = broker.destinations, broker.moving
    known = [name for name in (*_QUEUES, DEAD_LETTERS) if destinations.has_queue(name)]
    if len(known) < 2 or not moving.is_possible:
        return
    what = chance.choice((MOVED, MOVED, COPIED, REMOVED, RETRIED))
    if what == RETRIED and DEAD_LETTERS not in known:
        return
    source = DEAD_LETTERS if what == RETRIED else chance.choice(known)
    target = chance.choice([name for name in known if name not in {source, DEAD_LETTERS}])
    queue = destinations.queue(source)
    some = _at_hand(nemesis, queue, is_copy=what == COPIED)
    if not some:
        return
    world.history.moving.update((queue.number, sequence) for sequence in some)
    moving.take(
        queue,
        [] if what == REMOVED else [destinations.queue(target)],
        some,
        {COPIED: Cause.COPIED, REMOVED: Cause.REMOVED, RETRIED: Cause.RETRIED}.get(
            what, Cause.MOVED
        ),
        moved_at=broker.sending.now_microseconds // 1000,
        is_copy=what == COPIED,
    )
    if what != COPIED:
        moving.keep_from_all(queue, some)
    broker.receipts.reply_after_pending(_Asked(world, what), b"")
    leader.conductor.schedule()


def _at_hand(nemesis: Nemesis, queue: Queue, *, is_copy: bool) -> list[int]:
    """Give some messages with which that may be done, neighbours or not."""
    leader = nemesis.world.leader()
    assert leader is not None
    moving, index = leader.broker.moving, queue.index
    found = [
        sequence
        for sequence in islice(index.sequences(index.first(), index.last() + 1), 100)
        if not moving.is_closed(queue, sequence) and (is_copy or moving.is_at_hand(queue, sequence))
    ]
    if is_copy:
        found = moving.lasting(queue, found)
    start = nemesis.chance.randrange(max(1, len(found)))
    step = nemesis.chance.choice((1, 1, 2))
    return found[start::step][:_COUNT_MAX]


def _last_longer(plan: Plan) -> None:
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


TROUBLES = (RareTrouble(name=MOVED, act=move, chance=0.0, weight=6, prepare=_last_longer),)
