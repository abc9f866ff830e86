"""
How long nothing is confirmed when the leader is killed: measured, again and again.

Three brokers as real processes at default timings, a load of small messages that sends all the
time, and SIGKILL for whoever leads. A time without confirms runs from the last receipt before the
kill to the first one after it, as the producer sees them. The killed node is started again and has
caught up before the next one is killed, so that every kill hits a whole cluster.

    python -m holdfast.testing.failover_times --kills 50
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from rich.console import Console

from holdfast.testing.ledger import Account, Ledger
from holdfast.testing.load import Load, LoadSettings
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from holdfast.testing.promises.evidence import REPOSITORY, FailoverTimes, save_failover, stamp
from holdfast.testing.promises.table import AIM_MS, histogram
from holdfast.testing.promises.verdicts import percentile

_SETTINGS = LoadSettings(
    producers=2, consumers=1, rate=400.0, body_bytes=256, window=2000, deduplicated=True
)
_CONFIRM_SECONDS_MAX = 60.0
_QUIET_SECONDS = (0.3, 1.2)
"""Between a whole cluster and the next kill."""


class TimedLedger(Ledger):
    """A ledger that also knows when the newest confirm came and how long it was waited for."""

    def __init__(self, run: int, body_bytes: int) -> None:
        super().__init__(run, body_bytes)
        self.confirmed_at = 0.0
        self.gaps: list[tuple[float, float]] = []
        """When each time without confirms of over 50 ms began and ended, in monotonic seconds."""

    def note_confirmed(self, producer: int, sequence: int, now: float) -> bool:
        """Note a receipt, and the time since the one before it."""
        is_new = super().note_confirmed(producer, sequence, now)
        if is_new:
            if self.confirmed_at and now - self.confirmed_at > 0.05:
                self.gaps.append((self.confirmed_at, now))
            self.confirmed_at = now
        return is_new

    def gap_over(self, moment: float) -> float | None:
        """Give the seconds without confirms around a moment; None until one comes after it."""
        if self.confirmed_at <= moment:
            return None
        for start, end in reversed(self.gaps):
            if start <= moment < end:
                return end - start
        return 0.0


def _kill_once(cluster: LocalCluster, ledger: TimedLedger) -> float:
    """Kill the leader, wait for the first confirm after it, and make the cluster whole again."""
    killed: LocalNode = cluster.leader()
    moment = time.monotonic()
    killed.kill()
    deadline = moment + _CONFIRM_SECONDS_MAX
    gap = ledger.gap_over(moment)
    while gap is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing confirmed for {_CONFIRM_SECONDS_MAX:g} s after a kill")
        time.sleep(0.005)
        gap = ledger.gap_over(moment)
    killed.start()
    killed.wait_until(lambda status: status["role"] == "follower", "a follower again")
    cluster.wait_level()
    return gap


def measure(
    folder: Path, kills: int, seed: int, console: Console | None = None
) -> tuple[list[float], Account]:
    """
    Kill the leader so many times; give the seconds without confirms of each, and the account.

    Raises:
        TimeoutError: Nothing was confirmed within a minute after a kill.
        LocalNodeError: A node did not come back.
    """
    chance = random.Random(seed)  # noqa: S311 - to be repeated
    gaps: list[float] = []
    with LocalCluster(folder, "three") as cluster:
        cluster.start()
        load = Load(cluster.stomp_addresses.split(","), _SETTINGS)
        ledger = TimedLedger(load.ledger.run, _SETTINGS.body_bytes)
        load.ledger = ledger
        with load:
            load.wait_confirmed(200)
            for number in range(kills):
                time.sleep(chance.uniform(*_QUIET_SECONDS))
                gaps.append(_kill_once(cluster, ledger))
                if console is not None:
                    console.print(f"kill {number + 1:>3}: {gaps[-1] * 1000:6.0f} ms", markup=False)
            load.wait_confirmed(100)
            account = load.finish()
    return gaps, account


def evidence_of(gaps: Sequence[float], account: Account) -> FailoverTimes:
    """Put a measurement into the form that the table is written from."""
    return FailoverTimes(
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


def run(kills: int, seed: int, console: Console) -> FailoverTimes:
    """Measure in a folder of its own under var/, keep the evidence, and print the distribution."""
    place = REPOSITORY / "var"
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="failover-", dir=place) as folder:
        gaps, account = measure(Path(folder), kills, seed, console)
    record = evidence_of(gaps, account)
    save_failover(record)
    values = record.gaps_ms
    p50, p90, p99 = (percentile(values, share) for share in (0.5, 0.9, 0.99))
    for line in histogram(values):
        console.print(line, markup=False)
    console.print(
        f"{len(values)} kills: without confirms p50 {p50:.0f}, p90 {p90:.0f}, p99 {p99:.0f},"
        f" longest {max(values):.0f} ms (aim: p99 at most {AIM_MS:.0f}); {account}",
        markup=False,
    )
    return record


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit code is 1 if something was lost or came again without saying so."""
    parser = argparse.ArgumentParser(prog="python -m holdfast.testing.failover_times")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="when the kills come")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)
    record = run(chosen.kills, chosen.seed, Console(highlight=False, soft_wrap=True))
    return 1 if record.lost or record.unflagged else 0


if __name__ == "__main__":
    sys.exit(main())
