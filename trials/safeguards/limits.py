"""
What keeps one client's greed from costing others anything, and a witness's log within bounds.

The worlds are such that the limits are reached: few queues, few connections, and a log that turns
over while a data node of a pair is down.
"""

from __future__ import annotations

from typing import Any

from holdfast.broker import destinations
from holdfast.replication import trimming
from holdfast.server.clients import Clients
from holdfast.transport.admission import Admission
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.greedy_clients import AHEAD, CONNECTIONS, QUEUES
from trials.troubles.long_outages import OUTAGE, with_a_small_log


def _any_number_of_queues() -> list[Patch]:
    return [(destinations, "require_room", lambda *_arguments: None)]


def _first_come_first_served() -> list[Patch]:
    return [(Admission, "_oldest_silent", lambda _self: None)]


def _read_on() -> list[Patch]:
    return [(Clients, "pause", lambda *_arguments: None)]


def _wait_for_both() -> list[Patch]:
    def trim(state: Any, journal: Any) -> None:
        others = [it for it in state.members if it != state.name and it not in state.connected]
        if not others:
            kept(state, journal)

    kept = trimming.trim
    return [(trimming, "trim", trim)]


def _on_a_pair(plan: Plan) -> None:
    plan.topology = "witness"
    with_a_small_log(plan)


ABLATIONS = [
    Ablation("no more queues than there may be", _any_number_of_queues, (QUEUES,)),
    Ablation("silent connections make room", _first_come_first_served, (CONNECTIONS, "crash")),
    Ablation("who is ahead of the loop is not read on from", _read_on, (AHEAD,)),
    Ablation(
        "a witness drops what the leader has cleaned away", _wait_for_both, (OUTAGE,), _on_a_pair
    ),
]
