"""
What keeps a log, and what is only in a leader's memory, from being lost in passing.

Each of these safeguards matters only where something else went wrong at the same time, so the
plans of the seeds are bent towards that.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from holdfast.journal import recovery
from holdfast.journal.continuation import Continuation, Found, Proof
from holdfast.journal.entry import Entry, verify_chain
from holdfast.journal.repair import LogRepair
from holdfast.journal.scanner import LogScanner
from holdfast.replication import repair
from holdfast.replication.beginning import Beginning
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.run_proof import RunProof
from holdfast.replication.state import State
from holdfast.server import damaged_entries
from holdfast.store.replicated_store import ReplicatedStore
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.troubles.forged_bodies import FORGED
from trials.troubles.long_outages import OUTAGE, with_a_small_log
from trials.troubles.other_copies import OTHER_COPY, OTHER_RUN
from trials.troubles.rot_alone import ROT
from trials.troubles.trimmed_rot import TRIMMED_ROT


def _forget_at_a_hand_over() -> list[Patch]:
    return [(ReplicatedStore, "is_handing_over", property(lambda _self: False))]


def _trust_the_cache() -> list[Patch]:
    return [(recovery, "_write_again", lambda *_arguments: None)]


def _believe_any_copy() -> list[Patch]:
    # It is kept twice: by what the neighbours prove, and by the journal.
    return [
        (repair, "is_proven", lambda *_arguments: True),
        (LogRepair, "_check", lambda *_arguments: None),
    ]


def _believe_whoever_continues() -> list[Patch]:
    def continues(state: State, entry: Entry, _run: RunProof) -> bool:
        log, before = state.log, entry.index - 1
        return before not in log.damaged and verify_chain(entry, log.chain_at(before))

    return [
        (repair, "is_proven", continues),
        (RunProof, "wanted", lambda *_arguments: []),
        (RunProof, "is_wanted", lambda *_arguments: False),
        (repair.Repairs, "_is_provable", lambda *_arguments: True),
    ]


def _believe_any_candidate() -> list[Patch]:
    def first(self: Continuation, start: int, is_possible: Proof, *_known: object) -> Found | None:
        found = self._headers.items()
        return next((it for it in found if it[0] >= start and is_possible(it[1])), None)

    return [(Continuation, "proven", first), (Continuation, "ending", first)]


def _guess_from_what_is_behind() -> list[Patch]:
    place: Any = vars(LogScanner)["_damaged_entries"]

    def damaged(self: Any, segment: Any, bad: Any, *bounds: Any) -> int | None:
        scan = self._scan
        first = scan.last_index + 1
        past: int | None = place(self, segment, bad, *bounds)
        if past is not None and bad.header is None and bad.later and not scan.term_starts:
            scan.note_term(first, bad.later[1].term)
        return past

    return [(LogScanner, "_damaged_entries", damaged)]


def _ask_whole_entries_alone() -> list[Patch]:
    return [(ReplicatedLog, "_last_with_header", lambda self, _index: self.last_index + 1)]


def _keep_the_old_state() -> list[Patch]:
    return [(ReplicatedStore, "is_begun_anew", lambda _self: False)]


def _on_a_pair_with_a_small_log(plan: Plan) -> None:
    plan.topology = "witness"
    with_a_small_log(plan)


def _begin_with_any_witness() -> list[Patch]:
    return [(Beginning, "is_whole", lambda *_arguments: True)]


def _pass_any_damage() -> list[Patch]:
    def nothing(*_arguments: object) -> Generator[None, None, dict[str, int]]:
        return {}
        yield

    return [(damaged_entries, "live_within", nothing)]


def _on_a_single_node(plan: Plan) -> None:
    plan.topology = "one"


def _with_time_to_forge(plan: Plan) -> None:
    """Let headers be lost again and again; each time a forgery may stand where it is believed."""
    plan.kinds[FORGED] = 8
    plan.chaos_seconds = max(plan.chaos_seconds, 5.0)


ABLATIONS = [
    Ablation(
        "forget memory when a hand-over begins", _forget_at_a_hand_over, ("hand-over given up",)
    ),
    Ablation(
        "mend with any copy",
        _believe_any_copy,
        (OTHER_COPY,),
    ),
    Ablation(
        "prove a lost entry by what is behind it, not before",
        _believe_whoever_continues,
        (OTHER_RUN,),
    ),
    Ablation(
        "take what looks like an entry for one",
        _believe_any_candidate,
        (FORGED, "crash", "partition", "heal network"),
        _with_time_to_forge,
    ),
    Ablation(
        "guess the term of a lost entry from what is behind it",
        _guess_from_what_is_behind,
        ("bit flip", "unreadable sector", "misdirected write", "crash", "power cut"),
        topology="three",
    ),
    Ablation(
        "bound the term of a lost entry by whole entries behind it alone",
        _ask_whole_entries_alone,
        ("cut tail", "crash"),
        topology="three",
    ),
    Ablation(
        "trust at recovery what only the cache may have",
        _trust_the_cache,
        ("fsync EIO", "power cut", "crash"),
    ),
    Ablation(
        "let nobody begin with what a witness only trimmed",
        _begin_with_any_witness,
        (TRIMMED_ROT,),
        topology="witness",
    ),
    Ablation("pass damage in which messages live", _pass_any_damage, (ROT,), _on_a_single_node),
    Ablation(
        "keep the old state when the log is begun anew",
        _keep_the_old_state,
        (OUTAGE,),
        _on_a_pair_with_a_small_log,
    ),
]
