"""
Faults that chance hardly brings: a stall just too short, the same rot everywhere, two disks of
three gone, a name that is used again, a message that nobody finishes.
"""

from __future__ import annotations

import shutil
import signal
import time

import pytest

from holdfast.admin.remote import RemoteNode
from holdfast.journal.entry import HEADER_BYTES, KIND_RECORDS, parse_entry
from holdfast.journal.segment import SEGMENT_HEADER_BYTES
from holdfast.testing.local_cluster import LocalCluster, LocalNode, LocalNodeError
from trials.clients.load import Load, LoadSettings
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

# Four times those of the defaults: a busy machine makes a stall longer by as much as ever.
SLOW_TIMINGS = ("--heartbeat-seconds", "0.4", "--election-seconds-min", "4.0")
SLOW_TIMINGS += ("--election-seconds-max", "6.0")
STALL_SECONDS = 2.0


def others(cluster: LocalCluster, leader: LocalNode) -> list[LocalNode]:
    return [node for node in cluster.nodes.values() if node is not leader]


def connect(node: LocalNode) -> StompSocket:
    client = StompSocket(node.stomp_port)
    client.connect()
    return client


@pytest.mark.promise("F8")
def test_a_stall_of_half_an_election_makes_nobody_vote(start_cluster):
    """
    The leader stands still for half of the shortest silence before an election, twice: the term
    stays, no client is cut off, and confirms only come later.
    """
    cluster = start_cluster("three", *SLOW_TIMINGS)
    leader = cluster.leader()
    before = leader.status()
    settings = LoadSettings(rate=1000, silence_seconds=20)
    with Load(cluster.stomp_addresses.split(","), settings) as load:
        load.wait_confirmed(200)
        for _ in range(2):
            leader.signal(signal.SIGSTOP)
            time.sleep(STALL_SECONDS)
            leader.signal(signal.SIGCONT)
            load.wait_confirmed(300)
        account = load.finish()
    after = leader.status()

    assert (before["term"], "leader") == (after["term"], after["role"])
    assert (account.lost, account.duplicates, load.reconnections) == (0, 0, 0)


@pytest.mark.promise("F21")
def test_the_same_rot_on_every_node_stops_the_cluster_and_is_told(start_cluster):
    """
    One entry is spoilt on all three disks: no copy is whole. Every node names it, nobody is elected
    past it, nothing is cut or made up; it is for the operator to decide.
    """
    cluster = start_cluster("three")
    settings = LoadSettings(consumers=0, count_max=600, rate=20_000, window=50)
    with Load(cluster.stomp_addresses.split(","), settings) as load:
        load.wait_all_confirmed()
    cluster.wait_level()
    for node in cluster.nodes.values():
        node.stop()
    spoilt = {node.name: spoil_second_entry(node) for node in cluster.nodes.values()}
    before = {node.name: log_bytes(node) for node in cluster.nodes.values()}
    for node in cluster.nodes.values():
        node.start()
    told = [
        node.wait_until(lambda status: status["store"]["damage"], "telling its damage")
        for node in cluster.nodes.values()
    ]
    with pytest.raises(LocalNodeError):
        cluster.leader(seconds=2.5)

    assert len(set(spoilt.values())) == 1
    for node, status in zip(cluster.nodes.values(), told, strict=True):
        assert [each["index"] for each in status["store"]["damage"]] == [spoilt[node.name]]
        assert node.is_running
        assert log_bytes(node) == before[node.name]


def log_bytes(node: LocalNode) -> list[bytes]:
    """What every segment of a node's log holds, without the room behind it."""
    return [path.read_bytes().rstrip(b"\0") for path in sorted(node.data.glob("journal/*.segment"))]


def spoil_second_entry(node: LocalNode) -> int:
    """Turn a bit in the body of the second entry with messages; its index."""
    path = min((node.data / "journal").glob("*.segment"))
    content = path.read_bytes()
    offset, seen = SEGMENT_HEADER_BYTES, 0
    while True:
        entry = parse_entry(content, offset)
        seen += entry.kind == KIND_RECORDS and entry.body_length > 4096
        if seen == 2:
            break
        offset += len(entry.raw)
    place = offset + HEADER_BYTES + entry.body_length // 2
    with path.open("r+b") as file:
        file.seek(place)
        file.write(bytes([content[place] ^ 0x10]))
    return entry.index


