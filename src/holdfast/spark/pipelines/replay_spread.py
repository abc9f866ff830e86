"""
A replay sent by many: Spark's tasks take whole blocks of numbers, each over a link of its own.

A block is a producer (`replay_numbers`), and its numbers are places among what is chosen of it. So
it is all the same who sends it: a task that runs twice, another count of senders the next time, or
one sender on the driver store nothing twice. What is lost is the order between blocks: between
queues, and between every ten thousand sequences of one queue. Within a block it is kept.

Invariants:
    All rows of a block are sent by one task, in the order of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import uuid4

from pyspark.accumulators import AccumulatorParam

from holdfast.environment.clock import Clock, SystemClock
from holdfast.spark.pipelines import replay_numbers
from holdfast.spark.pipelines.job_ahead import JobAhead
from holdfast.spark.pipelines.replay_numbers import Stretches
from holdfast.spark.pipelines.replay_sender import ReplayProgress, Sender, Told, first_copies
from holdfast.spark.worker_memory import keep_loaded

if TYPE_CHECKING:
    from pyspark.core.status import StatusTracker
    from pyspark.sql import DataFrame

TELL_SECONDS: Final = 0.5
SENDERS_MAX: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """What each sender is told."""

    job: str
    target: str
    stretches: Stretches
    uri: str
    rate: float | None
    """Messages per second at most, of one sender."""

    timeout: float | None = None
    """Seconds without a confirmation after which a sender gives up."""

    client_options: dict[str, Any] = field(default_factory=dict, repr=False)


class _Sum(AccumulatorParam[ReplayProgress]):
    """What tasks have sent, added up; a task that fails adds nothing."""

    def zero(self, value: ReplayProgress) -> ReplayProgress:
        return ReplayProgress(job=value.job)

    def addInPlace(self, value1: ReplayProgress, value2: ReplayProgress) -> ReplayProgress:  # noqa: N802 - PySpark's
        value1.confirmed += value2.confirmed
        value1.body_bytes += value2.body_bytes
        value1.by_destination.update(value2.by_destination)
        return value1


def send_spread(
    messages: DataFrame, sending: Sending, senders: int, told: Told | None, clock: Clock
) -> ReplayProgress:
    """
    Send the chosen messages by so many tasks, and wait until all are stored.

    `told` hears now and then how far reading and sending are, and how much those senders have
    stored that are done: Spark hears no sooner of a task. Of which queues is known at the end.
    Cancelling gives up what is not sent yet; the same call again stores nothing twice.

    Raises:
        py4j.protocol.Py4JJavaError: A task failed; its text has the HoldfastError of the worker.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    context = messages.sparkSession.sparkContext
    began = clock.monotonic()
    parts = context.accumulator(ReplayProgress(job=sending.job), _Sum())
    block = f.expr(f"sequence div {replay_numbers.BLOCK_SEQUENCES}").alias("block")
    placed = (
        messages.select("*", block)
        .repartition(senders, "queue_number", "block")
        .sortWithinPartitions("queue_number", "block", "log_index", "ordinal")
    )

    def send() -> list[ReplayProgress]:
        def task(rows: Iterable[Any]) -> Iterable[ReplayProgress]:
            for done in sent(iter(rows), sending):
                parts.add(done)
                yield done

        context.setJobGroup(groups.reading, "messages of a replay are read")
        rows = placed.rdd  # Where Spark plans as it goes, it shuffles here already.
        context.setJobGroup(groups.sending, "messages of a replay are sent")
        found: list[ReplayProgress] = rows.mapPartitions(task).collect()
        return found

    groups = JobGroups(f"holdfast-reading-{uuid4().hex}", f"holdfast-sending-{uuid4().hex}")
    ahead = JobAhead(context, send)
    try:
        while not ahead.wait(TELL_SECONDS):
            done = parts.value  # Another thread adds to it.
            if told is not None:
                step, seconds = step_of(context.statusTracker(), groups), clock.monotonic() - began
                told(
                    ReplayProgress(sending.job, done.confirmed, done.body_bytes, seconds, step=step)
                )
        done = ReplayProgress(job=sending.job)
        for part in ahead.take():
            _Sum().addInPlace(done, part)
    finally:
        ahead.give_up()
    done.seconds = clock.monotonic() - began
    if told is not None:
        told(done)
    return done


class JobGroups(NamedTuple):
    """The names under which Spark knows the jobs of one replay."""

    reading: str
    sending: str


def step_of(tracker: StatusTracker, groups: JobGroups) -> str:
    """Say what the tasks are at, and how many are done; nothing while none runs."""
    active = set(tracker.getActiveStageIds())
    for group in (groups.sending, groups.reading):
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = sorted({stage for job in jobs if job is not None for stage in job.stageIds})
        for stage in stages:
            found = tracker.getStageInfo(stage) if stage in active else None
            if found is None:
                continue
            done = f"{found.numCompletedTasks:,} of {found.numTasks:,}"
            # A job that sends has all that it waits for before its own stage, which is the newest.
            is_sending = group == groups.sending and stage == stages[-1]
            return f"{done} senders done" if is_sending else f"{done} parts read"
    return ""


def sent(rows: Iterator[Any], sending: Sending) -> Iterator[ReplayProgress]:
    """Send what one task has, if it has anything, and tell it; runs in a worker."""
    keep_loaded()
    first = next(rows, None)
    if first is None:
        return
    sender = Sender(
        sending.job,
        sending.target,
        sending.stretches,
        rate=sending.rate,
        told=None,
        clock=SystemClock(),
    )
    found = in_blocks(chain((first,), rows), sending.stretches)
    asyncio.run(sender.run(sending.uri, found, sending.client_options, sending.timeout))
    yield sender.progress


def in_blocks(rows: Iterable[Any], stretches: Stretches) -> Iterator[Any]:
    """
    Leave out copies, block by block.

    Raises:
        StoreError: The rows of a block are not in the order of the log.
    """
    for _, block in groupby(rows, key=lambda row: (row.queue_number, row.block)):
        yield from first_copies(block, stretches)
