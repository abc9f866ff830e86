"""
A streaming query from Holdfast to Holdfast, driven as Spark drives one, by a process of its own.

    python -m trials.pipeline.micro_batches FOLDER URL SECRET_FILE URI PHASE BATCH

Offsets are noted before a batch begins, and that it is done after its sink has said so, as Spark's
checkpoint does it; the same source and sink plan, read, send and commit. At the phase of the batch
that is named the process says so and waits to be killed; without one it ends when it has taken all
that there is. Where it is to die amid the rows is an order for `stalled_worker`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.datasource import ReadMaxRows

from holdfast.spark.source.options import read_options
from holdfast.spark.source.stream_reader import StreamReader
from holdfast.spark.source.writer import StreamWriter, WriteOptions, write_partition
from trials.pipeline import stalled_worker

PHASES: Final = ("planned", "stored", "noted")
"""Offsets are noted and nothing sent; all is stored and that is not noted; it is, and the source
does not know."""
WINDOW: Final = 1
"""Rows on their way: what was sent before the one at which it dies is stored."""
QUERY: Final = "spark-b0c1d2e3"
FROM: Final = "from"
ENTRIES: Final = 3


class MicroBatches:
    """One run of the query, from where its checkpoint says."""

    def __init__(
        self, folder: Path, source: dict[str, str], uri: str, stop: tuple[str, int]
    ) -> None:
        self._offsets, self._commits = folder / "offsets", folder / "commits"
        for each in (self._offsets, self._commits):
            each.mkdir(exist_ok=True)
        self._reader = StreamReader(read_options(source))
        options = WriteOptions(uri=uri, write_id="", destination="/queue/to", window=WINDOW)
        self._options, self._writer = options, StreamWriter(options)
        self._stop = stop

    def run(self) -> None:
        """Take batch after batch up to where the log ends now: each batch adds to it, too."""
        self._reader.prepareForTriggerAvailableNow()
        batch = len(list(self._commits.iterdir()))
        start = self._start_of(batch)
        while True:
            noted = self._offsets / f"{batch + 1}"
            if noted.exists():
                end = json.loads(noted.read_text())
            else:
                end = self._reader.latestOffset(start, ReadMaxRows(ENTRIES))
                if end == start:
                    return
                noted.write_text(json.dumps(end))
            self._take(batch, start, end)
            batch, start = batch + 1, end

    def _start_of(self, batch: int) -> dict[str, Any]:
        first = self._offsets / "0"
        if not first.exists():
            first.write_text(json.dumps(self._reader.initialOffset()))
        found: dict[str, Any] = json.loads((self._offsets / f"{batch}").read_text())
        return found

    def _take(self, batch: int, start: dict[str, Any], end: dict[str, Any]) -> None:
        self._reach("planned", batch)
        parts = self._reader.partitions(start, end)
        written = [
            replace(
                write_partition(self._options, f"{QUERY}-{batch}-{place}", self._rows(part)),
                write=QUERY,
            )
            for place, part in enumerate(parts)
        ]
        self._writer.commit(list(written), batch)
        self._reach("stored", batch)
        (self._commits / f"{batch}").write_text("{}")
        self._reach("noted", batch)
        self._reader.commit(end)

    def _rows(self, part: Any) -> Iterator[pa.RecordBatch]:
        for found in self._reader.read(part):
            chosen = found.filter(pc.equal(found.column("destination"), FROM))
            if chosen.num_rows:
                yield chosen.select(["body"])

    def _reach(self, phase: str, batch: int) -> None:
        if (phase, batch) == self._stop:
            sys.stdout.write("there\n")
            sys.stdout.flush()
            sys.stdin.readline()


def main() -> None:
    """Run what the command line says."""
    stalled_worker.install()
    folder, url, uri, phase, batch = sys.argv[1:]
    source = {"url": url, "hold": "query", "columns": "destination,body"}
    source["maxEntriesPerTrigger"] = str(ENTRIES)
    MicroBatches(Path(folder), source, uri, (phase, int(batch))).run()


if __name__ == "__main__":
    main()
