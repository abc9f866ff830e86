"""
A cluster of real processes that is changed over to TLS while it serves, and rotates what it shows.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.client import blocking
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from holdfast.transport.certificates import make_node, open_authority
from tests.integration.conftest import PATIENT, QUICK

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def configured(folder: Path, mode: str) -> None:
    """Write each node's file: its own certificate, for members and operators."""
    for name in "abc":
        own = f'certificate = "{folder}/{name}.pem"\nclient_ca = "{folder}/ca.pem"\n'
        (folder / f"{name}.toml").write_text(
            f'admin_tls = "operators"\npeer_tls = "{mode}"\n'
            f'[tls.peers]\n{own}client = "required"\n'
            f'[tls.operators]\n{own}client = "wanted"\n'
        )


def holdfast(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments], capture_output=True, text=True, check=False
    )


def are_secured(status: dict[str, object], name: str) -> bool:
    members = status["members"]
    assert isinstance(members, list)
    return all(it["secured"] for it in members if it["name"] != name)


def test_a_serving_cluster_is_changed_over_and_rotates(tmp_path: Path) -> None:
    """
    From clear to accept to require with a restart of each node, one after the other: every message
    confirmed meanwhile is there. Then a node shows a new certificate without a restart, a file
    that cannot be used changes nothing and ends the command with 1, and a change asked of a
    follower reaches the leader by TLS.
    """
    authority, _ = open_authority(tmp_path)
    for name in "abc":
        make_node(authority, tmp_path / f"{name}.pem", name, [], 30)
    configured(tmp_path, "off")
    with LocalCluster(tmp_path / "cluster", "three", [*QUICK, *PATIENT]) as cluster:
        for node in cluster.nodes.values():
            node.arguments += ["--config", str(tmp_path / f"{node.name}.toml")]
        cluster.start()
        change_over(tmp_path, cluster)
        follower = next(it for it in cluster.nodes.values() if it is not cluster.leader())
        rotate(tmp_path, follower)
        purged = holdfast("queues", "purge", "ROLLING", "--yes", "--admin", follower.admin)
        assert purged.returncode == 0, purged.stderr


def change_over(folder: Path, cluster: LocalCluster) -> None:
    sent = []
    with blocking.connect(cluster.uri) as client:
        for mode in ("accept", "require"):
            configured(folder, mode)
            for node in cluster.nodes.values():
                node.stop()
                node.start()
                sent.append(f"{mode} {node.name}")
                client.send("/queue/ROLLING", sent[-1].encode(), persistent=True)
                cluster.wait_level()
            for node in cluster.nodes.values():
                name = node.name
                node.wait_until(lambda it, name=name: are_secured(it, name), "linked by TLS")
        with client.subscribe("/queue/ROLLING") as subscription:
            found = [subscription.receive(20).body.decode() for _ in sent]
    assert found == sent


def rotate(folder: Path, node: LocalNode) -> None:
    authority, _ = open_authority(folder)
    before = (node.data / "admin-token").read_text()
    make_node(authority, folder / f"{node.name}.pem", node.name, [], 30)
    done = holdfast("reload", "--admin", node.admin)
    assert (done.returncode, done.stdout) == (0, "read anew: peers, operators\n"), done.stderr
    after = (node.data / "admin-token").read_text()
    assert after != before
    assert after.split("\n")[3] == before.split("\n")[3], "the token stays"
    good = (folder / f"{node.name}.pem").read_bytes()
    (folder / f"{node.name}.pem").write_text("broken")
    refused = holdfast("reload", "--admin", node.admin)
    assert refused.returncode == 1
    assert "not read anew, what was shown before is shown on: tls.peers." in refused.stderr
    (folder / f"{node.name}.pem").write_bytes(good)
    url = f"https://localhost:{node.admin_port}?caFile={folder}/ca.pem"
    assert holdfast("status", "--admin", url).returncode == 0
    wrong = holdfast("status", "--admin", f"https://localhost:{node.admin_port}")
    assert wrong.returncode != 0
    assert "is not trusted: " in wrong.stderr