@pytest.mark.promise("F25")
def test_two_lost_disks_of_three_stop_the_service_until_an_operator_decides(start_cluster):
    """
    Two nodes come back empty: nothing is served, for they do not vote for the third. The operator
    forces the survivor: it has all that it had, and the empty ones join with new identities.
    """
    cluster = start_cluster("three")
    with Load(cluster.stomp_addresses.split(","), LoadSettings(consumers=0)) as load:
        load.wait_confirmed(500)
        filled = load.finish()
    cluster.wait_level()
    survivor = cluster.leader()
    lost = others(cluster, survivor)
    old = {node.name: node.status()["node_id"] for node in lost}
    for node in lost:
        node.kill()
    survivor.wait_until(lambda status: not status["serving"], "serving nobody any more")
    # Only now: what a leader has begun to take in belongs to the cluster as it was before it was
    # forced on, is shut out by that, and has to be emptied once more.
    for node in lost:
        shutil.rmtree(node.data)
        node.start()
    with pytest.raises(LocalNodeError):
        cluster.leader(seconds=2.5)
    RemoteNode(survivor.admin).change("POST", "/cluster/promote", FORCED | {"name": survivor.name})
    assert cluster.leader() is survivor
    for node in lost:
        try:
            survivor.wait_until(
                lambda status, node=node: identity(status, node.name) not in {"", old[node.name]},
                f"joined by the new {node.name}",
                seconds=60,
            )
        except LocalNodeError as error:
            raise LocalNodeError(f"{error}\n--- {node.name}\n{node.log_tail()}") from error
    drain = Load(cluster.stomp_addresses.split(","), LoadSettings(producers=0))
    drain.ledger = load.ledger
    with drain:
        account = drain.finish()

    assert (filled.confirmed, 0, 0) == (account.delivered, account.lost, account.unflagged)


FORCED = {"force": True, "peers_are_dead": True}


def identity(status, name):
    found = [each for each in status["members"] if each["name"] == name]
    return found[0]["node_id"] if found and found[0]["connected"] else ""


@pytest.mark.promise("F39")
def test_a_queue_made_again_is_another_queue(start_cluster):
    """
    A queue is deleted and made again while a member is away. It comes back and the leader dies: the
    new queue has its own message only, and the old one's acknowledgement settles nothing in it.
    """
    cluster = start_cluster("three", is_patient=True)
    leader = cluster.leader()
    away, stays = others(cluster, leader)
    with connect(leader) as client:
        client.publish("/queue/again", b"old")
        client.subscribe("/queue/again")
        old = client.read_message()
    away.kill()
    wait_without_consumers(leader, "again")
    RemoteNode(leader.admin).change("DELETE", "/queues/again", {})
    with connect(leader) as client:
        client.publish("/queue/again", b"new")
    away.start()
    cluster.wait_level()
    leader.kill()
    heir = cluster.leader(but=leader)
    with connect(heir) as client:
        late = client.ask("ACK", {"id": old.headers["message-id"]})
        client.subscribe("/queue/again")
        found = client.read_queue("/queue/again")

    assert heir in {away, stays}
    assert late.command in {"RECEIPT", "ERROR"}
    assert [frame.body for frame in found] == [b"new"]
    assert found[0].headers["message-id"] != old.headers["message-id"]


def wait_without_consumers(node, name):
    deadline = time.monotonic() + 10
    while any(q["name"] == name and q["consumers"] for q in node.get("/queues")["queues"]):
        assert time.monotonic() < deadline, "the consumer left"
        time.sleep(0.02)


@pytest.mark.promise("F40")
def test_failovers_alone_do_not_make_a_dead_letter(start_cluster):
    """
    A message is delivered, and its leader goes, twenty times over: it comes again each time, says
    so, and the dead-letter queue stays empty.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()
    with connect(leader) as client:
        client.publish("/queue/poison", b"drink me")
    flags = []
    for _ in range(20):
        with connect(leader) as client:
            client.subscribe("/queue/poison")
            flags.append(client.read_message().is_redelivered)
            heir = others(cluster, leader)[0]
            RemoteNode(leader.admin).change("POST", "/cluster/transfer", {"to": heir.name})
        leader = cluster.leader(but=leader)
    with connect(leader) as client:
        client.subscribe("/queue/ActiveMQ.DLQ")
        dead = client.read_queue("/queue/ActiveMQ.DLQ")

    assert flags == [False, *[True] * 19]
    assert dead == []
