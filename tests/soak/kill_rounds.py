"""
Rounds of `kill -9` under load, by hand or at night: one line of account per round, then the sum.

    python tests/soak/kill_rounds.py --topology three --rounds 10
    python tests/soak/kill_rounds.py --topology single --rounds 20 --stompbench PATH
    python tests/soak/kill_rounds.py --topology three --rounds 10 --client

The load is our own generator, or stompbench where its path is given, or Holdfast's client library.
On clusters the killed leader restarts, catches up, and its sealed segments are compared with the
others'. Exit code 1 if anything was lost, corrupt, stored twice or unflagged, or segments differ.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.load import Load, LoadSettings


@dataclass
class Round:
    """What one round found."""

    text: str
    is_good: bool
    gap_seconds: float = 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the leader under load, again and again.")
    parser.add_argument("--topology", default="three", choices=["single", "three", "witness"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6.0, help="of load per round")
    parser.add_argument("--stompbench", default="", help="path of the compiled stompbench")
    parser.add_argument("--client", action="store_true", help="use Holdfast's client library")
    parser.add_argument("--segment", default="4MiB")
    options = parser.parse_args()
    rounds = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="holdfast-kill-") as folder:
            found = run_round(Path(folder), options)
        rounds.append(found)
        print(f"round {number + 1:2}: {found.text}", flush=True)
    gaps = sorted(each.gap_seconds for each in rounds)
    bad = sum(not each.is_good for each in rounds)
    print(f"gaps in ms: {' '.join(f'{gap * 1000:.0f}' for gap in gaps)}")
    print(f"median {statistics.median(gaps) * 1000:.0f} ms, worst {gaps[-1] * 1000:.0f} ms")
    print(f"{options.rounds} rounds, {bad} bad")
    return 1 if bad else 0


def run_round(folder: Path, options: argparse.Namespace) -> Round:
    arguments = ["--segment", options.segment]
    with LocalCluster(folder, options.topology, arguments) as cluster:
        leader = cluster.start()
        killing = threading.Thread(target=_kill, args=(leader, options))
        killing.start()
        if options.stompbench:
            found = by_stompbench(cluster, options)
        elif options.client:
            found = asyncio.run(by_client(cluster, options.seconds))
        else:
            found = by_load(cluster, options.seconds)
        killing.join()
        if options.topology != "single":
            cluster.wait_level()
            compared, alike = compare_segments(list(cluster.nodes.values()))
            found.text += f"; sealed segments compared {compared}, alike {alike}"
            found.is_good = found.is_good and alike and compared > 0
        for node in cluster.nodes.values():
            if "Traceback" in node.log_path.read_text(errors="replace"):
                found.text += f"; {node.name} logged an exception"
                found.is_good = False
    return found


def _kill(leader: LocalNode, options: argparse.Namespace) -> None:
    time.sleep(random.uniform(0.2, 0.6) * options.seconds)
    leader.kill()
    time.sleep(0.0 if options.topology == "single" else 1.0)
    leader.start()


def by_stompbench(cluster: LocalCluster, options: argparse.Namespace) -> Round:
    command = [options.stompbench, "-s", cluster.stomp_addresses, "--failover", "-W", "500"]
    command += ["-T", str(options.seconds), "--json", "--idle", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    if not done.stdout.strip():
        return Round(f"stompbench ended with {done.returncode}: {done.stderr[-500:]}", False)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    keys = ("sent", "confirmed", "delivered", "lost", "unconfirmed", "dup", "redelivered")
    keys += ("reordered", "corrupt", "foreign", "errors", "reconnects")
    text = " ".join(f"{key} {found.get(key)}" for key in keys)
    gap = float(found["gap_ms"]) / 1000
    is_good = done.returncode == 0 and not found["lost"] and not found["corrupt"]
    return Round(f"{text} gap {gap * 1000:.0f} ms", is_good, gap)


def by_load(cluster: LocalCluster, seconds: float) -> Round:
    settings = LoadSettings(deduplicated=True, settle_receipts=True, rate=20_000)
    with Load(cluster.stomp_addresses.split(","), settings) as load:
        time.sleep(seconds)
        account = load.finish()
    wrong = account.lost + account.corrupt + account.unflagged + account.stored_twice
    wrong += account.resurrected + account.reordered + account.foreign + len(account.errors)
    return Round(str(account), not wrong, account.gap_seconds)


async def by_client(cluster: LocalCluster, seconds: float) -> Round:
    """The application's view: what `send` returned for is stored, once."""
    from holdfast.client import connect

    sent, gap, latest = 0, 0.0, time.monotonic()
    seen: Counter[bytes] = Counter()
    identities: dict[bytes, set[str]] = {}
    unflagged = 0
    producing = await connect(cluster.uri)
    consuming = await connect(cluster.uri)

    async def consume() -> None:
        nonlocal unflagged
        async with consuming.subscribe("/queue/client") as deliveries:
            async for message in deliveries:
                known = identities.setdefault(message.body, set())
                unflagged += message.id in known and not message.redelivered
                known.add(message.id)
                seen[message.body] += 1
                await message.acknowledge()

    async def produce(first: int) -> None:
        nonlocal sent, gap, latest
        number = first
        while time.monotonic() < until:
            await producing.send("/queue/client", b"%d" % number + b"." * 1000)
            now = time.monotonic()
            gap, latest = max(gap, now - latest), now
            sent += 1
            number += 200

    until = time.monotonic() + seconds
    consumer = asyncio.create_task(consume())
    await asyncio.gather(*(produce(number) for number in range(200)))
    deadline = time.monotonic() + 30
    while len(seen) < sent and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    consumer.cancel()
    await asyncio.gather(consumer, return_exceptions=True)
    await producing.close()
    await consuming.close()
    twice = sum(len(ids) > 1 for ids in identities.values())
    lost = sent - len(seen)
    text = f"client: confirmed {sent} delivered {len(seen)} lost {lost} stored twice {twice}"
    text += f" redelivered {sum(seen.values()) - len(seen)} unflagged {unflagged}"
    return Round(f"{text} gap {gap * 1000:.0f} ms", lost <= 0 and not twice + unflagged, gap)


def compare_segments(nodes: list[LocalNode]) -> tuple[int, bool]:
    """Give how many sealed segments all nodes hold, and whether they are the same bytes."""
    digests = []
    for node in nodes:
        segments = node.get("/segments")["segments"]
        digests.append({each["base_index"]: each["digest"] for each in segments if each["sealed"]})
    shared = set.intersection(*(set(each) for each in digests))
    return len(shared), all(len({each[base] for each in digests}) == 1 for base in shared)


if __name__ == "__main__":
    sys.exit(main())
