"""
What an audit finds: differences with their places, as rows for people and programs.

Pure values; Arrow and JSON are made of them when a report is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.errors import ConfigError
from holdfast.spark.archive.places import Options, Place

FINDINGS_MAX: Final = 1000
"""Findings of one kind that are listed; how many there are in all is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One difference; numbers that do not apply are 0, texts empty."""

    where: str
    """The replica or archive."""
    kind: str
    """damaged, missing, diverged, edited, unreadable, archive-gap, sequence, producer, message,
    account or served"""
    reason: str
    place: str = ""
    """The segment or data file."""
    byte: int = 0
    first_index: int = 0
    last_index: int = 0
    queue: str = ""
    sequence: int = 0
    producer: str = ""

    def __str__(self) -> str:
        where = self.where
        if self.place:
            where += f", {self.place}"
        if self.byte:
            where += f" byte {self.byte:,}"
        if self.first_index:
            last = f" to {self.last_index:,}" if self.last_index > self.first_index else ""
            where += f", entry {self.first_index:,}{last}"
        return f"{where}: {self.reason}"


def write_findings(findings: Iterable[Finding], path: str, options: Options = ()) -> None:
    """
    Write findings to a file: JSON lines if its name ends in .json, else Parquet.

    Raises:
        ConfigError: The path names no file that can be written.
    """
    rows = [asdict(each) for each in findings]
    folder, _, name = path.rpartition("/")
    if not name:
        raise ConfigError([f"report: {path} names no file"])
    place = Place(folder or ("/" if path.startswith("/") else "."), options)
    if name.endswith(".json"):
        place.publish(name, "".join(json.dumps(row) + "\n" for row in rows).encode())
        return
    columns = [
        pa.field(each.name, pa.int64() if each.type == "int" else pa.string())
        for each in fields(Finding)
    ]
    out = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(columns)), out)
    place.publish(name, out.getvalue().to_pybytes())
