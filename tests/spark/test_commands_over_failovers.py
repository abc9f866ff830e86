"""
`holdfast report` and `holdfast replay` whose cluster loses its leader at each kind of question.

The whole command with Spark: what it asks itself, what Spark asks to plan, and what a task reads. A
node that lives tells all of it, so the command ends well, and the account is exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from holdfast.client import blocking
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.pipeline.asked_nodes import AskedNodes
from trials.pipeline.at_request import AtRequest
from trials.pipeline.command_line import run
from trials.pipeline.filled_cluster import filled_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

QUEUE: Final = "orders"
SENT: Final = [b"%d" % number * 50 for number in range(60)]


class AtEachQuestion(AtRequest):
    """
    Kills the leader before each kind of question, and again where it comes behind another kind.

    Who was killed before is started then: two of three are always there, and one is gone.
    """

    def __init__(self, nodes: LocalCluster) -> None:
        super().__init__()
        self._nodes = nodes
        self._dead: LocalNode | None = None
        self._struck: set[tuple[str, ...]] = set()

    @property
    def struck(self) -> set[str]:
        """Before which questions a leader died."""
        return {each[-1] for each in self._struck}

    def note(self, method: str, path: str) -> None:
        """Take note of a request that is about to be sent."""
        super().note(method, path)
        step = tuple(self.asked[-2:])
        if len({*step}) == len(step) and step not in self._struck:
            self._struck.add(step)
            self.revive()
            self._dead = self._nodes.leader()
            self._dead.kill()

    def revive(self) -> None:
        """Start who is dead, and let it take part again."""
        if self._dead is not None:
            self._dead.start()
            self._nodes.wait_level()
            self._dead = None


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that this module may hurt."""
    with filled_cluster(tmp_path_factory.mktemp("failovers"), QUEUE, SENT) as cluster:
        yield cluster


def over_failovers(nodes: LocalCluster, *command: str) -> dict[str, Any]:
    """Run a command, with a leader that dies at each question; gives its JSON."""
    at = AtEachQuestion(nodes)
    with AskedNodes(nodes.nodes.values(), at) as asked:
        ended = run([*command, "--url", asked.url, "--json", *secret(nodes)])
    at.revive()
    assert ended.code == 0, ended.err
    assert {"GET /log/position", "POST /holds/NAME", "GET /queues", "GET /log"} <= at.struck
    found: dict[str, Any] = json.loads(ended.out)
    return found


def secret(nodes: LocalCluster) -> list[str]:
    return ["--secret-file", str(nodes.secret_path)]


@pytest.mark.usefixtures("spark")
def test_a_report_counts_every_message_once(nodes: LocalCluster) -> None:
    """Whoever is asked how far the log goes, to hold it, for names, or to read."""
    found = over_failovers(nodes, "report")
    rows = {it["destination"]: it for it in found["destinations"]}
    assert (rows[QUEUE]["stored"], rows[QUEUE]["backlog"]) == (len(SENT), len(SENT))
    assert found["source"]["is_complete"]


@pytest.mark.usefixtures("spark")
def test_a_replay_stores_every_message_once(nodes: LocalCluster) -> None:
    """What it reads and where it sends is the same cluster; run again it stores nothing more."""
    command = ["replay", "/queue/again", "--destination", QUEUE, "--uri", nodes.uri]
    assert over_failovers(nodes, *command)["confirmed"] == len(SENT)
    url = ",".join(f"http://{node.admin}" for node in nodes.nodes.values())
    again = run([*command, "--url", url, "--json", *secret(nodes)])
    assert json.loads(again.out)["confirmed"] == len(SENT)
    found: list[bytes] = []
    with blocking.connect(nodes.uri) as connection, connection.subscribe("/queue/again") as taken:
        while each := taken.receive(10 if len(found) < len(SENT) else 0.3):
            found.append(each.body)
            each.acknowledge()
    assert found == SENT
