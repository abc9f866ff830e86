"""
A Python worker of an executor of Spark's that is killed in the middle of a command.

The executor is a process of its own on this machine, so all that a task needs is sent to it.
Where Spark tries the task again the command goes on and its account is exact; where it does not the
command ends with one sentence, and what it left behind is what it goes on from.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from holdfast.client import blocking
from holdfast.model.records import MessageRecord, QueueRecord
from holdfast.testing.running import running_broker
from trials.pipeline.command_line import CommandLine, Ended
from trials.pipeline.executor_kills import ExecutorKills
from trials.pipeline.spark_home import spark_home
from trials.pipeline.stalled_worker import OPEN, WRITE
from trials.pipeline.standalone_spark import JAVA_OPTIONS
from trials.pipeline.written_log import WrittenLog, message, records_of

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]

MESSAGES: Final = 600
ENTRY_MESSAGES: Final = 50
ALL: Final = [b"%d" % number for number in range(1, MESSAGES + 1)]
HEADERS: Final = b"a:%b\n" % (b"b" * 300)
ATTEMPTS: Final = 4
"""So often a task is tried, on a cluster and by the commands' own master."""
MASTER: Final = "local-cluster[1,2,512]"
"""One executor with two cores and so many MiB; who shares out the work is in the driver itself."""
SETTINGS: Final = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
COMMAND_SECONDS: Final = 240.0
FIRST_WRITTEN: Final = (OPEN, r"0{19}1-\w+\.parquet")
FIRST_READ: Final = (OPEN, r"0{19}1\.segment")
FIRST_PACKED: Final = (OPEN, r"0{19}1-\S+\.bodies")
FIRST_SENT: Final = (WRITE, r"\n\n1\0")
"""What only one task of a job comes to: each of its attempts is another's worker."""
GIVEN_UP: Final = "holdfast: a Python worker of Spark's died at its work (killed from outside"


class Commands:
    """Commands in a process of their own with one Spark, of which workers are killed."""

    def __init__(self, line: CommandLine, kills: ExecutorKills) -> None:
        self.line = line
        self._kills = kills

    def begin(self, *command: str, kill: tuple[str, str], times: int = 1) -> None:
        """Begin a command, and kill each worker that comes to this event, so many of them."""
        self._kills.order(*kill)
        words = [*command, "--master", MASTER]
        for setting in (self._kills.settings | SETTINGS).items():
            words += ["--conf", "=".join(setting)]
        self.line.begin(*words)
        for left in reversed(range(times)):
            self._kills.strike_worker(COMMAND_SECONDS, again=kill if left else None)

    def run(self, *command: str, kill: tuple[str, str], times: int = 1) -> Ended:
        """Run it to its end."""
        self.begin(*command, kill=kill, times=times)
        return self.line.ended()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of Spark in a folder of this file's own: executors work below it."""
    home = tmp_path_factory.mktemp("home")
    for each in spark_home().iterdir():
        (home / each.name).symlink_to(each)
    return home


@pytest.fixture(scope="module")
def commands(home: Path) -> Iterator[Commands]:
    """What all tests here share: starting Spark and its first worker takes longer than most."""
    folder = Path(tempfile.mkdtemp())
    kills = ExecutorKills(folder / "orders")
    with CommandLine({"SPARK_HOME": str(home)}) as line:
        yield Commands(line, kills)
    kills.withdraw()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several segments, so that there are several tasks."""
    directory = tmp_path_factory.mktemp("killed") / "log"
    with WrittenLog(directory, segment_bytes=64 * 1024) as written:
        written.put(QueueRecord(1, "orders"))
        for start in range(1, MESSAGES + 1, ENTRY_MESSAGES):
            numbers = range(start, start + ENTRY_MESSAGES)
            written.put(*(message(1, n, b"%d" % n, HEADERS, "p") for n in numbers))
    return directory


@pytest.fixture(scope="module")
def archive(commands: Commands, log: Path) -> Path:
    """The log's archive, by the archiver that goes on for ever; Spark gave its first work up."""
    to = log.with_name("archive")
    command = ("archive", "--continuous", "--interval", "1", "--path", str(log), "--uncertain-end")
    commands.begin(*command, "--to", str(to), kill=FIRST_WRITTEN, times=ATTEMPTS)
    deadline = time.monotonic() + COMMAND_SECONDS
    while archived_through(to) < MESSAGES // ENTRY_MESSAGES + 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    commands.line.terminate()
    code, _, err = commands.line.ended()
    waiting = [each for each in err.splitlines() if "archived" not in each]
    assert (code, len(waiting)) == (0, 1), err
    assert waiting[0].startswith("waiting for Spark: a Python worker of Spark's died")
    assert waiting[0].endswith("; again in 1 s")
    return to


