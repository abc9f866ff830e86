"""Replicas to be audited, written to a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.model.records import QueueRecord
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.replica_proof import Replica
from trials.pipeline.written_log import WrittenLog, message


@pytest.fixture
def written() -> Callable[..., Replica]:
    """Writes the log of a replica, one message an entry."""
    return _written


def _written(place: Path, name: str, *bodies: bytes, segment_bytes: int = 65_536) -> Replica:
    with WrittenLog(place / name, segment_bytes=segment_bytes) as log:
        log.put(QueueRecord(1, "q"))
        for sequence, body in enumerate(bodies, 1):
            log.put(message(1, sequence, body))
    return Replica(name, LogDirectory(str(place / name)))
