"""
What ends with the process that started it, and what does not.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from holdfast.testing.guardian import Guardian, end_with_us, guard

SLEEPER = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEPER) as process:
        yield process
        process.kill()


def test_what_is_held_is_killed_when_the_pipe_is_closed(sleeper: subprocess.Popen[bytes]) -> None:
    """
    One that is not held lives on; an id that nobody has any more is passed over.
    """
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", ""]) as ended:
        pass
    with subprocess.Popen(SLEEPER) as held:
        source, end = os.pipe()
        os.write(end, b"%d\n%d\n" % (ended.pid, held.pid))
        os.close(end)
        guard(source)
        os.close(source)
        assert held.wait(60) == -signal.SIGKILL
    assert sleeper.poll() is None


def test_what_ended_by_itself_is_let_go(sleeper: subprocess.Popen[bytes]) -> None:
    """
    Its number may be another's by then; the guardian goes on with the others.
    """
    source, end = os.pipe()
    watching = threading.Thread(target=guard, args=(source,))
    watching.start()
    with subprocess.Popen(SLEEPER) as other:
        os.write(end, b"%d\n" % other.pid)
        other.kill()
    os.write(end, b"%d\n" % sleeper.pid)
    os.close(end)
    watching.join(60)
    os.close(source)
    assert sleeper.wait(60) == -signal.SIGKILL


def test_a_guardian_that_was_ended_is_replaced(sleeper: subprocess.Popen[bytes]) -> None:
    """
    Whoever ends it ends no test.
    """
    guardian = Guardian()
    guardian.process.kill()
    guardian.process.wait()
    assert not guardian.is_ours
    guardian.watch(sleeper.pid)
    assert guardian.process.stdin is not None
    with pytest.raises(BrokenPipeError):
        guardian.process.stdin.close()
    end_with_us(sleeper.pid)
    assert sleeper.poll() is None
