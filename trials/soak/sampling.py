"""
What the kernel and the admin port say of every node, once a second.

Each node has a thread of its own, so that a paused one, which answers nothing, delays no other. A
node that is not there gives no sample; one that does not answer gives what the kernel knows.

`NodeSampler` reads only; it may run while the node is killed and started beside it.
"""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from holdfast.testing.local_cluster import LocalNode
from trials.soak.samples import NodeSample, Recorder

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_BLOCK_BYTES = 512
_ANSWER_SECONDS_MAX = 0.8


def rss_of(pid: int) -> int:
    """Give the resident bytes of a process."""
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * _PAGE_BYTES


def folder_usage(folder: Path) -> tuple[int, int]:
    """Give the bytes on disk and the number of files below a folder; what vanishes counts not."""
    size = count = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                # What the file system gave, which is not the length for what is preallocated.
                size += Path(place, name).lstat().st_blocks * _BLOCK_BYTES
                count += 1
    return size, count


def look_at_process(at: float, node: str, pid: int, data: Path) -> NodeSample:
    """
    Give what the kernel knows.

    Raises:
        OSError: There is no such process.
    """
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    fields = stat.rpartition(")")[2].split()
    disk_bytes, disk_files = folder_usage(data)
    return NodeSample(
        at=at,
        node=node,
        pid=pid,
        rss_bytes=rss_of(pid),
        fds=sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
        threads=int(fields[17]),
        cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND,
        disk_bytes=disk_bytes,
        disk_files=disk_files,
    )


def add_status(
    sample: NodeSample, status: dict[str, Any], queues: list[dict[str, Any]]
) -> NodeSample:
    """Add what the admin port said."""
    store = status["store"]
    return replace(
        sample,
        role=status["role"],
        term=status["term"],
        connections=status["connections"],
        depth=sum(queue["messages"] for queue in queues),
        live_messages=store["live_messages"],
        first_index=store["first_index"],
        last_index=store["last_index"],
        commit_index=status["commit_index"],
        segments=store["segments"],
        memory_bytes=status["memory"]["used_bytes"],
    )


class NodeSampler:
    """Samples of one node, in a thread."""

    def __init__(
        self, node: LocalNode, recorder: Recorder, clock: Callable[[], float], seconds: float
    ) -> None:
        self.node = node
        self.recorder = recorder
        self.clock = clock
        self.seconds = seconds
        self.latest: NodeSample | None = None
        self.count = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"samples {node.name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(5)

    def take(self) -> NodeSample | None:
        """Give a sample of now; None if the process is not there."""
        node = self.node
        if not node.is_running:
            return None
        try:
            sample = look_at_process(round(self.clock(), 3), node.name, node.pid, node.data)
        except (OSError, IndexError):
            return None  # it ended meanwhile
        with suppress(OSError, ValueError, KeyError):
            status = _get(f"http://{node.admin}/status")
            queues = _get(f"http://{node.admin}/queues")["queues"]
            sample = add_status(sample, status, queues)
        return sample

    def _run(self) -> None:
        next_at = time.monotonic()
        while not self._stopping.is_set():
            sample = self.take()
            if sample is not None and sample.pid == self.node.pid:
                self.latest = sample
                self.count += 1
                self.recorder.note(sample)
            next_at = max(next_at + self.seconds, time.monotonic())
            self._stopping.wait(next_at - time.monotonic())


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=_ANSWER_SECONDS_MAX) as answer:  # noqa: S310 - http
        return json.loads(answer.read())


def tracebacks(nodes: Sequence[LocalNode]) -> list[str]:
    """Name the nodes that logged an exception, with the first lines of it."""
    found = []
    for node in nodes:
        if not node.log_path.exists():
            continue
        text = node.log_path.read_text(encoding="utf-8", errors="replace")
        count = text.count("Traceback")
        if count:
            lines = text[text.index("Traceback") :].splitlines()[:40]
            found.append(f"node {node.name} logged {count} exceptions, the first: {lines[-1]}")
    return found