def archived_through(archive: Path) -> int:
    """The last entry that a manifest names."""
    manifests = (archive / "_holdfast").glob("*.json")
    return max((json.loads(it.read_text())["last_index"] for it in manifests), default=0)


def stored(directory: Path) -> list[bytes]:
    """The body of every message of a log, by the journal's own scan."""
    messages = [it for it in records_of(directory) if isinstance(it, MessageRecord)]
    return [bytes(it.body or b"") for it in messages]


def test_an_archiver_that_goes_on_for_ever_says_so_and_goes_on(archive: Path, home: Path) -> None:
    """The worker that was killed had written nothing that counts; each message is there once."""
    assert list((home / "work").glob("app-*/*/stderr")), "an executor has done it"
    found: list[int] = []
    for manifest in sorted((archive / "_holdfast").glob("*.json")):
        for file in json.loads(manifest.read_text())["files"]:
            rows: list[dict[str, Any]] = pq.read_table(archive / file["path"]).to_pylist()
            found += [row["sequence"] for row in rows if row["kind"] == "message"]
    assert found == list(range(1, MESSAGES + 1))


def test_an_audit_goes_on(commands: Commands, log: Path, archive: Path) -> None:
    """Its verdict is that of one whose workers lived."""
    command = ("audit", "--json", "--no-account", "--archive", str(archive), "--path", str(log))
    code, out, err = commands.run(*command, kill=FIRST_READ)
    assert (code, err) == (0, "")
    assert json.loads(out)["sound"]


def test_an_audit_that_cannot_go_on_gives_no_verdict(
    commands: Commands, log: Path, archive: Path
) -> None:
    """What was not looked at is neither sound nor damaged."""
    command = ("audit", "--archive", str(archive), "--path", str(log))
    ended = commands.run(*command, kill=FIRST_READ, times=ATTEMPTS)
    assert_given_up(ended)


def test_a_restore_goes_on(commands: Commands, archive: Path, tmp_path: Path) -> None:
    """All of the log is there, once."""
    to = tmp_path / "restored"
    command = ("restore", "--json", "--archive", str(archive), "--to", str(to))
    command += ("--scratch", str(tmp_path / "scratch"))  # or it is done without any worker
    code, _, err = commands.run(*command, kill=FIRST_PACKED)
    assert (code, err) == (0, "")
    assert stored(to) == ALL


def test_a_restore_that_cannot_go_on_leaves_no_directory(
    commands: Commands, archive: Path, tmp_path: Path
) -> None:
    """There is nothing that a node would start from."""
    to = tmp_path / "restored"
    command = ("restore", "--archive", str(archive), "--to", str(to))
    command += ("--scratch", str(tmp_path / "scratch"))
    ended = commands.run(*command, kill=FIRST_PACKED, times=ATTEMPTS)
    assert_given_up(ended)
    assert not to.exists()


def test_a_replay_that_ends_with_a_sentence_is_run_again_and_stores_nothing_twice(
    commands: Commands, archive: Path, tmp_path: Path
) -> None:
    """Workers are killed after they have sent, without a word of what was stored."""
    with running_broker(directory=tmp_path / "node") as broker:
        command = ("replay", "/queue/again", "--archive", str(archive), "--uri", broker.uri)
        command += ("--senders", "2", "--quiet")
        assert_given_up(commands.run(*command, kill=FIRST_SENT, times=ATTEMPTS))
        code, _, err = commands.run(*command, kill=FIRST_SENT)
        assert code == 0, err
        assert taken(broker.uri, "/queue/again") == ALL


def assert_given_up(ended: Ended) -> None:
    """One sentence says so, and nothing else is written."""
    assert (ended.code, ended.out, len(ended.err.splitlines())) == (1, "", 1)
    assert ended.err.startswith(GIVEN_UP)
    assert f"tried {ATTEMPTS} times" in ended.err


def taken(uri: str, queue: str) -> list[bytes]:
    """What waits in a queue, and a while for one too many."""
    found: list[bytes] = []
    with blocking.connect(uri) as connection, connection.subscribe(queue) as subscription:
        while each := subscription.receive(10 if len(found) < MESSAGES else 0.3):
            found.append(each.body)
            each.acknowledge()
    return found
