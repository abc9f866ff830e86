"""
What a ballot says of its log, and what recovery would believe without it.

A log whose oldest files are gone looks like one that was cleaned: only the first index tells them
apart. The plans of the seeds are bent towards files that vanish.
"""

from __future__ import annotations

from typing import Any

from holdfast.journal import opening, scan
from holdfast.journal.ballot import BallotFile
from holdfast.testing.ablation import Ablation, Patch
from holdfast.testing.troubles.cut_resets import CUT_RESET
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


def _keep_the_first_index_of_a_reset() -> list[Patch]:
    write_again = BallotFile.__dict__["write_again"]

    def keep(
        self: Any, floor: int, chain: bytes = b"", first_index: int = 0, **options: Any
    ) -> None:
        known = self.current.first_index if self.current else 0
        write_again(self, floor, chain, known or first_index, **options)

    return [(BallotFile, "write_again", keep)]


ABLATIONS = [
    Ablation(
        "a log that was not begun anew begins where it did",
        _keep_the_first_index_of_a_reset,
        (CUT_RESET,),
    ),
    Ablation("take a log without its beginning", _forget_the_first_index, (VANISHED, "crash")),
    Ablation(
        "take files that should be gone for a part of the log",
        _take_what_is_left_over,
        (REFUSED, "crash"),
    ),
]
