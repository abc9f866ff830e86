"""
Very many scheduled messages are taken back by when they are due, over deaths of leaders.

Three brokers as real processes. Messages are scheduled for tomorrow, and a few among them for a
moment and for next week. `holdfast schedule remove --from --to` takes tomorrow's back. In the
middle it is killed and run again, and so are the leaders (SIGKILL), one after the other. Then next
week's must be all that is scheduled, and the others have come, once each.

    python -m trials.removed_schedules --count 1000000 --kills 2
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.environment.clock import SystemClock
from holdfast.model.format_level import SCHEDULES_LEVEL
from holdfast.model.schedules import SCHEDULE_QUEUE
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.stomp_socket import StompSocket
from trials.long_work import SECONDS_MAX, LongWork, Say, depth, run_trial

QUEUE = "reminders"
_SENT_AT_ONCE = 2_000
_HOUR = timedelta(hours=1)
_DAY = 24 * _HOUR
_MOMENT = timedelta(seconds=5)
_OTHERS = 100
"""So many are for a moment, and as many for next week."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What is scheduled yet, and what came."""

    work: LongWork
    removed: int = 0
    """As the last run of the command tells it."""
    left: int = 0
    """What was to be taken back and is scheduled yet."""
    missing: int = 0
    """What was for a moment, or is for next week, and is not there."""
    twice: int = 0
    strange: int = 0
    """What came, or is scheduled, and never was to."""

    @property
    def is_good(self) -> bool:
        """Whether what was to go is gone, and nothing else."""
        return not (self.left or self.missing or self.twice or self.strange)

    def __str__(self) -> str:
        """Tell it in a line."""
        work = self.work
        middle = ", ".join(f"{it:,}" for it in work.at_kills)
        return (
            f"{work.count:,} scheduled messages taken back in {work.seconds:.0f} s, killed when so"
            f" many were gone: {middle}; {self.left:,} left; of {2 * _OTHERS:,} others"
            f" {self.missing:,} missing, {self.twice:,} twice, {self.strange:,} strange"
        )


def planned(count: int) -> Iterator[tuple[bytes, timedelta]]:
    """Give the body of each message, and in how long it is due; the others lie among them."""
    every = max(1, count // _OTHERS)
    for number in range(count):
        place, is_amid = number // every, number % every == every // 2
        if is_amid and place < _OTHERS:
            yield b"soon %d" % place, _MOMENT
            yield b"late %d" % place, 7 * _DAY
        yield b"gone %d" % number, _DAY + timedelta(milliseconds=number % 3_600_000)


def scheduled(node: LocalNode, count: int) -> None:
    """Schedule all that is planned; each is stored when this returns."""
    with StompSocket(node.stomp_port, timeout_seconds=SECONDS_MAX) as client:
        client.connect()
        told = 0
        frames = []
        for body, due in planned(count):
            told += 1
            frames.append(
                b"SEND\ndestination:/queue/%b\npersistent:true\nAMQ_SCHEDULED_DELAY:%d"
                b"\nreceipt:%d\n\n%b\0"
                % (QUEUE.encode(), due / timedelta(milliseconds=1), told, body)
            )
            if len(frames) == _SENT_AT_ONCE:
                _send(client, frames, told)
                frames = []
        _send(client, frames, told)


def _send(client: StompSocket, frames: list[bytes], last: int) -> None:
    client.write(b"".join(frames))
    for number in range(last - len(frames) + 1, last + 1):
        answer = client.await_receipt(str(number))
        assert answer.command == "RECEIPT", answer


def count_left(cluster: LocalCluster, outcome: Outcome) -> None:
    """See what is scheduled yet."""
    leader = cluster.leader()
    options = ["--admin", leader.admin, "--secret-file", str(cluster.secret_path), "--json"]
    command = [sys.executable, "-m", "holdfast", "schedule", "list", *options]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603 - ours
    bodies = Counter(json.loads(line)["body"] for line in told.stdout.splitlines())
    outcome.left = sum(bodies[it] for it in bodies if it.startswith("gone "))
    late = Counter({it: bodies[it] for it in bodies if not it.startswith("gone ")})
    _count(late, {f"late {number}" for number in range(_OTHERS)}, outcome)


def count_come(leader: LocalNode, outcome: Outcome) -> None:
    """See what came: all that was for a moment, each once."""
    with StompSocket(leader.stomp_port, timeout_seconds=SECONDS_MAX) as client:
        client.connect()
        answer = client.publish(f"/queue/{QUEUE}", b"end")
        assert answer.command == "RECEIPT", answer
        client.subscribe(f"/queue/{QUEUE}", mode="auto")
        come: Counter[str] = Counter()
        while (body := client.read_message().body) != b"end":
            come[body.decode()] += 1
    _count(come, {f"soon {number}" for number in range(_OTHERS)}, outcome)


def _count(found: Counter[str], wanted: set[str], outcome: Outcome) -> None:
    outcome.missing += len(wanted - found.keys())
    outcome.strange += len(found.keys() - wanted)
    outcome.twice += sum(found[it] > 1 for it in wanted)


def run(folder: Path, count: int, kills: int, say: Say) -> Outcome:
    """Start a cluster, schedule so many messages, and take them back."""
    with LocalCluster(folder, "three") as cluster:
        leader = cluster.start()
        leader.wait_until(lambda it: it["format_level"] >= SCHEDULES_LEVEL, "at its level")
        began = time.monotonic()
        now = datetime.fromtimestamp(SystemClock().wall_microseconds() / 1e6, UTC)
        scheduled(leader, count)
        all_of_it = depth(leader, SCHEDULE_QUEUE)
        say(f"{all_of_it:,} scheduled after {time.monotonic() - began:.0f} s")
        # From an hour before to as long after as sending may have taken.
        since, until = now + _DAY - _HOUR, now + _DAY + 4 * _HOUR
        span = [f"--from={since.isoformat()}", f"--to={until.isoformat()}"]
        work = LongWork(
            cluster=cluster,
            words=["schedule", "remove", "--yes", *span],
            done=lambda node: all_of_it - depth(node, SCHEDULE_QUEUE),
            what="are gone",
            count=count,
        )
        outcome = Outcome(work=work)
        outcome.removed = work.run(kills, say)["removed"]
        last = cluster.leader()
        last.wait_until(
            lambda _: depth(last, QUEUE) >= _OTHERS, f"at {_OTHERS} that came", SECONDS_MAX
        )
        count_left(cluster, outcome)
        count_come(last, outcome)
        return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trial; the exit code is 1 if one is amiss."""
    return run_trial("removed_schedules", "scheduled messages", run, arguments)


if __name__ == "__main__":
    sys.exit(main())
