"""
Real brokers on disks that neither work nor fail: what is written is never answered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.chaos.faulty_disk import FaultyDisk
from trials.chaos.small_disk import SmallDisk, SmallDiskError
from trials.clients.ledger import Account
from trials.clients.load import Load, LoadSettings

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUICK = ["--segment", "256KiB", "--heartbeat-seconds", "0.05"]
QUICK += ["--election-seconds-min", "0.5", "--election-seconds-max", "1.0"]
GAP_SECONDS_MAX = 3.0
HANG_SECONDS = 6.0
MiB = 1 << 20


def hang_leader(
    cluster: LocalCluster, hang: Callable[[LocalNode], None], thaw: Callable[[LocalNode], None]
) -> tuple[LocalNode, Account]:
    """Let the leader's disk hang for a while under load, and look who says what."""
    settings = LoadSettings(rate=800, window=200, deduplicated=True, settle_receipts=True)
    with Load(cluster.stomp_addresses.split(","), settings) as load:
        load.wait_confirmed(800)
        frozen = cluster.leader()
        hang(frozen)
        try:
            end = time.monotonic() + HANG_SECONDS
            load.wait_confirmed(500, GAP_SECONDS_MAX + 2)
            told = frozen.wait_until(lambda it: it["store"]["disk_hangs"], "told of its disk")
            assert told["store"]["disk_wait_seconds"] > 1.0
            leader = cluster.leader(but=frozen)
            leader.wait_until(
                lambda it: (
                    [each["name"] for each in it["members"] if each["disk_hangs"]] == [frozen.name]
                ),
                "told whose disk hangs",
            )
            while time.monotonic() < end:
                load.wait_confirmed(100, GAP_SECONDS_MAX + 2)
        finally:
            thaw(frozen)
        load.wait_confirmed(500)
        frozen.wait_until(
            lambda it: it["role"] == "follower" and not it["store"]["disk_hangs"], "a follower"
        )
        account = load.finish()
    cluster.wait_level()
    return frozen, account


def give_it_something_to_sync(cluster: LocalCluster, frozen: LocalNode) -> None:
    """Send until the disk of that node hangs again: one with nothing to write can end in order."""
    with Load(cluster.stomp_addresses.split(","), LoadSettings(rate=200, window=50)) as load:
        load.wait_confirmed(50)
        frozen.wait_until(lambda it: it["store"]["disk_hangs"], "told of its disk again")


def assert_all_is_well(frozen: LocalNode, account: Account) -> None:
    """Confirms went on, nothing is lost or doubled in silence, and the log says what happened."""
    text = frozen.log_path.read_text(errors="replace")

    assert (account.lost, account.corrupt, account.foreign, account.unflagged) == (0, 0, 0, 0)
    assert (account.stored_twice, account.resurrected) == (0, 0)
    assert account.gap_seconds < GAP_SECONDS_MAX
    assert "the disk hangs: it has got nothing done for" in text
    assert "because the disk here gets nothing done" in text
    assert "the disk answers again" in text
    assert "Traceback" not in text


@pytest.mark.promise("F27")
def test_a_frozen_file_system_under_the_leader_stops_nobody(tmp_path: Path) -> None:
    """
    A file system of its own, frozen by the kernel: whoever writes waits inside a system call.
    """
    cluster = LocalCluster(tmp_path / "c", "three", QUICK)
    disks: dict[str, SmallDisk] = {}
    try:
        for name, node in cluster.nodes.items():
            disks[name] = small = SmallDisk(tmp_path / f"disk-{name}", 600 * MiB).__enter__()
            (small.folder / "data").mkdir()
            node.data.parent.mkdir(exist_ok=True)
            node.data.symlink_to(small.folder / "data")
        with cluster:
            cluster.start()
            frozen, account = hang_leader(
                cluster, lambda it: disks[it.name].freeze(), lambda it: disks[it.name].thaw()
            )
            codes = [node.stop() for node in cluster.nodes.values()]
    except SmallDiskError as error:
        pytest.skip(str(error))
    finally:
        for small in disks.values():
            small.close()

    assert_all_is_well(frozen, account)
    assert [0, 0, 0] == codes


@pytest.mark.promise("F27")
def test_a_leader_whose_syncs_never_return_stops_nobody(tmp_path: Path) -> None:
    """
    The same by a layer between process and disk, without any rights; and the node can be stopped.
    """
    with LocalCluster(tmp_path / "c", "three", QUICK) as cluster:
        disks = {}
        for name, node in cluster.nodes.items():
            disks[name] = FaultyDisk(tmp_path / "layer" / name, node.data)
            node.environment |= disks[name].environment()
        cluster.start()
        frozen, account = hang_leader(
            cluster,
            lambda it: disks[it.name].hang(True),
            lambda it: disks[it.name].hang(False),
        )
        disks[frozen.name].hang(True)
        give_it_something_to_sync(cluster, frozen)
        code = frozen.stop()

    assert_all_is_well(frozen, account)
    assert 1 == code
    assert "the disk hangs: ending without it" in frozen.log_tail()
