"""
The report's figures, on a log whose every message's fate is known.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from holdfast.cli.main import app
from holdfast.model.records import (
    AcknowledgeRecord,
    DeadLetterRecord,
    DispatchMarkRecord,
    PurgeRecord,
    QueueRecord,
)
from holdfast.spark.pipelines.report import make_report
from trials.pipeline.written_log import WrittenLog, message


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    Entry n is sealed n - 1 seconds after the first. Orders: 10 stored in 2, 6 acknowledged after
    3 s, 1 after 4 s, 1 dead-lettered after 4 s, and one of the 2 left written again by the cleaner.
    Mail: 5 stored in 3, 3 of them purged.
    """
    directory = tmp_path_factory.mktemp("log")
    with WrittenLog(directory) as written:
        written.put(
            QueueRecord(1, "orders"), QueueRecord(2, "mail"), QueueRecord(3, "ActiveMQ.DLQ")
        )
        written.put(*(message(1, n, b"x" * n, b"a:b\n", "p") for n in range(1, 11)))
        written.put(*(message(2, n, b"mail") for n in range(1, 6)), DispatchMarkRecord(1, 8))
        written.put()
        written.put(AcknowledgeRecord(1, [1, 2, 3, 4, 5, 6]))
        written.put(
            AcknowledgeRecord(1, [8]), DeadLetterRecord(1, [7]), message(3, 1, b"x" * 7, b"a:b\n")
        )
        again = message(1, 9, b"x" * 9, b"a:b\n", "p")
        again.rewritten = True
        again.stored_at = written.time - 4_000_000
        written.put(again, PurgeRecord(2, 3))
    return directory


class Told(NamedTuple):
    """What the command has said, and the page that it has written."""

    out: str
    err: str
    page: Path


@pytest.fixture(scope="module")
def told(spark: SparkSession, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The command with the shared session, once for all: a report takes seconds."""
    page = tmp_path_factory.mktemp("report") / "page.html"
    command = ["report", "--path", str(log), "--json", "--to", str(page), "--master", "local[2]"]
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        app(args=command, standalone_mode=False)
    return Told(out.getvalue(), err.getvalue(), page)


@pytest.fixture(scope="module")
def found(told: Told) -> dict[str, Any]:
    """The report's figures."""
    figures: dict[str, Any] = json.loads(told.out)
    return figures


def test_every_message_is_counted_once(found: dict[str, Any]) -> None:
    """Stored, settled in each way, waiting: per queue, and the totals are their sums."""
    names = ("stored", "acknowledged", "dead-lettered", "purged", "backlog", "delivered_most")
    rows = {it["destination"]: [it[name] for name in names] for it in found["destinations"]}
    assert rows == {
        "orders": [10, 7, 1, 0, 2, 8],
        "mail": [5, 0, 0, 3, 2, 0],
        "ActiveMQ.DLQ": [1, 0, 0, 0, 1, 0],
    }
    assert [found["totals"][name] for name in names[:5]] == [16, 7, 1, 3, 5]
    orders = found["destinations"][0]
    assert orders["seconds_to_acknowledge"] == {"p50": 3.0, "p95": 4.0, "p99": 4.0, "max": 4.0}
    assert orders["stored_bytes"] == 55 + 40
    assert orders["backlog_bytes"] == 9 + 10 + 8
    assert found["source"]["is_complete"]


def test_curves_end_where_the_figures_are(found: dict[str, Any]) -> None:
    """What is drawn adds up to what is told; the backlog goes up and down."""
    curves = found["series"]["destinations"]
    for each in found["destinations"]:
        drawn = curves[each["destination"]]
        for name in ("stored", "acknowledged", "dead-lettered", "purged", "delivered_most"):
            assert sum(drawn[name]) == each[name], name
        assert drawn["backlog"][-1] == each["backlog"]
    assert found["series"]["step_seconds"] == 1
    assert curves["orders"]["backlog"] == [10, 10, 10, 4, 2, 2]


def test_the_largest_and_the_busiest_are_named(found: dict[str, Any]) -> None:
    """Largest first, with where to find it; a producer without a number counts too."""
    largest = found["largest_messages"]
    assert (largest[0]["sequence"], largest[0]["bytes"], largest[0]["index"]) == (10, 14, 2)
    assert largest[0]["fate"] == "waiting"
    producers = {it["producer_id"]: it["messages"] for it in found["top_producers"]}
    assert producers == {"p": 10, None: 6}


def test_an_empty_log_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    """Queues and nothing in them: zeros, no curves."""
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "orders"))
    found = make_report(spark, {"path": str(tmp_path)})
    assert found["totals"]["stored"] == 0
    assert found["destinations"] == []
    assert found["series"]["start"] is None


def test_the_command_writes_page_and_figures(told: Told) -> None:
    """--json goes to standard output, the page to its file, the summary to standard error."""
    found = json.loads(told.out)
    assert (found["totals"]["stored"], found["source"]["is_part"]) == (16, False)
    assert "events of 16 messages" in told.err
    assert "<svg" in told.page.read_text()
