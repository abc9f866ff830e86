"""
What a ballot says of its log, and what recovery would believe without it.

A log whose oldest files are gone looks like one that was cleaned: only the first index tells them
apart. The plans of the seeds are bent towards files that vanish.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from holdfast.journal import cutting, opening, scan
from holdfast.journal.ballot import BallotFile
from holdfast.journal.end_file import EndFile
from holdfast.journal.housekeeper import Housekeeper
from holdfast.journal.jobs import ResetJob
from holdfast.journal.journal import Journal
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.troubles.cut_resets import CUT_RESET
from trials.troubles.refused_removals import REFUSED
from trials.troubles.vanished_files import VANISHED


def _forget_the_first_index() -> list[Patch]:
    scan_log = opening.__dict__["scan_log"]

    def scan_without(*arguments: Any, **options: Any) -> Any:
        claim = options["claim"]._replace(first_index=0)
        return scan_log(*arguments, **{**options, "claim": claim})

    return [(opening, "scan_log", scan_without)]


def _take_what_is_left_over() -> list[Patch]:
    return [(scan, "_left_over_count", lambda *_arguments: 0)]


def _begin_beside_what_is_left() -> list[Patch]:
    begin_anew = cutting.begin_anew

    def note_and_begin(journal: Journal, end: EndFile, _claim: object, job: ResetJob) -> None:
        ballot_file: Any = journal.ballot_file
        ballot_file.begin_log(job.base_index)
        begun = replace(ballot_file.current, durable_floor=0)
        ballot_file._save_twice(begun)  # noqa: SLF001 - as the product did once
        # So it begins with what it has, as if it had no file that could be noted before.
        unnoted: Any = SimpleNamespace(note_begin=lambda *_arguments: None)
        begin_anew(journal, end, unnoted, job)

    return [
        (cutting, "begin_anew", note_and_begin),
        (Housekeeper, "clear_away", lambda *_arguments: None),
    ]


def _keep_the_first_index_of_a_reset() -> list[Patch]:
    write_again = BallotFile.__dict__["write_again"]

    def keep(
        self: Any, floor: int, chain: bytes = b"", first_index: int = 0, **options: Any
    ) -> None:
        known = self.current.first_index if self.current else 0
        write_again(self, floor, chain, known or first_index, **options)

    return [(BallotFile, "write_again", keep)]


def _with_files_that_stay(plan: Plan) -> None:
    plan.kinds = {CUT_RESET: 1, REFUSED: 2, "followers' links reset": 1}
    plan.segment_bytes = 8 * 1024


ABLATIONS = [
    Ablation(
        "begin a log beside what is left of an older one",
        _begin_beside_what_is_left,
        (CUT_RESET,),
        _with_files_that_stay,
    ),
    Ablation(
        "a log that was not begun anew begins where it did",
        _keep_the_first_index_of_a_reset,
        (CUT_RESET,),
        covered_by=(
            "a reset notes where the new log begins once the old one's files are gone: only an"
            " earlier version left files before that"
        ),
    ),
    Ablation("take a log without its beginning", _forget_the_first_index, (VANISHED, "crash")),
    Ablation(
        "take files that should be gone for a part of the log",
        _take_what_is_left_over,
        (REFUSED, "crash"),
    ),
]
