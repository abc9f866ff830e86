"""
Scheduled messages in the pipeline: their fates, and a restore that gives the schedule back.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.environment.disk import RealDisk
from holdfast.journal.entry import KIND_RECORDS
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.model.schedules import FOREVER, SCHEDULE_QUEUE
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.applied_archive import ROWS_MAX
from holdfast.spark.pipelines.archive import archive_once
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.replica_proof import Replica
from holdfast.spark.pipelines.report import make_report
from holdfast.spark.pipelines.restore import RestoreSettings, restore
from holdfast.store.record_codec import decode_records

LOG = Path(__file__).parents[1] / "data" / "log-format-8"


def state_of(directory: Path) -> BrokerState:
    """Give what a node makes of a log."""
    state = BrokerState(BrokerSettings())
    journal = Journal.open(directory, RealDisk(), JournalSettings())
    for index in range(journal.first_index, journal.last_index + 1):
        entry = journal.entry(index)
        if entry.kind == KIND_RECORDS:
            records = list(decode_records(entry.body))
            state.apply(entry.first_record, records, entry.timestamp, entry.term)
    journal.close()
    return state


def test_an_audit_knows_what_waits_for_its_time_and_what_fired(spark) -> None:
    """
    What went out is a message of its queue; the account is balanced.
    """
    result = audit(spark, [Replica("a", LogDirectory(str(LOG)))], None)
    assert result.findings == []
    assert result.account is not None and result.account.is_balanced
    known = {fate: count for fate, count in result.account.fates.items() if count}
    assert known == {"scheduled": 3, "fired": 2, "live": 3}


def test_a_report_tells_what_fired(spark) -> None:
    """
    Stored is what became of it, and what waits.
    """
    told = {it["destination"]: it for it in make_report(spark, {"path": str(LOG)})["destinations"]}
    schedule, orders = told[SCHEDULE_QUEUE], told["orders"]
    assert (schedule["stored"], schedule["fired"], schedule["backlog"]) == (5, 2, 3)
    assert (orders["stored"], orders["fired"], orders["backlog"]) == (3, 0, 3)


@pytest.mark.parametrize("rows_here_max", [0, ROWS_MAX], ids=["asked of Spark", "applied here"])
def test_a_restored_schedule_goes_on_with_the_next_time(
    spark, tmp_path: Path, rows_here_max: int
) -> None:
    """
    Not with the first, and with what was left of its repetitions.
    """
    archive = Archive.open(str(tmp_path / "archive"))
    archive_once(spark, LogDirectory(str(LOG)), archive)
    restore(spark, archive, tmp_path / "new", RestoreSettings(rows_here_max=rows_here_max))
    state = state_of(tmp_path / "new")
    index = state.by_name[SCHEDULE_QUEUE].index
    dues = {it: (index.expires_ms(it), index.repeats(it)) for it in index.sequences(1, 9)}
    assert dues == {
        1: (1_900_000_000_000, 0),
        2: (1_900_000_000_001, 7),
        5: (1_900_000_000_002, FOREVER),
    }
    orders = state.by_name["orders"].index
    assert list(orders.sequences(1, 9)) == [1, 2, 3]
    assert orders.expires_ms(1) == 1_900_000_000_009
