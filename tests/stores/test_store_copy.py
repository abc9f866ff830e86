"""
`holdfast store copy` with real brokers and servers: what the source had is served from the copy.

A single node's log goes to each kind of store, is served there, comes back to a directory, and that
becomes a cluster of three; every message is delivered once, in order, wherever it was sent.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.admin.remote import RemoteNode
from holdfast.client import blocking
from holdfast.errors import MembershipError
from holdfast.testing.local_cluster import LocalNode, NodeGroup
from trials.databases.server import DatabaseServer

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(300)]

SERVERS = ["postgresql", "mariadb"]
KINDS = ["shared", "sqlite", *SERVERS]
QUEUE = "/queue/moved"
SMALL = ["--segment", "256KiB"]


class Medium:
    """A place that brokers share: its name for `store copy`, and the flags of its brokers."""

    def __init__(self, place: str, flags: list[str]) -> None:
        self.place = place
        self.flags = [*flags, "--lease-seconds", "1.5"]


@pytest.fixture(params=KINDS)
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> Medium:
    """An empty place of each kind."""
    return medium_of(request.param, request, tmp_path, "copied")


def medium_of(kind: str, request: pytest.FixtureRequest, tmp_path: Path, name: str) -> Medium:
    if kind in SERVERS:
        server: DatabaseServer = request.getfixturevalue(kind)
        url = server.create(name)
        return Medium(url, ["--store", url])
    if kind == "shared":
        path = str(tmp_path / name)
        return Medium(f"shared:{path}", ["--shared", path])
    url = f"sqlite:///{tmp_path}/{name}.db"
    return Medium(url, ["--store", url])


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `holdfast store copy`."""
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "store", "copy", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def copied(*arguments: str) -> dict[str, Any]:
    """Run it, and give what it says of itself."""
    done = command(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def served(node: LocalNode) -> LocalNode:
    node.start()
    node.wait_until(lambda status: status["serving"], "serving")
    return node


def send(node: LocalNode, bodies: list[str], queue: str = QUEUE) -> None:
    with blocking.connect(node.uri) as connection:
        for body in bodies:
            connection.send(queue, body)


def receive(uri: str, count: int, queue: str = QUEUE) -> list[tuple[str, str]]:
    """So many messages, acknowledged: the id and the body of each."""
    found: dict[str, str] = {}
    with blocking.connect(uri) as connection, connection.subscribe(queue) as subscription:
        for message in subscription:
            # One may come again, flagged, where the lead changes under a client.
            assert message.headers["message-id"] not in found or message.redelivered
            found[message.headers["message-id"]] = message.text
            message.acknowledge()
            if len(found) == count:
                break
    return list(found.items())


def bodies_of(found: list[tuple[str, str]]) -> list[str]:
    return [body for _, body in found]


def test_a_log_goes_to_a_store_and_back_and_becomes_a_cluster(
    medium: Medium, tmp_path: Path
) -> None:
    """Ids stay as they are; nothing comes twice, nothing is missing, at each station."""
    bodies = [f"{number}" for number in range(300)]
    with NodeGroup[LocalNode](tmp_path / "nodes") as group:
        single = group.nodes["n"] = served(LocalNode("n", tmp_path / "nodes", SMALL))
        send(single, bodies[:200])
        assert bodies_of(receive(single.uri, 50)) == bodies[:50]
        assert "is in use by a running node" in command(str(single.data), medium.place).stderr
        assert single.stop() == 0

        there = copied(str(single.data), medium.place)
        broker = group.nodes["broker"] = served(
            LocalNode("broker", tmp_path / "nodes", medium.flags)
        )
        told = command(medium.place, str(tmp_path / "nodes" / "m"))
        assert told.returncode == 1
        assert "is in use by broker" in told.stderr
        assert bodies_of(receive(broker.uri, 50)) == bodies[50:100]
        send(broker, bodies[200:])
        with_ids = receive(broker.uri, 1)
        assert there["identity"][:8] in with_ids[0][0], "a message's id names the log"
        assert broker.stop() == 0

        back = LocalNode("m", tmp_path / "nodes", SMALL)
        address = f"127.0.0.1:{back.peer_port}"
        came = copied(medium.place, str(back.data), "--name", "m", "--address", address)
        assert came["identity"] == there["identity"]
        assert came["last_index"] > there["last_index"]
        group.nodes["m"] = member(group, back, [back])
        served(back)
        assert bodies_of(receive(back.uri, 49)) == bodies[101:150]
        joined = [back]
        for name in ("o", "p"):
            node = LocalNode(name, tmp_path / "nodes", SMALL)
            joined.append(node)
            group.nodes[name] = member(group, node, joined)
            node.start()
            admit(back, node)
        back.kill()
        group.nodes = {it.name: it for it in joined[1:]}
        group.leader()
        assert bodies_of(receive(group.uri, 150)) == bodies[150:]


def member(group: NodeGroup[LocalNode], node: LocalNode, joined: list[LocalNode]) -> LocalNode:
    """Let a node know of those that are members by now, and of the secret."""
    node.arguments += ["--peers", node.peers, "--secret-file", str(group.secret_path)]
    for each in joined:
        node.arguments += ["--member", f"{each.name}={each.peers}"]
    return node


def admit(leader: LocalNode, node: LocalNode) -> None:
    """Take a node in, and wait until it votes."""
    change = {"name": node.name, "address": node.peers}
    until = time.monotonic() + 60
    while True:
        try:
            RemoteNode(leader.admin).change("POST", "/cluster/add", change)
        except MembershipError:
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            break

    def votes(status: dict[str, Any]) -> bool:
        found = next((it for it in status["members"] if it["name"] == node.name), None)
        return found is not None and found["kind"] == "voter" and not found["lag_entries"]

    leader.wait_until(votes, f"joined by {node.name}")


def test_a_log_that_was_cleaned_is_served_from_a_copy(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It begins behind an anchor; what lives of before was written again, and is there."""
    medium = medium_of("sqlite", request, tmp_path, "cleaned")
    large = "x" * 100_000
    with NodeGroup[LocalNode](tmp_path / "nodes") as group:
        single = group.nodes["n"] = served(LocalNode("n", tmp_path / "nodes", SMALL))
        send(single, ["first"])
        send(single, [f"{number} {large}" for number in range(60)], "/queue/other")
        assert len(receive(single.uri, 60, "/queue/other")) == 60
        single.wait_until(lambda status: status["store"]["first_index"] > 1, "cleaned")
        assert single.stop() == 0

        there = copied(str(single.data), medium.place)
        assert there["first_index"] > 1
        broker = group.nodes["broker"] = served(
            LocalNode("broker", tmp_path / "nodes", medium.flags)
        )
        assert bodies_of(receive(broker.uri, 1)) == ["first"]
        send(broker, ["second"])
        assert broker.stop() == 0
        back = group.nodes["m"] = LocalNode("m", tmp_path / "nodes", SMALL)
        assert copied(medium.place, str(back.data), "--name", "m")["first_index"] > 1
        served(back)
        assert bodies_of(receive(back.uri, 1)) == ["second"]


@pytest.mark.parametrize("kind", ["shared", "postgresql"])
def test_a_copy_that_is_killed_again_and_again_is_whole_in_the_end(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """At moments all over its way: brokers are refused by name until the same command has ended."""
    medium = medium_of(kind, request, tmp_path, "killed")
    with NodeGroup[LocalNode](tmp_path / "nodes") as group:
        single = group.nodes["n"] = served(LocalNode("n", tmp_path / "nodes", SMALL))
        bodies = [f"{number} " + "x" * 20_000 for number in range(200)]
        with blocking.connect(single.uri) as connection:
            with connection.producer(QUEUE) as producer:
                for body in bodies:
                    producer.send(body)
        assert single.stop() == 0

        arguments = ["-m", "holdfast", "store", "copy", str(single.data), medium.place]
        for seconds in (0.6, 0.9, 1.2):
            process = subprocess.Popen(
                [sys.executable, *arguments],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            time.sleep(seconds)
            process.kill()
            process.wait()
        assert copied(str(single.data), medium.place)["entries"] > 10
        broker = group.nodes["broker"] = served(
            LocalNode("broker", tmp_path / "nodes", medium.flags)
        )
        assert bodies_of(receive(broker.uri, len(bodies))) == bodies


def test_a_broker_that_starts_on_a_half_copy_ends_with_what_it_is(
    medium: Medium, tmp_path: Path
) -> None:
    """It changes nothing; its exit code is 1, and the sentence names the command."""
    from holdfast.copying.places import parse_place
    from tests.stores.copied_log_suite import ANCHOR, entries_behind, plan_of

    make = parse_place(medium.place).open_medium
    assert make is not None
    log = make()
    log.begin_copy(plan_of(entries_behind(ANCHOR)))
    log.close()
    with NodeGroup[LocalNode](tmp_path / "nodes") as group:
        broker = group.nodes["broker"] = LocalNode("broker", tmp_path / "nodes", medium.flags)
        broker.start()
        assert broker.wait() == 1
        assert "a copy that is not whole" in broker.log_tail()
        assert "run the same 'holdfast store copy' again" in broker.log_tail()


def test_mirrors_are_one_source_and_no_target(tmp_path: Path) -> None:
    """All of a set are named, and judged as when its node starts."""
    first, second = tmp_path / "nodes" / "n", tmp_path / "second"
    with NodeGroup[LocalNode](tmp_path / "nodes") as group:
        single = group.nodes["n"] = LocalNode(
            "n", tmp_path / "nodes", [*SMALL, "--data", str(second)]
        )
        served(single)
        send(single, ["one", "two"])
        assert single.stop() == 0
        target = f"sqlite:///{tmp_path}/x.db"

        told = command(str(first), target)
        assert (told.returncode, "mirrors:DIR,DIR" in told.stderr) == (2, True)
        told = command(f"mirrors:{first},{second}", f"mirrors:{tmp_path}/a,{tmp_path}/b")
        assert (told.returncode, "mirrors are filled by the node itself" in told.stderr) == (
            2,
            True,
        )
        copied(f"mirrors:{first},{second}", target)
        medium = Medium(target, ["--store", target])
        broker = group.nodes["b"] = served(LocalNode("b", tmp_path / "nodes", medium.flags))
        assert bodies_of(receive(broker.uri, 2)) == ["one", "two"]


def test_no_password_is_shown(tmp_path: Path) -> None:
    """Neither by the list of processes, nor by what is told of a place that cannot be reached."""
    (tmp_path / "a" / "journal").mkdir(parents=True)
    target = "postgresql://hf:pa55word@127.0.0.1:1/none"
    source = f"sqlite:///{tmp_path}/none.db"
    read, write = os.pipe()
    script = (
        "import os, sys\n"
        "from holdfast.cli import store_copy\n"
        "real = store_copy.parse_place\n"
        "def told(text, **more):\n"
        f"    os.write({write}, open('/proc/self/cmdline', 'rb').read() + b'|')\n"
        "    return real(text, **more)\n"
        "store_copy.parse_place = told\n"
        "from holdfast.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "store", "copy", source, target],
        capture_output=True,
        text=True,
        check=False,
        pass_fds=[write],
        timeout=100,
    )
    os.close(write)
    seen = os.read(read, 65_536)
    os.close(read)
    assert b"store_copy" in seen
    assert b"pa55word" not in seen
    assert done.returncode == 1
    assert "pa55word" not in done.stdout + done.stderr
    assert re.search("holds no log|cannot be reached", done.stderr)
