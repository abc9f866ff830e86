"""
Random faults under load, from a seed: kills, pauses, stops, transfers, lost disks, all at once.

    python tests/soak/chaos.py --topology three --seconds 120 --seed 7

The faults follow the seed, their effect does not: real processes do as they like. Producers number
their messages, consumers ask receipts for acknowledgements, so the account at the end is strict:
nothing lost, stored twice, delivered again without saying so or after its acknowledgement was
confirmed. All nodes are then brought up, level, and compared. Exit code 1 if anything is wrong; the
folder with logs and data stays then.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from holdfast.admin.remote import RemoteNode
from holdfast.errors import HoldfastError
from holdfast.testing.load import Load, LoadSettings
from holdfast.testing.local_cluster import LocalCluster, LocalNode, LocalNodeError

STARTED = time.monotonic()


def tell(text: str) -> None:
    print(f"{time.monotonic() - STARTED:7.2f} {text}", flush=True)


class Chaos:
    """What may happen to a cluster; each fault heals itself before the next one."""

    def __init__(self, cluster: LocalCluster, randomness: random.Random) -> None:
        self.cluster = cluster
        self.randomness = randomness
        self.nodes = list(cluster.nodes.values())

    def step(self) -> None:
        """Let one fault happen and pass."""
        faults = [
            self.kill_leader,
            self.kill_leader,
            self.kill_one,
            self.kill_one_for_long,
            self.kill_all,
            self.pause,
            self.pause_leader,
            self.stop,
            self.transfer,
            self.wipe,
        ]
        self.randomness.choice(faults)()

    def leader(self) -> LocalNode:
        return self.cluster.leader(seconds=20)

    def any(self) -> LocalNode:
        return self.randomness.choice(self.nodes)

    def wait(self, most: float) -> None:
        time.sleep(self.randomness.uniform(0, most))

    def kill_leader(self) -> None:
        self._kill(self.leader(), 0.8)

    def kill_one(self) -> None:
        self._kill(self.any(), 0.8)

    def kill_one_for_long(self) -> None:
        self._kill(self.any(), 6)

    def _kill(self, node: LocalNode, seconds: float) -> None:
        tell(f"kill {node.name}")
        node.kill()
        self.wait(seconds)
        node.start()

    def kill_all(self) -> None:
        tell("kill all")
        for node in self.nodes:
            node.signal(signal.SIGKILL)
        for node in self.nodes:
            node.wait()
            node.start()

    def pause(self) -> None:
        self._pause(self.any(), 3)

    def pause_leader(self) -> None:
        self._pause(self.leader(), 3)

    def _pause(self, node: LocalNode, seconds: float) -> None:
        tell(f"pause {node.name}")
        node.signal(signal.SIGSTOP)
        self.wait(seconds)
        node.signal(signal.SIGCONT)

    def stop(self) -> None:
        node = self.any()
        tell(f"stop {node.name}")
        code = node.stop()
        if code not in (0, -signal.SIGTERM):  # by the signal itself, if it had hardly begun
            raise LocalNodeError(f"{node.name} ended with {code}\n{node.log_tail()}")
        self.wait(1)
        node.start()

    def transfer(self) -> None:
        leader = self.leader()
        tell(f"transfer from {leader.name}")
        with suppress(HoldfastError):
            RemoteNode(leader.admin).change("POST", "/cluster/transfer", {"to": None})

    def wipe(self) -> None:
        """One disk is lost while all others are whole and level; the next waits for the repair."""
        leader = self.leader()
        self.cluster.wait_level()
        node = self.any()
        if node is leader:
            return
        old = node.status()
        tell(f"wipe {node.name}")
        node.kill()
        shutil.rmtree(node.data)
        node.start()
        self._await_return(node, old["node_id"] if old else "")

    def _await_return(self, node: LocalNode, old: str) -> None:
        kind = "witness" if node.name == "c" and self.cluster.is_witnessed else "voter"
        self.leader().wait_until(
            lambda status: any(
                member["name"] == node.name
                and member["kind"] == kind
                and member["node_id"] not in ("", old)
                for member in status["members"]
            ),
            f"joined by the wiped {node.name}",
            seconds=60,
        )


def check(cluster: LocalCluster, load: Load) -> list[str]:
    """Bring all up and level; give what is wrong."""
    account = load.finish(seconds=90)
    tell(str(account))
    problems = [f"{name}: {getattr(account, name)}" for name in FORBIDDEN if getattr(account, name)]
    problems += [error for error in account.errors[:5] if "too few members" not in error]
    cluster.wait_level()
    time.sleep(0.5)
    digests: dict[int, set[str]] = {}
    queues = set()
    for node in cluster.nodes.values():
        for segment in node.get("/segments")["segments"]:
            if segment["sealed"]:
                digests.setdefault(segment["base_index"], set()).add(segment["digest"])
        status = node.status()
        if status and status["role"] != "witness":
            found = node.get("/queues?local=1")["queues"]
            queues.add(str([(each["name"], each["messages"], each["bytes"]) for each in found]))
        if status and status["store"]["damage"]:
            problems.append(f"{node.name} has damage: {status['store']['damage']}")
        log = node.log_path.read_text(errors="replace")
        problems += [f"{node.name} logged {word}" for word in WORDS if word in log]
    problems += [f"segment {base} differs" for base, found in digests.items() if len(found) > 1]
    if len(queues) > 1:
        problems.append(f"queues differ: {queues}")
    tell(f"{len(digests)} sealed segments compared; queues {queues}")
    return problems


FORBIDDEN = ("lost", "unconfirmed", "unflagged", "stored_twice", "resurrected")
FORBIDDEN += ("corrupt", "foreign")
WORDS = ("Traceback", "critical", "damage in the log", "differ")


def main() -> int:
    parser = argparse.ArgumentParser(description="Random faults under load.")
    parser.add_argument("--topology", default="three", choices=["three", "witness", "five"])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--segment", default="1MiB")
    parser.add_argument("--rate", type=float, default=3000.0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-chaos-"))
    randomness = random.Random(options.seed)
    tell(f"seed {options.seed}, {options.topology}, logs in {folder}")
    settings = LoadSettings(
        deduplicated=True, settle_receipts=True, producers=3, consumers=3, rate=options.rate
    )
    problems = []
    with LocalCluster(folder, options.topology, ["--segment", options.segment]) as cluster:
        cluster.is_witnessed = options.topology == "witness"
        cluster.start()
        chaos = Chaos(cluster, randomness)
        with Load(cluster.stomp_addresses.split(","), settings) as load:
            load.wait_confirmed(500)
            until = time.monotonic() + options.seconds
            try:
                while time.monotonic() < until:
                    chaos.step()
                    load.wait_confirmed(randomness.randrange(1, 3000), seconds=45)
                    chaos.wait(1)
                problems = check(cluster, load)
            except (LocalNodeError, TimeoutError, OSError) as error:
                problems = [f"{type(error).__name__}: {error}"]
    for problem in problems:
        tell(f"WRONG: {problem}")
    if not problems:
        shutil.rmtree(folder)
    tell("all well" if not problems else f"look into {folder}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
