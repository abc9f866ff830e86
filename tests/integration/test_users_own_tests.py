"""
What a user's test suite gets of us, as the how-to has it: run in a folder of its own.

The programs are cut out of the page, so that the page cannot say what does not work.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-with-a-broker.md"
CONFTEST, TESTS, PROGRAM = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def left_over(folder: Path) -> list[str]:
    """Processes that still name the folder."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return [line for line in found.stdout.splitlines() if str(folder) in line]


@pytest.mark.processes
def test_the_fixtures_of_the_how_to_work(tmp_path: Path) -> None:
    """A broker and a cluster for a test each, a leader killed in between, and nothing left."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_orders.py").write_text(TESTS)

    ended = run(tmp_path, "-m", "pytest", "-q", "-p", "no:randomly", "--basetemp=kept", ".")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 passed" in ended.stdout
    assert not left_over(tmp_path)


@pytest.mark.processes
def test_the_program_of_the_how_to_works(tmp_path: Path) -> None:
    """In a `with`, with flags and another topology; temporary folders are gone afterwards."""
    ended = run(tmp_path, "-c", f"import tempfile; tempfile.tempdir = {str(tmp_path)!r}\n{PROGRAM}")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    uri, leader = ended.stdout.split()
    assert uri.startswith("stomp://127.0.0.1:") and leader in {"a", "b"}
    assert not left_over(tmp_path)
    assert ["holdfast-ports"] == [it.name.rpartition("-")[0] for it in tmp_path.iterdir()]


@pytest.mark.processes
def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    """At once: the end of its log is in the error, and its process is not left behind."""
    program = "from holdfast.testing.running import running_broker\n"
    program += "with running_broker(['--no-such-flag']):\n    pass\n"

    ended = run(tmp_path, "-c", program)

    assert ended.returncode == 1
    assert "LocalNodeError: no leader: every node has ended" in ended.stderr
    assert "no-such-flag" in ended.stderr


BOTH = """\
from holdfast.client.blocking import connect


def test_both(holdfast_broker, holdfast_cluster):
    for uri in (holdfast_broker.uri, holdfast_cluster.uri):
        with connect(uri) as connection:
            connection.send("/queue/orders", b"one espresso")
"""


@pytest.mark.processes
def test_one_test_may_ask_for_a_broker_and_a_cluster(tmp_path: Path) -> None:
    """Each in a folder of its own: their nodes are called alike."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_both.py").write_text(BOTH)

    ended = run(tmp_path, "-m", "pytest", "-q", "-p", "no:randomly", "--basetemp=kept", ".")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not left_over(tmp_path)


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_brokers_end_with_the_process_of_the_tests(tmp_path: Path, number: int) -> None:
    """Nothing of it runs any more, so its brokers are ended from outside of it."""
    program = """
from pathlib import Path
from holdfast.testing.running import running_broker
with running_broker(directory=Path("kept").absolute()) as broker:
    print(broker.pid, flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as tests:
        assert tests.stdout is not None
        broker = os.pidfd_open(int(tests.stdout.readline()))
        tests.send_signal(number)

    ended, _, _ = select.select([broker], [], [], 60)
    os.close(broker)
    assert ended, "it lives"
    assert not left_over(tmp_path)
