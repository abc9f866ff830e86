"""Archive and audit of a running cluster, over HTTP, with a hold."""

from __future__ import annotations

import pytest

from holdfast.cli.spark_options import remote_log
from holdfast.client import blocking
from holdfast.spark.archive.store import Archive
from holdfast.spark.pipelines.archive import archive_once
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.replica_proof import Replica


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_running_cluster_is_archived_held_and_audited(spark, cluster, tmp_path) -> None:
    """
    Three live nodes and the archive hold the same; the hold stands where the archive ends.
    """
    addresses = [node.admin for node in cluster.nodes.values()]
    log = remote_log(",".join(addresses), cluster.secret_path)
    archive = Archive.open(str(tmp_path / "archive"))
    with blocking.connect(cluster.uri) as connection:
        with connection.producer("/queue/archived") as producer:
            for number in range(300):
                producer.send(b"%d" % number)
    cluster.wait_level()

    def move(index: int) -> None:
        log.ask("POST", "/holds/s2-test", {"index": index, "bytes_max": 1 << 30})

    done = archive_once(spark, log, archive, move_hold=move)
    replicas = [Replica(each, remote_log(each, cluster.secret_path)) for each in addresses]
    result = audit(spark, replicas, archive)

    assert done.messages >= 300
    assert [] == result.findings
    assert result.account is not None
    assert result.account.messages >= done.messages
    found = [it for it in result.served if not it.not_told]
    assert found, result.served
    assert all(300 in it.depths.values() for it in found)
    cluster.wait_level()  # Any node answers, and a follower hears of a commit a little later.
    holds = {each["name"]: each for each in log.ask("GET", "/holds")["holds"]}
    assert done.last_index + 1 == holds["s2-test"]["index"]
    assert not [name for name in holds if name.startswith("audit-")]
    log.ask("DELETE", "/holds/s2-test")
