"""
Ablations of what keeps users and grants from being lost or revived.

Cleaning carries on those whose home goes, but none that is being changed. What grants mean is
worked out with each that changes, also with one that ends. Who did it stands in the same entry.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.broker import cleaning
from holdfast.broker.access_changes import AccessChanges
from holdfast.broker.broker import Broker
from holdfast.broker.lasting.access import GrantKey, KeptRecord
from holdfast.model.access_records import AuditRecord
from holdfast.model.records import Record
from holdfast.security.grants import Grant, Grants
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.access_books import CHANGED
from trials.simulation.faults import Plan


def _forget_when_cleaning() -> list[Patch]:
    return [(cleaning, "_homeless_access", lambda *_arguments: iter(()))]


def _revive_what_changes() -> list[Patch]:
    def homeless(broker: Broker, through_record: int) -> Iterator[Record | None]:
        access = broker.state.access
        for key, home in list(access.homes.items()):
            yield access.get(key) if home <= through_record else None

    return [(cleaning, "_homeless_access", homeless)]


def _tell_of_no_end() -> list[Patch]:
    real = Grants.put

    def put(grants: Grants, key: GrantKey, grant: Grant | None) -> None:
        if grant is not None:
            real(grants, key, grant)

    return [(Grants, "put", put)]


def _say_it_in_another_batch() -> list[Patch]:
    def write(changes: AccessChanges, record: KeptRecord, audit: AuditRecord) -> None:
        receipts = changes._receipts  # noqa: SLF001 - it is in the place of a method
        receipts.add_records([record])
        receipts.close_batch()
        receipts.add_records([audit])

    return [(AccessChanges, "_write", write)]


def _let_the_log_turn_over(plan: Plan) -> None:
    plan.segment_bytes = 8 * 1024
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)
    plan.kinds[CHANGED] = 6


def _let_words_be_long_on_their_way(plan: Plan) -> None:
    """Cleaning must meet one: disks are slow, and nothing but this is going on."""
    _let_the_log_turn_over(plan)
    plan.pause_seconds = (0.05, 0.3)
    plan.sync_seconds = (0.05, 0.15)


ABLATIONS = [
    Ablation(
        "forget users and grants when cleaning",
        _forget_when_cleaning,
        (CHANGED, "crash", "power cut", "transfer", "wiped disk"),
        _let_the_log_turn_over,
    ),
    Ablation(
        "carry on a user or grant that is being changed",
        _revive_what_changes,
        (CHANGED,),
        _let_words_be_long_on_their_way,
    ),
    Ablation(
        "say in another entry who changed a user or grant",
        _say_it_in_another_batch,
        (CHANGED, "crash"),
        _let_the_log_turn_over,
    ),
    Ablation(
        "work out what is granted and not what is taken back",
        _tell_of_no_end,
        (CHANGED,),
        _let_the_log_turn_over,
    ),
]
