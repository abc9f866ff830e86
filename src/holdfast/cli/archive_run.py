"""
One run of the archiver: until all is archived, or until it is told to stop.

Who archives for ever outlives what happens to a cluster and an object store in a year: a link that
fails, here or in a task, a worker of Spark's that is killed, a store that answers with an error.
That is told and tried again after the interval, and after longer and longer ones. What does not go
away by itself ends the command: an archive that does not fit the log, one that could not be written
to even once, and a Python of the workers that could not be started even once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from holdfast.cli.archive_table import KeptTable
from holdfast.cli.output import write_error
from holdfast.cli.spark_options import told_plainly
from holdfast.environment.clock import SystemClock
from holdfast.errors import (
    HoldfastError,
    LinkError,
    NoWorkerError,
    UnreadableArchiveError,
    WorkerLostError,
)
from holdfast.spark.archive.cleaning import sweep
from holdfast.spark.archive.manifest_reader import ManifestReader
from holdfast.spark.archive.manifest_snapshot import UNREAD_MIN
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.holds import Hold
from holdfast.spark.log.source import LogSource
from holdfast.spark.pipelines.archive import (
    ArchiveProgress,
    ArchiveSettings,
    Told,
    archive_once,
    compact,
)

SWEEP_SECONDS = 3600.0
PAUSE_SECONDS_MAX = 60.0
"""The longest between two attempts that fail, if the interval is not longer."""


class ArchiveRun:
    """Archives from a source into an archive, and tidies it."""

    def __init__(
        self,
        spark: Any,
        source: LogSource,
        store: Archive,
        settings: ArchiveSettings,
        hold: Hold | None,
        *,
        told: Told | None = None,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.spark = spark
        self.source = source
        self.store = store
        self.settings = settings
        self.hold = hold
        self.told = told
        self.progress = ArchiveProgress()
        self.stopping = threading.Event()
        self.keep_seconds = 0.0
        self.table = KeptTable(store)
        self.manifests = ManifestReader(store.place)
        self._wait = wait or self.stopping.wait
        """Waits so many seconds, or until it is told to stop."""
        self._sweep_due = 0.0
        self._snapshot_due = 0
        """At so many commits it is looked whether the archive's snapshot lacks many of them."""
        self._is_hold_set = hold is None
        self._held_from = 0
        self._has_worked = False

    def loop(self, interval_seconds: float | None) -> None:
        """
        Archive once, or again and again until SIGTERM or SIGINT; what is begun is finished.

        Raises:
            ArchiveError: Archive and log do not fit together.
            LinkError: Once: no node answers.
            NoWorkerError: Spark has no Python for its workers.
        """
        if interval_seconds is None:
            self._attempt()
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stopping.set())
        pause = interval_seconds
        while not self.stopping.is_set():
            waits_for = self._try()
            if waits_for:
                write_error(f"{waits_for}; again in {pause:g} s")
                self._wait(pause)
                pause = min(2 * pause, max(interval_seconds, PAUSE_SECONDS_MAX))
            else:
                pause = interval_seconds
                self._wait(pause)

    def _try(self) -> str:
        """Attempt it once; gives what must be waited for, and why, if that is of use."""
        try:
            with told_plainly():
                self._attempt()
        except WorkerLostError as error:
            if isinstance(error, NoWorkerError) and not self._works:
                raise
            self._renew_hold()
            return f"waiting for Spark: {error}"
        except LinkError as error:
            return f"waiting for the cluster: {error}"
        except (OSError, UnreadableArchiveError) as error:
            if not self._works:
                raise
            self._renew_hold()
            return f"waiting for the archive: {error}"
        self._has_worked = True
        return ""

    @property
    def _works(self) -> bool:
        """Whether it has come through once, or far enough to have published something."""
        return self._has_worked or bool(self.progress.commits)

    def _attempt(self) -> None:
        self._sweep()
        if not self._is_hold_set:
            # What is gone from the log already is no reason not to hold the rest of it; whether
            # the archive may go on behind a gap is decided, and said, by the archiver.
            self._move_hold(self.manifests.catalogue().last_index + 1)
            self._is_hold_set = True
        self._turn()

    def _turn(self) -> None:
        commits, warned = self.progress.commits, len(self.progress.warnings)
        archive_once(
            self.spark,
            self.source,
            self.store,
            self.settings,
            told=self.told,
            move_hold=self._move_hold,
            progress=self.progress,
            reader=self.manifests,
        )
        if self.hold is not None:
            self.hold.renew_if_due(self.progress.last_index + 1)
        # Before ranges are merged: so a version either adds entries or holds the same otherwise.
        self._follow()
        if self.progress.commits > commits:
            self.progress.compacted += compact(
                self.spark, self.store, self.settings, reader=self.manifests
            )
            self._follow()
            self._renew_snapshot()
        for warning in self.progress.warnings[warned:]:
            write_error(f"warning: {warning}")

    def _renew_snapshot(self) -> None:
        """Look now and then whether it is due: that alone reads all of what it has."""
        if self.progress.commits < self._snapshot_due:
            return
        self._snapshot_due = self.progress.commits + UNREAD_MIN
        try:
            self.manifests.renew_snapshot()
        except OSError as error:
            write_error(f"warning: the archive's snapshot is not renewed: {error}")

    def _follow(self) -> None:
        if self.progress.last_index:
            self.table.follow((self.progress.commits, self.progress.compacted))

    def _move_hold(self, index: int) -> None:
        if self.hold is not None:
            self._held_from = self.hold.move(index, or_first=True)

    def _renew_hold(self) -> None:
        """Let the cluster know that the archiver lives while it waits for its store."""
        if self.hold is not None and self._held_from:
            with suppress(HoldfastError):  # what is lost is the archiver's to say
                self.hold.renew_if_due(self._held_from)

    def _sweep(self) -> None:
        """
        Tidy the archive, at the start and then every hour.

        A store that lets nothing go is no reason to archive nothing: the log does not wait.
        """
        clock = SystemClock()
        if clock.monotonic() < self._sweep_due:
            return
        now = clock.wall_microseconds()
        try:
            self.table.look()  # what is merged leaves the table before it leaves the archive
            self.progress.swept += sweep(
                self.store,
                now_microseconds=now,
                keep_seconds=self.keep_seconds,
                reader=self.manifests,
            )
        except (OSError, UnreadableArchiveError) as error:
            write_error(f"warning: the archive is not tidied: {error}")
        self._sweep_due = clock.monotonic() + SWEEP_SECONDS
