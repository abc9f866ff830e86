"""
Options from Spark's strings: values, defaults and every mistake at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.admin.remote import admin_token
from holdfast.errors import ConfigError
from holdfast.spark.columns.schema import PROBLEM, default_columns
from holdfast.spark.source.offsets import Taken
from holdfast.spark.source.options import microseconds, read_options, size_of


def test_a_cluster_is_named_by_its_admin_ports(tmp_path: Path) -> None:
    """Keys in any case; the token is made here, the secret stays."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"s3cret\n")
    options = read_options(
        {
            "URL": "http://a:8161, http://b:8161/",
            "secret_file": str(secret),
            "maxBytesPerTrigger": "64m",
            "HOLD": "archive",
            "holdbytesmax": "10 GiB",
            "start_index": "7",
        }
    )
    assert (("a:8161", "b:8161"), 64 << 20, "archive", 10 << 30, 7) == (
        options.urls,
        options.bytes_per_trigger_max,
        options.hold,
        options.hold_bytes_max,
        options.start_index,
    )
    assert admin_token(b"s3cret") == options.token
    assert admin_token(b"s3cret") not in repr(options)
    assert default_columns("messages") == options.columns


def test_a_store_is_named_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's plans show options; what the workers are given is in no text of ours."""
    monkeypatch.setenv("HOLDFAST_STORE_PASSWORD", "pa55word")
    options = read_options({"store": "postgresql://u@h/db mysql://u@h/db"})
    assert [it.text for it in options.stores] == [
        "postgresql://u:pa55word@h:5432/db",
        "mysql://u:pa55word@h:3306/db",
    ]
    assert "pa55word" not in f"{options!r} {options}"
    (tmp_path / "secret").write_text("in/a:file\n")
    by_file = read_options({"store": f"mysql://u@h/db?ssl_ca=/c&password_file={tmp_path}/secret"})
    assert [it.text for it in by_file.stores] == ["mysql://u:in%2Fa%3Afile@h:3306/db?ssl_ca=%2Fc"]
    for shown in ("postgresql://u:5ecret@h/db", "mysql://u@h/db?password=5ecret"):
        with pytest.raises(ConfigError, match="leave the password out") as caught:
            read_options({"store": f"{shown} mysql://u@h/db?password_file={tmp_path}/secret"})
        assert "5ecret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"store": "sqlite:////x", "path": "/x"}, "url, path, store: name one of them"),
        ({"store": " "}, "url, path, store: name one of them"),
        ({"store": "sqlite:////x", "hold": "h"}, "hold: only a broker holds its log"),
        ({"store": "/x"}, "is a directory of a node's own"),
        ({"store": "sqlite:////x sqlite:////x"}, "more than once"),
    ],
)
def test_a_store_stands_alone(given: dict[str, str], told: str) -> None:
    """It is one place, of a kind that brokers share."""
    with pytest.raises(ConfigError, match=told):
        read_options(given)


def test_where_to_start_may_be_a_word() -> None:
    """As with other sources of streams."""
    assert read_options({"path": "/x", "start_index": "latest"}).starts_at_latest
    assert read_options({"path": "/x", "start_index": "earliest"}).start_index is None


def test_names_of_the_kafka_source_are_ours() -> None:
    """An entry for its offset; times are milliseconds there."""
    options = read_options(
        {
            "path": "/x",
            "startingOffsets": "5",
            "endingOffsets": "9",
            "startingTimestamp": "1000",
            "endingTimestamp": "1970-01-01T00:00:02",
            "maxOffsetsPerTrigger": "100",
            "failOnDataLoss": "false",
            "minPartitions": "12",
        }
    )
    assert (5, 9, 1_000_000, 2_000_000, 100, False, 12) == (
        options.start_index,
        options.end_index,
        options.start_time,
        options.end_time,
        options.entries_per_trigger_max,
        options.fails_on_loss,
        options.partitions_min,
    )
    assert read_options({"path": "/x", "startingOffsets": "latest"}).starts_at_latest
    assert read_options({"path": "/x"}).fails_on_loss


def test_an_offset_of_a_query_is_a_start_and_an_end() -> None:
    """What it was taken of is kept, to be proven."""
    offset = '{"index": 6, "cluster": "c", "generation": 0, "chain": "ab"}'
    options = read_options({"path": "/x", "startingOffsets": offset, "end_index": offset})
    assert (7, 6) == (options.start_index, options.end_index)
    assert (Taken(6, "c", 0, "ab"), Taken(6, "c", 0, "ab")) == options.proofs


def test_two_names_of_one_option_say_the_same_or_are_refused() -> None:
    """Which of them was meant cannot be known."""
    same = {"path": "/x", "start_index": "7", "startingOffsets": '{"index": 6}'}
    assert 7 == read_options(same).start_index
    with pytest.raises(ConfigError) as caught:
        read_options(
            {
                "path": "/x",
                "start_index": "7",
                "startingOffsets": "earliest",
                "maxEntriesPerTrigger": "3",
                "maxOffsetsPerTrigger": "4",
            }
        )
    told = "two names of the same, with different values"
    assert [
        f"start_index, startingOffsets: {told}: '7' and 'earliest'; give one of them",
        f"maxEntriesPerTrigger, maxOffsetsPerTrigger: {told}: '3' and '4'; give one of them",
    ] == caught.value.problems


