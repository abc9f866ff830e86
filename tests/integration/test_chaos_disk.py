"""
Real brokers on disks that lose power, fail, lie, fill up or are slow, and with wrong clocks.
"""

from __future__ import annotations

import errno
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalCluster, LocalNode, LocalNodeError
from trials.chaos.bit_rot import wipe
from trials.chaos.faulty_disk import FaultyDisk
from trials.chaos.small_disk import SmallDisk, SmallDiskError
from trials.clients.ledger import Account
from trials.clients.load import Load, LoadSettings
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUICK = ["--segment", "256KiB", "--heartbeat-seconds", "0.05"]
QUICK += ["--election-seconds-min", "0.5", "--election-seconds-max", "1.0"]
# Where nobody may be elected: a busy machine keeps a node waiting for longer than a quick election.
PATIENT = ["--election-seconds-min", "10", "--election-seconds-max", "15"]
RATE = LoadSettings(rate=800, window=100)
MiB = 1 << 20


class AllLost(random.Random):
    """Of what was not synced, a power cut leaves nothing."""

    def random(self) -> float:
        return 0.0


@dataclass(frozen=True)
class DiskCluster:
    """Brokers and the disk under each of them."""

    brokers: LocalCluster
    disks: dict[str, FaultyDisk]

    @property
    def addresses(self) -> list[str]:
        """Where clients connect."""
        return self.brokers.stomp_addresses.split(",")

    def follower(self) -> LocalNode:
        """Some node that does not lead."""
        leader = self.brokers.leader()
        return next(node for node in self.brokers.nodes.values() if node is not leader)

    def check_disks(self) -> None:
        """The layer was in the way of every node, and could follow all they did."""
        for disk in self.disks.values():
            counts = disk.counts()
            assert counts["processes"] and counts["syncs"] and not counts["refused"], counts


StartOnDisks = Callable[..., DiskCluster]


@pytest.fixture
def start_on_disks(tmp_path: Path) -> Iterator[StartOnDisks]:
    """
    Start a cluster on faulty disks; at the end all is killed, and every disk must have been seen.
    """
    started: list[DiskCluster] = []
    with ExitStack() as stack:

        def start(topology: str = "single", *, is_patient: bool = False) -> DiskCluster:
            folder = tmp_path / "c"
            timings = [*QUICK, *(PATIENT if is_patient else ())]
            brokers = stack.enter_context(LocalCluster(folder, topology, timings))
            disks = {
                name: FaultyDisk(tmp_path / "disks" / name, node.data)
                for name, node in brokers.nodes.items()
            }
            for name, node in brokers.nodes.items():
                node.environment |= disks[name].environment()
            started.append(DiskCluster(brokers, disks))
            brokers.start()
            return started[-1]

        yield start
    for cluster in started:
        cluster.check_disks()


def check_account(account: Account) -> None:
    """Nothing is lost or wrong, and what comes twice says so."""
    found = (account.lost, account.unflagged, account.reordered, account.corrupt)
    assert found == (0, 0, 0, 0), account


def count_messages(node: LocalNode) -> int:
    """How many messages wait on /queue/load."""
    with StompSocket(node.stomp_port) as client:
        client.connect()
        client.subscribe("/queue/load", headers={"activemq.prefetchSize": "10000"})
        return len(client.read_queue("/queue/load"))


@pytest.mark.promise("F4")
def test_power_cuts_of_a_single_broker_under_load_lose_nothing_confirmed(start_on_disks):
    """
    Four times the power goes while syncs are under way, with some sectors torn.
    """
    cluster = start_on_disks()
    node, disk = cluster.brokers.nodes["a"], cluster.disks["a"]
    randomness = random.Random(1)
    disk.slow(0.005)
    unsynced = 0
    with Load(cluster.addresses, RATE) as load:
        for _ in range(4):
            load.wait_confirmed(300)
            node.kill()
            cut = disk.power_cut(randomness)
            unsynced += cut.sectors_lost + cut.sectors_kept
            node.start()
        load.wait_confirmed(100)
        check_account(load.finish())

    assert unsynced > 0


def test_what_a_broker_did_not_sync_is_really_lost(start_on_disks):
    """
    The ablation: on a disk that lies about its syncs the same power cut loses confirmed messages.
    """
    cluster = start_on_disks()
    node, disk = cluster.brokers.nodes["a"], cluster.disks["a"]
    with Load(cluster.addresses, LoadSettings(rate=800, window=100, consumers=0)) as load:
        load.wait_confirmed(200)
        disk.lie(on=True)
        load.wait_confirmed(300)
        node.kill()
        load.is_producing = False
        confirmed = load.ledger.confirmed_count
    cut = disk.power_cut(AllLost())
    disk.lie(on=False)
    node.start()
    node.wait_until(lambda status: status["serving"], "serving")

    # A new file whose name was not synced is lost as a whole, and none of its sectors is counted.
    assert cut.sectors_lost > 300 or cut.names_undone, cut
    assert 200 <= count_messages(node) < confirmed - 100


