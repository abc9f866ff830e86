"""
Ablations by topic: each module has a list `ABLATIONS`; ablations.py runs them with its own.
"""

from __future__ import annotations

from trials.safeguards import (
    claims,
    cut_logs,
    descriptors,
    full_disks,
    generations,
    growth,
    hanging_disks,
    leases,
    levels,
    limits,
    logs,
    membership,
    message_groups,
    moves,
    policies,
    returns,
    several_destinations,
    sole_consumers,
    strangers,
    time_limits,
)
from trials.safeguards.ablation import Ablation

ABLATIONS: list[Ablation] = [
    *claims.ABLATIONS,
    *cut_logs.ABLATIONS,
    *descriptors.ABLATIONS,
    *full_disks.ABLATIONS,
    *generations.ABLATIONS,
    *growth.ABLATIONS,
    *hanging_disks.ABLATIONS,
    *leases.ABLATIONS,
    *levels.ABLATIONS,
    *limits.ABLATIONS,
    *logs.ABLATIONS,
    *membership.ABLATIONS,
    *message_groups.ABLATIONS,
    *moves.ABLATIONS,
    *policies.ABLATIONS,
    *returns.ABLATIONS,
    *several_destinations.ABLATIONS,
    *sole_consumers.ABLATIONS,
    *strangers.ABLATIONS,
    *time_limits.ABLATIONS,
]
