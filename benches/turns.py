"""
Work that grows with what clients bring: how long it keeps the others waiting.

Three nodes, real processes on loopback, new ones for each line. A client does what is large, beside
it an honest one sends message after message and times each. Printed: what was done and how long it
took, the longest turn of the leader's and of the followers' loops since they started, and of the
honest client's messages the slowest and what 99 % stay under. The longest turn is of the clock on
the wall: where the machine is shared it holds what the other processes took.

Run: .venv/bin/python benches/turns.py [--only WORDS] [--scale 0.1] [--directory DIR]
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from machine import print_heading
from producers import HonestClient

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.stomp_socket import StompSocket
from trials.long_work import depth

_WAIT_SECONDS = 60.0
_WINDOW = 1000
_READ_BYTES = 1 << 20
_CONSUMERS = 100
_SUBSCRIPTIONS = 10_000
_MESSAGES = 100_000
_PURGED = 400_000
_SUBSCRIBERS = 100_000
_CONNECTIONS = 1_000
_QUEUES = 50_000
_EXPIRE_SECONDS = 60.0
"""Until what is sent expires: longer than it takes to send it."""
_FILLING = 200
"""In the slow queue's log, so many messages of another queue stand between two of its own."""


def connected(port: int) -> StompSocket:
    """A client that has said hello."""
    client = StompSocket(port, timeout_seconds=_WAIT_SECONDS)
    client.connect()
    return client


def fill(
    client: StompSocket, count: int, queue_of: Callable[[int], str], *more_headers: str
) -> None:
    """Send so many persistent messages of 40 bytes; a receipt for each window of them."""
    more = "".join(f"{it}\n" for it in more_headers)
    for start in range(1, count + 1, _WINDOW):
        end = min(start + _WINDOW, count + 1)
        frames = [
            f"SEND\ndestination:/queue/{queue_of(number)}\npersistent:true\n{more}"
            f"{f'receipt:w{number}' if number == end - 1 else 'x:y'}\n\n{number:040d}\0"
            for number in range(start, end)
        ]
        client.write("".join(frames).encode())
        answer = client.await_receipt(f"w{end - 1}")
        assert answer.command == "RECEIPT", answer


def subscribe(client: StompSocket, queue: str, count: int) -> None:
    """Subscribe so often to one queue, with a receipt for the last."""
    frames = [
        f"SUBSCRIBE\nid:{number}\ndestination:/queue/{queue}\nack:client\n"
        f"{'receipt:s' if number == count - 1 else 'x:y'}\n\n\0"
        for number in range(count)
    ]
    client.write("".join(frames).encode())
    answer = client.await_receipt("s")
    assert answer.command == "RECEIPT", answer


def take(client: StompSocket, count: int) -> None:
    """Read until so many messages came; their bodies have no end of a frame in them."""
    seen = 0
    while seen < count:
        data = client.socket.recv(_READ_BYTES)
        assert data, "the broker closed the connection"
        seen += data.count(b"\0")


def fill_queue(cluster: LocalCluster, scale: float) -> str:
    """Replicate many small messages."""
    count = int(_MESSAGES * scale)
    with connected(cluster.leader().stomp_port) as client:
        fill(client, count, lambda _number: "large")
    return f"{count:,} messages of 40 bytes are stored and replicated"


def leave(cluster: LocalCluster, scale: float) -> str:
    """End a connection that has many subscriptions to one queue."""
    count = int(_SUBSCRIPTIONS * scale)
    port = cluster.leader().stomp_port
    with connected(port) as client:
        subscribe(client, "shared", count)
    with connected(port) as client:
        client.publish("/queue/shared", b"x")
        client.subscribe("/queue/shared")
        client.read_message()
    return f"a client with {count:,} subscriptions to one queue leaves"


def deliver(cluster: LocalCluster, scale: float) -> str:
    """Let many consumers begin at once on a full queue."""
    each = int(_MESSAGES * scale / _CONSUMERS)
    port = cluster.leader().stomp_port
    with connected(port) as client:
        fill(client, each * _CONSUMERS, lambda _number: "large")
    clients = [connected(port) for _ in range(_CONSUMERS)]
    for client in clients:
        client.send(
            "SUBSCRIBE",
            {
                "id": "0",
                "destination": "/queue/large",
                "ack": "client",
                "prefetch-count": f"{each}",
            },
        )
    for client in clients:
        take(client, each)
        client.close()
    return f"{each:,} messages to each of {_CONSUMERS} consumers"