@pytest.mark.promise("F5")
def test_all_of_three_lose_power_at_once(start_on_disks):
    """
    Three torn logs, and every confirmed message is in what they elect a leader from.
    """
    cluster = start_on_disks("three")
    randomness = random.Random(3)
    for disk in cluster.disks.values():
        disk.slow(0.005)
    with Load(cluster.addresses, RATE) as load:
        for _ in range(2):
            load.wait_confirmed(300)
            for node in cluster.brokers.nodes.values():
                node.kill()
            for name, node in cluster.brokers.nodes.items():
                cluster.disks[name].power_cut(randomness)
                node.start()
        load.wait_confirmed(200)
        check_account(load.finish())
    cluster.brokers.wait_level()


@pytest.mark.parametrize("fault", ["sync", "write"])
@pytest.mark.promise("F15")
def test_a_leader_whose_disk_fails_once_ends_and_another_one_leads(start_on_disks, fault):
    """
    One EIO from a sync or from a write: the process ends with an error and retries nothing.
    """
    cluster = start_on_disks("three")
    leader = cluster.brokers.leader()
    disk = cluster.disks[leader.name]
    with Load(cluster.addresses, RATE) as load:
        load.wait_confirmed(300)
        if fault == "sync":
            disk.fail_next_sync(errno.EIO)
        else:
            disk.fail_next_write(errno.EIO)
        code = leader.wait()
        other = cluster.brokers.leader(but=leader)
        load.wait_confirmed(200)
        disk.power_cut(random.Random(4))
        leader.start()
        load.wait_confirmed(200)
        check_account(load.finish())
    cluster.brokers.wait_level()

    assert code == 1
    assert disk.counts()["failed"] == 1
    assert other is not leader


def test_a_write_that_finds_no_room_ends_nobody(start_on_disks):
    """
    ENOSPC from one write of a single node: it waits, writes it again, and loses nothing.
    """
    cluster = start_on_disks()
    node, disk = cluster.brokers.nodes["a"], cluster.disks["a"]
    confirmed = []
    with StompSocket(node.stomp_port) as producer:
        producer.connect()
        for number in range(5_000):
            if number % 100 == 50:  # More than once: a checkpoint may take one of them.
                if "writing goes on" in node.log_tail(10_000):
                    break
                disk.fail_next_write(errno.ENOSPC)
            # Refused with store-full until the node has seen that there is room.
            if producer.publish("/queue/room", b"%d" % number).command == "RECEIPT":
                confirmed.append(b"%d" % number)
    assert "nothing is stored until there is room" in node.log_tail(10_000)
    node.kill()
    node.start()
    cluster.brokers.leader()
    with StompSocket(node.stomp_port) as consumer:
        consumer.connect()
        consumer.subscribe("/queue/room", "auto")
        assert confirmed == [consumer.read_message().body for _ in confirmed]


@pytest.mark.promise("F16")
def test_a_disk_that_lies_on_one_of_three_nodes_loses_nothing(start_on_disks):
    """
    A follower's disk drops what it said it had. Either that is only entries, which it fetches
    again, or the others know that its ballot is an older one: it ends and must come back empty.
    """
    cluster = start_on_disks("three")
    follower = cluster.follower()
    disk = cluster.disks[follower.name]
    with Load(cluster.addresses, RATE) as load:
        load.wait_confirmed(200)
        disk.lie(on=True)
        load.wait_confirmed(500)
        follower.kill()
        cut = disk.power_cut(AllLost())
        disk.lie(on=False)
        follower.start()
        with suppress(LocalNodeError):
            # Or the leader itself, should it be elected: it was judged by the others as well.
            follower.wait_until(lambda status: status["leader"] is not None, "taken in")
        if not follower.is_running:
            assert "an older copy of itself" in follower.log_tail()
            wipe(follower.data)
            disk.forget()
            follower.start()
        load.wait_confirmed(200)
        check_account(load.finish())
    cluster.brokers.wait_level()

    # How far a follower was, and whether it was in a new file, depends on its speed.
    assert cut.sectors_lost or cut.names_undone, cut


def confirmed_by_syncs(cluster: DiskCluster, slow: list[LocalNode], count: int) -> tuple[int, int]:
    """
    Wait for confirms while each sync of some nodes takes 200 ms: how many came, and how many could
    have come had every message waited for a sync of theirs, which is so on a machine of any speed.
    """
    settings = LoadSettings(rate=800, window=20)
    disks = [cluster.disks[node.name] for node in slow]
    for disk in disks:
        disk.slow(0.2)
    with Load(cluster.addresses, settings) as load:
        load.wait_confirmed(50)
        before = sum(disk.counts()["syncs"] for disk in disks)
        confirmed = load.ledger.confirmed_count
        load.wait_confirmed(count)
        confirmed = load.ledger.confirmed_count - confirmed
        syncs = sum(disk.counts()["syncs"] for disk in disks) - before
        check_account(load.finish())
    return confirmed, settings.window * (syncs + 2 * len(disks))


