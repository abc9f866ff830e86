"""
Faults of processes, links, clocks and operators: nobody loses what its disk had made durable.

Each is a function from the stage and the step to a `Strike`. Most return at once and are ended by
the strike's repair after the step's time; those that have a rhythm of their own (killed again and
again, a flapping ring) take the time themselves.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise, permutations

from holdfast.admin.remote import RemoteNode
from holdfast.errors import HoldfastError
from trials.chaos.network import CLIENT, CUT, RESET, LinkTrouble
from trials.chaos.schedule import Step
from trials.chaos.stage import (
    Fault,
    InapplicableError,
    Node,
    Stage,
    StageError,
    Strike,
)

NEWCOMER = "n"


def start_all(stage: Stage, nodes: Iterable[Node]) -> None:
    """Start processes that were put down."""
    for node in nodes:
        stage.start(node)


def kill_all(stage: Stage, nodes: Sequence[Node]) -> None:
    """Kill processes at the same moment."""
    for node in nodes:
        stage.down.add(node.name)
        with suppress(ProcessLookupError):
            node.signal(signal.SIGKILL)
    for node in nodes:
        node.kill()


def _crash(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    stage.kill(node)
    return Strike((node.name,), "is killed", partial(stage.start, node))


def _crash_everywhere(stage: Stage, step: Step) -> Strike:
    nodes = stage.nodes
    kill_all(stage, nodes)
    names = tuple(node.name for node in nodes)
    return Strike(names, "are killed", partial(start_all, stage, nodes))


def _crash_again(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    until = stage.clock() + step.seconds
    times = 0
    while stage.clock() < until:
        stage.kill(node)
        stage.start(node)
        times += 1
        stage.sleep(stage.chance.choice((0.1, 0.4, 0.8, 1.5)))
    return Strike((node.name,), f"was killed {times} times")


def _pause(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    stage.freeze(node)
    return Strike((node.name,), "is paused", partial(stage.thaw, node))


def _stop(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    stage.down.add(node.name)
    code = node.stop()
    if code not in (0, -signal.SIGTERM):  # by the signal itself, if it had hardly begun
        stage.problems.append(f"{node.name} was asked to stop and ended with {code}")
    return Strike((node.name,), "is stopped", partial(stage.start, node))


def _transfer(stage: Stage, step: Step) -> Strike:
    leader = stage.leader()
    try:
        answer = RemoteNode(leader.admin, secret=stage.cluster.secret).change(
            "POST", "/cluster/transfer", {"to": None}
        )
    except HoldfastError as error:
        raise InapplicableError(f"the transfer was refused: {error}") from error
    return Strike((leader.name,), f"hands over to {answer.get('leader')}")


def _kill_consumer(stage: Stage, step: Step) -> Strike:
    stage.load.kill_consumer()
    return Strike((CLIENT,), "a consumer is killed with what it holds")


def _kill_consumer_and_leader(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    stage.load.kill_consumer()
    stage.kill(node)
    return Strike((CLIENT, node.name), "are killed together", partial(stage.start, node))


def _lose_site(stage: Stage, step: Step) -> Strike:
    sites = stage.cluster.sites
    if not any(sites.values()):
        raise InapplicableError("there is one site only")
    if step.where == "leader's site":
        site = sites[stage.leader().name]
    else:
        site = stage.chance.choice(sorted({site for site in sites.values() if site}))
    nodes = [node for node in stage.nodes if sites.get(node.name) == site]
    for node in nodes:
        stage.kill(node)
    names = tuple(node.name for node in nodes)
    return Strike(names, f"are killed with the site {site}", partial(start_all, stage, nodes))


# Links --------------------------------------------------------------------------------------------


def _cut(stage: Stage, sources: Iterable[str], targets: Iterable[str]) -> None:
    ends = list(targets)
    for source in sources:
        for target in ends:
            if source != target:
                stage.links.trouble(source, target, CUT)


def _part(stage: Stage, one: Sequence[str], other: Sequence[str]) -> None:
    _cut(stage, one, other)
    _cut(stage, other, one)


def _names(nodes: Iterable[Node]) -> list[str]:
    return [node.name for node in nodes]


def _partition(stage: Stage, step: Step) -> Strike:
    if step.where == "minority":
        voters = [node for node in stage.nodes if stage.kind(node) != "learner"]
        one = stage.chance.sample(voters, stage.chance.randint(1, (len(voters) - 1) // 2))
    else:
        one = [stage.pick(step.where)]
    _part(stage, _names(one), _names(stage.others(*one)))
    return Strike(tuple(_names(one)), "is parted from all others", stage.links.heal)


def _cut_one_way(stage: Stage, step: Step) -> Strike:
    leader = stage.leader()
    others = _names(stage.others(leader))
    if len(others) > 1 and stage.chance.random() < 0.5:
        others = stage.chance.sample(others, stage.chance.randint(1, len(others) - 1))
    if step.where == "leader in":
        _cut(stage, others, [leader.name])
        text = f"hears nothing from {', '.join(others)}"
    else:
        _cut(stage, [leader.name], others)
        text = f"is not heard by {', '.join(others)}"
    return Strike((leader.name,), text, stage.links.heal)


def _reset_one_side(stage: Stage, step: Step) -> Strike:
    """Followers see the leader's links reset; the leader hears nothing of it for a while."""
    if stage.links.kind != "namespaces":
        raise InapplicableError("a connection through a proxy is reset on both sides")
    leader = stage.leader()
    others = _names(stage.others(leader))
    if stage.chance.random() < 0.3:
        others = stage.chance.sample(others, 1)
    for name in others:
        stage.links.trouble(leader.name, name, RESET)
    return Strike((leader.name,), f"is reset for {', '.join(others)}", stage.links.heal)


