"""
An archiver whose cluster loses its leader at each kind of question that it asks.

Each run ends well, or with one sentence and the next one goes on; every message is there once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.cli.archive_run import ArchiveRun
from holdfast.cli.spark_options import remote_log
from holdfast.client import blocking
from holdfast.errors import LinkError
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.holds import Hold
from holdfast.spark.log.source import LogSource
from holdfast.spark.pipelines.archive import ArchiveSettings
from holdfast.testing.local_cluster import LocalCluster
from trials.pipeline.at_request import AtRequest
from trials.pipeline.paper_spark import PaperSpark

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

QUEUE = "archived"
A_ROUND = 5


@pytest.fixture
def at_request() -> Iterator[AtRequest]:
    at = AtRequest()
    with at.listening():
        yield at


def chains(source: LogSource) -> bytes:
    position = source.position()
    blocks = source.blocks(position.first_index, position.last_index)
    return b"".join(it.chains for it in blocks if isinstance(it, EntryBlock))


def archived(archive: Archive) -> list[bytes]:
    """The bodies in the files that count, read without the archive's own code."""
    files = [Path(str(archive)) / file.path for file in archive.catalogue().files()]
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    return [it["body"] for it in rows if it["kind"] == "message" and it["destination"] == QUEUE]


def test_a_leader_that_dies_at_a_question_leaves_nothing_out(
    tmp_path: Path, at_request: AtRequest
) -> None:
    """
    Whether it looks how far the log goes, reads it, proves that it is the same, or moves its hold.
    """
    archive = Archive.open(str(tmp_path / "archive"))
    sent: list[bytes] = []
    with LocalCluster(tmp_path / "nodes", "three") as nodes:
        nodes.start()
        log = remote_log(",".join(it.admin for it in nodes.nodes.values()), nodes.secret_path)

        def send() -> None:
            bodies = [b"%d" % number for number in range(len(sent), len(sent) + A_ROUND)]
            with blocking.connect(nodes.uri) as connection:
                with connection.producer(f"/queue/{QUEUE}") as producer:
                    for body in bodies:
                        producer.send(body)
            sent.extend(bodies)
            nodes.wait_level()

        def run() -> None:
            hold = Hold(log, "archive")
            ArchiveRun(PaperSpark(), log, archive, ArchiveSettings(), hold).loop(None)

        send()
        at_request.set()
        run()
        firsts = at_request.firsts()
        assert {"GET /log", "GET /log/position", "POST /holds/NAME"} <= firsts.keys()
        for number in firsts.values():
            send()
            leader = nodes.leader()
            at_request.set(number, leader.kill)
            try:
                run()
            except LinkError as error:
                assert "\n" not in str(error)  # noqa: PT017 - it may be one, and need not
            leader.kill()
            leader.start()
            nodes.wait_level()
        at_request.set()
        run()
        source = ArchivedSource.open(str(archive))
        assert sent == archived(archive)
        assert chains(log)[: len(chains(source))] == chains(source)
        assert source.position().last_index <= log.position().last_index
    assert () == archive.catalogue(with_snapshot=False).breaks
