"""
The record of a soak: JSON lines, written as it runs, read back for the report.

Each line has a `kind` (run, node, clients, fault, account, problem, end) and `at`, seconds since
the run began. A line that was cut off by a kill is left out when reading; a field that could not be
measured is null.

`Recorder` may be used by several threads at once.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Self, TextIO, TypeVar

FILE_NAME = "samples.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSample:
    """One node at one moment: what the kernel says of its process, and what it says of itself."""

    at: float
    node: str
    pid: int
    rss_bytes: int
    fds: int
    threads: int
    cpu_seconds: float
    disk_bytes: int
    disk_files: int
    role: str | None = None
    """None when the admin port did not answer: paused, starting or stopping."""

    term: int | None = None
    connections: int | None = None
    depth: int | None = None
    """Messages in all queues of this node."""

    live_messages: int | None = None
    first_index: int | None = None
    last_index: int | None = None
    commit_index: int | None = None
    segments: int | None = None
    memory_bytes: int | None = None

    @property
    def entries(self) -> int | None:
        """Entries kept in the log."""
        if self.last_index is None or self.first_index is None:
            return None
        return self.last_index - self.first_index + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSample:
    """All clients together since the sample before."""

    at: float
    seconds: float
    confirms: int
    deliveries: int
    p50_ms: float | None = None
    """From handing a message to the socket to its receipt."""

    p99_ms: float | None = None
    gap_ms: float = 0.0
    """The longest time without any receipt that ended, or still lasts, in this sample."""

    due: int = 0
    rss_bytes: int = 0
    """Of the soak itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultMark:
    """A fault, and how long it was felt."""

    at: float
    fault: str
    node: str
    seconds: float = 0.0
    """Until the cluster was whole and level again."""

    gap_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """The books of one kind of traffic; a strict kind may have no fault at all."""

    at: float
    name: str
    is_strict: bool
    sent: int = 0
    confirmed: int = 0
    delivered: int = 0
    lost: int = 0
    unflagged: int = 0
    twice: int = 0
    """Stored under more than one id, or delivered again after it was settled."""

    unexpected: int = 0
    reordered: int = 0
    redelivered: int = 0
    errors: tuple[str, ...] = ()

    @property
    def faults(self) -> list[str]:
        """What is wrong, in words."""
        if not self.is_strict:
            names: tuple[str, ...] = ("unexpected",)
        else:
            names = ("lost", "unflagged", "twice", "unexpected", "reordered")
        found = [f"{getattr(self, name):,} {name}" for name in names if getattr(self, name)]
        if self.errors:
            found.append(f"{len(self.errors)} errors, the first: {self.errors[0]}")
        return found


@dataclass(slots=True)
class Record:
    """All that a run wrote."""

    run: dict[str, Any] = field(default_factory=dict)
    nodes: list[NodeSample] = field(default_factory=list)
    clients: list[ClientSample] = field(default_factory=list)
    faults: list[FaultMark] = field(default_factory=list)
    accounts: list[AccountRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    end: dict[str, Any] = field(default_factory=dict)
    """Empty if the run was killed before its end."""

    @property
    def node_names(self) -> list[str]:
        """The nodes that gave samples, in order."""
        return sorted({sample.node for sample in self.nodes})

    @property
    def seconds(self) -> float:
        """How long the run lasted, as far as it was sampled."""
        of_nodes = max((sample.at for sample in self.nodes), default=0.0)
        return max(of_nodes, max((sample.at for sample in self.clients), default=0.0))

    def of_node(self, name: str) -> list[NodeSample]:
        """Give the samples of one node, in the order of time."""
        return sorted((each for each in self.nodes if each.node == name), key=lambda s: s.at)


_KINDS = {"node": NodeSample, "clients": ClientSample, "fault": FaultMark, "account": AccountRow}
_Line = NodeSample | ClientSample | FaultMark | AccountRow


class Recorder:
    """Appends lines to the record of a run; use as a context manager."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE_NAME
        self._lock = threading.Lock()
        self._file: TextIO = self.path.open("a", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._file.close()

    def note(self, line: _Line) -> None:
        """Write a sample, a mark or an account."""
        kind = next(name for name, known in _KINDS.items() if type(line) is known)
        self.write(kind, asdict(line))

    def write(self, kind: str, values: Mapping[str, Any]) -> None:
        """Write a line of another kind."""
        text = json.dumps({"kind": kind, **values}, separators=(",", ":"))
        with self._lock:
            if not self._file.closed:
                self._file.write(text + "\n")
                self._file.flush()


def read_record(folder: Path) -> Record:
    """
    Read what a run wrote, also one that was killed.

    Raises:
        FileNotFoundError: There is no record in this folder.
    """
    record = Record()
    for kind, values in _lines(folder / FILE_NAME):
        if kind == "run":
            record.run = values
        elif kind == "end":
            record.end = values
        elif kind == "problem":
            record.problems.append(str(values["text"]))
        elif kind == "node":
            record.nodes.append(_build(NodeSample, values))
        elif kind == "clients":
            record.clients.append(_build(ClientSample, values))
        elif kind == "fault":
            record.faults.append(_build(FaultMark, values))
        elif kind == "account":
            record.accounts.append(_build(AccountRow, values))
    return record


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return  # cut off by a kill
            values = json.loads(line)
            yield values.pop("kind"), values


_T = TypeVar("_T", NodeSample, ClientSample, FaultMark, AccountRow)


def _build(kind: type[_T], values: dict[str, Any]) -> _T:
    known = {each.name for each in fields(kind)}
    found = {name: value for name, value in values.items() if name in known}
    if "errors" in found:
        found["errors"] = tuple(found["errors"])
    return kind(**found)