def _part_partly(stage: Stage, step: Step) -> Strike:
    """A bridge: one node reaches all, the two sides do not reach each other."""
    leader = stage.pick(step.where)
    others = _names(stage.others(leader))
    stage.chance.shuffle(others)
    if len(others) < 2:
        raise InapplicableError("a bridge takes three nodes")
    bridge, *rest = others
    half = len(rest) // 2
    one, other = [leader.name, *rest[:half]], rest[half:]
    _part(stage, one, other)
    text = f"{', '.join(one)} | {', '.join(other)}, both see {bridge}"
    return Strike((leader.name,), text, stage.links.heal)


def _part_in_rings(stage: Stage, step: Step) -> Strike:
    """Each node sees its two neighbours in a ring, which changes all the time."""
    names = _names(stage.nodes)
    until = stage.clock() + step.seconds
    times = 0
    while stage.clock() < until:
        stage.chance.shuffle(names)
        near = {frozenset(pair) for pair in pairwise([*names, names[0]])}
        for source, target in permutations(names, 2):
            if frozenset((source, target)) not in near:
                stage.links.trouble(source, target, CUT)
        times += 1
        stage.pause_for(stage.chance.choice((0.2, 0.5, 1.0, 2.0)))
        stage.links.heal()
        stage.pause_for(stage.chance.choice((0.05, 0.2, 0.5)))
    return Strike(tuple(sorted(names)), f"see their neighbours in {times} rings")


def _spoil_links(stage: Stage, step: Step) -> Strike:
    values = {name: float(value) for name, value in step.parameters.items()}
    trouble = LinkTrouble(
        delay_seconds=(0.0, values.get("delay", 0.02)),
        loss=values.get("loss", 0.0),
        duplicate=values.get("duplicate", 0.0),
        late=values.get("late", 0.0),
    )
    names = _names(stage.nodes)
    for source, target in permutations([*names, CLIENT], 2):
        if stage.chance.random() < 0.8:
            stage.links.trouble(source, target, trouble)
    return Strike(tuple(names), f"have bad links: {trouble}", stage.links.heal)


