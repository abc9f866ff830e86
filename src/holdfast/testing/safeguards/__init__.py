"""
Ablations by topic: each module has a list `ABLATIONS`; ablations.py runs them with its own.
"""

from __future__ import annotations

from holdfast.testing.ablation import Ablation
from holdfast.testing.safeguards import logs

ABLATIONS: list[Ablation] = [*logs.ABLATIONS]
