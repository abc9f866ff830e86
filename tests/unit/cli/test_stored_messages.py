"""
The options of replay and report: one place to read from.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.stored_messages import _again, source_options
from holdfast.errors import ConfigError


def test_a_place_becomes_options_of_the_data_source() -> None:
    """An archive is read by its path; a cluster may need its secret."""
    assert source_options(archive="s3a://b/x") == {"path": "s3a://b/x"}
    assert source_options(path="d") == {"path": "d"}
    found = source_options(url="http://a:1", secret_file=Path("s"))
    assert found == {"url": "http://a:1", "secret_file": "s"}


@pytest.mark.parametrize("places", [{}, {"path": "a", "archive": "b"}])
def test_exactly_one_place_is_read(places: dict[str, str]) -> None:
    """None or two: which one is meant is not guessed."""
    with pytest.raises(ConfigError, match="one place"):
        source_options(**places)


def test_a_command_without_a_place_ends_before_spark(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2 and one sentence, at once."""
    assert main(["report"]) == 2
    assert main(["replay", "/queue/x"]) == 2
    assert capsys.readouterr().err.count("name one place to read from") == 2


def test_a_replay_goes_to_no_queue_that_nobody_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """`queue/x` would be a queue of that name: refused as by `send`, with what was meant."""
    assert main(["replay", "queue/x", "--path", "d"]) == 2
    assert capsys.readouterr().err == (
        "holdfast: queue/x: a slash is missing before it; write /queue/x\n"
    )


def test_a_choice_that_is_not_stored_is_told_before_spark(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing temporary is, and patterns are not served."""
    command = ["replay", "/queue/x", "--url", "http://a:1", "--destination"]
    assert main([*command, "/temp-queue/x"]) == 2
    assert main([*command, "a.*"]) == 1
    told = capsys.readouterr().err
    assert "only queues and topics store messages" in told
    assert "wildcards are for" in told


def test_the_summary_promises_no_more_than_is_true() -> None:
    """A topic has nothing by which it knew what it was sent before."""
    assert "nothing twice" in _again("/queue/x")
    assert "once more" in _again("/topic/x")


def test_only_files_have_an_uncertain_end(capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster tells what is committed, and an archive was asked when it was written."""
    assert main(["replay", "/queue/x", "--url", "http://a:1", "--uncertain-end"]) == 2
    assert "it needs --path" in capsys.readouterr().err
