"""
What TLS between members costs a cluster, and what it costs a node that everybody logs in at once.

Members: two clusters of three nodes, real processes on loopback, one with `peer_tls = "require"`
and one with `off`. A client sends persistent messages with receipts to the leader of the one and of
the other in turn, a window of them at a time. Printed are medians: messages a second, and the
processor time of all three nodes for each message.

Logins: one node with a user. So many clients come to its port at once and log in by the password,
then by a token, while another one that is there already asks; printed are how long that took, who
was cut off meanwhile and had to come again, the processor time of the node for each, the longest
that the other one waited, and the longest turn of the node's loop, by its processor time, beside
what that was before. Then one after the other logs in on the admin port by SCRAM and by Basic: the
processor time of the node for each request. And of a cluster the leader is killed with so many
clients, who all come to the next one: that must cost no further election.

Run: .venv/bin/python benches/secured.py [--rounds 3] [--messages 10000] [--clients 10000]
With `--rounds 0` nothing is measured of members.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from beside import publishing
from crowd import Crowd
from machine import print_heading
from tls import Way, processor_seconds, send

from holdfast.admin.by_password import ByPassword
from holdfast.admin.remote import RemoteNode
from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from holdfast.transport.certificates import make_node, open_authority

_SIZES = {"200 B": 200, "16 KiB": 16_384}
_PASSWORD = "correct-horse-battery"
_ASKED = 200


def secured(directory: Path, mode: str) -> LocalCluster:
    """Three members whose links go by TLS, or in clear."""
    cluster = LocalCluster(directory, "three", [])
    directory.mkdir()
    authority, _ = open_authority(directory)
    for name, node in cluster.nodes.items():
        make_node(authority, directory / f"{name}.pem", name, [], 1)
        files = f'certificate = "{directory}/{name}.pem"\nclient_ca = "{directory}/ca.pem"\n'
        table = f'{files}client = "required"\n'
        config = directory / f"{name}.toml"
        config.write_text(f'peer_tls = "{mode}"\n[tls.peers]\n{table}')
        node.arguments += ["--config", str(config)]
    return cluster


def compare(clusters: dict[str, LocalCluster], rounds: int, messages: int) -> None:
    for what, size in _SIZES.items() if clusters else ():
        count = messages if size < 1024 else messages // 8
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in clusters}
        for number in range(rounds + 1):
            for name in clusters if number % 2 else reversed(clusters):
                nodes = list(clusters[name].nodes.values())
                leader = clusters[name].leader()
                before = sum(map(processor_seconds, nodes))
                rate, _ = asyncio.run(send(Way(name, leader, leader.stomp_port), count, size))
                spent = sum(map(processor_seconds, nodes)) - before
                if number:  # The first round warms up.
                    found[name].append((rate, spent / count * 1e6))
        for name, measures in found.items():
            rate, micros = (statistics.median(it[at] for it in measures) for at in (0, 1))
            print(
                f"{what:>7} peer_tls={name:<8} {rate:>8,.0f} msg/s {micros:>8.1f} us of all nodes"
            )


def greeting(secret: str) -> bytes:
    head = "CONNECT\naccept-version:1.2\nhost:h"
    return f"{head}\nlogin:ann\npasscode:{secret}\n\n\0".encode()


def storm(node: LocalNode, clients: int, kind: str, secret: str) -> None:
    before = node.status() or {}
    spent = processor_seconds(node)
    crowd = Crowd(clients, greeting(secret))
    with publishing(node.stomp_port, login="ann", passcode=secret) as waited:
        crowd.come(node.stomp_port)
        spent = processor_seconds(node) - spent
    crowd.leave()
    after = node.status() or {}
    longest = [1e3 * it["turn_cpu_seconds_max"] for it in (before, after)]
    print(
        f"{clients:,} logins at once by {kind}: {crowd.seconds:.2f} s, cut off meanwhile:"
        f" {dict(crowd.failures)}, {spent / clients * 1e3:.2f} ms of the"
        f" node each with all it did meanwhile; another waited {max(waited) * 1e3:.0f} ms at most,"
        f" {statistics.median(waited) * 1e3:.1f} ms by median; longest turn {longest[1]:.1f} ms of"
        f" a processor (before: {longest[0]:.1f} ms); elections: {after['term'] - before['term']}"
    )


def failover(cluster: LocalCluster, clients: int, secret: str) -> None:
    """Kill the leader; all of its clients come to the next one at once."""
    first = cluster.leader()
    crowd = Crowd(clients, greeting(secret))
    crowd.come(first.stomp_port)
    first.kill()
    began = time.monotonic()
    crowd.wait_until_cut_off()
    leader = cluster.leader()
    elected = time.monotonic() - began
    term = (leader.status() or {})["term"]
    crowd.failures.clear()
    with publishing(leader.stomp_port, login="ann", passcode=secret) as waited:
        crowd.come(leader.stomp_port)
    after = leader.status() or {}
    print(
        f"{clients:,} clients that come back after a failover, {elected:.2f} s after which another"
        f" one leads: all are in after {crowd.seconds:.2f} s, cut off meanwhile:"
        f" {dict(crowd.failures)}; another waited {max(waited) * 1e3:.0f} ms at most,"
        f" {statistics.median(waited) * 1e3:.1f} ms by median; further elections:"
        f" {after['term'] - term}, still leads: {cluster.leader() is leader}"
    )
    crowd.leave()


class _Basic(ByPassword):
    """Shows the password itself, whatever is offered."""

    is_for_scram = False


def operators(node: LocalNode) -> None:
    for kind, login in (("SCRAM", ByPassword), ("Basic", _Basic)):
        asked = RemoteNode(node.admin, login=login("ann", _PASSWORD))
        asked.get("/users")
        spent, began = processor_seconds(node), time.monotonic()
        for _ in range(_ASKED):
            asked.get("/users")
        took = (time.monotonic() - began) / _ASKED
        spent = (processor_seconds(node) - spent) / _ASKED
        print(
            f"a request to the admin port by {kind}, right lately: {spent * 1e3:.2f} ms of the"
            f" node, {took * 1e3:.1f} ms in all"
        )


def make_user(node: LocalNode) -> str:
    """Make the user whom all are, who may do everything; gives a token of his."""
    node.wait_until(lambda it: it["format_level"] >= ACCESS_LEVEL, "at the level of users")
    machine = RemoteNode(node.admin)
    granted = {"role": "all", "rights": "read,write,admin", "pattern": "queue://>"}
    machine.change("POST", "/grants", granted)
    made = {"name": "ann", "roles": ["all", "admin"], "password": _PASSWORD}
    machine.change("POST", "/users", made)
    asked = {"name": "ann", "token": "t"}
    return str(machine.change("POST", "/users/tokens", asked)["token"])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--messages", type=int, default=10_000)
    options.add_argument("--clients", type=int, default=10_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-secured-") as folder:
        directory = Path(folder)
        print_heading(directory, rounds=given.rounds, messages=given.messages)
        with ExitStack() as stack:
            clusters = {}
            for mode in ("off", "require") if given.rounds else ():
                clusters[mode] = stack.enter_context(secured(directory / mode, mode))
                clusters[mode].start()
            compare(clusters, given.rounds, given.messages)
        for topology in ("single", "three"):
            flags = ["--connections", str(given.clients + 100), "--scram"]
            with LocalCluster(directory / topology, topology, flags) as cluster:
                cluster.start()
                token = make_user(cluster.leader())
                if topology == "three":
                    failover(cluster, given.clients, _PASSWORD)
                    continue
                storm(cluster.leader(), given.clients, "password", _PASSWORD)
                storm(cluster.leader(), given.clients, "token", token)
                operators(cluster.leader())


if __name__ == "__main__":
    main()
