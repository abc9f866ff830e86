"""
The pipeline on Spark beside the same work in one process: rows and bytes per second.

Two logs, 2 million messages of 1 KiB and 10 million of 100 bytes, each read with all columns, and
with six of them, without `headers`: (a) by the parser alone in one Python process, and by Spark
into its sink `noop`, beside Spark's own Parquet source on the same rows of six columns; and
archived: (b) by the archive's own writer (parser and pyarrow's Parquet) in one Python process, and
by Spark.
(a) and (b) are also done by two processes at once, each a half: no two workers of Spark can do
more, and two processors that are threads of one core are far from twice as quick as one.
Spark's start-up is told apart, and everything runs once before it is measured. The peak memory of
Spark's Python workers is sampled, for the whole log and for a tenth of it: it must not grow.

Run: .venv/bin/python benches/spark.py [--quick | --scale N] [--rounds N] [--write FILE]
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

from machine import KIB, heading, load_average

from holdfast.model.records import MessageRecord, QueueRecord
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.proof import chain_before_log
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once
from holdfast.spark.pipelines.written_ranges import LogRange, write_range
from holdfast.spark.session import spark_session
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from trials.pipeline.written_log import WrittenLog

HEADERS = b"content-type:application/json\npersistent:true\ncorrelation-id:abc\n"
QUEUES = {number: f"orders.{number}" for number in range(1, 5)}
PER_ENTRY = 500
SAMPLE_SECONDS = 0.05
REACH_NOOP, REACH_ARCHIVE = 0.8, 1.5
SIX_COLUMNS = "stored_at,destination,sequence,producer_id,producer_sequence,body"


@dataclass
class Log:
    """A log to be measured."""

    title: str
    messages: int
    body_bytes: int
    directory: Path = field(default_factory=Path)

    def write(self, folder: Path) -> None:
        """Write it: bodies half random, half text, all different; one producer, four queues."""
        self.directory = folder / f"log-{self.messages}-{self.body_bytes}"
        noise = os.urandom(KIB * KIB)
        text = (b'{"customer": 4711, "item": "espresso", "price": 2.80} ' * 20)[: self.body_bytes]
        half = self.body_bytes // 2
        with WrittenLog(self.directory, segment_bytes=64 * KIB * KIB) as log:
            log.put(*(QueueRecord(number, name) for number, name in QUEUES.items()))
            for start in range(0, self.messages, PER_ENTRY):
                records = []
                for n in range(start, min(start + PER_ENTRY, self.messages)):
                    at = n * 7919 % (len(noise) - half)
                    body = noise[at : at + half] + text[half:]
                    size = len(HEADERS) + len(body)
                    records.append(
                        MessageRecord(n % 4 + 1, n // 4 + 1, HEADERS, body, size, "bench-1", n + 1)
                    )
                log.put(*records)

    @property
    def log_bytes(self) -> int:
        """What the messages take in the log, without preallocated ends."""
        return self.messages * (self.body_bytes + len(HEADERS) + 60)


@dataclass
class Result:
    """One line of the table."""

    log: Log
    work: str
    seconds: list[float]
    worker_bytes: int = 0
    cpu: str = ""

    @property
    def rate(self) -> float:
        return self.log.messages / statistics.median(self.seconds)

    def row(self, beside: float | None) -> str:
        """A line of the table; `beside` is the rate of the same work in one process."""
        low, high = min(self.seconds), max(self.seconds)
        spread = f"{self.log.messages / high / 1e3:,.0f}–{self.log.messages / low / 1e3:,.0f}"
        megabytes = self.rate * self.log.log_bytes / self.log.messages / 1e6
        ratio = "" if beside is None else f"{self.rate / beside:.2f}"
        memory = f"{self.worker_bytes / KIB**2:,.0f}" if self.worker_bytes else ""
        return (
            f"| {self.log.title} | {self.work} | {self.rate / 1e3:,.0f} | {spread}"
            f" | {megabytes:,.0f} | {ratio} | {memory} | {self.cpu} |"
        )


# The work -----------------------------------------------------------------------------------------


def parse(log: Log, columns: dict[str, str]) -> None:
    """(a): what all of Spark's tasks do, one after the other in this process."""
    rows = parsed_rows(log, columns, slice(None))
    assert rows == log.messages, rows


def parsed_rows(log: Log, columns: dict[str, str], part: slice) -> int:
    """Parse some of the tasks' ranges; how many rows they have."""
    reader = BatchReader(read_options({"path": str(log.directory), **columns}))
    return sum(
        batch.num_rows
        for partition in list(reader.partitions())[part]
        for batch in reader.read(partition)
    )


def write_parquet(log: Log, folder: Path) -> None:
    """(b): the archive's files, written range after range in this process."""
    messages = written_messages(log, folder, slice(None))
    assert messages == log.messages, messages


