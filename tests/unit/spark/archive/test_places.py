"""Places: local folders under every spelling, and what is handed on to object stores."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.errors import ConfigError
from holdfast.spark.archive import places
from holdfast.spark.archive.places import (
    DurableFile,
    Place,
    absolute,
    hadoop_options,
    s3_arguments,
)
from holdfast.spark.archive.store import Archive
from holdfast.spark.source.options import read_options


@pytest.mark.parametrize("spelling", ["{}", "file://{}", "{}/"])
def test_write_publish_list_read_remove(tmp_path: Path, spelling: str) -> None:
    """
    A folder is the same under a plain path and a URI, and made as needed.
    """
    place = Place(spelling.format(tmp_path / "x"))
    with place.write_durable("deep/down/one") as out:
        out.write(b"1")
    place.publish("deep/two", b"2")
    place.publish("deep/two", b"22")

    found = [(each.path, each.size) for each in place.files("deep")]

    assert [("deep/down/one", 1), ("deep/two", 2)] == found
    assert b"22" == place.read("deep/two")
    place.move("deep/two", "other/folder/two")
    place.move("deep/none", "other/folder/two")
    assert b"22" == place.read("other/folder/two")
    there = [place.has(path) for path in ("other/folder/two", "deep/two", "other/folder")]
    assert [True, False, False] == there
    place.remove("other/folder/two")
    place.remove("other/folder/two")
    with pytest.raises(FileNotFoundError):
        place.read("deep/two")


def test_a_folder_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    """
    And nothing else; that it is gone already is fine.
    """
    (tmp_path / "stays").touch()
    place = Place(str(tmp_path / "x"))
    for _ in range(2):
        place.remove_all()
        place.publish("deep/two", b"2")
    place.remove_all()
    place.remove_all()
    assert [each.name for each in tmp_path.iterdir()] == ["stays"]


def test_a_path_means_the_same_in_a_worker_that_stands_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Executors on a cluster of Spark's have folders of their own to stand in.
    """
    monkeypatch.chdir(tmp_path)
    archive = Archive.open("store")
    options = read_options({"path": "log"})
    (tmp_path / "worker").mkdir()
    monkeypatch.chdir(tmp_path / "worker")
    archive.place.publish("x", b"1")
    assert (tmp_path / "store" / "x").read_bytes() == b"1"
    assert options.path == str(tmp_path / "log")
    assert absolute("file:///a/b") == "/a/b"
    assert absolute("s3a://bucket/a") == "s3a://bucket/a"


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    """
    An archive begins with nothing.
    """
    assert [] == list(Place(str(tmp_path / "none")).files("_holdfast"))


@pytest.mark.parametrize("name", ["a b", "a%20b", "a?b", "a#b", "a=b", "päth-日本", "file:x"])
def test_a_path_is_taken_to_the_letter(name: str, tmp_path: Path) -> None:
    """
    No character ends it: two archives must never be one because of what a URL means by it.
    """
    for spelling in (f"{tmp_path}/{name}", f"file://{tmp_path}/{name}", f"file:{tmp_path}/{name}"):
        Place(spelling).publish("a", spelling.encode())
        assert spelling.encode() == (tmp_path / name / "a").read_bytes()
        assert f"{tmp_path}/{name}" == absolute(spelling) == str(Place(spelling).local_folder)
    assert f"bucket/{name}" == Place(f"s3a://bucket/{name}/").bucket_and_key


def test_a_file_that_is_not_given_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of a thousand manifests a person wants to know which one the disk does not give.
    """
    place = Place(str(tmp_path))
    place.publish("a/one", b"1")

    def bad(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Place, "open_input", bad)
    with pytest.raises(OSError, match=r"a/one cannot be read: .*Input/output error"):
        place.read("a/one")


def test_an_unknown_scheme_is_refused() -> None:
    """
    The sentence says what works.
    """
    with pytest.raises(ConfigError, match="s3a://"):
        Place("ftp://x/y").read("z")


def test_hadoops_settings_are_handed_on() -> None:
    """
    An object store is reached with the keys and the endpoint that Spark was given.
    """
    given = {
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": "s",
        "fs.s3a.endpoint": "http://127.0.0.1:9000",
    }
    settings = SimpleNamespace(get=given.get)
    spark = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: settings))

    found = s3_arguments(dict(hadoop_options(spark)))

    assert {
        "access_key": "k",
        "secret_key": "s",
        "endpoint_override": "127.0.0.1:9000",
        "scheme": "http",
    } == found
    assert () == hadoop_options(object())


def test_each_new_folder_is_durable_with_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    After a power cut the first file of a day is there, not only by the name of its folder.
    """
    synced, sync = set(), os.fsync

    def noted(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    place = Place(str(tmp_path / "new" / "to"))
    with place.write_durable("records/day=1/file") as out:
        out.write(b"1")
    place.publish("_holdfast/manifest", b"{}")

    changed = {path.parent for path in tmp_path.rglob("*")}
    assert changed - synced == set()


@pytest.mark.parametrize("step", ["write", "sync"])
def test_a_file_that_cannot_be_published_leaves_no_draft(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    On a full disk a draft of every attempt would stay; and what stood there before stands.
    """
    place = Place(str(tmp_path))
    place.publish("a/one", b"1")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "write":
        monkeypatch.setattr(DurableFile, "write", full)
    else:
        monkeypatch.setattr(places, "_sync", full)
    with pytest.raises(OSError, match="No space"):
        place.publish("a/one", b"22")

    assert [("a/one", b"1")] == [(it.path, place.read(it.path)) for it in place.files("")]
