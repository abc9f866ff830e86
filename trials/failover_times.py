"""
How long nothing is confirmed when the leader goes: measured, again and again.

Three brokers as real processes at default timings and a load of small messages that sends all the
time. Either whoever leads is killed (SIGKILL: its connections close, and the others know at once),
or it falls silent (SIGSTOP: what they see of a machine that lost its power or its network). A time
without confirms runs from the last receipt of the old leader to the first one of the new, as the
producers see them; deliveries may begin again later, and their time is told beside it. The node is
started again and has caught up before the next one goes.

    python -m trials.failover_times --kills 50 --silences 20
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.ledger import Account, Ledger
from trials.clients.load import Load, LoadSettings
from trials.promises.evidence import REPOSITORY, FailoverTimes, save_failover, stamp
from trials.promises.table import AIMS_MS, histogram
from trials.promises.verdicts import percentile

SILENCE_SECONDS = 1.0
"""After so long without a word, not even a heart-beat, the load gives a broker up."""
_SETTINGS = LoadSettings(
    producers=2,
    consumers=1,
    rate=400.0,
    body_bytes=256,
    window=2000,
    deduplicated=True,
    silence_seconds=SILENCE_SECONDS,
)
_SECONDS_MAX = 60.0
KILLED, SILENT = "killed", "silent"
_QUIET_SECONDS = (0.3, 1.2)
"""Between a whole cluster and the next loss."""


class TimedLedger(Ledger):
    """A ledger that also knows the times between one confirm, or delivery, and the next."""

    def __init__(self, run: int, body_bytes: int) -> None:
        super().__init__(run, body_bytes)
        self.confirmed_at = 0.0
        self.gaps: list[tuple[float, float]] = []
        """When each time without confirms of over 10 ms began and ended, in monotonic seconds."""
        self.delivered_at = 0.0
        self.delivery_gaps: list[tuple[float, float]] = []
        """The same for deliveries."""

    def note_confirmed(self, producer: int, sequence: int, now: float) -> bool:
        """Note a receipt, and the time since the one before it."""
        is_new = super().note_confirmed(producer, sequence, now)
        if is_new:
            if self.confirmed_at and now - self.confirmed_at > 0.01:
                self.gaps.append((self.confirmed_at, now))
            self.confirmed_at = now
        return is_new

    def note_delivered(
        self, consumer: int, body: bytes, message_id: bytes, *, redelivered: bool, now: float
    ) -> None:
        """Note a delivery, and the time since the one before it."""
        super().note_delivered(consumer, body, message_id, redelivered=redelivered, now=now)
        if self.delivered_at and now - self.delivered_at > 0.01:
            self.delivery_gaps.append((self.delivered_at, now))
        self.delivered_at = now

    def longest_since(self, moment: float) -> float:
        """Give the longest time without confirms that ended after a moment, in seconds."""
        return _longest(self.gaps, moment)

    def longest_undelivered_since(self, moment: float) -> float:
        """Give the longest time without deliveries that ended after a moment, in seconds."""
        return _longest(self.delivery_gaps, moment)


def _longest(gaps: list[tuple[float, float]], moment: float) -> float:
    return max((end - start for start, end in gaps if end > moment), default=0.0)


def _await(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {what} within {_SECONDS_MAX:g} s")
        time.sleep(0.005)


def _lose_leader(
    cluster: LocalCluster, load: Load, ledger: TimedLedger, how: str
) -> tuple[float, float]:
    """
    Make the leader go, wait for the next one, and make the cluster whole again.

    Gives the seconds without confirms, and those without deliveries.
    """
    lost: LocalNode = cluster.leader()
    links = load.reconnections + _SETTINGS.producers + _SETTINGS.consumers
    moment = time.monotonic()
    if how == KILLED:
        lost.kill()
    else:
        lost.signal(signal.SIGSTOP)
    _await("new leader for every client", lambda: load.reconnections >= links)
    confirmed = ledger.confirmed_count
    _await("confirms", lambda: ledger.confirmed_count >= confirmed + 20)
    delivered = ledger.delivered_count
    _await("deliveries", lambda: ledger.delivered_count >= delivered + 20)
    gap = ledger.longest_since(moment), ledger.longest_undelivered_since(moment)
    lost.kill()
    lost.start()
    lost.wait_until(lambda status: status["role"] == "follower", "a follower again")
    cluster.wait_level()
    return gap


def measure(
    folder: Path, how: str, times: int, seed: int, console: Console | None = None
) -> tuple[list[tuple[float, float]], Account]:
    """
    Lose the leader so many times; give for each the seconds without confirms and those without
    deliveries, and the account.

    Raises:
        TimeoutError: Nothing was confirmed within a minute.
        LocalNodeError: A node did not come back.
    """
    chance = random.Random(seed)  # noqa: S311 - to be repeated
    gaps: list[tuple[float, float]] = []
    with LocalCluster(folder, "three") as cluster:
        cluster.start()
        load = Load(cluster.stomp_addresses.split(","), _SETTINGS)
        ledger = TimedLedger(load.ledger.run, _SETTINGS.body_bytes)
        load.ledger = ledger
        with load:
            load.wait_confirmed(200)
            for number in range(times):
                time.sleep(chance.uniform(*_QUIET_SECONDS))
                gaps.append(_lose_leader(cluster, load, ledger, how))
                if console is not None:
                    console.print(
                        f"leader {how} {number + 1:>3}: {gaps[-1][0] * 1000:6.0f} ms"
                        f" without confirms, {gaps[-1][1] * 1000:6.0f} ms without deliveries",
                        markup=False,
                    )
            load.wait_confirmed(100)
            account = load.finish()
    return gaps, account


def evidence_of(how: str, gaps: Sequence[float], account: Account) -> FailoverTimes:
    """Put a measurement into the form that the table is written from."""
    return FailoverTimes(
        how=how,
        gaps_ms=tuple(round(gap * 1000, 1) for gap in gaps),
        cores=os.cpu_count() or 1,
        lost=account.lost,
        unflagged=account.unflagged,
        confirmed=account.confirmed,
        duplicates=account.duplicates,
        stamp=stamp(),
    )


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(1)


def run(how: str, times: int, seed: int, console: Console) -> FailoverTimes:
    """Measure in a folder of its own under var/, keep the evidence, and print the distribution."""
    place = REPOSITORY / "var"
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="failover-", dir=place) as folder:
        gaps, account = measure(Path(folder), how, times, seed, console)
    record = evidence_of(how, [confirms for confirms, _ in gaps], account)
    save_failover(record)
    values = record.gaps_ms
    p50, p90, p99 = (percentile(values, share) for share in (0.5, 0.9, 0.99))
    for line in histogram(values):
        console.print(line, markup=False)
    console.print(
        f"leader {how} {len(values)} times: without confirms p50 {p50:.0f}, p90 {p90:.0f},"
        f" p99 {p99:.0f}, longest {max(values):.0f} ms (aim: p99 at most {AIMS_MS[how]:.0f});"
        f" {account}",
        markup=False,
    )
    waits = [deliveries * 1000 for _, deliveries in gaps]
    p50, p90 = (percentile(waits, share) for share in (0.5, 0.9))
    console.print(f"without deliveries p50 {p50:.0f}, p90 {p90:.0f}, longest {max(waits):.0f} ms")
    return record


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit code is 1 if something was lost or came again without saying so."""
    parser = argparse.ArgumentParser(prog="python -m trials.failover_times")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--silences", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1, help="when the leader goes")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)
    console = Console(highlight=False, soft_wrap=True)
    code = 0
    for how, times in ((KILLED, chosen.kills), (SILENT, chosen.silences)):
        if times:
            record = run(how, times, chosen.seed, console)
            code |= bool(record.lost or record.unflagged)
    return code


if __name__ == "__main__":
    sys.exit(main())
