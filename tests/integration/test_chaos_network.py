"""
Both kinds of network with real sockets: each trouble is seen by programs on the hosts, a cluster
outlives the partition of its leader, and nothing is left behind.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest

from trials.chaos.cluster import ChaosCluster
from trials.chaos.connection_owner import ask_inode
from trials.chaos.host_thread import HOST_VARIABLE
from trials.chaos.launch import UPTIME_VARIABLE
from trials.chaos.leftovers import all_processes
from trials.chaos.network import (
    CUT,
    KINDS,
    LinkTrouble,
    Network,
    NetworkUnavailableError,
    cut,
    open_network,
)

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PORT = 61616
PUPPET = """
import json, socket, sys, time

def obey(order, *values):
    global listener, peer
    if order == "listen":
        listener = socket.create_server(tuple(values))
    elif order == "accept":
        listener.settimeout(values[0])
        peer = listener.accept()[0]
    elif order == "connect":
        peer = socket.create_connection(values[:2], timeout=values[2])
    elif order == "send":
        peer.settimeout(60)
        peer.sendall(values[0].encode())
    elif order == "receive":
        text, deadline = "", time.monotonic() + values[1]
        while len(text) < values[0] and time.monotonic() < deadline:
            peer.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                received = peer.recv(65536).decode()
            except TimeoutError:
                break
            if not received:
                return text + "<end>"
            text += received
        return text
    elif order == "close":
        peer.close()

for line in sys.stdin:
    try:
        answer = obey(*json.loads(line))
    except OSError as error:
        answer = {"error": type(error).__name__}
    print(json.dumps(answer), flush=True)
"""


class Puppet:
    """A program on a host that does with one TCP connection what it is told."""

    def __init__(self, network: Network, host: str) -> None:
        self.network = network
        self.host = host
        self.process = network.spawn(
            host,
            [sys.executable, "-I", "-S", "-c", PUPPET],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        self.process.wait(10)

    def tell(self, *order: object) -> object:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def listen(self) -> None:
        assert self.tell("listen", self.network.listen_address(self.host), PORT) is None

    def connect(self, other: Puppet, seconds: float = 5.0) -> object:
        return self.tell("connect", self.network.address(other.host), PORT, seconds)

    def accept(self, seconds: float = 5.0) -> object:
        return self.tell("accept", seconds)

    def send(self, text: str) -> None:
        assert self.tell("send", text) is None

    def receive(self, count: int, seconds: float) -> object:
        return self.tell("receive", count, seconds)


Puppets = Callable[..., Puppet]


@pytest.fixture(params=KINDS)
def network(request: pytest.FixtureRequest) -> Iterator[Network]:
    try:
        with open_network(["a", "b", "c"], prefer=request.param, seed=3) as opened:
            yield opened
    except NetworkUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def pair(network: Network) -> Iterator[tuple[Puppet, Puppet]]:
    """A program on host a that is connected to one on host b."""
    a, b = Puppet(network, "a"), Puppet(network, "b")
    b.listen()
    assert a.connect(b) is None
    assert b.accept() is None
    yield a, b
    a.close()
    b.close()


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


def test_a_link_without_trouble_carries_both_ways(network: Network, pair):
    """Quickly, and both directions are counted under their hosts' names."""
    a, b = pair
    for _ in range(19):
        a.send("ping")
        assert b.receive(4, 5) == "ping"
        b.send("pong")
        assert a.receive(4, 5) == "pong"

    assert quickest_round_trip(a, b) < 0.05
    counts = network.counts()
    assert counts["a", "b"].bytes >= 80
    assert counts["b", "a"].bytes >= 80
    assert counts["a", "c"].packets == counts["c", "b"].packets == 0


def test_a_cut_link_carries_nothing_until_it_is_healed(network: Network, pair):
    """Both directions are silent, and what was sent meanwhile arrives after the heal."""
    a, b = pair
    cut(network, ["a"], ["b"])
    a.send("there")
    b.send("back")
    during = a.receive(1, 0.2), b.receive(1, 0.2)
    wait_until(lambda: network.counts()["a", "b"].dropped > 0)
    network.heal()

    assert during == ("", "")
    assert (b.receive(5, 10), a.receive(4, 10)) == ("there", "back")


def test_a_cut_of_one_direction_lets_the_other_pass(network: Network, pair):
    """What b says reaches a while a is not heard; a's other links are not touched."""
    a, b = pair
    c = Puppet(network, "c")
    c.listen()
    network.trouble("a", "b", CUT)
    a.send("unheard")
    b.send("heard")

    assert a.receive(5, 5) == "heard"
    assert b.receive(1, 0.3) == ""
    assert Puppet.connect(a, c) is None
    c.close()


