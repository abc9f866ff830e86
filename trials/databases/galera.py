"""
A cluster of three MariaDB servers with Galera, on loopback.

All three begin with a copy of one folder that was a cluster of one before, so that none has to be
sent the whole of another. A node that is gone is put out of the cluster after two or three seconds,
not after the six of the defaults: tests wait for that often. A node can be killed and paused as any
server, and cut off from the others while its clients still reach it.

A node may end, or stay out of the cluster, when it finds that it was left behind: it is started
again then, as an operator's service manager does.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import pymysql

from holdfast.testing.free_ports import free_ports
from trials.databases.mariadb import PACKAGES, MariadbServer, missing_mariadb
from trials.databases.server import ServerFailedError, install

logger = logging.getLogger("trials.databases")

PROVIDER: Final = Path("/usr/lib/galera/libgalera_smm.so")
NODES: Final = 3
SETTLE_SECONDS_MAX: Final = 40.0
"""For the cluster to be whole again, with a node that has to be sent what it missed."""
ATTEMPTS: Final = 3
"""So often nodes that do not come back are started again."""
_EVICTION: Final = (
    "evs.keepalive_period=PT0.3S",
    "evs.inactive_check_period=PT0.2S",
    "evs.suspect_timeout=PT2S",
    "evs.inactive_timeout=PT5S",
    "evs.install_timeout=PT5S",
)
_LOG_CHARACTERS: Final = 12_000
"""Of a node's log in an error: what it did during the last minutes."""
_LEFT_OUT: Final = ("gvwstate.dat", "galera.cache")
"""Of a folder that is copied: what belongs to the one that ran on it."""


