"""
`holdfast reload`: what the node answered, in a line.
"""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from holdfast.admin.remote import Answer, RemoteNode
from holdfast.cli.main import app


@pytest.mark.parametrize(
    ("answer", "arguments", "told", "code"),
    [
        (Answer(200, {"tls": ["outside", "peers"]}), [], "read anew: outside, peers\n", 0),
        (Answer(200, {"tls": []}), [], "nothing to be read: it has no [tls.NAME]\n", 0),
        (Answer(200, {"tls": ["outside"]}), ["--json"], '"tls"', 0),
    ],
)
def test_what_was_read_is_told(
    monkeypatch: pytest.MonkeyPatch, answer: Answer, arguments: list[str], told: str, code: int
) -> None:
    """The tables by their names; nothing where there are none, which is no failure."""
    asked: list[object] = []

    def send(node: RemoteNode, *question: object) -> Answer:
        asked.append((node.address, *question))
        return answer

    monkeypatch.setattr(RemoteNode, "send", send)
    result = CliRunner().invoke(app, ["reload", "--admin", "h:1", *arguments])
    assert result.exit_code == code
    assert told in result.output
    assert asked == [("h:1", "POST", "/reload", {})]
