"""
A database server that a test starts, stops, kills and pauses, and that ends with the test.

Its folder is a temporary one of its own, its port a free one of loopback. Servers of databases do
not run as root: where the test does, they run as the user that their package made. What is missing
is installed from Debian's packages, where that is possible, without starting their services.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from holdfast.testing.free_ports import free_ports

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 30.0
_LOCK: Final = Path(tempfile.gettempdir()) / "holdfast-databases.lock"
_POLICY: Final = Path("/usr/sbin/policy-rc.d")
_ENDED: Final = frozenset({"Z", "X"})
"""States of a process that has ended; whoever started it may not have asked yet."""


class ServerFailedError(Exception):
    """A server did not start, or did not end."""


class DatabaseServer(ABC):
    """
    One server; use as a context manager: it runs inside, and nothing of it is left behind.

    `start` and `stop` may follow one another, its data stays until `remove`.
    """

    name: str
    user: str
    """Whom its package made for it."""

    stop_signal = signal.SIGTERM
    """What ends it in good order."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"holdfast-{self.name}-"))
        if os.getuid() == 0:
            shutil.chown(self.folder, self.user)
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @abstractmethod
    def prepare(self) -> None:
        """Make the folder of its data."""

    @abstractmethod
    def command(self) -> list[str]:
        """What to run."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it answers."""

    @abstractmethod
    def execute(self, statement: str, database: str) -> list[tuple[Any, ...]]:
        """Do this as the superuser; give what it gives."""

    @abstractmethod
    def create(self, database: str) -> str:
        """Make a database, or empty it; give its URL."""

    @abstractmethod
    def url(self, database: str, port: int | None = None) -> str:
        """Where it is, as an operator writes it; or behind another port."""

    def as_user(self, command: list[str]) -> list[str]:
        """The command as it is run by the right user, ended with whoever started it."""
        begin = ["setpriv", "--pdeathsig", "KILL"]
        if os.getuid() == 0:
            begin += [f"--reuid={self.user}", f"--regid={self.user}", "--init-groups"]
        return [*begin, *command]

    def environment(self) -> dict[str, str]:
        """
        What its processes know: a place of their own for what is temporary.

        A MariaDB that starts removes what it takes for its own temporary tables from there, and
        they may be those of another one that runs.
        """
        return {**os.environ, "TMPDIR": str(self.folder)}

    def run(self, command: list[str]) -> str:
        """Run a tool of the server's to its end; give what it printed."""
        done = subprocess.run(
            self.as_user(command),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ServerFailedError(f"{command[0]}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Start it; it ends with the thread that does so, so let that be the main one."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.as_user(self.command()),
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """Wait until it answers, after `launch`."""
        until = time.monotonic() + START_SECONDS_MAX
        while not self.is_ready():
            if not self.is_running or time.monotonic() > until:
                said = (self.folder / "log").read_text(errors="replace")[-2000:]
                raise ServerFailedError(f"{self.name} did not start: {said}")
            time.sleep(0.05)

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        """End it in good order."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """Kill all of its processes at once."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """
        Stop all of its processes, as a machine does that hangs; returns when none of them runs.

        Until one of its threads has taken the signal up, the others work on: for as long as a
        machine with much to do lets that one wait.
        """
        until = time.monotonic() + STOP_SECONDS_MAX
        for pid in self._signal(signal.SIGSTOP):
            while not _is_stopped(pid):
                if time.monotonic() > until:
                    raise ServerFailedError(f"{self.name} does not stop")
                time.sleep(0.002)

    def resume(self) -> None:
        """Let them go on."""
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """Kill it if it runs, and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        # Of one that has ended and was asked about, the number may be another process's by now.
        if process is None or process.poll() is not None:
            return
        pids = _family(process.pid)
        for pid in pids if number == signal.SIGKILL else [process.pid]:
            _send(pid, number)
            _send(pid, signal.SIGCONT)
        process.wait(STOP_SECONDS_MAX)
        until = time.monotonic() + STOP_SECONDS_MAX
        while any(_is_alive(pid) for pid in pids):
            if time.monotonic() > until:
                raise ServerFailedError(f"{self.name} did not end")
            time.sleep(0.01)

    def _signal(self, number: signal.Signals) -> list[int]:
        """Send this to all of its processes; gives which they are."""
        assert self._process is not None, "it was started"
        assert self.is_running, "its number is its own"
        pids = _family(self._process.pid)
        for pid in pids:
            _send(pid, number)
        return pids


def install(*packages: str) -> bool:
    """Install packages of Debian without starting any service; whether it could be tried."""
    if shutil.which("apt-get") is None or os.getuid() != 0:
        return False
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of the tests may want them at once
        is_ours = not _POLICY.exists()
        if is_ours:
            _POLICY.write_text("#!/bin/sh\nexit 101\n")
            _POLICY.chmod(0o755)
        try:
            _apt_get("update", "-qq")
            _apt_get("install", "-y", "-qq", "--no-install-recommends", *packages)
        finally:
            if is_ours:
                _POLICY.unlink()
    return True


def _apt_get(*arguments: str) -> None:
    subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=300", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdout=subprocess.DEVNULL,
        check=False,
    )


def has_user(name: str) -> bool:
    """Whether this machine knows the user."""
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_alive(pid: int) -> bool:
    """Whether it runs; what has ended and was not asked about by its parent yet does not."""
    return _state(Path(f"/proc/{pid}")) not in _ENDED


def _is_stopped(pid: int) -> bool:
    """Whether none of its threads runs."""
    return {_state(it) for it in Path(f"/proc/{pid}/task").glob("*")} <= {"T", "t", *_ENDED}


def _state(folder: Path) -> str:
    """What a process or thread is at, in a letter, as the system tells it; X if it is gone."""
    try:
        stat = (folder / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X"
    return stat.rpartition(")")[2].split()[0]


def _family(parent: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [parent]
    for pid in found:
        found += children.get(pid, [])
    return found
