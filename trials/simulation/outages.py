"""
Outages of a simulated world that a nemesis makes of several smaller ones.

A loop that stalls, a network in which everybody sees another majority, links that come and go,
a whole site that is lost and comes back. None of them costs a disk what it had made durable.

Owned by the nemesis; each function begins its outage once and tells whether it could.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis
    from trials.simulation.simulated_node import SimulatedNode

_FLAP_SECONDS = 0.2
_RING_MIN = 4
"""With fewer nodes a ring is everybody."""


def stall(nemesis: Nemesis) -> bool:
    """A loop does nothing for up to two thirds of the shortest election's time."""
    node = nemesis.leader_or_any()
    now = nemesis.world.timeline.now
    shortest = nemesis.world.replication_settings.election_seconds_min
    if node is None or node.is_paused or now < nemesis.stalled_at + 2 * shortest:
        return False  # Two of them one after the other are a longer one.
    nemesis.stalled_at = now
    node.pause()
    nemesis.world.note(node.name, "stalls")
    seconds = nemesis.chance.uniform(0.2, 0.66) * shortest
    nemesis.world.timeline.after(seconds, _go_on, node, node.life)
    return True


def _go_on(node: SimulatedNode, life: int) -> None:
    if node.life == life:
        node.resume()


def ring(nemesis: Nemesis) -> bool:
    """Everybody sees only its two neighbours: each another majority of five."""
    names = [node.name for node in nemesis.world.nodes]
    if len(names) < _RING_MIN:
        return False
    nemesis.chance.shuffle(names)
    for place, name in enumerate(names):
        near = {names[place - 1], name, names[(place + 1) % len(names)]}
        nemesis.world.network.cut_between([name], [it for it in names if it not in near])
    nemesis.world.note("network", f"is a ring of {names}")
    return True


def flap(nemesis: Nemesis) -> bool:
    """One link comes and goes, a fifth of a second each."""
    names = [node.name for node in nemesis.world.nodes]
    if len(names) < 2:
        return False
    one, other = nemesis.chance.sample(names, 2)
    nemesis.world.note("network", f"flaps between {one} and {other}")
    _toggle(nemesis, one, other, nemesis.chance.randrange(4, 12))
    return True


def _toggle(nemesis: Nemesis, one: str, other: str, left: int) -> None:
    network = nemesis.world.network
    if (one, other) in network.cut:
        network.cut -= {(one, other), (other, one)}
    elif left > 1 and nemesis.is_active:
        network.cut_between([one], [other])
        network.cut_between([other], [one])
    if left and nemesis.is_active:
        seconds = _FLAP_SECONDS * nemesis.chance.uniform(0.5, 1.5)
        nemesis.world.timeline.after(seconds, _toggle, nemesis, one, other, left - 1)


def lose_site(nemesis: Nemesis) -> bool:
    """All machines of one site lose power, and have it again after a while."""
    sites = sorted({node.site for node in nemesis.world.nodes if node.site})
    if len(sites) < 2 or nemesis.kept_down:
        return False
    site = nemesis.chance.choice(sites)
    lost = [node for node in nemesis.world.nodes if node.site == site]
    nemesis.world.note("chaos", f"takes the site {site}")
    for node in lost:
        nemesis.kept_down.add(node.name)
        node.stop(power=True)
    nemesis.world.timeline.after(nemesis.chance.uniform(0.8, 2.0), _give_back, nemesis)
    return True


def _give_back(nemesis: Nemesis) -> None:
    nemesis.kept_down.clear()
    if nemesis.is_active:
        nemesis.world.count("site back")
