"""The limits of a STOMP connection: defaults as promised, relations checked."""

from __future__ import annotations

import pytest

from holdfast.protocols.stomp.settings import StompSettings


def test_limits_are_those_of_activemq_except_the_body() -> None:
    """
    Clients that fit into ActiveMQ's limits fit into ours; bodies are bounded by the log's entry.
    """
    settings = StompSettings()

    assert settings.command_bytes_max == 1024
    assert settings.header_line_bytes_max == 10 * 1024
    assert settings.header_count_max == 1000
    assert settings.header_block_bytes_max == 256 * 1024
    assert settings.body_bytes_max == 64 * 1024 * 1024
    assert settings.connect_timeout_seconds == 30.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"command_bytes_max": 3},
        {"header_line_bytes_max": 0},
        {"header_count_max": 0},
        {"header_block_bytes_max": 100},
        {"body_bytes_max": -1},
        {"heart_beat_grace_factor": 0.9},
        {"heart_beat_send_fraction": 0.0},
    ],
)
def test_settings_that_cannot_work_fail_at_once(wrong: dict[str, float]) -> None:
    """
    A limit below what the protocol needs is a mistake of the program, not a slow surprise.
    """
    with pytest.raises(AssertionError):
        StompSettings(**wrong)  # type: ignore[arg-type]
