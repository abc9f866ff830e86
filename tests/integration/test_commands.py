"""
The command line against real processes: what ends, with which code, and what it says.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.testing.free_ports import free_ports
from holdfast.testing.local_cluster import LocalNode

pytestmark = [pytest.mark.processes, pytest.mark.slow]

# Time enough for a slow machine; nothing here waits for it to pass.
SECONDS_MAX = 60


# Makes its standard input the terminal of its session, then becomes another program.
ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", *arguments]


def environment(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")} | more


def run_all(*commands: tuple[str, ...]) -> list[subprocess.CompletedProcess[str]]:
    """Run commands beside each other, without a terminal; gives how each ended."""
    running = [
        subprocess.Popen(
            command(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        for arguments in commands
    ]
    ended = []
    try:
        for process in running:
            out, err = process.communicate(timeout=SECONDS_MAX)
            ended.append(subprocess.CompletedProcess(process.args, process.returncode, out, err))
    finally:
        for process in running:
            process.kill()
            process.wait()
    return ended


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    (ended,) = run_all(arguments)
    return ended


@contextmanager
def on_terminal(
    *arguments: str, stderr: int | None = None
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Start a command as the only one of a terminal of its own; gives the terminal's other end."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, *command(*arguments)[1:]],
        stdin=slave,
        stdout=slave,
        stderr=slave if stderr is None else stderr,
        env=environment(),
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield master, process
    finally:
        process.kill()
        process.wait()


def read_until(master: int, text: bytes) -> bytes:
    """What a terminal shows, up to a text or the end."""
    seen = b""
    while text not in seen:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the process has ended
            break
        if not piece:
            break
        seen += piece
    return seen


def test_send_and_receive_end_without_a_broker() -> None:
    """
    Behind a failover URI whose every address is closed, each ends by itself with code 1 and says
    where nobody was, as a script needs it.
    """
    port = free_ports(1)[0]
    uri = f"failover:(stomp://127.0.0.1:{port})"
    sent, received = run_all(
        ("send", "/queue/q", "x", "--timeout", "1", "--uri", uri),
        ("receive", "/queue/q", "--timeout", "1", "--uri", uri),
    )

    for outcome, seconds in ((sent, 1), (received, 3)):
        assert outcome.returncode == 1
        last = outcome.stderr.splitlines()[-1]
        assert last == f"holdfast: no broker answered at {uri} within {seconds} s"


@pytest.mark.parametrize(
    ("arguments", "question"),
    [
        (["queues", "purge", "q"], b"Remove all messages of q?"),
        (["queues", "delete", "q"], b"Remove q and all its messages?"),
        (["cluster", "remove", "b"], b"Remove b from the cluster, for good?"),
    ],
    ids=lambda it: it[-2] if isinstance(it, list) else "",
)
def test_what_cannot_be_undone_is_asked_on_a_terminal(
    arguments: list[str], question: bytes
) -> None:
    """
    Before anything is sent: the admin port here is closed, and "no" ends with 1 and no complaint
    about that. From a script nothing is asked.
    """
    admin = f"127.0.0.1:{free_ports(1)[0]}"
    with on_terminal(*arguments, "--admin", admin) as (master, process):
        assert question in read_until(master, b"[y/N]: ")
        os.write(master, b"n\n")
        assert b"no answer" not in read_until(master, b"no answer")
        assert process.wait(SECONDS_MAX) == 1
    outcome = run(*arguments, "--admin", admin)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("holdfast: no answer from the admin port")


@pytest.mark.parametrize("key", ["stomp", "admin", "peers"])
def test_a_taken_port_is_found_at_start(tmp_path: Path, key: str) -> None:
    """
    A member would open its client port only when it comes to lead, and end there: it does not even
    start, says in one sentence for whom the port is, and has not touched its directory.
    """
    ports = dict(zip(("stomp", "admin", "peers"), free_ports(3), strict=True))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ports[key] = other.getsockname()[1]
        places = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        outcome = run(
            *("serve", "--name", "a", "--data", str(tmp_path / "a")),
            *("--stomp", places["stomp"], "--admin", places["admin"]),
            *("--member", f"a={places['peers']}", "--member", "b=127.0.0.1:1"),
        )

    assert outcome.returncode == 1
    (line,) = outcome.stderr.splitlines()
    assert line.startswith(f"holdfast: {key}: {places[key]} cannot be opened: address already in")
    whom = {"stomp": "clients", "admin": "operators", "peers": "the other members"}[key]
    assert f"; {whom} are to connect there" in line
    assert not (tmp_path / "a").exists()


def test_stray_signals_do_not_end_a_node(start_cluster) -> None:
    """
    Log rotation sends SIGHUP to whatever it takes for a daemon: it is a line in the log, and the
    node serves on.
    """
    node = start_cluster("single").leader()
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        node.signal(number)

    def is_told(_: object) -> bool:
        text = node.log_path.read_text()
        return all(f"signal={name}" in text for name in ("SIGHUP", "SIGUSR1", "SIGUSR2"))

    status = node.wait_until(is_told, "told of its signals")

    assert status["serving"]
    assert node.stop() == 0


def test_a_terminal_that_closes_stops_a_node_in_order(tmp_path: Path) -> None:
    """
    Whoever closes the window in which a node runs ends it: as by SIGTERM, and its log says why.
    """
    stomp, admin = free_ports(2)
    node = LocalNode("a", tmp_path, ports=(stomp, admin, 0))
    log = tmp_path / "log"
    places = ("--stomp", f"127.0.0.1:{stomp}", "--admin", f"127.0.0.1:{admin}")
    with log.open("wb") as file:
        arguments = ("serve", "--name", "a", "--data", str(tmp_path / "a"), *places)
        with on_terminal(*arguments, stderr=file.fileno()) as (master, process):
            node.process = process
            node.wait_until(lambda status: status["serving"], "serving")
            os.close(master)
            assert process.wait(SECONDS_MAX) == 0

    text = log.read_text()
    assert "its terminal is gone" in text
    assert "stopped" in text


def test_status_says_why_nobody_leads(start_cluster) -> None:
    """
    A cluster whose majority is gone: both commands end with 1 and name who is not reached; while
    it is served they end with 0.
    """
    cluster = start_cluster("three", is_patient=True)
    leader = cluster.leader()
    follower, other = (node for node in cluster.nodes.values() if node is not leader)
    follower.wait_until(
        lambda status: (
            status["leader"] == leader.name and all(it["connected"] for it in status["members"])
        ),
        "following",
    )
    admin = ("--admin", follower.admin)
    for outcome in run_all(("status", *admin), ("cluster", "status", *admin)):
        assert outcome.returncode == 0
    leader.kill()
    other.kill()
    follower.wait_until(
        lambda status: (
            status["leader"] is None
            and not any(it["connected"] for it in status["members"] if it["name"] != follower.name)
        ),
        "alone",
    )

    away = " and ".join(sorted((leader.name, other.name)))
    for outcome in run_all(
        ("status", *admin), ("cluster", "status", *admin), ("cluster", "status", "--json", *admin)
    ):
        assert outcome.returncode == 1
        assert re.sub(r" \(last seen \d+ s ago\)", "", outcome.stderr) == (
            f"no leader: {follower.name} is connected to 1 of 3 voters, itself included, and 2 are"
            f" needed; it does not reach {away}\n"
        )
        assert outcome.stderr.count("(last seen ") == 2


def test_status_of_a_node_that_waits_for_its_cluster(tmp_path: Path) -> None:
    """
    The first of three that is started: nothing is wrong yet, and it says what has to happen.
    """
    node = LocalNode("a", tmp_path)
    members = [f"a={node.peers}", "b=127.0.0.1:1", "c=127.0.0.1:2"]
    node.arguments = [word for member in members for word in ("--member", member)]
    node.start()
    try:
        node.wait_until(
            lambda status: all("refused" in it["reason"] for it in status["awaits"]), "refused"
        )
        outcome = run("status", "--admin", node.admin)
    finally:
        node.kill()

    assert outcome.returncode == 1
    assert outcome.stderr == (
        "no leader: a belongs to no cluster yet: it waits for b at 127.0.0.1:1 (connection refused)"
        " and c at 127.0.0.1:2 (connection refused)\n"
    )
