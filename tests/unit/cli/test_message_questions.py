"""
Answering by a command: its words are read as a shell reads them.
"""

from __future__ import annotations

import pytest

from holdfast.cli.message_questions import Answerer
from holdfast.errors import ConfigError


def answerer(command: str) -> Answerer:
    return Answerer("/queue/q", None, command, count=None, concurrency=1, is_quiet=True)


def test_a_command_is_read_as_a_shell_reads_its_words() -> None:
    """So it may have arguments with spaces; no shell runs it."""
    assert answerer("jq '.a b' -r")._words == ["jq", ".a b", "-r"]
    with pytest.raises(ConfigError, match="No closing quotation"):
        answerer("jq '.a")
