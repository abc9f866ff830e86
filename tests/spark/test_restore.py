"""Restore on real Spark, held to a log of operations that the test kept itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from typer.testing import CliRunner

from holdfast.cli.main import app
from holdfast.client import blocking
from holdfast.environment.disk import RealDisk
from holdfast.errors import ArchiveError, ConfigError, RemoteProtocolError
from holdfast.journal.entry import KIND_RECORDS, parse_entry
from holdfast.journal.scan import scan_log
from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.model.owners import Owner
from holdfast.model.producer_ids import room_of
from holdfast.model.records import MessageRecord, PolicyRecord, ProducerRecord, QueueRecord
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.applied_archive import ROWS_MAX, AppliedArchive
from holdfast.spark.pipelines.archive import archive_once
from holdfast.spark.pipelines.log_state import LastingState
from holdfast.spark.pipelines.queried_archive import QueriedArchive
from holdfast.spark.pipelines.replica_audit import TASKS_PER_CORE
from holdfast.spark.pipelines.restore import RestoreSettings, restore
from holdfast.spark.pipelines.restored_log import NewMember
from holdfast.store.record_codec import decode_records
from holdfast.testing.every_record import told_by
from holdfast.testing.local_cluster import LocalNode
from trials.clients.stomp_socket import StompSocket
from trials.pipeline.operation_log import USERS_ONE, Live, Moment, OperationLog
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import CLUSTER_ID

Login: TypeAlias = tuple[str, str]
"""A user's name, and a token."""

CORES = 2
JOBS = 24
"""17 had a restore that Spark does, with one stage each, of one file and of 33; a few may be added,
one for each file may not."""


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> OperationLog:
    operations = OperationLog(tmp_path_factory.mktemp("restore") / "log", seed=21)
    operations.run(160)
    return operations


@pytest.fixture(scope="module")
def archive(spark, log, tmp_path_factory) -> Archive:
    found = Archive.open(str(tmp_path_factory.mktemp("restore") / "archive"))
    archive_once(spark, LogDirectory(str(log.directory)), found)
    return found


def restored(directory: Path) -> tuple[list[Live], dict[str, int], dict[tuple[int, str], str]]:
    """What lives in a restored directory, read by the journal's own scan."""
    live, producers, policies, _ = restored_whole(directory)
    return live, producers, policies


def restored_whole(directory: Path) -> tuple[Any, ...]:
    """The same, with users and grants."""
    names: dict[int, str] = {}
    live: list[Live] = []
    producers: dict[str, int] = {}
    policies: dict[tuple[int, str], str] = {}
    access: dict[str, str | int] = {}
    for segment in scan_log(directory / "journal", RealDisk()).segments:
        data = segment.path.read_bytes()
        for index in range(segment.base_index, segment.last_index + 1):
            entry = parse_entry(data, segment.place(index)[0])
            if entry.kind != KIND_RECORDS:
                continue
            for record in decode_records(entry.body):
                if isinstance(record, QueueRecord):
                    names[record.queue_number] = record.name
                elif isinstance(record, ProducerRecord):
                    producers[record.producer_id] = record.sequence
                elif isinstance(record, PolicyRecord):
                    policies[record.revision, record.pattern] = record.values
                elif isinstance(record, UserRecord):
                    access[record.name] = record.values
                elif isinstance(record, GrantRecord):
                    access[f"{record.role} {record.pattern}"] = record.rights
                elif isinstance(record, MessageRecord):
                    live.append(
                        Live(
                            names[record.queue_number],
                            record.sequence,
                            record.headers or b"",
                            record.body or b"",
                            record.redelivery_count,
                            record.stored_at,
                        )
                    )
    lived = sorted(live, key=lambda each: (each.queue, each.sequence))
    return lived, producers, policies, access


@pytest.mark.parametrize(
    ("share", "rows_here_max"),
    [(0.35, 0), (1.0, 0), (0.35, ROWS_MAX), (0.7, ROWS_MAX), (1.0, ROWS_MAX)],
    ids=lambda each: {0: "asked of Spark", ROWS_MAX: "applied here"}.get(each, str(each)),
)
def test_as_of_a_time_exactly_what_lived_then_comes_back(
    spark, log: OperationLog, archive, tmp_path, share: float, rows_here_max: int
) -> None:
    """
    Headers, bodies, sequences, counts, times, producers' numbers, policies, users and grants are as
    they were.
    """
    moment: Moment = log.moments[int(share * len(log.moments)) - 1]
    settings = RestoreSettings(as_of_time=moment.time + 1, rows_here_max=rows_here_max)

    plan = restore(spark, archive, tmp_path / "new", settings)

    live, producers, policies, access = restored_whole(tmp_path / "new")
    assert moment.live == tuple(live)
    assert moment.producers == producers
    assert moment.policies == policies
    assert moment.access == access
    assert access
    assert policies
    assert sum(bool(pattern) for _, pattern in policies) == plan.policies
    assert (moment.index, len(moment.live)) == (plan.as_of_index, plan.messages)
    assert {q.name: q.messages for q in plan.queues} == {
        name: sum(each.queue == name for each in moment.live)
        for name in {each.queue for each in moment.live}
    }


