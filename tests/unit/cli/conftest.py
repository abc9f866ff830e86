"""
A cluster that answers from a table: what each admin port says to each request, and what was asked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import structlog

from holdfast.admin.remote import Answer, RemoteNode
from holdfast.admin.status import MemberStatus, NodeStatus, QueueStatus, StoreStatus, as_json
from holdfast.cli.main import main
from holdfast.errors import LinkLostError

A, B, C = "127.0.0.1:8161", "127.0.0.1:8162", "127.0.0.1:8163"
MEMBERS = (
    MemberStatus(name="a", address="h:1", connected=True, admin=A, lag_entries=0),
    MemberStatus(
        name="b",
        address="h:2",
        admin=B,
        connected=True,
        site="north",
        lag_entries=1234,
        lag_bytes=5 * 1024 * 1024,
        lag_seconds=0.25,
    ),
    MemberStatus(name="c", address="h:3", kind="witness", admin=C),
)
LEADER = NodeStatus(
    name="a",
    role="leader",
    leader="a",
    serving=True,
    term=7,
    commit_index=1000,
    members=MEMBERS,
    store=StoreStatus(bytes_on_disk=2048, segments=3, live_messages=5, last_index=1001),
)
QUEUES = [
    QueueStatus(name="mail", messages=5, unacknowledged=2, consumers=1, bytes=2048, enqueued=10)
]


class PaperCluster:
    """Admin ports by address; one that is not in the table is closed."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], Answer] = {}
        self.asked: list[tuple[str, str, str, dict[str, Any] | None, bytes]] = []
        self.set_status(A, LEADER)
        self.set_queues(A, QUEUES)

    def set_status(self, address: str, status: NodeStatus) -> None:
        self.answers[address, "/status"] = Answer(200, as_json(status))

    def set_queues(self, address: str, queues: list[QueueStatus]) -> None:
        body = {"node": "a", "role": "leader", "queues": [as_json(queue) for queue in queues]}
        self.answers[address, "/queues"] = Answer(200, body)

    def say(self, path: str, body: dict[str, Any], *, address: str = A, status: int = 200) -> None:
        self.answers[address, path] = Answer(status, body)

    def send(
        self, node: RemoteNode, method: str, path: str, body: dict[str, Any] | None = None
    ) -> Answer:
        self.asked.append((node.address, method, path, body, node.secret))
        try:
            return self.answers[node.address, path]
        except KeyError:
            raise LinkLostError(f"no answer from the admin port {node.address}") from None

    @property
    def changes(self) -> list[tuple[str, str, str, dict[str, Any] | None]]:
        return [question[:4] for question in self.asked if question[1] != "GET"]

    def lose_leader(self) -> None:
        """The leader dies; b is a candidate."""
        del self.answers[A, "/status"]
        voters = tuple(replace(member, kind="voter") for member in MEMBERS)
        self.set_status(
            B,
            replace(LEADER, name="b", role="candidate", leader=None, members=voters),
        )


class Run:
    """Runs `holdfast` with arguments; keeps what it wrote."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: str) -> int:
        try:
            code = main(list(arguments))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        captured = self._capsys.readouterr()
        self.out, self.err = captured.out, captured.err
        return code


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PaperCluster:
    paper = PaperCluster()

    def send(node: RemoteNode, *question: Any) -> Answer:
        return paper.send(node, *question)

    monkeypatch.setattr(RemoteNode, "send", send)
    return paper


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("HOLDFAST_ADMIN", "HOLDFAST_SECRET_FILE", "HOLDFAST_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return Run(capsys)


@pytest.fixture
def quiet_logging():
    """Whatever a test sets up for logs is undone after it."""
    import logging

    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()
