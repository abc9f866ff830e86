"""
A cluster that answers from a table: what each admin port says to each request, and what was asked;
and a data directory written entry by entry.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog

from holdfast.admin.remote import Answer, RemoteNode
from holdfast.admin.status import MemberStatus, NodeStatus, QueueStatus, StoreStatus, as_json
from holdfast.cli.main import main
from holdfast.errors import LinkLostError
from holdfast.journal.entry import (
    FIRST_CHAIN,
    KIND_CONFIG,
    KIND_NOOP,
    KIND_RECORDS,
    seal_entry,
)
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, SegmentHeader, segment_name
from holdfast.model.records import AcknowledgeRecord, MessageRecord, QueueRecord, Record
from holdfast.store.record_codec import encode_records

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
        self.logins: list[str] = []
        self.takes_earlier: list[bool] = []
        self.private: list[bool] = []
        """Of each change whether it was sent as one with a secret in it."""
        self.set_status(A, LEADER)
        self.set_queues(A, QUEUES)

    def set_status(self, address: str, status: NodeStatus) -> None:
        self.answers[address, "/status"] = Answer(200, as_json(status))
        self.answers[address, "/holds"] = Answer(200, {"holds": []})

    def set_queues(self, address: str, queues: list[QueueStatus]) -> None:
        body = {"node": "a", "role": "leader", "queues": [as_json(queue) for queue in queues]}
        self.answers[address, "/queues"] = Answer(200, body)

    def say(self, path: str, body: dict[str, Any], *, address: str = A, status: int = 200) -> None:
        self.answers[address, path] = Answer(status, body)

    def send(
        self, node: RemoteNode, method: str, path: str, body: dict[str, Any] | None = None
    ) -> Answer:
        self.asked.append((node.address, method, path, body, node.secret))
        self.logins.append(node.login)
        self.takes_earlier.append(node.takes_earlier)
        if method != "GET":
            self.private.append(node.is_private)
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
    for name in (
        "HOLDFAST_ADMIN",
        "HOLDFAST_SECRET_FILE",
        "HOLDFAST_TOKEN_FILE",
        "HOLDFAST_CONFIG",
    ):
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


class PaperLog:
    """Builds a data directory entry by entry, as a node would have left it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.journal = directory / "journal"
        self.journal.mkdir(parents=True)
        self.index = 0
        self.term = 1
        self.record = 1
        self.chain = FIRST_CHAIN
        self.places: dict[int, tuple[Path, int]] = {}
        self._path: Path | None = None
        self._end = 0
        self.roll()

    def roll(self, capacity: int = 16_384) -> None:
        """Go on in a new segment."""
        header = SegmentHeader(self.index + 1, self.record, self.term, self.chain, capacity)
        self._path = self.journal / segment_name(self.index + 1)
        self._path.write_bytes(header.encode().ljust(capacity, b"\0"))
        self._end = SEGMENT_HEADER_BYTES

    def append(self, *records: Record, kind: int = KIND_RECORDS, body: bytes | None = None) -> int:
        """Add one entry; return its index."""
        entry = seal_entry(
            index=self.index + 1,
            term=self.term,
            kind=kind,
            timestamp=1_800_000_000_000_000 + self.index,
            first_record=self.record,
            record_count=len(records),
            parts=[body] if body is not None else encode_records(list(records)),
            previous_chain=self.chain,
        )
        self.index, self.chain, self.record = entry.index, entry.chain, entry.next_record
        self.places[entry.index] = (self._path, self._end)
        self.write(self._path, self._end, entry.raw)
        self._end += len(entry.raw)
        return entry.index

    def message(self, queue: int, sequence: int, body: bytes = b"hello") -> MessageRecord:
        headers = b"subject:a\\cb\ncontent-type:text/plain\n"
        return MessageRecord(queue, sequence, headers, body, len(headers) + len(body))

    def spoil(self, index: int, offset: int = 80) -> int:
        """Flip a bit of an entry; return the byte where the entry starts."""
        path, start = self.places[index]
        data = bytearray(path.read_bytes())
        data[start + offset] ^= 1
        path.write_bytes(data)
        return start

    def tear(self) -> int:
        """Leave half a write at the end; return where it starts."""
        entry = seal_entry(
            index=self.index + 1,
            term=self.term,
            kind=KIND_RECORDS,
            timestamp=1_900_000_000_000_000,
            first_record=self.record,
            record_count=1,
            parts=[b"x" * 4000],
            previous_chain=self.chain,
        )
        self.write(self._path, self._end, entry.raw[:1024])
        return self._end

    @staticmethod
    def write(path: Path, offset: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            file.write(data)


@pytest.fixture
def log(tmp_path: Path) -> PaperLog:
    """Two segments: two queues, five messages, an acknowledgement, two entries of the cluster."""
    log = PaperLog(tmp_path / "node")
    log.append(kind=KIND_NOOP)
    log.append(QueueRecord(1, "orders"), QueueRecord(2, "mail"))
    log.append(log.message(1, 1), log.message(2, 1, b"\xff\x00"), log.message(1, 2))
    log.roll()
    members = b'{"members":[{"name":"a","address":"h:1"}],"generation":1}'
    log.append(kind=KIND_CONFIG, body=members)
    log.append(log.message(1, 3), AcknowledgeRecord(1, [1, 2]))
    log.append(log.message(2, 2))
    return log
