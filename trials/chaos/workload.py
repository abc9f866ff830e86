"""
The load of a chaos run: workers of both libraries, and at the end somebody who takes what is left.

A run is: `start`, faults beside `mark` and `kill_consumer`, `stop_producing`, and, once the cluster
is whole again, `finish`, which gives the histories to judge. The last worker, the sweeper, empties
every queue and the dead-letter queue, so what it does not find is gone.

Invariants:
    Every worker ever started has a history of its own, under a name of its own.
    Nothing of it is alive after `finish` or `close`.

For one thread.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from trials.chaos.history import SECOND, SWEEPER, Event, HistoryFile, read_history
from trials.chaos.schedule_rules import Plan
from trials.chaos.subscriptions import SUBSCRIPTIONS
from trials.chaos.worker import (
    FAILOVER_OPTIONS,
    PERIOD_MS_MAX,
    REPEATS_MAX,
    WorkerSettings,
    command_line,
)

logger = logging.getLogger("trials")

CLIENT = "client"
_POLL_SECONDS = 0.05
_END_SECONDS = 15.0
_LATE_SECONDS = 1.5
"""So much later than it is due a scheduled message may be."""

Spawn = Callable[..., "subprocess.Popen[bytes]"]
"""Called with (host, command, **what Popen takes)."""


class WorkloadError(RuntimeError):
    """The load itself went wrong; the sentence ends with what the worker wrote to its log."""


class Spawner(Protocol):
    """What can start a program on a host: a chaos network."""

    def spawn(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start it."""
        ...


