"""
What a long archive costs whoever opens it: reading the manifests, with and without a snapshot.

Manifests as the archiver writes them, of sixteen files each, on a local disk; every figure is one
run. The last column says what one more manifest costs, by the slope between the last two lines.

Run: .venv/bin/python benches/manifests.py [--counts 100,1000,10000]
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from machine import print_heading
from rich.console import Console
from rich.table import Table

from holdfast.spark.archive.manifest_snapshot import SNAPSHOT_NAME
from holdfast.spark.archive.manifests import ArchivedFile, Manifest, encode_manifest
from holdfast.spark.archive.store import MANIFESTS, Archive

_FILES = 16
_ENTRIES = 1000
"""Of a file: a segment of 64 MiB of such."""


def manifest(number: int) -> Manifest:
    """The range with this number, the first with 0."""
    span = _FILES * _ENTRIES
    first = span * number + 1
    files = tuple(_file(first + place * _ENTRIES) for place in range(_FILES))
    return Manifest(
        cluster_id="c" * 32,
        first_index=first,
        last_index=first + span - 1,
        chain_before=f"{first - 1:032x}",
        chain_after=f"{first + span - 1:032x}",
        last_term=1,
        first_record=first,
        next_record=first + span,
        first_timestamp=first,
        last_timestamp=first + span,
        messages=span,
        log_bytes=_FILES << 26,
        files=files,
        queues={1: "orders"} if not number else {},
    )


def _file(first: int) -> ArchivedFile:
    last = first + _ENTRIES - 1
    return ArchivedFile(
        path=f"records/day=2026-11-23/{first:020d}-{last:020d}-0123456789abcdef.parquet",
        day="2026-11-23",
        first_index=first,
        last_index=last,
        rows=_ENTRIES,
        messages=_ENTRIES,
        bytes=1 << 26,
        digest="d" * 32,
        chain_before=f"{first - 1:032x}",
        chain_after=f"{last:032x}",
    )


def seconds(work: Callable[[], object]) -> float:
    """How long it took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(archive: Archive, directory: Path, begin: int, count: int) -> list[float]:
    """Let the archive have so many manifests, and open it in each way."""
    (directory / MANIFESTS).mkdir(exist_ok=True)
    for number in range(begin, count):
        made = manifest(number)
        (directory / MANIFESTS / made.name).write_bytes(encode_manifest(made))
    snapshot = directory / MANIFESTS / SNAPSHOT_NAME
    snapshot.unlink(missing_ok=True)
    each = seconds(archive.catalogue)
    writing = seconds(archive.renew_snapshot)
    opened = seconds(archive.catalogue)
    end = seconds(archive.end)
    catalogue = archive.catalogue()
    size = snapshot.stat().st_size / 1e6
    return [each, writing, opened, end, size, len(pickle.dumps(catalogue)) / 1e6]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--counts", default="100,1000,10000")
    counts = [int(each) for each in parser.parse_args().counts.split(",")]
    names = ["each read s", "snapshot written s", "by snapshot s", "end s", "snapshot MB", "MB"]
    table = Table("manifests", *names)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        print_heading(directory, files=_FILES)
        archive, rows = Archive.open(place), []
        for before, count in zip([0, *counts], counts, strict=False):
            rows.append(measure(archive, directory, before, count))
            table.add_row(f"{count:,}", *(f"{it:,.3f}" for it in rows[-1]))
        if len(rows) > 1:
            span = counts[-1] - counts[-2]
            slopes = [(new - old) / span for new, old in zip(rows[-1], rows[-2], strict=True)]
            table.add_row("one more", *(f"{it:.6f}" for it in slopes))
    Console().print(table)


if __name__ == "__main__":
    main()
