"""
The README's commands, run as they stand there: the one minute and the three nodes.

Only their ports are others, each everywhere the same, so that it does not matter what else runs on
this machine: two commands that would take one port from each other still do. What installs Holdfast
is not run, as it needs a network.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.free_ports import free_ports

pytestmark = [pytest.mark.processes, pytest.mark.slow]

README = (Path(__file__).parents[2] / "README.md").read_text()
# Where a node listens, and a command asks, that is told nothing.
STOMP, ADMIN = "61613", "8161"
SECONDS_MAX = 60
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")


def blocks(section: str) -> list[str]:
    """The commands of a section, block by block."""
    text = README.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)


class Reader:
    """Somebody who types what the README says, in a folder of his own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "var").mkdir()
        found = {STOMP, ADMIN, *PORT.findall(README)}
        self.ports = dict(zip(sorted(found), map(str, free_ports(len(found))), strict=True))
        self.environment = {k: v for k, v in os.environ.items() if "HOLDFAST_" not in k} | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOLDFAST_STOMP": self.address(STOMP),
            "HOLDFAST_ADMIN": self.address(ADMIN),
            "HOLDFAST_URI": f"stomp://{self.address(STOMP)}",
        }

    def address(self, port: str) -> str:
        return f"127.0.0.1:{self.ports[port]}"

    def typed(self, block: str) -> str:
        return PORT.sub(lambda port: self.ports[port[0]], block)

    def run(self, program: str, *arguments: str) -> str:
        """Run something to its end; it has to succeed."""
        return subprocess.run(
            [program, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout

    def status(self, port: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self.address(port)}/status") as answer:
            return json.load(answer)

    def wait_served(self, process: subprocess.Popen[bytes]) -> None:
        """As a person waits who looks at the first terminal."""
        while process.poll() is None:
            with suppress(OSError):
                if self.status(ADMIN)["serving"]:
                    return
            time.sleep(0.01)
        raise AssertionError((self.folder / "log").read_text())

    @contextmanager
    def broker(self, block: str) -> Iterator[subprocess.Popen[bytes]]:
        """The first terminal: one command that goes on; gives its process when it serves."""
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                shlex.split(self.typed(block)),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        try:
            self.wait_served(process)
            yield process
        finally:
            process.kill()
            process.wait()


class Shell:
    """A terminal in which one block is typed after the other; at the end all of it is killed."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.process = subprocess.Popen(
            ["bash"],
            cwd=reader.folder,
            env=reader.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.type("trap 'echo FAILED: $BASH_COMMAND' ERR\n")

    def type(self, block: str) -> str:
        """Give what a block writes; none of its commands may fail."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{self.reader.typed(block)}\necho THE BLOCK IS DONE\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline()) != "THE BLOCK IS DONE\n":
            assert line, f"the shell ended:\n{''.join(lines)}"
            lines.append(line)
        seen = "".join(lines)
        assert "FAILED" not in seen, seen
        return seen

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


@pytest.fixture
def shell(reader: Reader) -> Iterator[Shell]:
    shell = Shell(reader)
    yield shell
    shell.close()


def test_the_one_minute(reader: Reader, shell: Shell) -> None:
    """A message sent, the broker killed by SIGKILL and started again, the message received."""
    _, start, send, receive, _ = blocks("One minute")
    with reader.broker(start):
        shell.type(send)
    with reader.broker(start):
        seen = shell.type(receive)

    assert "first light\n" in seen
    assert "leader, serving clients" in seen


def test_the_three_nodes(reader: Reader, shell: Shell) -> None:
    """
    Beside the broker of the one minute, as somebody has it who goes on reading: three nodes form a
    cluster, take a thousand messages, lose their leader, and give them all. The program in Python
    that follows works with them, too.
    """
    minute = blocks("One minute")
    start, traffic, end = blocks("Three nodes")
    (program,) = blocks("From Python")
    send, receive = re.fullmatch(r"(.*\n)(holdfast receive .*\n)", traffic, re.DOTALL).groups()
    with reader.broker(minute[1]):
        assert "leader" in shell.type(start)
        shell.type(send)
        os.kill(leader_of(reader, shell), signal.SIGKILL)
        assert "\n1000\n" in f"\n{shell.type(receive)}"
        reader.run(sys.executable, "-c", reader.typed(program))
        shell.type(f"{end}wait\n")

    logs = [(reader.folder / f"var/{name}.log").read_text() for name in "abc"]
    assert sum("stopped" in log for log in logs) == 2
    assert not any("Traceback" in log for log in logs)


def leader_of(reader: Reader, shell: Shell) -> int:
    """The process of the node that leads."""
    leader = reader.status("8171")["leader"]
    processes = [int(line) for line in shell.type("jobs -p").splitlines() if line.isdigit()]
    return processes["abc".index(leader)]