class GaleraNode(MariadbServer):
    """One node; the cluster says who the others are."""

    name = "galera"

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.group_port, self._incremental_port, self._transfer_port = free_ports(3)
        self.is_first = False
        """Whether it begins the cluster when it is started next."""
        self.members: list[int] = []
        """The group ports of all nodes, its own too."""

    def settings(self) -> dict[str, str]:
        here = f"tcp://127.0.0.1:{self.group_port}"
        options = [
            f"gmcast.listen_addr={here}",
            f"ist.recv_addr=127.0.0.1:{self._incremental_port}",
            "gcache.size=128M",
            "pc.recovery=FALSE",
            *_EVICTION,
        ]
        return {
            **super().settings(),
            "innodb_autoinc_lock_mode": "2",
            "binlog_format": "ROW",
            "wsrep_on": "ON",
            "wsrep_provider": str(PROVIDER),
            "wsrep_cluster_name": f"holdfast-{self.members[0]}",
            "wsrep_node_name": f"node{self.number}",
            "wsrep_node_address": f"127.0.0.1:{self.group_port}",
            "wsrep_cluster_address": "gcomm://"
            + ",".join(f"127.0.0.1:{port}" for port in self.members),
            "wsrep_sst_method": "rsync",
            "wsrep_sst_receive_address": f"127.0.0.1:{self._transfer_port}",
            "wsrep_provider_options": f'"{";".join(options)}"',
        }

    def command(self) -> list[str]:
        begin, self.is_first = (["--wsrep-new-cluster"] if self.is_first else []), False
        return [*super().command(), *begin]

    def is_ready(self) -> bool:
        """Whether it is one of a majority, and has all that the others have."""
        status = self.status()
        return (
            status.get("wsrep_ready") == "ON"
            and status.get("wsrep_cluster_status") == "Primary"
            and status.get("wsrep_local_state_comment") == "Synced"
        )

    def status(self) -> dict[str, str]:
        """What it says of itself and of the cluster; nothing if it does not answer."""
        try:
            return dict(self.ask("SHOW STATUS LIKE 'wsrep_%'"))
        except pymysql.MySQLError:
            return {}

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Do this as the superuser, also on a node that is not ready."""
        connection = pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            autocommit=None,  # which such a node would have to be asked for
            connect_timeout=2,
            read_timeout=5,
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def cut_off(self) -> None:
        """Let it hear nothing of the others, nor they of it; its clients reach it."""
        self.ask("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")

    def join_again(self) -> None:
        """Let it hear the others again."""
        self.ask("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")

    def allow_first(self) -> None:
        """Let the cluster begin with this one, though it was not the last that ended."""
        file = self.data / "grastate.dat"
        text = file.read_text()
        file.write_text(text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"))


class GaleraCluster:
    """
    Three nodes that are one database; use as a context manager: nothing of them is left behind.
    """

    def __init__(self) -> None:
        self.nodes = [GaleraNode(number) for number in range(1, NODES + 1)]
        for node in self.nodes:
            node.members = [it.group_port for it in self.nodes]
        self._databases = 0

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def prepare(self) -> None:
        """Make the folders of their data, all alike."""
        first, *others = self.nodes
        first.prepare()
        first.is_first = True
        first.start()
        first.stop()
        for node in others:
            shutil.copytree(first.data, node.data, ignore=shutil.ignore_patterns(*_LEFT_OUT))
            if os.getuid() == 0:
                _give(node.data, node.user)

    def start(self, first: int = 0) -> None:
        """Start all of them, the cluster beginning with this one; wait until it is whole."""
        begin = self.nodes[first]
        begin.allow_first()
        begin.is_first = True
        begin.start()
        # One after the other: a node that is sending one what it missed, while the next one joins,
        # may never call itself synced again (galera 26.4).
        for node in self.nodes:
            if node is not begin:
                node.launch()
                self._is_ready_within(node, SETTLE_SECONDS_MAX)
        self.await_whole()

    def kill(self) -> None:
        """Kill all of them."""
        for node in self.nodes:
            node.kill()

    def remove(self) -> None:
        """Kill what runs, and remove their folders."""
        for node in self.nodes:
            node.remove()

    @property
    def is_whole(self) -> bool:
        """Whether all three are there, and are ready."""
        return all(
            it.is_running and it.is_ready() and it.status().get("wsrep_cluster_size") == str(NODES)
            for it in self.nodes
        )

    def await_whole(self) -> None:
        """Wait until all three are one cluster; what does not come back is started again."""
        for _ in range(ATTEMPTS):
            for node in self.nodes:
                if not node.is_running:
                    node.launch()
            if self._is_whole_within(SETTLE_SECONDS_MAX):
                return
            logger.warning("nodes that do not come back are started again: %s", self._say())
            self._start_again()
        raise ServerFailedError(f"the cluster does not become whole: {self._say()}")

    @staticmethod
    def _is_ready_within(node: GaleraNode, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while node.is_running and not node.is_ready():
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return node.is_running

    def _is_whole_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self.is_whole:
            if time.monotonic() > until or not all(it.is_running for it in self.nodes):
                return False
            time.sleep(0.05)
        return True

    def _start_again(self) -> None:
        """What is not one of the cluster; all of them, where there is none."""
        ready = [it for it in self.nodes if it.is_running and it.is_ready()]
        for node in self.nodes:
            if node not in ready:
                node.kill()
        if ready:
            return
        begin = self.nodes[self.most_advanced()]
        begin.allow_first()
        begin.is_first = True
        begin.start()

    def go_on(self) -> None:
        """Let all run and hear each other, whatever a test did to them."""
        for node in self.nodes:
            if node.is_running:
                node.resume()
        if not any(it.is_running for it in self.nodes):
            self._start_again()
        self.await_whole()

    def most_advanced(self) -> int:
        """The node that has most, when none runs: what its own recovery finds on its disk."""
        return max(range(NODES), key=self.recovered)

    def recovered(self, number: int) -> int:
        """Through which transaction of the cluster this node's disk has it; it does not run."""
        node = self.nodes[number]
        said = node.run([*node.command(), "--wsrep-recover"])
        found = [it for it in said.splitlines() if "Recovered position" in it]
        if not found:
            raise ServerFailedError(f"node {number + 1} does not say what it has")
        return int(found[-1].rpartition(":")[2].split(",")[0])

    def create(self) -> str:
        """Make a database that never was, and wait until every node has it; give its name."""
        self._databases += 1
        database = f"holdfast_{self._databases}"
        self.nodes[0].execute(f"CREATE DATABASE {database}")
        for node in self.nodes:
            await_true(partial(_has, node, database), "all have the database", self._say)
        return database

    def url(self, database: str, *, first: int = 0) -> str:
        """Where it is: all nodes, this one first."""
        ports = [it.port for it in [*self.nodes[first:], *self.nodes[:first]]]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"mysql://root@{hosts}/{database}"

    def _say(self) -> str:
        names = ("wsrep_ready", "wsrep_cluster_status", "wsrep_cluster_size")
        lines = []
        for node in self.nodes:
            status = node.status()
            is_so = ", ".join(status.get(name, "-") for name in names)
            lines.append(f"node {node.number} (port {node.group_port}): {is_so}; its log ends with")
            lines.append((node.folder / "log").read_text(errors="replace")[-_LOG_CHARACTERS:])
        return "\n".join(lines)


def await_true(
    is_so: Callable[[], bool],
    what: str,
    say: Callable[[], str] = lambda: "",
    seconds: float = SETTLE_SECONDS_MAX,
) -> None:
    """Wait until it is so; raises ServerFailedError with what is the case instead."""
    until = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > until:
            raise ServerFailedError(f"not so after {seconds:.0f} s: {what}; {say()}")
        time.sleep(0.05)


def _has(node: GaleraNode, database: str) -> bool:
    return bool(node.execute(f"SHOW DATABASES LIKE '{database}'"))


def _give(folder: Path, user: str) -> None:
    shutil.chown(folder, user, user)
    for path in folder.rglob("*"):
        shutil.chown(path, user, user)


def missing_galera() -> str:
    """Why there can be no cluster here, after an attempt to install it; nothing if there can."""
    if missing := missing_mariadb():
        return missing
    for _ in range(2):
        if PROVIDER.exists() and shutil.which("rsync"):
            return ""
        if not install(*PACKAGES, "galera-4", "rsync"):
            break
    return "apt-get install galera-4 rsync"
