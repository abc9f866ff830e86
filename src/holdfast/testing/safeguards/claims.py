"""
What a ballot says of its log, and what recovery would believe without it.

A log whose oldest files are gone looks like one that was cleaned: only the first index tells them
apart. The plans of the seeds are bent towards files that vanish.
"""

from __future__ import annotations

from typing import Any

from holdfast.journal import opening, scan
from holdfast.testing.ablation import Ablation, Patch
from holdfast.testing.troubles.refused_removals import REFUSED
from holdfast.testing.troubles.vanished_files import VANISHED


def _forget_the_first_index() -> list[Patch]:
    scan_log = opening.__dict__["scan_log"]

    def scan_without(*arguments: Any, **options: Any) -> Any:
        claim = options["claim"]._replace(first_index=0)
        return scan_log(*arguments, **{**options, "claim": claim})

    return [(opening, "scan_log", scan_without)]


def _take_what_is_left_over() -> list[Patch]:
    return [(scan, "_left_over_count", lambda *_arguments: 0)]


ABLATIONS = [
    Ablation("take a log without its beginning", _forget_the_first_index, (VANISHED, "crash")),
    Ablation(
        "take files that should be gone for a part of the log",
        _take_what_is_left_over,
        (REFUSED, "crash"),
    ),
]