def written_messages(log: Log, folder: Path, part: slice) -> int:
    """Write the files of some ranges; how many messages they hold."""
    source = LogDirectory(str(log.directory))
    archive = Archive.open(str(folder))
    position = source.position()
    ends = [base - 1 for base in position.bases[1:]] + [position.last_index]
    messages = 0
    for first, last in list(zip(position.bases, ends, strict=True))[part]:
        chain = chain_before_log(source, position) if first == position.first_index else None
        done = write_range(
            LogRange(first, last, chain), source=source, archive=archive, names=QUEUES
        )
        messages += done.messages
    return messages


def by_two(pool: Executor, log: Log, work: Callable[..., int], *others: Any) -> None:
    """Let each of two processes do every other range."""
    halves = [pool.submit(work, log, *others, slice(start, None, 2)) for start in (0, 1)]
    done = sum(half.result() for half in halves)
    assert done == log.messages, done


def spark_noop(spark: Any, log: Log, columns: dict[str, str]) -> None:
    """Read the columns, by default all, and throw them away."""
    frame = spark.read.format("holdfast").options(**columns).load(str(log.directory))
    frame.write.format("noop").mode("overwrite").save()


def parquet_noop(spark: Any, place: Path) -> None:
    """The same with what Spark has written as Parquet, by its own source."""
    spark.read.parquet(str(place)).write.format("noop").mode("overwrite").save()


def spark_archive(spark: Any, log: Log, folder: Path) -> None:
    """The pipeline `archive`, from nothing."""
    done = archive_once(
        spark, LogDirectory(str(log.directory)), Archive.open(str(folder)), ArchiveSettings()
    )
    assert done.messages == log.messages, done.messages


@contextmanager
def fresh(folder: Path) -> Iterator[Path]:
    """A folder that is not there before and after."""
    target = folder / "archive"
    shutil.rmtree(target, ignore_errors=True)
    try:
        yield target
    finally:
        shutil.rmtree(target, ignore_errors=True)


# Measuring ----------------------------------------------------------------------------------------


class SparkUse:
    """What Spark took while this was entered: memory of the largest worker, processor time."""

    def __init__(self, rows: int) -> None:
        self.bytes = 0
        self.cpu = ""
        self._rows = rows
        self._seconds: dict[tuple[bool, str], list[float]] = {}
        """Of each process, first and last: whether it is a worker, and which it is."""

        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()
        used = [0.0, 0.0]
        for (is_worker, _name), (first, last) in self._seconds.items():
            used[is_worker] += last - first
        java, python = (seconds / self._rows * 1e6 for seconds in used)
        self.cpu = f"{java:.1f} + {python:.1f}"

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._look()

    def _look(self) -> None:
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if int(place.name) != os.getpid() and _is_ours(int(place.name)):
                    self._note(place)
            except (OSError, ValueError, IndexError):
                continue  # it has ended

    def _note(self, place: Path) -> None:
        is_worker = _is_worker(place)
        words = (place / "stat").read_text().rpartition(")")[2].split()
        seconds = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        # What comes later began with nothing: only what is there at first has a past.
        known = (is_worker, f"{place.name} of {words[19]}")
        first = seconds if not self._thread.is_alive() and not self._ended.is_set() else 0.0
        self._seconds.setdefault(known, [first, seconds])[1] = seconds
        if is_worker:
            pages = int((place / "statm").read_text().split()[1])
            self.bytes = max(self.bytes, pages * os.sysconf("SC_PAGE_SIZE"))


def _is_worker(place: Path) -> bool:
    """Whether a process is a Python worker of Spark, or the daemon that it was forked from."""
    words = (place / "cmdline").read_bytes().split(b"\0")
    return any(word in words for word in (b"pyspark.daemon", b"holdfast.spark.worker_daemon"))


def _is_ours(process: int) -> bool:
    """Whether a process descends from this one: others may run Spark here too."""
    while process > 1 and process != os.getpid():
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process == os.getpid()


def timed(work: Callable[[], None], rounds: int) -> list[float]:
    """Seconds of each round, after one that does not count."""
    found = []
    for _ in range(rounds + 1):
        gc.collect()
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found[1:]


def measure(spark: Any, pool: Executor, log: Log, folder: Path, rounds: int) -> list[Result]:
    """All lines of one log; `pool` has two processes."""

    def parquet(write: Callable[[Path], None]) -> Callable[[], None]:
        def work() -> None:
            with fresh(folder) as target:
                write(target)

        return work

    found = []
    columns: dict[str, str] = {}
    for name in ("", ", six columns"):
        seconds = timed(partial(parse, log, columns), rounds)
        found.append(Result(log, f"(a) parser, one process{name}", seconds))
        seconds = timed(partial(by_two, pool, log, parsed_rows, columns), rounds)
        found.append(Result(log, f"parser, two processes{name}", seconds))
        with SparkUse(log.messages * (rounds + 1)) as use:
            seconds = timed(partial(spark_noop, spark, log, columns), rounds)
        found.append(Result(log, f"Spark into noop{name}", seconds, use.bytes, use.cpu))
        columns = {"columns": SIX_COLUMNS}
    with fresh(folder) as target:
        spark.read.format("holdfast").options(**columns).load(str(log.directory)).write.parquet(
            str(target)
        )
        seconds = timed(partial(parquet_noop, spark, target), rounds)
    found.append(Result(log, "Spark's own Parquet source, six columns", seconds))
    seconds = timed(parquet(lambda target: write_parquet(log, target)), rounds)
    found.append(Result(log, "(b) parser and Parquet, one process", seconds))
    twice = partial(by_two, pool, log, written_messages)
    seconds = timed(parquet(twice), rounds)
    found.append(Result(log, "parser and Parquet, two processes", seconds))
    with SparkUse(log.messages * (rounds + 1)) as use:
        seconds = timed(parquet(lambda target: spark_archive(spark, log, target)), rounds)
    found.append(Result(log, "Spark, archive", seconds, use.bytes, use.cpu))
    for result in found:
        print(result.row(None), flush=True)
    return found


