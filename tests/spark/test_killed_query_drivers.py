"""
A driver of a streaming query that is killed amid a batch, and a query that goes on where it was.

With all of Spark: its checkpoint, and its workers. What a batch leaves behind in each of its phases
is in `integration/test_killed_queries.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from holdfast.client import blocking
from holdfast.testing.local_cluster import LocalCluster
from trials.pipeline.executor_kills import ExecutorKills
from trials.pipeline.stalled_worker import STALL_VARIABLE, WRITE
from trials.pipeline.streaming_driver import ENTRIES, FROM, HOLD, TO, Places, run_query

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

SENT: Final = [f"row-{number}" for number in range(10, 10 + 4 * ENTRIES)]
DIES_AT: Final = SENT[2 * ENTRIES + 1]
"""At least one batch is done, and rows of this one may be stored."""
ROOT: Final = Path(__file__).parents[2]


def taken(uri: str) -> list[str]:
    """What waits in the target, and a while for one too many."""
    found: list[str] = []
    with blocking.connect(uri) as connection, connection.subscribe(f"/queue/{TO}") as subscription:
        while each := subscription.receive(10 if len(found) < len(SENT) else 0.3):
            found.append(each.body.decode())
            each.acknowledge()
    return found


def test_the_query_of_a_killed_driver_goes_on(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path
) -> None:
    """Each row is in the target once, and the log is held from behind them."""
    (node,) = one_node.nodes.values()
    with blocking.connect(one_node.uri) as connection:
        for body in SENT:  # each is an entry of its own
            connection.send(f"/queue/{FROM}", body)
    checkpoint, url = tmp_path / "checkpoint", f"http://{node.admin}"
    places = Places(str(checkpoint), url, one_node.uri)
    kills = ExecutorKills(tmp_path / "orders")
    kills.order(WRITE, rf"\n\n{DIES_AT}\0")
    paths = [str(kills.folder), str(ROOT)]
    with subprocess.Popen(
        [sys.executable, "-m", "trials.pipeline.streaming_driver", *places],
        env=os.environ | {STALL_VARIABLE: str(kills.folder), "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    ) as driver:
        kills.strike_driver(driver.pid)
    assert list((checkpoint / "commits").glob("[0-9]*"))
    run_query(spark, places)
    assert taken(one_node.uri) == SENT
    (hold,) = [it for it in node.get("/holds")["holds"] if it["name"] == HOLD]
    assert hold["index"] > len(SENT)