def test_spark_and_the_brokers_own_apply_find_the_same(spark, log: OperationLog, archive) -> None:
    """Which of them is asked depends on the size of the archive alone, so nothing else may."""
    index = log.moments[int(0.7 * len(log.moments)) - 1].index
    files = archive.catalogue().files(last_index=index)
    source = ArchivedSource(archive, archive.catalogue())
    with (
        AppliedArchive(archive, files, index) as applied,
        QueriedArchive(spark, source, files, index) as queried,
    ):
        states = [it.lasting_state() for it in (applied, queried)]
        lasts = [it.last_record() or {} for it in (applied, queried)]
        queues = [sorted(map(_values, it.queues())) for it in (applied, queried)]
    assert _told(states[0]) == _told(states[1])
    assert lasts[1].items() <= lasts[0].items()
    assert queues[0] == queues[1]


def _values(row: Mapping[str, Any]) -> list[Any]:
    return [row[name] for name in sorted(row)]


def _told(state: LastingState) -> tuple[Any, ...]:
    queues = [(it.queue_number, it.name, it.next_sequence, it.dispatch_mark) for it in state.queues]
    producers = [(it.producer_id, it.sequence, it.used_at) for it in state.producers]
    policies = sorted((it.revision, it.pattern, it.values) for it in state.policies)
    access = [told_by(it) for it in state.access]
    return queues, producers, state.next_queue_number, policies, access


def test_what_is_asked_of_spark_does_not_grow_with_the_files(spark, log, tmp_path) -> None:
    """
    Each job, stage and task takes tenths of a second, however little it does: of an archive that
    was written as the log grew a restore must not have one for each file.
    """
    context = spark.sparkContext._jsc.sc()

    def jobs() -> list[Any]:
        context.listenerBus().waitUntilEmpty()
        found = context.statusStore().jobsList(None)
        return [found.apply(place) for place in range(found.size())]

    for per_range in (1_000, 5):
        folder = tmp_path / f"archive-{per_range}"
        archive = archived_log(LogDirectory(str(log.directory)), folder, per_range=per_range)
        files = len(archive.catalogue().files())
        assert files == 1 or files > TASKS_PER_CORE * CORES, "more than a job has tasks"
        before = {job.jobId() for job in jobs()}
        restore(spark, archive, tmp_path / f"to-{per_range}", RestoreSettings(rows_here_max=0))
        mine = [job for job in jobs() if job.jobId() not in before]
        assert JOBS >= len(mine) > 0
        assert JOBS >= sum(job.numCompletedStages() for job in mine)
        assert TASKS_PER_CORE * CORES >= max(job.numCompletedTasks() for job in mine)


@pytest.mark.slow
def test_the_restored_directory_boots_and_delivers(spark, log, archive, tmp_path) -> None:
    """
    A node starts on it, lets in the users of that moment only, delivers the same ids in order,
    knows its producers, refuses a gap, and never gives an old number again.
    """
    moment = log.moments[-1]
    settings = RestoreSettings(as_of_index=moment.index, member=NewMember(name="new"))
    restore(spark, archive, tmp_path / "new", settings)
    node = LocalNode("new", tmp_path)
    node.start()
    try:
        status = node.wait_until(lambda status: status["serving"], "serving")
        assert CLUSTER_ID.hex() != status["cluster_id"]
        assert CLUSTER_ID.hex()[:8] == status["cluster_id"][:8]
        with pytest.raises(RemoteProtocolError, match="a login is needed here"):
            blocking.connect(node.uri)
        login = _let_in(node, moment)
        for queue in sorted({each.queue for each in moment.live}):
            _check_delivery(node, moment, queue, login)
        _check_producers(node, moment, login)
    finally:
        node.kill()


def _let_in(node: LocalNode, moment: Moment) -> Login:
    """
    Do what an operator does on its machine: a token for one of the users who are there again, and
    all rights for a role of his.
    """
    users = {name: json.loads(str(it)) for name, it in moment.access.items() if " " not in name}
    listed = {each["name"]: each["roles"] for each in node.get("/users")["users"]}
    assert {name: values["roles"] for name, values in users.items()} == listed
    name = next(name for name, values in users.items() if values["roles"])
    role = users[name]["roles"][0]

    def holdfast(*command: str) -> str:
        result = CliRunner().invoke(app, [*command, "--admin", node.admin])
        assert result.exit_code == 0, result.output
        return result.stdout.strip()

    holdfast("grant", role, "read,write,admin", "queue://>")
    return name, holdfast("users", "token", name)


