"""
Rows to messages: options, headers and names; sending itself is for tests/spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from holdfast.errors import ConfigError
from holdfast.spark.source import writer
from holdfast.spark.source.writer import rows_to_send, write_options

BODY = StructType([StructField("body", BinaryType())])


def schema(*names: str) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])


def test_a_write_has_a_name_of_its_own_unless_it_is_given() -> None:
    """Two writes of the same rows are two; the same name makes them one."""
    given = {"uri": "stomp://a:1", "destination": "q"}
    first, second = write_options(given, BODY), write_options(given, BODY)
    assert first.write_id != second.write_id
    named = write_options({**given, "write_id": "w", "window": "7"}, BODY)
    assert ("stomp://a:1", "w", "q", 7) == (
        named.uri,
        named.write_id,
        named.destination,
        named.window,
    )


def test_admin_ports_tell_where_clients_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """All members, so that a failover finds the leader; the witness has no such port."""
    status = {"stomp": "a:1", "members": [{"stomp": "b:2"}, {"stomp": ""}, {"stomp": "a:1"}]}

    class PaperLog:
        def __init__(self, addresses: tuple[str, ...], *, token: str) -> None:
            assert (addresses, token) == (("x:8161",), "")

        def ask(self, method: str, path: str, told: dict[str, type]) -> dict[str, Any]:
            assert all(isinstance(status[name], kind) for name, kind in told.items())
            return status

    monkeypatch.setattr(writer, "RemoteLog", PaperLog)
    made = write_options({"url": "http://x:8161", "destination": "q"}, BODY)
    assert "failover:(stomp://a:1,stomp://b:2)" == made.uri


def test_who_sends_is_read_from_a_file(tmp_path: Path) -> None:
    """On the driver; the token is shown to the brokers and to nobody else."""
    given = {"uri": "stomp+ssl://a:1", "destination": "q"}
    assert write_options(given, BODY).login == {}
    (tmp_path / "token").write_text("hf_YQ.x\n")
    named = write_options({**given, "token_file": str(tmp_path / "token")}, BODY)
    assert named.login == {"passcode": "hf_YQ.x"}
    assert "hf_YQ" not in repr(named)
    (tmp_path / "token").write_text("hunter2")
    with pytest.raises(ConfigError, match=r"token_file: .* has no token"):
        write_options({**given, "token_file": str(tmp_path / "token")}, BODY)


def test_admin_ports_by_tls_tell_no_port_of_clients() -> None:
    """What they tell is the port in clear, and nobody who wrote https meant that."""
    with pytest.raises(ConfigError, match=r"url: https tells of no port .*stomp\+ssl://"):
        write_options({"url": "https://x:8161", "destination": "q"}, BODY)


def test_spark_hands_its_own_option_through() -> None:
    """Where a stream keeps its progress is none of ours."""
    assert write_options({"uri": "u", "destination": "q", "checkpointLocation": "/x"}, BODY)


def test_all_mistakes_are_told_together() -> None:
    """Before anything is sent."""
    with pytest.raises(ConfigError) as caught:
        write_options({"window": "0", "destinations": "q"}, schema("text"))
    for word in ("destinations", "uri, url", "column body", "destination:", "'text'", "window"):
        assert any(word in problem for problem in caught.value.problems), word
    with pytest.raises(ConfigError, match="url: expected http:// or https://host:port"):
        write_options({"url": "x", "destination": "q"}, BODY)


def test_rows_become_messages() -> None:
    """Columns win over the map; what the client makes itself is not taken from it."""
    headers = [("a", "b"), ("content-length", "9"), ("priority", "3"), ("reply-to", "x")]
    batch = pa.RecordBatch.from_pylist(
        [
            {"destination": "q", "body": b"1", "headers": headers, "priority": 7, "reply_to": None},
            {"destination": "/topic/t", "body": None, "headers": None, "priority": None},
        ],
        schema=pa.schema(
            [
                ("destination", pa.string()),
                ("body", pa.binary()),
                ("headers", pa.map_(pa.string(), pa.string())),
                ("priority", pa.int32()),
                ("reply_to", pa.string()),
                ("index", pa.int64()),
            ]
        ),
    )
    assert [
        ("/queue/q", b"1", {"a": "b", "priority": 7}, True),
        ("/topic/t", b"", {}, True),
    ] == list(rows_to_send(batch, ""))
    assert ["queue://x"] * 2 == [row[0] for row in rows_to_send(batch, "queue://x")]


def test_text_is_sent_as_utf8_and_persistence_may_be_chosen() -> None:
    """Null means persistent: nothing is lost by leaving it out."""
    batch = pa.RecordBatch.from_pydict(
        {"body": ["\u00e9", "x", "y"], "persistent": [False, True, None]}
    )
    assert [(b"\xc3\xa9", False), (b"x", True), (b"y", True)] == [
        (row[1], row[3]) for row in rows_to_send(batch, "q")
    ]


def test_a_row_without_a_destination_is_refused() -> None:
    """There is no queue for such messages."""
    batch = pa.RecordBatch.from_pydict(
        {"body": ["x"], "destination": pa.array([None], pa.string())}
    )
    with pytest.raises(ConfigError, match="a row has none"):
        list(rows_to_send(batch, ""))


@pytest.mark.parametrize("text", ["\u0667", "\u00b2", "1_0", "+7", "-1", "", "9" * 5_000])
def test_a_window_is_a_number_in_digits(text: str) -> None:
    """A raised two is a digit to Python, and no number: it ended the write with a trace."""
    with pytest.raises(ConfigError, match=r"window: .* is not a whole number from 1"):
        write_options({"uri": "stomp://a:1", "destination": "q", "window": text}, BODY)