def spawn_here(host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program on this machine, whatever the host is called."""
    return subprocess.Popen(command, **options)  # noqa: S603 - our own program


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSettings:
    """What all workers do together."""

    rate: float = 400.0
    """Messages a second sent, over all producers; relays, rejections, groups, schedules and the
    topic come on top."""

    queues: tuple[str, ...] = ("/queue/chaos.1", "/queue/chaos.2")
    libraries: tuple[str, ...] = ("holdfast", "stomp.py")
    failover_options: str = FAILOVER_OPTIONS
    """Of the holdfast library's URI."""

    producers: int = 2
    """Of each library; and one more that sends in transactions only."""

    consumers: int = 2
    """Of each library; every other one acknowledges cumulatively."""

    relays: int = 1
    group_producers: int = 1
    """Of the holdfast library, as all of groups and schedules."""

    group_consumers: int = 2
    """In each of two workers."""

    schedulers: int = 1
    topic_producers: int = 1
    """Of each library, to the topic that has durable subscriptions (`SUBSCRIPTIONS`); 0: there are
    none of these either."""

    reject_share: float = 0.01
    hold_seconds: float = 0.3
    quiet_seconds: float = 1.5


class Workload:
    """
    The workers; use as a context manager, or call `close`.

    Args:
        network: Where the workers run, on its host "client"; None: on this machine.
        addresses: `host:port` of every node that may serve.
        folder: For histories and the workers' logs.
        spawn: Instead of the network's.
        environment: More of it for a worker, by its name: as whom it logs in.
    """

    def __init__(
        self,
        network: Spawner | None,
        addresses: Sequence[str],
        folder: Path,
        settings: WorkloadSettings | None = None,
        seed: int = 0,
        *,
        spawn: Spawn | None = None,
        environment: Callable[[str], Mapping[str, str]] = lambda _name: {},
    ) -> None:
        self._environment = environment
        self.addresses = tuple(addresses)
        self.folder = folder
        self.settings = settings or WorkloadSettings()
        self.seed = seed
        self._spawn = spawn or (network.spawn if network is not None else spawn_here)
        self._chance = random.Random(f"{seed} workload")  # noqa: S311 - no secret
        self._workers: dict[str, tuple[WorkerSettings, subprocess.Popen[bytes]]] = {}
        self._told: dict[str, int] = {}
        """How long a worker's history was when it was first told to stop."""
        self._killed: set[str] = set()
        self._paths: list[Path] = []
        self._seen: dict[Path, tuple[int, int]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        self._marks = HistoryFile(folder / "marks.jsonl")
        self._paths.append(self._marks.path)

    # Life ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all workers; returns at once."""
        settings = self.settings
        for library in settings.libraries:
            letter = library[0]
            self._start(
                self._settings_for(
                    library,
                    f"{letter}-producers",
                    producers=settings.producers,
                    transactions=1,
                    rate=settings.rate / len(settings.libraries),
                    topic_producers=settings.topic_producers,
                    **self._featured(library, "group_producers", "schedulers"),
                )
            )
            self._start(self._consumers(library, f"{letter}-consumers"))
            if settings.topic_producers:
                self._start(self._subscribers(library, f"{letter}-subscribers"))
        if "holdfast" in settings.libraries and settings.group_consumers:
            again = self._settings_for(
                "holdfast",
                "g-consumers",
                group_consumers=settings.group_consumers,
                reject_share=settings.reject_share,
                hold_seconds=settings.hold_seconds,
            )
            self._start(again)

    def mark(self, text: str) -> None:
        """Write something into the histories: a fault begins."""
        self._marks.write("mark", text=text)

    def kill_consumer(self) -> str:
        """
        Kill a worker with consumers (SIGKILL), whatever they hold; another one takes its place.

        Gives the name of the dead.
        """
        names = [name for name, (settings, _) in self._workers.items() if settings.consumes]
        # Of those that died least often, so that each kind does.
        least = min(map(self._deaths_of, names))
        name = self._chance.choice(sorted(it for it in names if self._deaths_of(it) == least))
        settings, process = self._workers.pop(name)
        self._killed.add(name)
        process.kill()
        process.wait(_END_SECONDS)
        number = self._deaths_of(name)
        following = f"{name.split('.')[0]}.{number}"
        history = self.folder / f"{following}.jsonl"
        self._start(replace(settings, name=following, history=history))
        return name

    def _deaths_of(self, name: str) -> int:
        """How often this worker, and those in whose place it is, were killed."""
        first = name.split(".")[0]
        return sum(each.split(".")[0] == first for each in self._killed)

    def stop_producing(self, seconds: float = 40.0) -> None:
        """
        Send nothing new, and wait until every send has its outcome or is given up.

        Raises:
            WorkloadError: A worker ended by itself or does not come to an end.
        """
        before = self._signal(signal.SIGUSR1)
        deadline = time.monotonic() + seconds
        for name, (settings, process) in self._workers.items():
            while not _has_line(settings.history, b'"e":"finished"', before[name]):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise self._error(name, "did not finish producing")
                time.sleep(_POLL_SECONDS)

    def finish(self, seconds: float = 90.0) -> list[Path]:
        """
        Stop producing, consume everything, end all workers; gives the histories.

        Raises:
            WorkloadError: It is not done after so long; everything is killed then.
        """
        deadline = time.monotonic() + seconds
        try:
            self.stop_producing(seconds)
            self._await_schedules()
            self._signal(signal.SIGTERM)
            self._await_end(deadline)
            self._start_sweepers()
            self._signal(signal.SIGTERM)
            self._await_end(deadline)
        finally:
            self.close()
        return self.paths

    def _await_schedules(self) -> None:
        last = max((_last_due(path) for path in self.paths), default=0.0)
        if last:
            # What nobody could send in time comes later, and its repetitions behind it.
            last = max(last, time.monotonic() + 2 * REPEATS_MAX * PERIOD_MS_MAX / 1000)
        time.sleep(max(0.0, last + _LATE_SECONDS - time.monotonic()))

    def close(self) -> None:
        """Kill what still runs."""
        for _, process in self._workers.values():
            process.kill()
            process.wait(_END_SECONDS)
        self._workers.clear()

    @property
    def paths(self) -> list[Path]:
        """Every history so far, also of the dead, and the marks."""
        return [path for path in self._paths if path.exists()]

    def __enter__(self) -> Self:
        """Nothing is started by entering."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs."""
        self.close()

    # Looking on ----------------------------------------------------------------------------------

    @property
    def confirmed_count(self) -> int:
        """Messages and transactions confirmed so far, as far as it is written."""
        return sum(self._count(path) for path in self.paths)

    def wait_confirmed(self, more: int, seconds: float = 30.0) -> None:
        """
        Wait until so many more messages and transactions are confirmed than now.

        Raises:
            WorkloadError: They were not in time, or a worker ended by itself.
        """
        wanted = self.confirmed_count + more
        deadline = time.monotonic() + seconds
        while self.confirmed_count < wanted:
            for name, (_, process) in self._workers.items():
                if process.poll() is not None:
                    raise self._error(name, f"ended with {process.returncode}")
            if time.monotonic() > deadline:
                raise WorkloadError(f"not {more} more confirms within {seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def complaints(self) -> list[str]:
        """What workers wrote that needs a look: those that ended although nobody told them."""
        return [
            f"{name} ended with {process.returncode}\n{self._log_tail(name)}"
            for name, (_, process) in self._workers.items()
            if process.poll() is not None
        ]

    def _count(self, path: Path) -> int:
        """Count the confirms of a history, reading on from where it was read to."""
        offset, count = self._seen.get(path, (0, 0))
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read()
        end = data.rfind(b"\n") + 1
        data = data[:end]
        count += data.count(b'"e":"stored"') + data.count(b'"e":"committed"')
        self._seen[path] = (offset + end, count)
        return count

    # Workers -------------------------------------------------------------------------------------

    def _settings_for(self, library: str, name: str, **fields: Any) -> WorkerSettings:
        settings = WorkerSettings(
            library=library,
            brokers=self.addresses,
            name=name,
            history=self.folder / f"{name}.jsonl",
            seed=self.seed,
            queues=self.settings.queues,
            quiet_seconds=self.settings.quiet_seconds,
            failover_options=self.settings.failover_options,
        )
        return replace(settings, **fields)

    def _featured(self, library: str, *names: str) -> dict[str, int]:
        """Settings of what a library does that knows groups and schedules; of others nothing."""
        if library != "holdfast":
            return {}
        return {name: getattr(self.settings, name) for name in names}

    def _consumers(self, library: str, name: str) -> WorkerSettings:
        settings = self.settings
        return self._settings_for(
            library,
            name,
            consumers=settings.consumers,
            **self._featured(library, "relays", "group_consumers"),
            schedule_consumers=int(library == "holdfast" and settings.schedulers > 0),
            reject_share=settings.reject_share,
            hold_seconds=settings.hold_seconds,
        )

    def _subscribers(self, library: str, name: str) -> WorkerSettings:
        settings = self.settings
        return self._settings_for(
            library,
            name,
            subscriptions=self._subscriptions_of(library),
            reject_share=settings.reject_share,
            hold_seconds=settings.hold_seconds,
        )

    def _subscriptions_of(self, library: str) -> tuple[str, ...]:
        if not self.settings.topic_producers or library not in self.settings.libraries:
            return ()
        return tuple(each.name for each in SUBSCRIPTIONS.values() if each.library == library)

    def _start_sweepers(self) -> None:
        """Start who takes what is left; of RabbitMQ's words only stomp.py's clients make use."""
        last = {"reject_share": 0.0, "hold_seconds": 0.0}
        sweeper = self._settings_for(
            "holdfast",
            SWEEPER,
            consumers=len(self.settings.queues),
            group_consumers=1,
            schedule_consumers=1,
            subscriptions=self._subscriptions_of("holdfast"),
            dead_letters=True,
            **last,
        )
        self._start(sweeper)
        left = self._subscriptions_of("stomp.py")
        if left:
            self._start(self._settings_for("stomp.py", f"s-{SWEEPER}", subscriptions=left, **last))

    def _start(self, settings: WorkerSettings) -> None:
        assert settings.history not in self._paths, f"{settings.name} was there before"
        with (self.folder / f"{settings.name}.log").open("ab") as log:
            process = self._spawn(
                CLIENT,
                command_line(settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environment(settings.name)},
            )
        self._workers[settings.name] = (settings, process)
        self._paths.append(settings.history)

    def _signal(self, number: signal.Signals) -> dict[str, int]:
        """Signal every worker; gives how long its history was before."""
        deadline = time.monotonic() + _END_SECONDS
        sizes = {}
        for name, (settings, process) in self._workers.items():
            # One that has hardly started does not know signals yet.
            while not _has_line(settings.history, b'"e":"begin"', 0):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise self._error(name, "did not start")
                time.sleep(_POLL_SECONDS)
            # Told twice: what it wrote the first time counts.
            first = name not in self._told
            sizes[name] = self._told.setdefault(name, settings.history.stat().st_size)
            if first or number != signal.SIGUSR1:
                process.send_signal(number)
        return sizes

    def _await_end(self, deadline: float) -> None:
        for name in list(self._workers):
            settings, process = self._workers[name]
            try:
                code = process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise self._error(name, "did not end") from None
            # One that had nothing left to do may meet the signal when it no longer listens.
            if code and not settings.history.read_bytes().endswith(b'"e":"end"}\n'):
                raise self._error(name, f"ended with {code}")
            del self._workers[name]

    def _error(self, name: str, what: str) -> WorkloadError:
        return WorkloadError(f"worker {name} {what}\n{self._log_tail(name)}")

    def _log_tail(self, name: str, lines: int = 20) -> str:
        path = self.folder / f"{name}.log"
        if not path.exists():
            return "(no log)"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


def _last_due(path: Path) -> float:
    """
    When the last of a worker's scheduled messages is due, by the monotonic clock; 0: none is.

    Behind a clock that was ahead a broker's time goes half as fast, so each may take twice as long.
    """
    if b'"d":' not in path.read_bytes():
        return 0.0
    scheduled = (event for event in read_history(path) if "d" in event)
    return max((event["t"] / SECOND + 2 * _last_ms(event) / 1000 for event in scheduled), default=0)


def _last_ms(event: Event) -> int:
    return Plan(event["d"], event.get("dp", 0), event.get("dr", 0)).last_ms


def _has_line(path: Path, part: bytes, offset: int) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        file.seek(offset)
        return part in (file.read() if offset else file.read(4096))
