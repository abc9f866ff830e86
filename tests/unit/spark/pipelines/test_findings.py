"""Findings as sentences and as rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.errors import ConfigError
from holdfast.spark.archive.places import Place
from holdfast.spark.pipelines.findings import Finding, write_findings

FOUND = Finding(
    where="node b",
    kind="damaged",
    reason="the body checksum is wrong",
    place="00000000000000000001.segment",
    byte=4096,
    first_index=7,
    last_index=9,
)


def test_a_finding_is_a_sentence_with_its_place() -> None:
    """
    Replica, file, byte and entries stand before the reason.
    """
    assert (
        "node b, 00000000000000000001.segment byte 4,096, entry 7 to 9: the body checksum is wrong"
        == str(FOUND)
    )
    assert "x: gone" == str(Finding(where="x", kind="missing", reason="gone"))


def test_findings_are_written_as_rows(tmp_path: Path) -> None:
    """
    JSON lines and Parquet hold the same.
    """
    for name in ("out.json", "out.parquet"):
        write_findings([FOUND, FOUND], str(tmp_path / name))

    lines = [json.loads(line) for line in (tmp_path / "out.json").read_text().splitlines()]
    assert lines == pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert 2 == len(lines)


def test_a_report_may_stand_at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    That is not the folder where one happens to be.
    """
    places: list[str] = []
    monkeypatch.setattr(Place, "publish", lambda self, *_: places.append(self.uri))
    for path in ("/out.json", "out.json"):
        write_findings([], path)

    assert ["/", "."] == places


def test_no_findings_are_written_too(tmp_path: Path) -> None:
    """
    An empty report says that nothing was found, not that nothing ran.
    """
    write_findings([], str(tmp_path / "out.parquet"))

    assert 0 == pq.read_table(tmp_path / "out.parquet").num_rows


def test_a_folder_is_no_report() -> None:
    """
    The path must name a file.
    """
    with pytest.raises(ConfigError, match="names no file"):
        write_findings([], "somewhere/")