def read_slow_queue(cluster: LocalCluster, scale: float) -> str:
    """Read a queue whose messages stand far apart in the log, after a failover."""
    count = int(_MESSAGES * scale)
    slow = count // _FILLING
    with connected(cluster.leader().stomp_port) as client:
        fill(client, count, lambda number: "large" if number % _FILLING else "slow")
    cluster.wait_level()
    first = cluster.leader()
    first.kill()
    with connected(cluster.leader(but=first).stomp_port) as client:
        client.send("SUBSCRIBE", {"id": "0", "destination": "/queue/slow", "ack": "client"})
        take(client, slow)
    return f"{slow:,} messages of a slow queue after a failover, one of {_FILLING} in the log"


def commit(client: StompSocket, name: str, count: int, size: int) -> None:
    """Send a transaction of so many messages of so many bytes, and wait until it is stored."""
    head = f"SEND\ndestination:/queue/bulk\npersistent:true\ntransaction:{name}\n\n"
    part = head.encode() + b"x" * size + b"\0"
    client.write(f"BEGIN\ntransaction:{name}\n\n\0".encode())
    for start in range(0, count, _WINDOW):
        client.write(part * min(_WINDOW, count - start))
    client.write(f"COMMIT\ntransaction:{name}\nreceipt:{name}\n\n\0".encode())
    answer = client.await_receipt(name)
    assert answer.command == "RECEIPT", answer


def commit_large(cluster: LocalCluster, scale: float) -> str:
    """Commit two transactions of many bytes at once, on two connections, three times."""
    count = int(40 * scale)
    port = cluster.leader().stomp_port
    with connected(port) as one, connected(port) as other:
        for round_number in range(3):
            work = [
                threading.Thread(target=commit, args=(client, f"t{round_number}", count, 1 << 20))
                for client in (one, other)
            ]
            for each in work:
                each.start()
            for each in work:
                each.join()
    return f"three times two transactions of {count} MiB"


def commit_many(cluster: LocalCluster, scale: float) -> str:
    """Commit a transaction of many small messages."""
    count = int(_MESSAGES * scale)
    with connected(cluster.leader().stomp_port) as client:
        for round_number in range(3):
            commit(client, f"t{round_number}", count - 1, 40)
    return f"three transactions of {count:,} messages of 40 bytes"


def ask(node: LocalNode, method: str, path: str) -> None:
    """Ask an admin port as an operator does, with a proof."""
    url = f"http://{node.admin}{path}"
    request = urllib.request.Request(url, method=method, headers=node.proof())
    with urllib.request.urlopen(request, timeout=_WAIT_SECONDS) as answer:
        answer.read()


def purge(cluster: LocalCluster, scale: float) -> str:
    """Empty a full queue, and delete another."""
    count = int(_PURGED * scale)
    leader = cluster.leader()
    with connected(leader.stomp_port) as client:
        fill(client, count, lambda number: "purged" if number % 2 else "deleted")
    cluster.wait_level()
    ask(leader, "POST", "/queues/purged/purge")
    ask(leader, "DELETE", "/queues/deleted")
    return f"a queue of {count // 2:,} messages is purged, another deleted"


def publish(cluster: LocalCluster, scale: float) -> str:
    """Publish to a topic with very many subscriptions."""
    count = int(_SUBSCRIBERS * scale) // 10
    port = cluster.leader().stomp_port
    clients = [connected(port) for _ in range(10)]
    for client in clients:
        frames = [
            f"SUBSCRIBE\nid:{number}\ndestination:/topic/news\n"
            f"{'receipt:s' if number == count - 1 else 'x:y'}\n\n\0"
            for number in range(count)
        ]
        client.write("".join(frames).encode())
        assert client.await_receipt("s").command == "RECEIPT"
    with connected(port) as publisher:
        for _ in range(3):
            publisher.publish("/topic/news", b"x")
        for client in clients:
            take(client, 3 * count)
            client.close()
    return f"three messages to {10 * count:,} subscriptions of a topic, which leave then"


