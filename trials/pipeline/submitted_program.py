"""
A program for `spark-submit` that does what a test asks, one thing after the other.

    spark-submit --master spark://... submitted_program.py SOCKET SECRET_FILE

One application for all: starting one takes longer than most of what is asked. The program names a
master of its own, as one does for trying a program out; what `spark-submit` says stays.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, Final

from holdfast.client import blocking
from holdfast.spark import spark_session
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.pipelines.archive import archive_once
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.replay import Choice, replay
from holdfast.spark.pipelines.replica_proof import Replica
from holdfast.spark.pipelines.restore import RestoreSettings, restore
from holdfast.spark.pipelines.restored_log import NewMember
from holdfast.spark.source.options import read_options

OWN_MASTER: Final = "local[1]"
MEMBER: Final = "a"
"""The node that runs on what is restored."""
QUERY_SECONDS: Final = 240
SEND_WINDOW: Final = 40
RECEIVE_SECONDS: Final = 10.0


class SubmittedProgram:
    """What a test can ask for; every answer can be pickled."""

    def __init__(self, spark: Any, secret_file: str) -> None:
        self.spark = spark
        self.secret_file = secret_file

    def log(self, url: str) -> RemoteLog:
        """Give the log of a cluster."""
        options = read_options({"url": url, "secret_file": self.secret_file})
        return RemoteLog(options.urls, token=options.token)

    def source(self, url: str) -> dict[str, str]:
        """Give the data source's options for a cluster."""
        return {"url": url, "secret_file": self.secret_file}

    def send(self, uri: str, queue: str, bodies: list[bytes]) -> None:
        """Send messages, few at a time: so they are many entries of the log on any machine."""
        with (
            blocking.connect(uri) as connection,
            connection.producer(f"/queue/{queue}", window=SEND_WINDOW) as out,
        ):
            for body in bodies:
                out.send(body)

    def waiting(self, uri: str, queue: str, count: int) -> list[bytes]:
        """Give what waits in a queue: `count` are waited for, then a while for one too many."""
        found: list[bytes] = []
        with (
            blocking.connect(uri) as connection,
            connection.subscribe(f"/queue/{queue}", prefetch=2 * count) as taken,
        ):
            while message := taken.receive(RECEIVE_SECONDS if len(found) < count else 0.3):
                found.append(message.body)
        return found

    def count(self, url: str) -> tuple[str, int]:
        """Read a cluster in a batch; gives the master that Spark works for and the rows."""
        rows = self.spark.read.format("holdfast").options(**self.source(url)).load()
        return self.spark.sparkContext.master, rows.count()

    def archive(self, url: str, to: str) -> dict[str, Any]:
        """Archive a cluster once; gives the progress at the end."""
        return asdict(archive_once(self.spark, self.log(url), Archive.open(to)))

    def audit(self, urls: list[str], archive: str) -> dict[str, Any]:
        """Compare nodes and an archive, without an account; gives what that stands on."""
        replicas = [Replica(url, self.log(url)) for url in urls]
        done = audit(self.spark, replicas, Archive.open(archive), with_account=False)
        assert done.replicas is not None
        return {
            "findings": [str(each) for each in done.findings],
            "archive_entries": done.archive_entries,
            "replicas": len(done.replicas.positions),
        }

    def restore(self, archive: str, to: str, scratch: str) -> dict[str, Any]:
        """Restore an archive by the workers, however small it is; gives what came back."""
        settings = RestoreSettings(scratch=scratch, member=NewMember(name=MEMBER), rows_here_max=0)
        return asdict(restore(self.spark, Archive.open(archive), Path(to), settings))

    def replay(self, url: str, queue: str, target: str, uri: str, senders: int = 1) -> int:
        """Send a queue's messages once more; gives how many were confirmed."""
        choice = Choice(destinations=(queue,))
        source = self.source(url)
        return replay(self.spark, source, choice, target, uri, senders=senders).confirmed

    def stream(self, url: str, queue: str, to: dict[str, str], checkpoint: str) -> int:
        """
        Write what a queue was sent until all is taken; gives the batches.

        Args:
            to: Options of the sink; without a `path`, which means Parquet, those of ours.
        """
        rows = self.spark.readStream.format("holdfast").options(**self.source(url)).load()
        rows = rows.where(f"destination = '{queue}'").select("sequence", "body")
        writer = rows.writeStream.format("parquet" if "path" in to else "holdfast")
        writer = writer.options(**to).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(QUERY_SECONDS):
            query.stop()
            raise TimeoutError(f"the query has not ended: {query.status}")
        return len(query.recentProgress)

    def written(self, path: str) -> list[tuple[int, bytes]]:
        """Give what queries have written to Parquet: sequences and bodies."""
        rows = self.spark.read.parquet(path).collect()
        return [(row.sequence, bytes(row.body)) for row in rows]


class Asked:
    """One thing that was asked for and is being done; use `result`."""

    def __init__(self, connection: Connection[Any, Any], *call: Any) -> None:
        self._connection = connection
        connection.send(call)

    def result(self, seconds: float) -> Any:
        """
        Wait for the answer.

        Raises:
            TimeoutError: There is none.
            RuntimeError: What the program raised, as text.
        """
        if not self._connection.poll(seconds):
            raise TimeoutError("the submitted program does not answer")
        is_done, answer = self._connection.recv()
        if not is_done:
            raise RuntimeError(answer)
        return answer


def main(socket: str, secret_file: str) -> None:
    """Do what is asked until the test hangs up."""
    program = SubmittedProgram(spark_session("submitted", OWN_MASTER), secret_file)
    with Client(socket, family="AF_UNIX") as connection:
        while True:
            try:
                name, *arguments = connection.recv()
            except EOFError:
                return
            call: Callable[..., Any] = getattr(program, name)
            try:
                answer = (True, call(*arguments))
            except Exception:  # noqa: BLE001 - the test says what it thinks of it
                answer = (False, traceback.format_exc())
            connection.send(answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