# The page -----------------------------------------------------------------------------------------

_PAGE = """\
# Benchmarks of the pipeline on Spark

Written by `{command}`;
nobody edits it by hand. Absolute numbers belong to the machine below, where Java and the Python
workers share the processors; ratios travel better.

{conditions}

{notice}| log | work | 1000 rows/s | range | MB/s of log | × of one process | peak MiB | µs/row |
|---|---|---|---|---|---|---|---|
{rows}

Medians of {rounds} warm rounds. `noop` is Spark's sink that throws away; it is given all columns of
`messages`, or six (`{columns}`).
(a) is the same parser without Spark; (b) the archive's own writer, with the same Parquet, without
Spark. Two processes at once, each with every other range, show what this machine's two processors
give; Spark's two workers cannot do more. Reach: {noop} of one process for six columns, {archive}
for the archive. Starting Spark took {start:.1f} s, which is in none of the figures. The peak is
that of the largest Python worker: the line of a tenth of a log beside the whole one tells whether
it grows with the log. The last column is processor time per row, of Java and of the Python workers,
the first round included: in `noop` each row passes from Python to Java through a socket and is made
a row of Spark's there, which the archive spares: its workers write the files themselves and send
Java only what they wrote.
"""


def page(results: list[Result], arguments: argparse.Namespace, **facts: Any) -> str:
    """The whole page."""
    rows = []
    beside: float | None = None
    for each in results:
        if each.work.startswith("("):
            beside = each.rate
            rows.append(each.row(None))
        else:
            rows.append(each.row(None if "Parquet source" in each.work else beside))
    notice = ""
    if facts["scale"] > 1:
        notice = (
            f"**Measured on 1/{facts['scale']} of the logs**, so that fixed costs (planning,\n"
            "starting tasks) weigh far more than they should. These are not the figures of the"
            " goal.\n\n"
        )
    if facts["load"] > 1.0:
        notice += (
            f"**The machine was shared**: the load average before was {facts['load']:.1f}.\n"
            "Neither absolute numbers nor ratios can be relied on.\n\n"
        )
    return _PAGE.format(
        command=facts["command"],
        conditions="\n".join(f"- {name}: {value}" for name, value in facts["conditions"].items()),
        notice=notice,
        rows="\n".join(rows),
        rounds=arguments.rounds,
        noop=REACH_NOOP,
        archive=REACH_ARCHIVE,
        columns=SIX_COLUMNS,
        start=facts["start"],
    )


def main() -> None:
    """Write the logs, measure, tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the logs")
    parser.add_argument("--scale", type=int, help="another part of them: 10 is a tenth")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where the logs are written")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--write", type=Path, help="the page to write")
    arguments = parser.parse_args()
    scale = arguments.scale or (100 if arguments.quick else 1)
    logs = [
        Log("2 M × 1 KiB, a tenth", 200_000 // scale, KIB),
        Log("2 M × 1 KiB", 2_000_000 // scale, KIB),
        Log("10 M × 100 B, a tenth", 1_000_000 // scale, 100),
        Log("10 M × 100 B", 10_000_000 // scale, 100),
    ]
    if scale > 1:
        logs = logs[1::2]
    load = load_average()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=arguments.directory) as name,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
    ):
        folder = Path(name)
        conditions = heading(folder)
        began = time.perf_counter()
        spark = spark_session("bench", arguments.master)
        spark.range(1).count()
        start = time.perf_counter() - began
        results: list[Result] = []
        for log in logs:
            log.title += f" / {scale}" if scale > 1 else ""
            log.write(folder)
            results += measure(spark, pool, log, folder, arguments.rounds)
            shutil.rmtree(log.directory)
        spark.stop()
    options = (f" --scale {scale}" if scale > 1 else "") + f" --rounds {arguments.rounds}"
    text = page(
        results,
        arguments,
        start=start,
        scale=scale,
        load=load,
        conditions=conditions,
        command=f".venv/bin/python benches/spark.py{options} --write {arguments.write}",
    )
    print(text)
    if arguments.write:
        arguments.write.write_text(text)


if __name__ == "__main__":
    main()
