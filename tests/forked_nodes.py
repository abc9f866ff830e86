"""
Brokers of the tests as forks of a process that has imported their program already.

Nine tenths of what a node takes to start are imports, and a run of the tests starts hundreds. So
each process of tests has a mother beside it, which imports the program once; a node is a fork of
hers, with its own environment, directory and output, and runs what `python -m holdfast` runs, from
the first line. It is killed, stopped and waited for as any other process.

What the interpreter or the system reads only as a program is executed would be the mother's: nodes
with an environment of their own, with a limit of descriptors, with another program or in a group of
their own are started as users start them. So are all that no `LocalNode` starts: the commands of
the README, of the wheel, of the chaos runner, of users' tests.

Invariants:
    A mother has one thread, and no descriptor but that of her owner and the three of every process.
    She reaps a node when she is asked to: until then its number is nobody else's.
    She ends with her owner: her end of the pair is closed then.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ORDER_BYTES_MAX: Final = 1 << 20
PROGRAM: Final = ["-m", "holdfast"]
# What a served node has loaded after a while, beside what the first two import.
MODULES: Final = (
    *("holdfast.cli.serve", "holdfast.server.node", "encodings.idna", "encodings.ascii"),
    *("holdfast.admin.bodies", "holdfast.admin.metrics", "anyio._backends._asyncio"),
    "holdfast.selectors.selector",
)


class ForkedProcess:
    """A node that a mother bore, with what `LocalNode` asks of a `subprocess.Popen`."""

    def __init__(self, mother: Mother, command: list[str], pid: int) -> None:
        self.args = command
        self.pid = pid
        self.returncode: int | None = None
        self._mother = mother
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self._reaped_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        code = self._reaped_within(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _reaped_within(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            ended = select.poll()
            ended.register(self._handle, select.POLLIN)
            if ended.poll(None if seconds is None else seconds * 1000):
                self._reap()
        return self.returncode

    def _reap(self) -> None:
        with self._mother.lock:
            if self.returncode is None:  # Another thread may have waited as well.
                self.returncode = self._mother.ask({"reap": self.pid})
                os.close(self._handle)


class Mother:
    """The owner's side of a process that bears nodes."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.lock = threading.RLock()
        self._socket, hers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with hers:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), str(hers.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[hers.fileno()],
            )

    def bear(self, command: list[str], environment: dict[str, str], output: int) -> ForkedProcess:
        """Let a node run in our directory, with this environment and this output."""
        order = {"words": command[1:], "environment": environment, "directory": str(Path.cwd())}
        with self.lock:
            return ForkedProcess(self, command, self.ask(order, [output]))

    def ask(self, order: dict[str, Any], descriptors: list[int] | None = None) -> int:
        """Send an order, which she answers with a number."""
        data = json.dumps(order).encode()
        assert len(data) < ORDER_BYTES_MAX
        socket.send_fds(self._socket, [data], descriptors or [])
        answer = self._socket.recv(64)
        assert answer, f"the process that bears nodes has ended: {self._process.poll()}"
        return int(answer)

    def end(self) -> None:
        """See her off; whoever is alive lives on."""
        self._socket.close()
        self._process.wait()


_mothers: list[Mother] = []


def _mother() -> Mother:
    if not _mothers or _mothers[0].owner != os.getpid():  # After a fork it is another's.
        _mothers[:] = [Mother()]
    return _mothers[0]


@contextmanager
def nodes_forked() -> Iterator[None]:
    """Let each `LocalNode` that may be a fork be one."""
    from holdfast.testing.local_cluster import LocalNode

    spawn = LocalNode._spawn

    def fork(node: LocalNode, command: list[str], **options: Any) -> Any:
        has_own = node.environment or node.is_detached or command[:3] != [sys.executable, *PROGRAM]
        if has_own or not hasattr(os, "pidfd_open"):
            return spawn(node, command, **options)
        return _mother().bear(command, options["env"], options["stdout"].fileno())

    LocalNode._spawn = fork
    try:
        yield
    finally:
        LocalNode._spawn = spawn
        for mother in _mothers:
            if mother.owner == os.getpid():
                mother.end()
        _mothers.clear()


# The other side, in a process of its own.


def next_order(control: socket.socket) -> dict[str, Any] | None:
    """Bear and reap; in a child its order comes back, in the mother None at the end."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, ORDER_BYTES_MAX, 1)
        if not data:
            return None
        order: dict[str, Any] = json.loads(data)
        if "reap" in order:
            number = os.waitstatus_to_exitcode(os.waitpid(order["reap"], 0)[1])
        else:
            number = os.fork()
            if number == 0:
                (order["output"],) = descriptors
                return order
            for descriptor in descriptors:
                os.close(descriptor)
        control.send(b"%d" % number)


def become(order: dict[str, Any]) -> None:
    """Be what the order says."""
    for number in (1, 2):
        os.dup2(order["output"], number)
    os.close(order["output"])
    os.chdir(order["directory"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["-m", *order["words"][2:]]
    runpy.run_module(order["words"][1], run_name="__main__", alter_sys=True)


def main(descriptor: int) -> None:
    """Import what a node needs, and be one as often as somebody asks."""
    gc.disable()  # As a node does while it imports.
    sys.path[0] = ""  # As with `-m`: the current directory.
    for name in MODULES:
        __import__(name)
    from holdfast.server.preparation import prepare

    prepare()  # A node does so by itself after some seconds.
    gc.freeze()
    with socket.socket(fileno=descriptor) as control:
        order = next_order(control)
    if order is not None:
        gc.unfreeze()
        become(order)


if __name__ == "__main__":
    main(int(sys.argv[1]))
