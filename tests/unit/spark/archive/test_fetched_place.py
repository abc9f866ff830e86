"""A place whose files are fetched once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.spark.archive import fetched_place, places
from holdfast.spark.archive.fetched_place import FetchedPlace, fetched
from holdfast.spark.archive.places import Place


def test_what_was_opened_once_is_read_as_it_was(tmp_path: Path) -> None:
    """
    What is compared, and what is read afterwards, are the same bytes.
    """
    near = FetchedPlace(str(tmp_path))
    near.publish("a/one", b"1")
    assert b"1" == near.read("a/one")
    (tmp_path / "a" / "one").unlink()

    assert b"1" == near.read("a/one")
    assert near.has("a/one")
    assert not near.has("a/two")
    with pytest.raises(FileNotFoundError):
        near.open_input("a/two")


def test_it_holds_no_more_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A file beyond that is read from where it lies.
    """
    monkeypatch.setattr(fetched_place, "FETCHED_BYTES_MAX", 3)
    near = FetchedPlace(str(tmp_path))
    for name in ("one", "two"):
        near.publish(f"a/{name}", b"22")
        assert b"22" == near.read(f"a/{name}")
    assert ["a/one"] == list(near.fetched)


def test_nothing_keeps_what_was_fetched(tmp_path: Path) -> None:
    """
    The file systems that a process has opened are kept, and with them no place that used one.
    """
    near = FetchedPlace(str(tmp_path))
    near.publish("a/one", b"1")
    near.read("a/one")
    again = FetchedPlace(str(tmp_path))
    places._opened_at.cache_clear()
    again.has("a/one")
    FetchedPlace(str(tmp_path)).has("a/one")

    assert 1 == places._opened_at.cache_info().hits
    assert {} == again.fetched


def test_files_of_this_machine_are_near_already(tmp_path: Path) -> None:
    """
    Only what takes a request is fetched.
    """
    assert isinstance(fetched(Place("s3a://b/x")), FetchedPlace)
    assert Place(str(tmp_path)) == fetched(Place(str(tmp_path)))