@pytest.mark.promise("F27")
def test_a_slow_disk_of_a_follower_slows_nobody(start_on_disks):
    """
    Each of its syncs takes 200 ms: the other two confirm as if nothing was.
    """
    cluster = start_on_disks("three")
    confirmed, by_syncs = confirmed_by_syncs(cluster, [cluster.follower()], 1500)

    assert confirmed > by_syncs


def test_slow_disks_of_both_followers_slow_all(start_on_disks):
    """
    The ablation: with nobody else to store a second copy each confirm waits for such a sync.
    """
    cluster = start_on_disks("three")
    leader = cluster.brokers.leader()
    slow = [node for node in cluster.brokers.nodes.values() if node is not leader]
    confirmed, by_syncs = confirmed_by_syncs(cluster, slow, 300)

    assert confirmed <= by_syncs


@pytest.mark.promise("F14")
def test_a_clock_that_jumps_and_drifts_changes_nothing(start_on_disks):
    """
    The leader's wall clock goes an hour ahead, then two back, ten percent too fast.
    """
    cluster = start_on_disks("three", is_patient=True)
    leader = cluster.brokers.leader()
    disk = cluster.disks[leader.name]
    with Load(cluster.addresses, RATE) as load:
        for seconds in (3600.0, -7200.0):
            load.wait_confirmed(200)
            disk.step_clock(seconds, rate=1.1)
        load.wait_confirmed(300)
        check_account(load.finish())

    assert cluster.brokers.leader() is leader
    assert -3600 < disk.clock_error() < -3500


def check_full_disk(
    node: LocalNode, fill: Callable[[], None], make_room: Callable[[], None]
) -> None:
    """Publishing is refused while the disk is full; acknowledging goes on; then all goes on."""
    with StompSocket(node.stomp_port) as producer, StompSocket(node.stomp_port) as consumer:
        producer.connect()
        consumer.connect()
        consumer.subscribe("/queue/full")
        for number in range(100):
            assert producer.publish("/queue/full", b"%d" % number).command == "RECEIPT"
        fill()
        node.wait_until(lambda status: status["store"]["space"] == "low", "low on space")
        refused = [producer.publish("/queue/full", b"refused") for _ in range(3)]
        settled = [consumer.acknowledge(consumer.read_message()) for _ in range(100)]
        make_room()
        node.wait_until(lambda status: status["store"]["space"] == "ok", "with space again")
        answer = producer.publish("/queue/full", b"last")
        assert answer.command == "RECEIPT", answer
        last = consumer.read_message()

    assert [frame.command for frame in refused] == ["ERROR"] * 3
    assert [frame.command for frame in settled] == ["RECEIPT"] * 100
    assert answer.command == "RECEIPT"
    assert last.body == b"last"


@pytest.mark.promise("F17")
def test_a_full_disk_stops_publishing_and_not_acknowledging(tmp_path):
    """
    A file system of 400 MiB of its own, on which somebody else took all the room that is left.
    """
    try:
        small = SmallDisk(tmp_path / "small", 400 * MiB).__enter__()
    except SmallDiskError as error:
        pytest.skip(str(error))
    try:
        with LocalCluster(tmp_path / "c", "single", QUICK) as brokers:
            node = brokers.nodes["a"]
            (small.folder / "a").mkdir()
            node.data.symlink_to(small.folder / "a")
            node.environment |= FaultyDisk(tmp_path / "layer", node.data).environment()
            brokers.start()
            check_full_disk(node, small.fill, small.make_room)
            code = node.stop()
    finally:
        small.close()

    assert code == 0


@pytest.mark.promise("F17")
def test_a_small_disk_goes_away_with_a_killed_program(tmp_path):
    """
    Not even SIGKILL leaves a mount or its image behind.
    """
    code = """
import sys
from pathlib import Path
from trials.chaos.small_disk import SmallDisk
with SmallDisk(Path(sys.argv[1]), 8 << 20):
    print("mounted", flush=True)
    sys.stdin.read()
"""
    folder = tmp_path / "small"
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout is not None
    if child.stdout.readline() != b"mounted\n":
        pytest.skip(child.communicate()[1].decode().splitlines()[-1])
    was_mounted = folder.is_mount()
    child.kill()
    child.communicate()
    deadline = time.monotonic() + 20
    while folder.is_mount() or folder.with_name("small.image").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)

    assert was_mounted


def test_a_disk_that_says_it_is_full_stops_publishing(start_on_disks):
    """
    The same without the rights of root: the layer says that a single MiB is free.
    """
    cluster = start_on_disks()
    node, disk = cluster.brokers.nodes["a"], cluster.disks["a"]
    check_full_disk(node, lambda: disk.pretend_free(MiB), lambda: disk.pretend_free(None))
