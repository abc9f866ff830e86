"""
A client in a process of its own: producers and consumers over one library, with a written history.

    python -m trials.chaos.worker --library holdfast --brokers 127.0.0.1:61613,... \
        --name h1 --history h1.jsonl --seed 7 --producers 2 --consumers 2 --rate 200

SIGUSR1: send nothing new, wait for every outcome, write `finished`. SIGTERM: the same, and then
consume until nothing comes for a while, and end. SIGKILL is a fault like others: what stands in the
history until then counts.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from trials.chaos.history import HistoryFile

LIBRARIES = ("holdfast", "stomp.py")
DELAY_MS_MAX = 2_000
PERIOD_MS_MAX = 400
REPEATS_MAX = 3
TRANSACTION_COUNT_MAX = 4
"""Messages of one transaction."""
TOPIC_SLOWNESS = 3
"""A producer to the topic waits so many times longer between two messages than others."""
LOGIN_VARIABLE = "CHAOS_LOGIN"
PASSCODE_VARIABLE = "CHAOS_PASSCODE"
"""In the environment, as whom a worker logs in: a command line can be read by others."""

FAILOVER_OPTIONS = "initialReconnectDelay=10&maxReconnectDelay=200"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """What one worker does; times in seconds, rates in messages a second."""

    library: str
    brokers: tuple[str, ...]
    """`host:port` of every node that may serve."""

    name: str
    history: Path
    seed: int = 0
    queues: tuple[str, ...] = ("/queue/chaos.1", "/queue/chaos.2")
    producers: int = 0
    transactions: int = 0
    """Producers that send only in transactions."""

    relays: int = 0
    """Consumers of the first queue that send what they got on to the last one, and acknowledge it,
    in one transaction. With the holdfast library only."""

    consumers: int = 0
    """The first takes the first queue, and so on; every other one acknowledges cumulatively."""

    group_producers: int = 0
    """Producers to the grouped queue. With the holdfast library only, as the next two."""

    group_consumers: int = 0
    """Consumers of the grouped queue."""

    schedulers: int = 0
    """Producers of messages that are to come after up to `DELAY_MS_MAX`, some of them up to
    `REPEATS_MAX` times again, up to `PERIOD_MS_MAX` apart."""

    schedule_consumers: int = 0

    topic_producers: int = 0
    """Producers to the topic that has durable subscriptions; who sends in transactions sends there
    as well then."""

    subscriptions: tuple[str, ...] = ()
    """Durable subscriptions to consume from, by name."""

    failover_options: str = FAILOVER_OPTIONS
    """Of the holdfast library's URI."""

    rate: float = 100.0
    """Messages a second of all producers of this worker; those of groups and schedules come on
    top, each at the same pace; and those of the topic, at a third of it."""

    reject_share: float = 0.01
    abort_share: float = 0.1
    """Of transactions, those that are rolled back."""

    hold_seconds: float = 0.3
    """A consumer acknowledges a message after up to so long: some are always open."""

    window: int = 100
    """Unconfirmed messages per producer."""

    prefetch: int = 50
    quiet_seconds: float = 1.5
    """Nothing for so long over a working link means that a queue is empty."""

    finish_seconds: float = 30.0
    """Outcomes still missing so long after the end of producing stay unknown."""

    drain_seconds: float = 60.0
    dead_letters: bool = False
    """Take what lies on the dead-letter queue, too."""

    @property
    def sender_count(self) -> int:
        """How many producers of any kind there are."""
        plain = self.producers + self.transactions
        return plain + self.group_producers + self.schedulers + self.topic_producers

    @property
    def consumes(self) -> bool:
        """Whether it has consumers of any kind."""
        counts = (self.consumers, self.group_consumers, self.schedule_consumers)
        return any(counts) or bool(self.subscriptions)

    def share(self, producer: int) -> float:
        """Seconds between two messages of this one of all producers."""
        count = max(1, self.producers + self.transactions)
        # Not in step with each other, or their frames would always arrive together.
        return count / self.rate * (0.9 + 0.2 * (producer % 7) / 7)


class Signals:
    """What the worker was told from outside: events that its threads wait for."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        """Send nothing new."""
        self.end = threading.Event()
        """Drain, then end."""

    def install(self) -> None:
        """Listen to SIGUSR1 and SIGTERM; in the main thread."""
        signal.signal(signal.SIGUSR1, self._told)
        signal.signal(signal.SIGTERM, self._told)

    def _told(self, number: int, _frame: object) -> None:
        self.stop.set()
        if number == signal.SIGTERM:
            self.end.set()


def parse_arguments(arguments: Sequence[str] | None = None) -> WorkerSettings:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m trials.chaos.worker")
    parser.add_argument("--library", choices=LIBRARIES, required=True)
    parser.add_argument("--brokers", required=True, help="host:port,host:port,...")
    parser.add_argument("--name", required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--queues", help="/queue/a,/queue/b,...")
    parser.add_argument("--subscriptions", help="NAME,NAME,...")
    parser.add_argument("--failover-options", help="option=value&option=value...")
    for name in (
        *("seed", "producers", "transactions", "relays", "consumers", "window", "prefetch"),
        *("group-producers", "group-consumers", "schedulers", "schedule-consumers"),
        "topic-producers",
    ):
        parser.add_argument(f"--{name}", type=int)
    for name in (
        *("rate", "reject-share", "abort-share", "hold-seconds"),
        *("quiet-seconds", "finish-seconds", "drain-seconds"),
    ):
        parser.add_argument(f"--{name}", type=float)
    parser.add_argument("--dead-letters", action="store_true")
    parsed = vars(parser.parse_args(arguments))
    given = {name: value for name, value in parsed.items() if value is not None}
    for name in ("brokers", "queues", "subscriptions"):
        if name in given:
            given[name] = tuple(filter(None, given[name].split(",")))
    return WorkerSettings(**given)


def command_line(settings: WorkerSettings) -> list[str]:
    """Give the command that starts a worker with these settings."""
    command = [sys.executable, "-m", "trials.chaos.worker"]
    for item in fields(settings):
        name, value = item.name, getattr(settings, item.name)
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            command += [option] if value else []
        else:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            command += [option, text]
    return command


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one worker until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.getLogger("stomp.py").setLevel(logging.CRITICAL)  # it logs every lost link
    settings = parse_arguments(arguments)
    signals = Signals()
    signals.install()
    with HistoryFile(settings.history) as history:
        history.write(
            "begin",
            w=settings.name,
            library=settings.library,
            numbered=settings.library == "holdfast",
        )
        if settings.library == "holdfast":
            from trials.chaos import client_worker  # noqa: PLC0415 - either of the two

            client_worker.run(settings, history, signals)
        else:
            from trials.chaos import stomp_py_worker  # noqa: PLC0415 - either of the two

            stomp_py_worker.run(settings, history, signals)
        history.write("end")


if __name__ == "__main__":
    main()
