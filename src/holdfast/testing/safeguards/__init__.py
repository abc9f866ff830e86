"""
Ablations by topic: each module has a list `ABLATIONS`; ablations.py runs them with its own.
"""

from __future__ import annotations

from holdfast.testing.ablation import Ablation
from holdfast.testing.safeguards import hanging_disks, logs, membership

ABLATIONS: list[Ablation] = [
    *hanging_disks.ABLATIONS,
    *logs.ABLATIONS,
    *membership.ABLATIONS,
]
