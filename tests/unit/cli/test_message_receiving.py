"""
How a received message is written. The rest is in test_messages.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.cli.message_receiving import Output, json_document, pointed_at


def message(body: bytes, id: str = "ID:c-1-1") -> SimpleNamespace:
    headers = {"ack": "1", "message-id": id, "colour": "red"}
    text = property(lambda self: self.body.decode())
    kind = type("Message", (SimpleNamespace,), {"text": text})
    return kind(id=id, destination="q", redelivered=True, headers=headers, body=body)


def test_a_document_has_the_body_as_text_or_base64() -> None:
    """And no header that belongs to the delivery."""
    assert json.loads(json_document(message(b"x"))) == {
        "id": "ID:c-1-1",
        "destination": "q",
        "redelivered": True,
        "headers": {"colour": "red"},
        "body": "x",
    }
    assert json.loads(json_document(message(b"\xff")))["body_base64"] == "/w=="


def test_files_have_names_that_any_file_system_takes(tmp_path: Path) -> None:
    """Whatever a message id contains, it stays in the directory."""
    output = Output(tmp_path, is_json=True)
    output.write([message(b"1", "../../etc/x y"), message(b"2", "i" * 300)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["00000001-.._.._etc_x_y.json", f"00000002-{'i' * 100}.json"]


def test_standard_output_gets_a_line_each(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Bytes as they are, flushed before anything is acknowledged."""
    Output(None, is_json=False).write([message(b"\xff\0"), message(b"2")])
    assert capsysbinary.readouterr().out == b"\xff\0\n2\n"


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [
        ("a = b c", 7, "  a = b c\n        ^"),
        ("a =", 4, "  a =\n     ^"),
        ("", 1, "  \n  ^"),
        ("a\n= \x1b[0m b", 10, "  a =  [0m b\n           ^"),
        ("x" * 500 + "!" + "y" * 500, 501, f"  {'x' * 36}!{'y' * 35}\n  {' ' * 36}^"),
        ("x" * 500, 501, f"  {'x' * 36}\n  {' ' * 36}^"),
    ],
)
def test_a_mark_stands_under_a_column(text: str, column: int, expected: str) -> None:
    """In one line, whatever the text is; of a long one the part around it."""
    assert pointed_at(text, column) == expected
