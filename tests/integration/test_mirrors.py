"""Real nodes with two directories: a disk that goes, comes back, is replaced, and halves alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.admin.remote import RemoteNode
from holdfast.errors import LinkLostError
from holdfast.testing.free_ports import free_ports

HOLDFAST = (sys.executable, "-m", "holdfast")
WAIT_SECONDS = 60.0


class Pair:
    """One node with two directories."""

    def __init__(self, top: Path) -> None:
        self.one, self.two = top / "one", top / "two"
        self.log = top / "log"
        stomp, admin = free_ports(2)
        self.uri = f"stomp://127.0.0.1:{stomp}"
        self.ports = ("--stomp", f"127.0.0.1:{stomp}", "--admin", f"127.0.0.1:{admin}")
        self.admin = ("--admin", f"127.0.0.1:{admin}")
        self.node = RemoteNode(f"127.0.0.1:{admin}", timeout_seconds=10)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *directories: Path) -> None:
        """Start it, and wait until it serves."""
        given = [it for path in directories or (self.one, self.two) for it in ("--data", path)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*HOLDFAST, "serve", *given, *self.ports, "--segment", "1MiB"],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(self.log.read_text()[-3000:])
            try:
                if self.node.get("/status")["serving"]:
                    return
            except LinkLostError:
                pass
            time.sleep(0.1)
        raise AssertionError("it does not serve: " + self.log.read_text()[-3000:])

    def end(self, *, kill: bool = False) -> int:
        """End it; gives its exit code."""
        assert self.process is not None
        if kill:
            self.process.kill()
        else:
            self.process.terminate()
        return self.process.wait(WAIT_SECONDS)

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a command."""
        return subprocess.run(
            [*HOLDFAST, *map(str, arguments)], capture_output=True, text=True, check=False
        )

    def send(self, count: int, queue: str = "/queue/x", size: int = 1000) -> None:
        """Send persistent messages, all confirmed."""
        sent = self.run("send", queue, "m" * size, "-n", count, "--uri", self.uri)
        assert sent.returncode == 0, sent.stderr

    def count(self, name: str = "x") -> int:
        """How many messages a queue has."""
        queues = self.node.get("/queues")["queues"]
        return int(next(it["messages"] for it in queues if it["name"] == name))

    def states(self) -> dict[str, str]:
        """How the mirrors are, by the name of their directory."""
        mirrors = self.node.get("/status")["store"]["mirrors"]
        return {Path(it["directory"]).name: it["state"] for it in mirrors}

    def wait_for(self, **states: str) -> None:
        """Wait until the mirrors are so."""
        deadline = time.monotonic() + WAIT_SECONDS
        while (found := self.states()) != states:
            assert time.monotonic() < deadline, found
            time.sleep(0.1)

    def verify_alike(self) -> None:
        """Both logs of a stopped node are whole, and the same."""
        told = [
            json.loads(self.run("store", "verify", it, "--json").stdout)
            for it in (self.one, self.two)
        ]
        assert [it["clean"] for it in told] == [True, True]
        assert told[0]["last_chain"] == told[1]["last_chain"]


def _take_away(directory: Path) -> None:
    """In one step: the node goes on making files there, which a removal one by one would meet."""
    directory.rename(directory.with_name(f"{directory.name}-taken"))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    if pair.process is not None and pair.process.poll() is None:
        pair.end(kill=True)


def test_disk_that_goes_is_left_behind_and_comes_back(pair: Pair) -> None:
    """L23, L29: its directory is gone under load; an empty one takes its place, and is filled."""
    pair.start()
    pair.wait_for(one="active", two="active")
    pair.send(2000)
    _take_away(pair.two)
    pair.wait_for(one="active", two="failed")
    pair.send(2000)
    enabled = pair.run("mirror", "enable", pair.two, *pair.admin)
    assert enabled.returncode == 0, enabled.stderr
    pair.send(2000)
    pair.wait_for(one="active", two="active")
    pair.send(100)
    assert pair.count() == 6100
    assert pair.end() == 0
    pair.verify_alike()


def test_first_directory_may_be_the_one_that_goes(pair: Pair) -> None:
    """Files are named by it, and read from the other one then; commands find their token there."""
    pair.start()
    pair.send(1000)
    _take_away(pair.one)
    pair.wait_for(one="failed", two="active")
    disabled = pair.run("mirror", "disable", pair.one, *pair.admin)
    assert disabled.returncode == 0, disabled.stderr
    pair.send(3000, size=2000)
    assert pair.end(kill=True) != 0
    refused = pair.run("mirror", "status", "--data", pair.two)
    assert refused.returncode == 0, refused.stderr
    pair.start(pair.two)
    assert pair.count() == 4000


def test_killed_node_finds_both_alike(pair: Pair) -> None:
    """L24: kill -9 under load; whatever came to one of them only is on both, or on none."""
    pair.start()
    for _ in range(2):
        pair.send(500)
        sending = subprocess.Popen(
            [*HOLDFAST, "send", "/queue/y", "m" * 1000, "-n", "100000", "--uri", pair.uri],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(1.0)
        pair.end(kill=True)
        sending.kill()
        sending.wait()
        pair.start()
    assert pair.count() == 1000
    pair.end()
    pair.verify_alike()


def test_half_alone_needs_an_operators_word(pair: Pair) -> None:
    """L25, L26: one of two is refused and told the command; the stale one is refused for good."""
    pair.start()
    pair.send(10)
    pair.end()
    refused = pair.run("serve", "--data", pair.two, *pair.ports)
    assert refused.returncode == 1
    assert f"{pair.one} cannot be used" in refused.stderr
    assert "holdfast mirror accept --data" in refused.stderr
    accepted = pair.run("mirror", "accept", "--data", pair.two, "--yes")
    assert accepted.returncode == 0, accepted.stderr
    pair.start(pair.two)
    pair.send(10)
    pair.end()
    stale = pair.run("serve", "--data", pair.one, *pair.ports)
    assert stale.returncode == 1
    pair.start()
    pair.wait_for(one="active", two="active")
    assert pair.count() == 20
    pair.end()
    pair.verify_alike()


def test_halves_that_went_apart_are_refused_together(pair: Pair) -> None:
    """L27: each was accepted and written to."""
    pair.start()
    pair.send(10)
    pair.end()
    for each in (pair.one, pair.two):
        assert pair.run("mirror", "accept", "--data", each, "--yes").returncode == 0
        pair.start(each)
        pair.send(1)
        pair.end()
    refused = pair.run("serve", "--data", pair.one, "--data", pair.two, *pair.ports)
    assert refused.returncode == 1
    assert "went on apart from each other" in refused.stderr


def test_killed_while_it_fills_a_mirror(pair: Pair) -> None:
    """L29: the next start goes on filling, and reads nothing of the half copy."""
    pair.start(pair.one)
    pair.send(4000)
    pair.end()
    pair.start()
    pair.end(kill=True)
    pair.start()
    pair.wait_for(one="active", two="active")
    assert pair.count() == 4000
    pair.end()
    pair.verify_alike()