def leave_at_once(cluster: LocalCluster, scale: float) -> str:
    """End very many connections, each with subscriptions and temporary queues."""
    count = int(_CONNECTIONS * scale)
    port = cluster.leader().stomp_port
    clients = [connected(port) for _ in range(count)]
    for client in clients:
        frames = [
            f"SUBSCRIBE\nid:{number}\ndestination:/temp-queue/{number}\n"
            f"{'receipt:s' if number == 4 else 'x:y'}\n\n\0"
            for number in range(5)
        ]
        client.write("".join(frames).encode())
        assert client.await_receipt("s").command == "RECEIPT"
    for client in clients:
        client.close()
    with connected(port) as client:
        client.publish("/queue/after", b"x")
    return f"{count:,} clients with 5 temporary queues each leave at once"


def look_at_queues(cluster: LocalCluster, scale: float) -> str:
    """Ask for the status, the metrics and the list of very many queues."""
    count = int(_QUEUES * scale)
    leader = cluster.leader()
    with connected(leader.stomp_port) as client:
        fill(client, count, lambda number: f"q{number}")
    for path in ("/status", "/queues", "/metrics"):
        ask(leader, "GET", path)
    return f"status, list and metrics of {count:,} queues"


def expire(cluster: LocalCluster, scale: float) -> str:
    """Have very many messages expire at one moment, and become dead letters."""
    count = int(_PURGED * scale)
    leader = cluster.leader()
    at_ms = int((time.time() + _EXPIRE_SECONDS * max(0.25, scale)) * 1000)
    with connected(leader.stomp_port) as client:
        fill(client, count, lambda _: "mortal", f"expires:{at_ms}")
    assert time.time() * 1000 < at_ms, "the machine is too slow for so many before they expire"
    leader.wait_until(
        lambda _: depth(leader, "ActiveMQ.DLQ") == count, "all expired", 10 * _WAIT_SECONDS
    )
    return f"{count:,} messages expire in one millisecond, and become dead letters"


WORK = (
    fill_queue,
    leave,
    deliver,
    read_slow_queue,
    commit_large,
    commit_many,
    purge,
    publish,
    leave_at_once,
    look_at_queues,
    expire,
)


def measure(work: Callable[[LocalCluster, float], str], scale: float, directory: Path) -> None:
    """Do one kind of work on a cluster of its own, and print its line."""
    with (
        tempfile.TemporaryDirectory(dir=directory) as data,
        LocalCluster(Path(data)) as cluster,
    ):
        leader = cluster.start()
        cluster.wait_level()
        honest = HonestClient(leader.stomp_port)
        if work is not read_slow_queue:  # Its leader is killed, and the client does not follow.
            honest.start()
        began = time.monotonic()
        what = work(cluster, scale)
        seconds = time.monotonic() - began
        honest.is_stopping.set()
        if honest.is_alive():
            honest.join(_WAIT_SECONDS)
        leading, following, working = 0.0, 0.0, 0.0
        for node in cluster.nodes.values():
            status = node.status() if node.is_running else None
            if status is not None:
                working = max(working, status["turn_cpu_seconds_max"])
            if status is not None and status["role"] == "leader":
                leading = status["turn_seconds_max"]
            elif status is not None:
                following = max(following, status["turn_seconds_max"])
        times = sorted(honest.seconds)
        slowest = "-"
        if times:
            late = times[len(times) * 99 // 100]
            slowest = f"{late * 1000:.0f} ms, {times[-1] * 1000:.0f} ms"
        print(
            f"| {what} | {seconds:.1f} s | {working * 1000:.1f} ms"
            f" | {leading * 1000:.1f} ms | {following * 1000:.1f} ms"
            f" | {slowest} |",
            flush=True,
        )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=str(__doc__).strip().splitlines()[0])
    options.add_argument("--only", choices=[work.__name__ for work in WORK])
    options.add_argument("--scale", type=float, default=1.0, help="of what is done; 1 is the limit")
    options.add_argument("--directory", type=Path)
    chosen = options.parse_args()
    directory = chosen.directory or Path(tempfile.gettempdir())
    print_heading(directory, nodes="three")
    print("| what | took | work | leader's turn | followers' | honest client's 99 %, slowest |")
    print("|---|---|---|---|---|---|")
    for work in WORK:
        if chosen.only in {None, work.__name__}:
            measure(work, chosen.scale, directory)


if __name__ == "__main__":
    main()
