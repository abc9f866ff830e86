"""
Very many dead letters go back over deaths of leaders: each is on its queue again, and once.

Three brokers as real processes. Messages are sent to a queue and rejected, until all are dead
letters. `holdfast messages retry` brings them back. In the middle it is killed and run again, and
so are the leaders (SIGKILL), one after the other. What then stands on the queue is taken off it
and counted, by number.

    python -m trials.retried_dead_letters --count 1000000 --kills 2

Invariants:
    Nothing that the brokers or the command say is believed: what came back is counted as it is
    delivered. Of what they say only when to kill is taken.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.model.format_level import MOVES_LEVEL
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.stomp_socket import StompSocket
from trials.long_work import SECONDS_MAX, LongWork, Say, depth, run_trial

QUEUE = "orders"
DEAD = "ActiveMQ.DLQ"
_SENT_AT_ONCE = 5_000
_PREFETCH = "5000"


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came back."""

    work: LongWork
    missing: int = 0
    twice: int = 0
    strange: int = 0
    """What stands on the queue and was never sent."""
    left: int = 0
    """What is a dead letter still."""

    @property
    def is_good(self) -> bool:
        """Whether all are back, each once."""
        return not (self.missing or self.twice or self.strange or self.left)

    def __str__(self) -> str:
        """Tell it in a line."""
        work = self.work
        counts = f"{self.missing:,} missing, {self.twice:,} twice, {self.strange:,} strange"
        middle = ", ".join(f"{it:,}" for it in work.at_kills)
        return (
            f"{work.count:,} dead letters retried in {work.seconds:.0f} s,"
            f" killed when so many were back: {middle}; {counts}, {self.left:,} left"
        )


def bury(node: LocalNode, count: int) -> None:
    """Send so many messages, and reject all of them; each has its number in its body."""
    with StompSocket(node.stomp_port, timeout_seconds=SECONDS_MAX) as client:
        client.connect()
        for start in range(0, count, _SENT_AT_ONCE):
            numbers = range(start, min(start + _SENT_AT_ONCE, count))
            client.write(
                b"".join(
                    b"SEND\ndestination:/queue/%b\npersistent:true\nreceipt:%d\n\nbody %d\0"
                    % (QUEUE.encode(), number, number)
                    for number in numbers
                )
            )
            for number in numbers:
                answer = client.await_receipt(str(number))
                assert answer.command == "RECEIPT", answer
        client.subscribe(f"/queue/{QUEUE}", headers={"activemq.prefetchSize": _PREFETCH})
        for number in range(count):
            headers = {"id": client.read_message().headers["ack"]}
            if number + 1 == count:
                headers["receipt"] = "last"
            client.send("NACK", headers)
        assert client.await_receipt("last").command == "RECEIPT"


def count_back(node: LocalNode, outcome: Outcome) -> None:
    """Take all off the queue, up to a message that is sent now, and count each number."""
    seen = bytearray(outcome.work.count)
    with StompSocket(node.stomp_port, timeout_seconds=SECONDS_MAX) as client:
        client.connect()
        answer = client.publish(f"/queue/{QUEUE}", b"end")
        assert answer.command == "RECEIPT", answer
        client.subscribe(
            f"/queue/{QUEUE}", mode="auto", headers={"activemq.prefetchSize": _PREFETCH}
        )
        while (body := client.read_message().body) != b"end":
            word, _, number = body.partition(b" ")
            if word != b"body" or not number.isdigit() or int(number) >= outcome.work.count:
                outcome.strange += 1
            elif seen[int(number)]:
                outcome.twice += 1
            seen[int(number)] = 1
    outcome.missing = seen.count(0)
    outcome.left = depth(node, DEAD)


def retry(cluster: LocalCluster, count: int, kills: int, say: Say) -> Outcome:
    """
    Bring so many dead letters back, and kill the command once and so many leaders meanwhile.

    Raises:
        LocalNodeError: A node did not come back.
        AssertionError: The command ended with an error.
    """
    work = LongWork(
        cluster=cluster,
        words=["messages", "retry", DEAD],
        done=lambda node: depth(node, QUEUE),
        what="are back",
        count=count,
    )
    told = work.run(kills, say)
    assert told["unreadable"] == 0, told
    outcome = Outcome(work=work)
    count_back(cluster.leader(), outcome)
    return outcome


def run(folder: Path, count: int, kills: int, say: Say) -> Outcome:
    """Start a cluster, have so many dead letters, and bring them back."""
    with LocalCluster(folder, "three") as cluster:
        leader = cluster.start()
        leader.wait_until(lambda it: it["format_level"] >= MOVES_LEVEL, "at the level of moves")
        began = time.monotonic()
        bury(leader, count)
        say(f"{depth(leader, DEAD):,} dead letters after {time.monotonic() - began:.0f} s")
        return retry(cluster, count, kills, say)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trial; the exit code is 1 if one is not there."""
    return run_trial("retried_dead_letters", "dead letters", run, arguments)


if __name__ == "__main__":
    sys.exit(main())