def _cut_client(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    _part(stage, [node.name], [CLIENT])
    return Strike((node.name,), "is out of the clients' reach", stage.links.heal)


# Clocks -------------------------------------------------------------------------------------------


def _clock(stage: Stage, step: Step) -> Strike:
    node = stage.pick(step.where)
    disk = node.disk
    if disk is None:
        raise InapplicableError("the layer that shifts clocks is not there")
    by = float(step.parameters.get("by", 0.0))
    rate = float(step.parameters.get("rate", 1.0))
    disk.step_clock(by, rate)
    text = f"its clock jumps by {by:.0f} s" if by else f"its clock runs at {rate}"
    return Strike((node.name,), text, disk.true_clock)


# Operators ----------------------------------------------------------------------------------------


def _admit(stage: Stage, node: Node, kind: str) -> None:
    body: dict[str, object] = {"name": node.name, "kind": kind}
    body["address"] = stage.cluster.peer_address(node.name)
    body["site"] = stage.cluster.sites.get(node.name, "")
    stage.change("/cluster/add", body)


def _add_member(stage: Stage, step: Step) -> Strike:
    """A newcomer joins, works for a while, and leaves."""
    site = stage.chance.choice(sorted(set(stage.cluster.sites.values())))
    node = stage.cluster.add_node(NEWCOMER, "voter", site)
    stage.down.add(node.name)
    stage.wipe(node)
    stage.start(node)
    _admit(stage, node, "voter")
    stage.await_whole()
    return Strike((node.name,), "joined", partial(_retire, stage, node))


def _retire(stage: Stage, node: Node) -> None:
    stage.change("/cluster/remove", {"name": node.name})
    stage.kill(node)
    stage.wipe(node)
    stage.cluster.forget_node(node.name)
    stage.down.discard(node.name)


def _remove_member(stage: Stage, step: Step) -> Strike:
    """A follower leaves for good; then its name comes back with an empty disk."""
    node = stage.pick(step.where)
    kind = stage.kind(node)
    stage.change("/cluster/remove", {"name": node.name})
    stage.kill(node)
    stage.wipe(node)
    repair = partial(_return, stage, node, kind)
    return Strike((node.name,), "is removed", repair, (node,))


def _return(stage: Stage, node: Node, kind: str) -> None:
    stage.start(node)
    _admit(stage, node, kind)


def _promote(stage: Stage, step: Step) -> Strike:
    """A learner votes for a while; then it is removed and comes back empty, as a learner."""
    node = stage.pick("learner")
    stage.await_whole()
    stage.change("/cluster/promote", {"name": node.name})
    _await_kind(stage, node, "voter")
    return Strike((node.name,), "is promoted", partial(_demote, stage, node), (node,))


def _await_kind(stage: Stage, node: Node, kind: str, seconds: float = 30.0) -> None:
    deadline = stage.clock() + seconds
    while stage.clock() < deadline:
        status = stage.leader().status()
        members = status["members"] if status else []
        if any((each["name"], each["kind"]) == (node.name, kind) for each in members):
            return
        stage.sleep(0.1)
    raise StageError(f"{node.name} did not become a {kind} in {seconds:.0f} s")


def _demote(stage: Stage, node: Node) -> None:
    stage.change("/cluster/remove", {"name": node.name})
    stage.kill(node)
    stage.wipe(node)
    _return(stage, node, "learner")


FAULTS: dict[str, Fault] = {
    "crash": _crash,
    "crash everywhere": _crash_everywhere,
    "crash again and again": _crash_again,
    "pause": _pause,
    "stop": _stop,
    "transfer": _transfer,
    "consumer killed": _kill_consumer,
    "consumer and leader killed": _kill_consumer_and_leader,
    "site lost": _lose_site,
    "partition": _partition,
    "one-way cut": _cut_one_way,
    "one-sided reset": _reset_one_side,
    "partial partition": _part_partly,
    "ring partition": _part_in_rings,
    "bad links": _spoil_links,
    "client cut off": _cut_client,
    "clock jump": _clock,
    "clock skew": _clock,
    "add member": _add_member,
    "remove member": _remove_member,
    "promote learner": _promote,
}
