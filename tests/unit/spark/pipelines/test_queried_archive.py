"""What Spark leaves behind when it packed what lives; what it finds is tested on Spark."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from holdfast.errors import WorkerLostError
from holdfast.spark.archive.places import Place
from holdfast.spark.pipelines import queried_archive
from holdfast.spark.pipelines.queried_archive import QueriedArchive


def test_of_what_workers_packed_nothing_stays_where_one_of_them_died(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And Spark forgets the records that it kept for the next question."""
    records, living = MagicMock(), MagicMock()
    monkeypatch.setattr(queried_archive, "archived_records", lambda *_: MagicMock())
    monkeypatch.setattr(queried_archive, "without_content", lambda _: records)
    monkeypatch.setattr(queried_archive, "live", lambda _: living)
    monkeypatch.setattr(queried_archive, "with_contents", lambda found, _: found)
    scratch = Place(str(tmp_path / "scratch"))

    def die(*_: Any) -> list[str]:
        with scratch.write_durable("half.bodies") as out:
            out.write(b"x")
        raise WorkerLostError("a worker died")

    monkeypatch.setattr(queried_archive, "pack_files", die)
    source: Any = MagicMock()
    spark: Any = None
    with pytest.raises(WorkerLostError), QueriedArchive(spark, source, [], 1) as queried:
        list(queried.packed(scratch, "c"))

    assert not (tmp_path / "scratch").exists()
    records.cache().unpersist.assert_called_once_with()
    assert living.cache().unpersist.called
    assert living.cache().cache().unpersist.called