def test_an_unknown_option_tells_what_was_meant() -> None:
    """A misspelled name must not cost a look into the reference."""
    with pytest.raises(ConfigError, match="did you mean start_index"):
        read_options({"path": "/x", "startIndex": "7"})
    with pytest.raises(ConfigError, match="expected true or false"):
        read_options({"path": "/x", "failOnDataLoss": "no"})
    with pytest.raises(ConfigError, match="expected a whole number from 1 to 1,000,000"):
        read_options({"path": "/x", "minPartitions": "1000001"})


def test_reporting_adds_the_column_that_says_what_is_wrong() -> None:
    """Otherwise there would be nowhere to say it."""
    options = read_options({"path": "/x", "mode": "report", "columns": "index,body"})
    assert ("index", "body", PROBLEM) == options.columns


def test_all_mistakes_are_told_together() -> None:
    """One run of the query is enough to find them."""
    with pytest.raises(ConfigError) as caught:
        read_options(
            {
                "path": "/x",
                "url": "ftp://a",
                "view": "letters",
                "hold": "a b",
                "end_index": "0",
                "as_of": "3",
                "start_time": "yesterday",
                "maxBytesPerTrigger": "many",
                "secret_file": "/nowhere/at/all",
                "nonsense": "1",
            }
        )
    for key in (
        "url",
        "view",
        "hold",
        "end_index",
        "start_time",
        "maxBytesPerTrigger",
        "secret_file",
        "nonsense",
        "as_of",
    ):
        assert any(problem.startswith(key) for problem in caught.value.problems), key


@pytest.mark.parametrize(
    "options",
    [{}, {"path": "/x", "url": "http://a:1"}, {"path": "/x", "hold": "h"}],
)
def test_what_does_not_fit_together_is_refused(options: dict[str, str]) -> None:
    """No place, two places, files that cannot be held."""
    with pytest.raises(ConfigError):
        read_options(options)


def test_a_users_token_is_read_from_its_file(tmp_path: Path) -> None:
    """On the driver; it is not shown, and there is one who asks."""
    (tmp_path / "token").write_text("hf_YQ.x\n")
    (tmp_path / "secret").write_text("s3cret")
    given = {"url": "https://a:8161", "token_file": str(tmp_path / "token")}
    options = read_options(given)
    assert options.token == "hf_YQ.x"
    assert "hf_YQ" not in repr(options)
    with pytest.raises(ConfigError, match="give one of them") as caught:
        read_options({**given, "secret_file": str(tmp_path / "secret")})
    assert "hf_YQ" not in str(caught.value)


def test_an_empty_secret_is_no_secret(tmp_path: Path) -> None:
    """It would make the same token everywhere."""
    (tmp_path / "secret").write_bytes(b"\n")
    with pytest.raises(ConfigError, match="is empty"):
        read_options({"url": "http://a:1", "secret_file": str(tmp_path / "secret")})


def test_sizes_and_times() -> None:
    """Binary sizes; times without a zone are UTC."""
    assert [5, 5 << 10, 5 << 20, 5 << 30, 5 << 40] == [
        size_of(text) for text in ("5", "5k", "5 MB", "5GiB", "5t")
    ]
    assert 1_000_000 == microseconds("1970-01-01T00:00:01")
    assert 0 == microseconds("1970-01-01T01:00:00+01:00")
    for text in ("", "0", "-1", "5x", "k"):
        with pytest.raises(ValueError, match="size"):
            size_of(text)


ODD_NUMBERS = ("\u0667", "\u00b2", "1_0", "+7", "7.0", "9" * 19, "9" * 5_000)
"""Of another script, raised, as `int` takes them, and such that no log has."""


@pytest.mark.parametrize("text", ODD_NUMBERS)
@pytest.mark.parametrize(
    "name",
    [
        *("start_index", "end_index", "as_of", "maxEntriesPerTrigger", "maxBytesPerTrigger"),
        *("holdExpiry", "startingOffsets", "startingTimestamp", "maxOffsetsPerTrigger"),
        "minPartitions",
    ],
)
def test_a_number_is_its_digits_alone(name: str, text: str, tmp_path: Path) -> None:
    """
    One sentence says what was expected; what can be written in two ways may be read in two.
    """
    given = {"path": str(tmp_path), "view": "backlog" if name == "as_of" else "messages"}
    written = text + "s" if name == "holdExpiry" else text

    with pytest.raises(ConfigError, match=f"{name}: .* cannot be used") as caught:
        read_options({**given, name: written})
    assert 1 == len(caught.value.problems)


@pytest.mark.parametrize("offset", ['{"index": %s}' % ("9" * 5_000), '{"index": 1.5}', "{", "{}"])
def test_an_offset_that_is_none_is_told(offset: str, tmp_path: Path) -> None:
    """
    However it fails to be one.
    """
    with pytest.raises(ConfigError, match=r"startingOffsets: .* expected an offset of Holdfast"):
        read_options({"path": str(tmp_path), "startingOffsets": offset})
