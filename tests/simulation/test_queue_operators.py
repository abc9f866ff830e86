"""
Queues are purged and deleted, and acknowledgements withdrawn, while leaders change.
"""

from __future__ import annotations

import pytest

from holdfast.broker.receipts import Receipts
from holdfast.model.records import PurgeRecord, Record
from tests.simulation.worlds import FAILOVERS, assert_kept
from trials.simulation.faults import Plan, focused
from trials.simulation.simulator import Result, simulate
from trials.simulation.wavering_consumer import WAVERED
from trials.troubles.queue_operators import DELETED, PURGED, REMOVED


def plan(seed: int, *kinds: str) -> Plan:
    made = focused(seed, (REMOVED, WAVERED, *kinds))
    made.kinds |= {REMOVED: 8, WAVERED: 2}
    made.operations = 1_200
    return made


@pytest.mark.promise("F39", "F31", "F32")
@pytest.mark.parametrize("kinds", [FAILOVERS, ("bit flip", "crash"), ("disk full", "crash")])
def test_what_an_operator_removed_never_comes_and_what_came_later_does(
    kinds: tuple[str, ...],
) -> None:
    """Nor does what a consumer committed; what it rolled back or left behind comes again."""
    acts = (PURGED, DELETED, WAVERED)

    assert_kept(lambda seed: plan(seed, *kinds), first=1, count=3, happened=acts)


def found(kinds: tuple[str, ...]) -> Result | None:
    """The first world in which a promise was broken."""
    results = (simulate(seed, plan(seed, *kinds)) for seed in range(1, 12))
    return next((result for result in results if result.violation), None)


def test_a_purge_that_only_its_leader_knows_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: it is answered, and not in the log, and the next leader has it all again."""
    record = Receipts.record

    def forgets(self: Receipts, wanted: Record) -> None:
        if type(wanted) is not PurgeRecord:
            record(self, wanted)

    monkeypatch.setattr(Receipts, "record", forgets)
    result = found(FAILOVERS)

    assert result is not None
    assert result.violation.startswith(("S5", "S7", "S18"))
