"""
A streaming query from Holdfast to Holdfast, and a driver that runs it.

    python -m trials.pipeline.streaming_driver CHECKPOINT URL SECRET_FILE URI

takes all that there is, with a Spark of its own, so that it can be killed. Whoever runs the same
query with that checkpoint goes on where it was.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

from holdfast.spark.session import spark_session

FROM, TO = "from", "to"
HOLD: Final = "query"
ENTRIES: Final = 4
"""Of the log in a batch, at most."""
WINDOW: Final = 1
"""Rows on their way: what was sent before one is stored."""


class Places(NamedTuple):
    """Where a query notes how far it is, where it reads, and where it writes."""

    checkpoint: str
    url: str
    uri: str


def run_query(spark: Any, places: Places) -> None:
    """
    Take all that there is now.

    Raises:
        StreamingQueryException: It has failed.
    """
    source = {"url": places.url, "columns": "destination,body"}
    source |= {"maxEntriesPerTrigger": str(ENTRIES), "hold": HOLD}
    target = {"uri": places.uri, "destination": f"/queue/{TO}", "window": str(WINDOW)}
    rows = spark.readStream.format("holdfast").options(**source).load()
    rows = rows.where(f"destination = '{FROM}'").select("body")
    writer = rows.writeStream.format("holdfast").options(**target)
    writer = writer.option("checkpointLocation", places.checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    """Run what the command line says."""
    spark = spark_session("streaming", "local[2]", {"spark.driver.memory": "512m"})
    run_query(spark, Places(*sys.argv[1:]))


if __name__ == "__main__":
    main()
