"""
Links of which the two ends know different things.

Whoever stands between two nodes can reset a connection for one of them; the other goes on to
believe in it until it is told, or until nothing came for too long. So a closed link is no proof
that the process at its other end is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis
    from trials.simulation.simulated_node import SimulatedNode


def reset_followers(nemesis: Nemesis) -> bool:
    """Followers see the leader's links closed; the leader sees nothing of it for a while."""
    leader = nemesis.world.leader()
    if leader is None:
        return False
    others = [node.name for node in nemesis.world.nodes if node is not leader]
    if nemesis.chance.random() < 0.3:
        others = others[:1]
    return sum(_reset(nemesis, name, leader.name) for name in others) > 0


def reset_any(nemesis: Nemesis) -> bool:
    """Some node sees some link closed, and its other end does not."""
    names = [node.name for node in nemesis.world.nodes]
    return len(names) > 1 and _reset(nemesis, *nemesis.chance.sample(names, 2))


def restart_beside_reset(nemesis: Nemesis) -> bool:
    """A follower forgets the leader by a restart while another sees its link closed."""
    leader = nemesis.world.leader()
    others = [node for node in nemesis.world.nodes if node is not leader and node.is_running]
    if leader is None or len(others) < 2:
        return False
    nemesis.chance.shuffle(others)
    restarted = others[0]
    for node in others[1:]:
        _reset(nemesis, node.name, leader.name)
    _reset(nemesis, restarted.name, leader.name)
    restarted.stop(power=False)
    nemesis.world.timeline.after(0.005, _start, nemesis, restarted)
    return True


def tell_late(nemesis: Nemesis) -> bool:
    """For a while the end of a link is told late, and to its two ends separately."""
    network = nemesis.world.network
    network.late_ends_until = nemesis.world.timeline.now + nemesis.chance.uniform(0.3, 1.5)
    return True


def _reset(nemesis: Nemesis, one: str, other: str) -> bool:
    longest = 2 * nemesis.world.replication_settings.election_seconds_max
    seconds = nemesis.chance.uniform(0.05, longest)
    return nemesis.world.network.reset_one_side(one, other, seconds)


def _start(nemesis: Nemesis, node: SimulatedNode) -> None:
    if nemesis.is_active and not node.is_alive and node.name not in nemesis.kept_down:
        nemesis.revive(node)


TROUBLES = (
    RareTrouble(name="followers' links reset", act=reset_followers, chance=0.08),
    RareTrouble(name="one-sided reset", act=reset_any, chance=0.05),
    RareTrouble(name="restart beside a reset", act=restart_beside_reset, chance=0.05, weight=2),
    RareTrouble(name="ends of links told late", act=tell_late, chance=0.05),
)
