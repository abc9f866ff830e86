"""
How long clients get no receipt when the broker that holds the lease goes, and another one takes it.

Two brokers over one log and a light load that finds the one which serves. The holder is killed, so
that its process is seen gone, or falls silent (SIGSTOP), so that its lease is waited for. What
counts runs from the last receipt before to the first one after, as the producer sees it. The broker
is started again and waits as a standby before the next one goes.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from media import Medium, Servers

from holdfast.testing.shared_brokers import SharedBrokers
from trials.clients.load import Load, LoadSettings
from trials.failover_times import SILENCE_SECONDS, TimedLedger
from trials.leased.pausing import pause

KILLED, SILENT = "killed", "silent"
MEDIA_TAKEN = ("shared", "sqlite", "postgresql", "mariadb")
SETTINGS = LoadSettings(
    rate=400.0,
    body_bytes=1024,
    window=2000,
    deduplicated=True,
    silence_seconds=SILENCE_SECONDS,
    answer_seconds=0.1,
)
_QUIET_SECONDS = (0.3, 1.2)
"""Between a standby that is ready and the next loss."""
_CONFIRMS = 20
_SEED = 13


@dataclass
class Takeovers:
    """What was seen on one medium."""

    lease_seconds: float = 0.0
    seconds: dict[str, list[float]] = field(default_factory=lambda: {KILLED: [], SILENT: []})
    faults: list[str] = field(default_factory=list)


def measure(
    medium: Medium,
    servers: Servers,
    folder: Path,
    counts: dict[str, int],
    tell: Callable[[str], None],
) -> Takeovers:
    """Lose the holder so many times in each way; `tell` gets a sentence of each."""
    chance = random.Random(_SEED)
    found = Takeovers()
    flags = medium.flags(servers, folder, f"{medium.name}-takeovers")
    with SharedBrokers(folder / f"{medium.name}-takeovers", flags, names="ab") as brokers:
        status = brokers.start().status()
        assert status is not None, "who serves answers"
        found.lease_seconds = float(status["lease"]["lease_seconds"])
        load = Load([f"127.0.0.1:{it.stomp_port}" for it in brokers.nodes.values()], SETTINGS)
        ledger = TimedLedger(load.ledger.run, SETTINGS.body_bytes)
        load.ledger = ledger
        with load:
            load.wait_confirmed(200)
            for how, count in counts.items():
                for number in range(count):
                    time.sleep(chance.uniform(*_QUIET_SECONDS))
                    seconds = _lose(brokers, load, ledger, how, flags)
                    found.seconds[how].append(seconds)
                    tell(f"{medium.title}, holder {how} {number + 1}: {seconds * 1000:,.0f} ms")
            account = load.finish()
    if account.lost or account.unconfirmed or account.unflagged or account.stored_twice:
        found.faults.append(str(account))
    return found


def _lose(
    brokers: SharedBrokers, load: Load, ledger: TimedLedger, how: str, flags: list[str]
) -> float:
    """Lose the holder once, and make the pair whole again; the seconds without receipts."""
    holder, standby = brokers.leader(), brokers.standby()
    moment = time.monotonic()
    if how == KILLED:
        holder.signal(signal.SIGKILL)
    else:
        pause(holder, flags)
        moment = time.monotonic()
    standby.wait_until(lambda status: bool(status["serving"]), "serving")
    load.wait_confirmed(_CONFIRMS)
    seconds = ledger.longest_since(moment)
    holder.kill()
    holder.start()
    # One that does not know yet whom it waits for cannot see its process go.
    holder.wait_until(
        lambda status: status["role"] == "standby" and status["leader"] == standby.name,
        "a standby again that knows who holds the lease",
    )
    return seconds
