"""
One run: cluster, traffic, faults and samplers together, and their orderly end.

Interrupted (Ctrl-C, SIGTERM) it ends the traffic, takes the account of what was sent until then and
reports; interrupted again it stops at once. The brokers are ended on every way out.

The caller's thread watches and tells; everything else has threads of its own.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from holdfast import __version__
from holdfast.testing.local_cluster import LocalCluster, LocalNodeError
from trials.soak.books import Meter
from trials.soak.guard import guarded
from trials.soak.mild_faults import MildFaults
from trials.soak.samples import ClientSample, FaultMark, Recorder
from trials.soak.sampling import NodeSampler, rss_of, tracebacks
from trials.soak.settings import SoakSettings
from trials.soak.traffic import Traffic

_POLL_SECONDS = 0.05
_EMPTY_SECONDS_MAX = 10.0


class Run:
    """One soak; `run` returns when the record is whole."""

    def __init__(
        self, settings: SoakSettings, folder: Path, console: Console, started: str
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.console = console
        self.started = started
        """The wall clock's word for the report."""
        self.began = time.monotonic()
        self.is_interrupted = False
        self.meter = Meter(self.began)
        self.latest: ClientSample | None = None
        self.gap_ms = 0.0
        """The longest since the last line of progress."""

    @property
    def cluster_folder(self) -> Path:
        """Where the nodes keep their data and logs."""
        return self.folder / "cluster"

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began

    def run(self) -> None:
        """Run it; what was seen is in the folder afterwards, also after an error."""
        settings = self.settings
        arguments = ["--segment", str(settings.segment), "--memory", str(settings.memory_bytes)]
        with ExitStack() as stack:
            recorder = stack.enter_context(Recorder(self.folder))
            recorder.write("run", self._description())
            stack.enter_context(self._interruptible())
            stack.enter_context(guarded(self.cluster_folder))
            cluster = stack.enter_context(
                LocalCluster(self.cluster_folder, settings.topology, arguments)
            )
            for node in cluster.nodes.values():
                node.is_detached = True
            try:
                cluster.start()
                self._soak(cluster, recorder)
            except (LocalNodeError, OSError) as error:
                recorder.write("problem", {"at": self.now(), "text": str(error)})
            for text in tracebacks(list(cluster.nodes.values())):
                recorder.write("problem", {"at": self.now(), "text": text})
            end = {"at": self.now(), "is_interrupted": self.is_interrupted}
            recorder.write("end", end)

    def _soak(self, cluster: LocalCluster, recorder: Recorder) -> None:
        settings = self.settings
        self.began = time.monotonic()
        self.meter = Meter(self.began)
        addresses = cluster.stomp_addresses.split(",")
        traffic = Traffic(addresses, cluster.uri, settings, self.meter)
        faults = MildFaults(cluster, settings.seed, settings.fault_interval, self._marker(recorder))
        with ExitStack() as stack:
            samplers = [
                stack.enter_context(NodeSampler(node, recorder, self.now, settings.sample_seconds))
                for node in cluster.nodes.values()
            ]
            traffic.start()
            if settings.has_faults:
                stack.enter_context(faults)
            self._watch(traffic, faults, samplers, recorder)
            self._tell("ending: the fault under way is mended, the queues are drained")
            faults.stop()
            for row in traffic.finish(settings.finish_seconds, self.now()):
                recorder.note(row)
            for text in faults.problems:
                recorder.write("problem", {"at": self.now(), "text": text})
            cluster.wait_level()
            self._check_empty(cluster, recorder)

    def _watch(
        self,
        traffic: Traffic,
        faults: MildFaults,
        samplers: list[NodeSampler],
        recorder: Recorder,
    ) -> None:
        """Take the clients' samples and tell the progress until it is time to end."""
        settings = self.settings
        sample_at, tell_at = settings.sample_seconds, settings.progress_seconds
        while self.now() < settings.seconds and not self.is_interrupted and not faults.problems:
            time.sleep(_POLL_SECONDS)
            if self.now() >= sample_at:
                sample_at = max(sample_at + settings.sample_seconds, self.now())
                sample = self.meter.take(
                    round(self.now(), 3), time.monotonic(), traffic.due_count, rss_of(os.getpid())
                )
                self.latest = sample
                self.gap_ms = max(self.gap_ms, sample.gap_ms)
                recorder.note(sample)
            if self.now() >= tell_at:
                tell_at += settings.progress_seconds
                self._tell(self._progress(faults, samplers))
                self.gap_ms = 0.0

    def _marker(self, recorder: Recorder) -> Callable[[str, str, float, float], None]:
        def note(kind: str, node: str, began: float, seconds: float) -> None:
            gap = self.meter.gap_since(began, time.monotonic())
            recorder.note(
                FaultMark(
                    at=round(began - self.began, 3),
                    fault=kind,
                    node=node,
                    seconds=round(seconds, 3),
                    gap_ms=round(gap * 1000, 1),
                )
            )

        return note

    def _check_empty(self, cluster: LocalCluster, recorder: Recorder) -> None:
        """Once all is settled nothing lasting may be left, on any node."""
        for node in cluster.nodes.values():
            deadline = time.monotonic() + _EMPTY_SECONDS_MAX
            left: int | None = None
            while left != 0 and time.monotonic() < deadline:
                status = node.status()
                left = None if status is None else int(status["store"]["live_messages"])
                time.sleep(_POLL_SECONDS)
            if left:
                text = f"node {node.name} still holds {left:,} messages after all were settled"
                recorder.write("problem", {"at": self.now(), "text": text})
            elif left is None:
                text = f"node {node.name} does not answer at the end"
                recorder.write("problem", {"at": self.now(), "text": text})

    # Telling --------------------------------------------------------------------------------------

    def _progress(self, faults: MildFaults, samplers: list[NodeSampler]) -> str:
        latest = [sampler.latest for sampler in samplers if sampler.latest is not None]
        leader = next((sample for sample in latest if sample.role == "leader"), None)
        parts = [f"leader {leader.node} term {leader.term}" if leader else "no leader"]
        client = self.latest
        if client is not None:
            parts.append(f"{client.confirms / client.seconds:,.0f} confirms/s")
            parts.append(f"p99 {client.p99_ms:,.0f} ms" if client.p99_ms is not None else "p99 -")
            parts.append(f"longest gap {self.gap_ms:,.0f} ms")
        if leader is not None:
            parts.append(f"{leader.depth:,} queued")
        parts.append("MiB " + _each(sample.rss_bytes >> 20 for sample in latest))
        parts.append("handles " + _each(sample.fds for sample in latest))
        parts.append("disk " + _each(sample.disk_bytes >> 20 for sample in latest))
        total = sum(faults.counts.values())
        parts.append(f"{total} faults, the last: {faults.last}" if total else "no fault yet")
        return " · ".join(parts)

    def _tell(self, text: str) -> None:
        left = max(0.0, self.settings.seconds - self.now())
        self.console.print(f"{self.now():6.0f} s ({left:.0f} left)  {text}", markup=False)

    def _description(self) -> dict[str, object]:
        settings = self.settings
        return {
            "started": self.started,
            "version": __version__,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.release()}",
            "seconds": settings.seconds,
            "topology": settings.topology,
            "seed": settings.seed,
            "rate": settings.rate,
            "segment_bytes": settings.segment_bytes,
            "warm_up_seconds": settings.warm_up_seconds,
        }

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let the first signal end the run in order, and the second at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def interrupt(number: int, _frame: FrameType | None) -> None:
            if self.is_interrupted:
                raise KeyboardInterrupt
            self.is_interrupted = True

        numbers = (signal.SIGINT, signal.SIGTERM)
        former = [signal.signal(number, interrupt) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, former, strict=True):
                signal.signal(number, handler)

    def clear(self, *, is_ok: bool) -> None:
        """Remove the nodes' data after a good run; their logs stay, after a bad one all stays."""
        if not is_ok:
            return
        for node in self.cluster_folder.iterdir():
            if node.is_dir():
                shutil.rmtree(node, ignore_errors=True)


def _each(values: Iterator[int]) -> str:
    return "/".join(f"{value:,}" for value in values)