def _check_delivery(node: LocalNode, moment: Moment, queue: str, login: Login) -> None:
    number = int(queue.rpartition("-")[2])
    wanted = [each for each in moment.live if each.queue == queue]
    name, token = login
    with blocking.connect(node.uri, login=name, passcode=token) as connection:
        with connection.subscribe(f"/queue/{queue}", prefetch=1000) as subscription:
            found = [subscription.receive(5.0) for _ in wanted]
            assert subscription.receive(0.2) is None
            assert [f"ID:{CLUSTER_ID.hex()[:8]}-{number}-{each.sequence}" for each in wanted] == [
                message.id for message in found if message
            ]
            assert [each.body for each in wanted] == [it.body for it in found if it]
            for message in found:
                if message is not None:
                    message.acknowledge(confirm=True)
            connection.send(f"/queue/{queue}", b"new")
            fresh = subscription.receive(5.0)
            assert fresh is not None
            assert int(fresh.id.rpartition("-")[2]) > 1_000_000_000


def _check_producers(node: LocalNode, moment: Moment, login: Login) -> None:
    assert USERS_ONE == room_of(Owner(login[0])) + "one"
    last = moment.producers[USERS_ONE]
    with StompSocket(node.stomp_port) as socket:
        socket.connect(login=login[0], passcode=login[1])

        def send(number: int) -> str:
            headers = {
                "destination": "/queue/numbered",
                "producer-id": "one",
                "producer-sequence": str(number),
                "persistent": "true",
            }
            return socket.ask("SEND", headers, b"x").command

        assert ["RECEIPT", "ERROR", "RECEIPT"] == [send(last), send(last + 2), send(last + 1)]
    queues = {queue["name"]: queue for queue in node.get("/queues")["queues"]}
    assert 1 == queues["numbered"]["messages"]


def test_a_dry_run_writes_nothing(spark, log, archive, tmp_path) -> None:
    """
    It says what would come back.
    """
    plan = restore(spark, archive, None)

    assert len(log.moments[-1].live) == plan.messages
    assert plan.restored is None
    assert [] == list(tmp_path.iterdir())


def test_it_says_where_the_time_went(spark, archive, tmp_path) -> None:
    """Each step, in the order of the work; together they are all."""
    plan = restore(spark, archive, tmp_path / "new")
    names = ["files checked", "state read", "messages found that live"]
    assert list(plan.steps) == [*names, "messages packed and written"]
    assert min(plan.steps.values()) > 0
    assert sum(plan.steps.values()) == pytest.approx(plan.seconds)


def test_a_directory_in_use_is_refused(spark, archive, tmp_path) -> None:
    """
    Nothing is ever restored over something.
    """
    (tmp_path / "journal").mkdir()

    with pytest.raises(ConfigError, match="not empty"):
        restore(spark, archive, tmp_path)


def test_a_moment_that_is_not_archived_is_refused(spark, log, archive) -> None:
    """
    Before the first entry and behind the last one nothing is known.
    """
    with pytest.raises(ArchiveError, match="begins after"):
        restore(spark, archive, None, RestoreSettings(as_of_time=5))
    with pytest.raises(ArchiveError, match="is not in it"):
        restore(spark, archive, None, RestoreSettings(as_of_index=10_000))


def test_a_broken_archive_is_refused_unless_accepted(spark, log, tmp_path) -> None:
    """
    With a manifest gone, and with a file gone, the refusal and the accepted restore name it.
    """
    archive, source = Archive.open(str(tmp_path / "archive")), LogDirectory(str(log.directory))
    archive_once(spark, source, archive)
    second = archive.catalogue().ranges[-1]
    victim = second.files[len(second.files) // 2]
    (tmp_path / "archive" / victim.path).unlink()

    with pytest.raises(ArchiveError, match=victim.path):
        restore(spark, archive, tmp_path / "new")
    plan = restore(spark, archive, tmp_path / "new", RestoreSettings(accept_broken=True))

    assert plan.restored is not None
    assert any(victim.path in each for each in plan.missing)
    assert any("messages may be lost" in each for each in plan.missing)


def test_an_edited_manifest_is_refused(spark, log, tmp_path) -> None:
    """
    A manifest carries its own digest.
    """
    archive = Archive.open(str(tmp_path / "archive"))
    archive_once(spark, LogDirectory(str(log.directory)), archive)
    path = max((tmp_path / "archive" / "_holdfast").iterdir())
    fields = json.loads(path.read_text())
    fields["messages"] += 1
    path.write_text(json.dumps(fields))

    with pytest.raises(ArchiveError, match="was changed after it was written"):
        restore(spark, archive, None)
