"""
Long work of an operator's command, which is killed in the middle and run again, as are leaders.

The command asks one node that does not lead for one step after the other; what was not answered is
found out by the next run of it.

Invariants:
    Of what brokers and the command say only when to kill is taken: what came of it is for who
    calls to count.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.promises.evidence import REPOSITORY

SECONDS_MAX = 1800.0
"""For one answer, or one step of a trial."""

Say = Callable[[str], None]


def depth(node: LocalNode, queue: str) -> int:
    """How many messages stand on a queue, as a node tells it."""
    found = {it["name"]: it["messages"] for it in node.get("/queues")["queues"]}
    return int(found.get(queue, 0))


@dataclass(slots=True, kw_only=True)
class LongWork:
    """
    A command of `holdfast` that does something to so many messages.

    `done` tells how many it was done to, as a node says; `what` names that in a line.
    """

    cluster: LocalCluster
    words: Sequence[str]
    done: Callable[[LocalNode], int]
    what: str
    count: int
    at_kills: list[int] = field(default_factory=list)
    """To how many it was done when the command, or a leader, was killed."""
    seconds: float = 0.0
    """From the first command to the end of the last one."""

    @property
    def was_amid(self) -> bool:
        """Whether all were killed before it was done to the last one: else it shows nothing."""
        return max(self.at_kills, default=self.count) < self.count

    def run(self, kills: int, say: Say) -> dict[str, Any]:
        """
        Do it, and kill the command once and so many leaders meanwhile; give what it told.

        Raises:
            LocalNodeError: A node did not come back.
            AssertionError: The command ended with an error.
        """
        asked = next(it for it in self.cluster.nodes.values() if it is not self.cluster.leader())
        began = time.monotonic()
        command = self._begin(asked)
        try:
            for number in range(kills + 1):
                leader = self.cluster.leader()
                # In the first half, so that nothing ends while somebody is about to be killed.
                self._await(leader, self.count * (number + 1) // (2 * (kills + 2)))
                if number:
                    say(f"leader {leader.name} is killed: {self.at_kills[-1]:,} {self.what}")
                    self._kill(leader)
                    continue
                say(f"the command is killed: {self.at_kills[-1]:,} {self.what}")
                command.kill()
                command.communicate()
                command = self._begin(asked)
            told, _ = command.communicate(timeout=SECONDS_MAX)
            assert command.returncode == 0, told
        finally:
            command.kill()
            command.wait()
        self.seconds = time.monotonic() - began
        answer: dict[str, Any] = json.loads(told)
        return answer

    def _begin(self, node: LocalNode) -> subprocess.Popen[str]:
        options = ["--admin", node.admin, "--secret-file", str(self.cluster.secret_path), "--json"]
        command = [sys.executable, "-m", "holdfast", *self.words, *options]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ours

    def _await(self, leader: LocalNode, least: int) -> None:
        leader.wait_until(
            lambda _: self.done(leader) >= least, f"so far: {least:,} {self.what}", SECONDS_MAX
        )
        self.at_kills.append(self.done(leader))

    def _kill(self, leader: LocalNode) -> None:
        leader.kill()
        self.cluster.leader(but=leader)
        leader.start()
        leader.wait_until(lambda status: status["leader"] is not None, "back")


class Outcome(Protocol):
    """What came of a trial; its words tell it in a line."""

    work: LongWork

    @property
    def is_good(self) -> bool:
        """Whether all is as it should be."""


def run_trial(
    name: str,
    what: str,
    run: Callable[[Path, int, int, Say], Outcome],
    arguments: Sequence[str] | None,
) -> int:
    """
    Run a trial in a folder of its own under var/, as the command line says.

    The exit code is 1 if something is amiss, or nothing was killed before the end.
    """
    parser = argparse.ArgumentParser(prog=f"python -m trials.{name}")
    parser.add_argument("--count", type=int, default=1_000_000, help=what)
    parser.add_argument("--kills", type=int, default=2, help="how many leaders are killed")
    chosen = parser.parse_args(arguments)
    place = REPOSITORY / "var"
    place.mkdir(exist_ok=True)

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=place) as folder:
        outcome = run(Path(folder), chosen.count, chosen.kills, say)
    say(str(outcome))
    return 0 if outcome.is_good and outcome.work.was_amid else 1
