"""
Rot and torn writes: found, told with their place, repaired from a peer, never served.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.load import Load, LoadSettings
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def scrubbed(tmp_path: Path) -> tuple[str, str]:
    """Arguments of a node that reads its log again without a pause, however short it is."""
    path = tmp_path / "scrubbed.toml"
    path.write_text("[journal]\nscrub_round_seconds = 0\n")
    return "--config", str(path)


def fill(cluster: LocalCluster, count: int = 1500) -> None:
    """Put messages of 1 KiB on /queue/load, each once, where nobody takes them."""
    settings = LoadSettings(
        consumers=0, count_max=count, rate=20_000, window=100, deduplicated=True
    )
    with Load(cluster.stomp_addresses.split(","), settings) as load:
        load.wait_all_confirmed()


def verify(node: LocalNode) -> tuple[int, dict[str, Any]]:
    """`holdfast store verify --json` of a node's directory: exit code and report."""
    result = CliRunner().invoke(app, ["store", "verify", "--json", str(node.data)])
    return result.exit_code, json.loads(result.stdout)


def flip_bit(node: LocalNode, sealed_number: int = 1) -> tuple[Path, int]:
    """
    Turn one bit in a message body inside a sealed segment; its file and place.

    A batch is as large as the machine was slow, and begins a new segment where it does not fit: one
    may hold no message, and be filled for the smallest part.
    """
    *sealed, _ = sorted((node.data / "journal").glob("*.segment"))
    contents = [(path, path.read_bytes().rstrip(b"\0")) for path in sealed]
    path, content = [each for each in contents if b"HL1 " in each[1]][sealed_number]
    place = content.index(b"HL1 ", len(content) // 3) + 300
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([content[place] ^ 0x10]))
    return path, place


@pytest.mark.promise("F18")
def test_rot_on_a_follower_is_repaired_from_a_peer(start_cluster, scrubbed):
    """
    A bit flips in a sealed segment of a follower while it is down: it is found at the start or by
    the scrubber, fetched from a peer, and the file is the same as the others' again.
    """
    cluster = start_cluster("three", *scrubbed)
    fill(cluster)
    cluster.wait_level()
    follower = next(node for node in cluster.nodes.values() if node is not cluster.leader())
    follower.stop()
    path, _ = flip_bit(follower)
    code, report = verify(follower)
    follower.start()
    follower.wait_until(lambda status: status["role"] == "follower", "a follower")
    assert_repaired(cluster, follower, path)

    assert code == 1
    assert report["damage"][0]["segment"] == path.name
    assert "damage in the log" in follower.log_path.read_text()


@pytest.mark.promise("F18")
def test_rot_under_a_running_follower_is_found_and_repaired(start_cluster, scrubbed):
    """
    The scrubber finds a bit that flipped under a running node before anybody needs the entry.
    """
    cluster = start_cluster("three", *scrubbed)
    fill(cluster)
    cluster.wait_level()
    follower = next(node for node in cluster.nodes.values() if node is not cluster.leader())
    path, _ = flip_bit(follower)
    assert_repaired(cluster, follower, path)


@pytest.mark.promise("F18")
def test_rot_on_the_leader_is_repaired_and_then_served(start_cluster, scrubbed):
    """
    The leader finds its own copy rotten: it asks a follower, and the consumer gets every message.
    """
    cluster = start_cluster("three", "--memory", "16MiB", *scrubbed)
    leader = cluster.leader()
    settings = LoadSettings(consumers=0, window=100)
    with Load(cluster.stomp_addresses.split(","), settings) as load:
        load.wait_confirmed(1500)
        filled = load.finish()
        cluster.wait_level()
        path, _ = flip_bit(leader)
        assert_repaired(cluster, leader, path)
        drain = Load(cluster.stomp_addresses.split(","), LoadSettings(producers=0))
        drain.ledger = load.ledger
        with drain:
            account = drain.finish()

    assert (filled.confirmed, 0, 0) == (account.delivered, account.lost, account.corrupt)


@pytest.mark.promise("F20")
def test_rot_in_another_place_on_every_node_is_mended(start_cluster, scrubbed):
    """
    All nodes are stopped and each has rot in another segment: no node is whole, yet together they
    hold everything; all is mended and served.
    """
    cluster = start_cluster("three", *scrubbed)
    settings = LoadSettings(consumers=0, window=100)
    with Load(cluster.stomp_addresses.split(","), settings) as load:
        load.wait_confirmed(2000)
        filled = load.finish()
    cluster.wait_level()
    for node in cluster.nodes.values():
        node.stop()
    paths = [flip_bit(node, number)[0].name for number, node in enumerate(cluster.nodes.values())]
    for node in cluster.nodes.values():
        node.start()
    cluster.leader()
    first, *others = list(cluster.nodes.values())
    for node in others:
        for name in paths:
            assert_repaired(cluster, node, first.data / "journal" / name)
    drain = Load(cluster.stomp_addresses.split(","), LoadSettings(producers=0))
    drain.ledger = load.ledger
    with drain:
        account = drain.finish()

    assert len(set(paths)) == 3
    assert (filled.confirmed, 0, 0) == (account.delivered, account.lost, account.corrupt)