def test_a_new_connection_does_not_cross_a_cut(network: Network):
    """The dialer hears nothing, and the listener does not hear of it, not even after the heal."""
    a, b = Puppet(network, "a"), Puppet(network, "b")
    b.listen()
    network.trouble("a", "b", CUT)
    outcome = a.connect(b, 0.3)
    if network.kind == "proxies":
        # The forwarder takes it, and says nothing.
        assert (outcome, a.receive(1, 0.3)) == (None, "")
        a.tell("close")
    else:
        assert outcome == {"error": "TimeoutError"}
    network.heal()

    assert b.accept(0.5) == {"error": "TimeoutError"}
    assert a.connect(b) is None
    assert b.accept(5) is None
    a.close()
    b.close()


def test_a_delay_is_of_one_direction(network: Network, pair):
    """A quarter of a second there, nothing back; after the heal nothing either way."""
    a, b = pair
    network.trouble("a", "b", LinkTrouble(delay_seconds=(0.25, 0.3)))

    assert 0.24 < quickest_round_trip(a, b, 3) < 0.7
    assert round_trip(b, a) > 0.24
    assert network.counts()["a", "b"].delayed >= 2
    assert network.counts()["b", "a"].delayed == 0
    network.heal()
    assert quickest_round_trip(a, b) < 0.2


def quickest_round_trip(one: Puppet, other: Puppet, count: int = 20) -> float:
    """What it takes when nothing else on this machine is in the way."""
    return min(round_trip(one, other) for _ in range(count))


def round_trip(one: Puppet, other: Puppet) -> float:
    began = time.monotonic()
    one.send("x")
    assert other.receive(1, 10) == "x"
    other.send("y")
    assert one.receive(1, 10) == "y"
    return time.monotonic() - began


@pytest.mark.parametrize(
    "trouble",
    [
        LinkTrouble(loss=0.2),
        LinkTrouble(duplicate=0.5),
        LinkTrouble(late=0.2),
        LinkTrouble(delay_seconds=(0.0, 0.03)),
    ],
    ids=["loss", "duplicate", "late", "jitter"],
)
def test_a_connection_loses_and_doubles_nothing_whatever_the_packets_do(
    network: Network, pair, trouble: LinkTrouble
):
    """TCP puts it right: every byte arrives once and in order, though packets did not."""
    a, b = pair
    network.trouble("a", "b", trouble)
    lines = [f"{number:04d}\n" for number in range(60)]
    for line in lines:
        a.send(line)
        time.sleep(0.002)

    assert b.receive(len(lines) * 5, 30) == "".join(lines)
    counts = network.counts()["a", "b"]
    if network.kind == "namespaces" or not trouble.duplicate:
        assert counts.dropped + counts.duplicated + counts.delayed > 0
    network.heal()


def test_the_end_of_a_program_is_heard_unless_its_link_is_cut(network: Network, pair):
    """A killed program's connection ends at the other side, but only once the link lets that by."""
    a, b = pair
    network.trouble("b", "a", CUT)
    b.process.kill()
    b.process.wait()
    during = a.receive(1, 0.3)
    network.heal()

    assert during == ""
    assert a.receive(1, 10) in ("<end>", {"error": "ConnectionResetError"})


def test_much_is_carried_while_a_reader_is_slow(network: Network, pair):
    """Twenty megabytes cross while the other side reads now and then; nothing is lost."""
    a, b = pair
    writer = threading.Thread(target=lambda: a.send("z" * 20_000_000))
    writer.start()
    received = 0
    while received < 20_000_000:
        text = b.receive(min(1_000_000, 20_000_000 - received), 10)
        assert isinstance(text, str) and text
        received += len(text)
        time.sleep(0.002)
    writer.join()

    assert received == 20_000_000


def test_the_operator_is_never_troubled(network: Network):
    """Its links take no trouble, and it reaches a host that all others are cut off from."""
    b = Puppet(network, "b")
    b.listen()
    cut(network, ["b"], ["a", "c", "client"])
    with pytest.raises(ValueError, match="operator"):
        network.trouble("operator", "b", CUT)
    with network.inside("operator"):
        made = socket.create_connection((network.listen_address("b"), PORT), timeout=5)
    with made:
        assert b.accept() is None
        b.send("hello")
        assert made.recv(5) == b"hello"
    b.close()


