"""
Brokers of the tests are forks: nothing that a test may look at tells one from a started program.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalNode
from tests.forked_nodes import ForkedProcess

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="no handles of processes here"),
    pytest.mark.skipif(os.environ.get("FORKED_NODES") == "0", reason="FORKED_NODES=0"),
]


def serving(node: LocalNode) -> LocalNode:
    node.start()
    node.wait_until(lambda status: status["serving"], "serving")
    return node


def open_files(pid: int) -> dict[int, str]:
    """What the descriptors of a process lead to; a node opens and closes some at any time."""
    found = {}
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[int(path.name)] = str(path.readlink())
    return found


def state_of(node: LocalNode) -> dict[str, object]:
    """What the system tells of a process, as far as two nodes have it alike."""
    targets = open_files(node.pid)
    status = Path(f"/proc/{node.pid}/status").read_text().splitlines()
    return {
        "group": os.getpgid(node.pid),
        "directory": Path(f"/proc/{node.pid}/cwd").readlink(),
        "output": [targets[number].replace(str(node.directory), "") for number in range(3)],
        "signals": [it for it in status if it.startswith(("SigIgn", "SigCgt", "SigBlk"))],
    }


def _stat(pid: int) -> list[str]:
    """State, parent and so on of a process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def test_a_fork_is_what_a_started_node_is(tmp_path: Path) -> None:
    """
    Group, directory, output, signals, and how it ends when it is told to.
    """
    found = []
    for number, own in enumerate(({}, {"ANYTHING": "1"})):
        node = LocalNode("a", tmp_path / str(number))
        node.environment = own  # With one of its own it is started.
        try:
            serving(node)
            found.append((isinstance(node.process, ForkedProcess), state_of(node)))
            if not own:
                parent = int(_stat(node.pid)[1])
                sockets = {it for it in open_files(parent).values() if it.startswith("socket:")}
                assert len(sockets) == 1
                assert not sockets & {*open_files(node.pid).values()}
            assert node.stop() == 0
            assert "exit_code=0" in node.log_tail(1)
        finally:
            node.kill()
    (first_is_fork, first), (second_is_fork, second) = found

    assert (first_is_fork, second_is_fork) == (True, False)
    assert first == second


def test_a_killed_fork_is_waited_for_and_started_again(tmp_path: Path) -> None:
    """Its number is nobody else's until somebody has asked how it ended."""
    node = serving(LocalNode("a", tmp_path))
    process = node.process
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    os.kill(node.pid, signal.SIGKILL)
    while _stat(node.pid)[0] != "Z":
        time.sleep(0.01)
    os.kill(node.pid, 0)

    assert node.wait() == process.poll() == -signal.SIGKILL
    assert not Path(f"/proc/{process.pid}").exists()
    serving(node)
    node.kill()


def test_a_fork_that_cannot_start_says_so_in_its_own_log(tmp_path: Path) -> None:
    """With the exit code of the program, and the others' mother bears on."""
    node = LocalNode("a", tmp_path, ["--no-such-flag"])
    node.start()

    assert node.wait() == 2
    assert "no-such-flag" in node.log_tail()
    serving(LocalNode("b", tmp_path)).kill()


PROGRAM = """
import sys
from pathlib import Path
from holdfast.testing.local_cluster import LocalNode
from tests.forked_nodes import nodes_forked
with nodes_forked():
    node = LocalNode("a", Path(sys.argv[1]))
    node.start()
    node.wait_until(lambda status: status["serving"], "serving")
    stat = Path(f"/proc/{node.pid}/stat").read_text()
    print(node.pid, stat.rpartition(")")[2].split()[1], flush=True)
    sys.stdin.read()
"""


def test_forks_and_their_mother_end_with_a_killed_owner(tmp_path: Path) -> None:
    """As started nodes do."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        handles = [os.pidfd_open(int(word)) for word in owner.stdout.readline().split()]
        owner.kill()
    assert len(handles) == 2
    for handle in handles:
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        assert ended.poll(60_000)
        os.close(handle)


def test_what_needs_a_program_of_its_own_is_started(tmp_path: Path) -> None:
    """What is read only as a program is executed would be the mother's."""
    limited = LocalNode("a", tmp_path / "limited")
    limited.open_files_max = 200
    grouped = LocalNode("a", tmp_path / "grouped")
    grouped.is_detached = True
    for node in (limited, grouped):
        node.start()
        assert isinstance(node.process, subprocess.Popen)
        node.kill()