def assert_repaired(cluster: LocalCluster, node: LocalNode, path: Path) -> None:
    """The segment is, in time, the same bytes as on another node."""
    other = next(each for each in cluster.nodes.values() if each is not node)
    own, twin = (each.data / "journal" / path.name for each in (node, other))
    node.wait_until(lambda _: own.read_bytes() == twin.read_bytes(), "repaired from a peer")


@pytest.mark.promise("F21")
def test_rot_on_a_single_node_is_told_and_never_served(start_cluster, scrubbed):
    """
    No peer has a good copy: `store verify` and the status name the place, the damaged messages are
    withheld, and all others are served.
    """
    cluster = start_cluster("single", *scrubbed)
    node = cluster.leader()
    fill(cluster)
    node.stop()
    path, place = flip_bit(node)
    code, report = verify(node)
    node.start()
    status = node.wait_until(lambda status: status["serving"], "serving")
    with StompSocket(node.stomp_port) as client:
        client.connect()
        client.subscribe("/queue/load", "auto", {"activemq.prefetchSize": "10000"})
        bodies = [frame.body for frame in client.read_queue("/queue/load")]
    found = status["store"]["damage"]

    assert code == 1
    assert (report["clean"], len(report["damage"])) == (False, 1)
    assert (found[0]["segment"], len(found)) == (path.name, 1)
    assert found[0]["byte"] <= place
    assert 0 < 1500 - len(bodies) <= 200
    assert all(len(body) == 1024 and body.startswith(b"HL1 ") for body in bodies)
    assert len({body[:27] for body in bodies}) == len(bodies)


@pytest.mark.promise("F21")
def test_rot_that_the_state_depends_on_stops_a_single_node(start_cluster, scrubbed):
    """
    Without a checkpoint the damaged entry is needed to know the state: the node refuses to start,
    says where the damage is, and changes nothing.
    """
    cluster = start_cluster("single", *scrubbed)
    node = cluster.leader()
    fill(cluster)
    node.kill()
    for checkpoint in (node.data / "checkpoints").glob("*"):
        checkpoint.unlink()
    path, _ = flip_bit(node)
    before = path.read_bytes()
    node.start()
    code = node.wait()

    assert code == 1
    assert path.stem in node.log_path.read_text()
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["truncated", "zeroed", "a hole"])
@pytest.mark.promise("F5")
def test_a_torn_tail_is_cut_and_told(start_cluster, scrubbed, kind):
    """
    The last write before the power went is half there: it is cut, kept aside, told in the log, and
    everything confirmed before is served.
    """
    cluster = start_cluster("single", *scrubbed)
    node = cluster.leader()
    fill(cluster, 300)
    node.stop()
    tear(node, kind)
    code, report = verify(node)
    node.start()
    node.wait_until(lambda status: status["serving"], "serving")
    with StompSocket(node.stomp_port) as client:
        client.connect()
        client.subscribe("/queue/load", "auto", {"activemq.prefetchSize": "10000"})
        bodies = [frame.body[18:26] for frame in client.read_queue("/queue/load")]
    log = node.log_path.read_text()

    assert (code, report["tail"]["state"]) == (0, "torn")
    assert "torn" in log or "interrupted" in log, log
    assert list((node.data / "lost+found").iterdir())
    assert bodies == [b"%08x" % number for number in range(1, 301)]


def tear(node: LocalNode, kind: str) -> None:
    """Leave behind the last entry what an interrupted write of the next one leaves."""
    from holdfast.journal.entry import KIND_RECORDS, parse_entry, seal_entry

    path = max((node.data / "journal").glob("*.segment"))
    content = path.read_bytes()
    offset, last = 4096, None
    while content[offset : offset + 4] == b"HFE1":
        last = parse_entry(content, offset)
        offset += len(last.raw)
    assert last is not None, "the last segment holds an entry"
    torn = seal_entry(
        index=last.index + 1,
        term=last.term,
        kind=KIND_RECORDS,
        timestamp=last.timestamp + 1,
        first_record=last.next_record,
        record_count=1,
        parts=[bytes(range(1, 200)) * 30],
        previous_chain=last.chain,
    ).raw
    with path.open("r+b") as file:
        file.seek(offset)
        if kind == "truncated":
            file.write(torn[:2000])
            file.truncate()
        elif kind == "zeroed":
            file.write(torn[:512] + bytes(len(torn) - 512))
        else:
            hole = 1536 - offset % 512  # a sector that was not written between two that were
            file.write(torn[:hole] + bytes(512) + torn[hole + 512 :])