def test_the_runners_own_network_is_as_before(network: Network):
    """Inside a host's network and after it, whoever else listens on this machine is reachable."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with network.inside("operator"):
            pass
        with socket.create_connection(server.getsockname(), timeout=5):
            accepted, _ = server.accept()
            accepted.close()


def test_machines_have_been_up_for_unequal_times():
    """A program's monotonic clock is its own machine's, where the kernel can have several."""
    with open_network(["a"]) as network:
        if network.kind != "namespaces":
            pytest.skip("only root may give a program a clock of its own")
        environment = dict(os.environ) | {UPTIME_VARIABLE: "5000000"}
        command = [sys.executable, "-I", "-S", "-c", "import time; print(time.monotonic())"]
        process = network.spawn("a", command, env=environment, stdout=subprocess.PIPE)
        told, _ = process.communicate(timeout=10)
    assert 5_000_000 - 10 < float(told) - time.monotonic() < 5_000_000 + 10


def test_the_dialing_socket_is_found_by_asking_the_kernel():
    """The inode is the one that the owner's descriptor shows; of no socket there is none."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as made,
    ):
        inode = ask_inode(made.getsockname(), server.getsockname())
        if inode is None:
            pytest.skip("this kernel answers no such question; its table is read instead")
        shown = Path(f"/proc/self/fd/{made.fileno()}").readlink()

        assert str(shown) == f"socket:[{inode}]"
        assert ask_inode(("127.0.0.1", 1), server.getsockname()) is None


def test_connections_are_dialed_again_and_again(network: Network, pair):
    """Two hundred connections to a closed port and to an open one, none of them waited for."""
    a, b = pair
    seconds = []
    for _ in range(100):
        began = time.monotonic()
        a.tell("connect", network.address("c"), PORT, 1.0)
        a.tell("close")
        assert a.connect(b) is None
        assert b.accept() is None
        a.tell("close")
        seconds.append(time.monotonic() - began)

    # Most, for a busy machine is late with some.
    assert median(seconds) < 0.1


def is_marked(pid: int, mark: str) -> bool:
    try:
        return f"{HOST_VARIABLE}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def marked(mark: str) -> list[int]:
    return [pid for pid in all_processes() if is_marked(pid, mark)]


def network_namespaces() -> set[str]:
    """Every network namespace that a process or thread of this machine is in."""
    found = set()
    for pid in all_processes():
        for place in Path(f"/proc/{pid}/task").glob("*/ns/net"):
            try:
                found.add(str(place.readlink()))
            except OSError:
                continue
    return found


RUNNER = """
import subprocess, sys, time
from trials.chaos.network import open_network
sleeper = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
program = f"import subprocess, time; subprocess.Popen({sleeper!r}, start_new_session=True)"
parent = [sys.executable, "-I", "-S", "-c", f"{program}; time.sleep(600)"]
with open_network(["a"], prefer=sys.argv[1]) as network:
    processes = [network.spawn("a", sleeper), network.spawn("client", parent)]
    print(network._mark, network.kind, flush=True)
    if sys.argv[2] == "wait":
        time.sleep(600)
    if sys.argv[2] == "raise":
        raise SystemExit(3)
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["leave", "raise", "SIGTERM", "SIGKILL"])
def test_nothing_outlives_the_runner(kind: str, end: str):
    """Neither programs nor what they started, nor the carrier, nor namespaces: however it ends."""
    how = "wait" if end.startswith("SIG") else end
    before = network_namespaces()
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, kind, how], stdout=subprocess.PIPE, text=True
    ) as runner:
        assert runner.stdout is not None
        words = runner.stdout.readline().split()
        if not words:
            pytest.skip(f"no {kind} here")
        if end.startswith("SIG"):
            # A program, another one and what it started, and the carrier.
            deadline = time.monotonic() + 10
            while len(marked(words[0])) < 4:
                assert time.monotonic() < deadline, "not all programs came up"
                time.sleep(0.02)
            os.kill(runner.pid, signal.Signals[end])
        runner.wait(20)
    deadline = time.monotonic() + 10
    while (left := marked(words[0])) and time.monotonic() < deadline:
        time.sleep(0.02)

    assert left == []
    # Another run beside this test has namespaces of its own, under numbers that were ours.
    assert network_namespaces() <= before or marked("")


@pytest.mark.promise("F9")
def test_a_cluster_outlives_the_partition_of_its_leader(network: Network, tmp_path: Path):
    """
    The others elect a new leader, the one cut off steps down, and after the heal all are level;
    over either network.
    """
    with ChaosCluster(tmp_path, "three", network) as cluster:
        old = cluster.start()
        others = [name for name in network.hosts if name not in (old.name, "operator")]
        cut(network, [old.name], others)
        new = cluster.leader(but=old)
        old.wait_until(lambda status: status["role"] != "leader", "stepping down", 10)
        carried = network.counts()[old.name, new.name]
        network.heal()
        cluster.wait_level()

        assert new is not old
        assert carried.dropped > 0
    for node in cluster.nodes.values():
        assert "Traceback" not in node.log_path.read_text(errors="replace")
