"""
Links that carry a message only in pieces, because it is larger than any buffer on its way.

The two ends hear of each piece, as they do on a real link; the message is there with the last one.
Now and then a link stalls in the middle of a message, for less or longer than its ends wait for a
sign of life. Counted for each message that came in pieces, and for each stall.

Messages of a leader to everybody may move for longer than its lease lasts without that one is
there. It is not deposed, since it lives, and may deliver nothing. Often it dies then: what it has
confirmed meanwhile, and only it had, its subscribers never see. Counted when that is over.

Invariants (each violation is raised with its name):
    V4: nothing that only a leader has is confirmed while it cannot know that it leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.history import ViolationError
from trials.simulation.pieces import IN_PIECES
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

HELD_UP = "leader's messages move for longer than its lease"
_STALL_SECONDS = (0.05, 1.5)
_PIECE_BYTES = 512
_HELD_UP_SECONDS = (1.6, 2.6)
_END_CHANCE = 0.7
_RECOVERY_SECONDS = 1.0
"""Until one that lived through it may be held up again: answers that come late have come."""


def stall(nemesis: Nemesis) -> bool:
    """The next message in pieces stops in the middle for a while."""
    nemesis.world.network.pieces.stall_seconds = nemesis.chance.uniform(*_STALL_SECONDS)
    return False


def hold_up(nemesis: Nemesis) -> bool:
    """Nothing that the leader sends arrives for a while; it moves."""
    world = nemesis.world
    leader = world.leader()
    if leader is None or world.network.cut or len(world.nodes) < 2:
        return False
    if world.network.pieces.was_held_up(leader, _RECOVERY_SECONDS):
        return False
    seconds = nemesis.chance.uniform(*_HELD_UP_SECONDS)
    world.network.pieces.hold_up(leader, seconds)
    world.note("network", f"is slow with what {leader.name} sends")
    before = (leader.life, leader.driver.term)
    since = world.timeline.now + world.replication_settings.election_seconds_min
    world.timeline.after(seconds - 0.01, _end, nemesis, leader, before, since)
    return False


def _end(nemesis: Nemesis, leader: SimulatedNode, before: tuple[int, int], since: float) -> None:
    """Most often it dies before its messages are there."""
    if (leader.life, leader.driver.term) != before or not leader.driver.is_serving:
        return
    if nemesis.is_active and leader.is_running:
        nemesis.world.count(HELD_UP)
        _check_unconfirmed(nemesis, leader, since)
        if nemesis.chance.random() < _END_CHANCE:
            leader.stop(power=False)


def _check_unconfirmed(nemesis: Nemesis, leader: SimulatedNode, since: float) -> None:
    """V4: since then it has had no lease, and nobody could have stored anything for it."""
    if leader.driver.may_dispatch(leader.clock.monotonic()):
        return  # Alone after a forced promotion, it asks nobody.
    volatile = nemesis.world.volatile
    leadership = (leader.name, leader.life, leader.driver.term)
    for token, note in (*volatile.topic.items(), *volatile.queue.items()):
        if note.confirmed_at and note.sent_at > since and note.leadership == leadership:
            raise ViolationError("V4", f"{leader.name} confirms {token} without a lease")


def _narrow(plan: Plan) -> None:
    plan.piece_bytes = _PIECE_BYTES


def _long(plan: Plan) -> None:
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


TROUBLES = (
    RareTrouble(name=IN_PIECES, act=stall, chance=0.08, prepare=_narrow),
    RareTrouble(
        name=HELD_UP,
        act=hold_up,
        chance=0.03,
        topologies=("three", "witness", "two", "learner", "far", "five"),
        prepare=_long,
    ),
)
