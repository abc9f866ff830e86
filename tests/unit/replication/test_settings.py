"""Tests of replication/settings.py: defaults that fit, and mistakes that are told together."""

from __future__ import annotations

import pytest

from holdfast.errors import ConfigError
from holdfast.replication.settings import LinkSettings, ReplicationSettings


def test_the_defaults_keep_their_own_rules() -> None:
    """The lease ends before the shortest election does, and heartbeats come ten times as often."""
    settings = ReplicationSettings()

    assert settings.lease_seconds < settings.election_seconds_min
    assert 10 * settings.heartbeat_seconds <= settings.election_seconds_min


def test_all_mistakes_are_told_together() -> None:
    """Three wrong values give three sentences in one error."""
    with pytest.raises(ConfigError) as caught:
        ReplicationSettings(copies=-1, sites=0, lease_fraction=1.5)

    assert 3 == len(caught.value.problems)


def test_links_give_up_silence_only_after_several_pings() -> None:
    """One late ping does not cost a link."""
    settings = LinkSettings()

    assert settings.silence_seconds >= 3 * settings.ping_seconds
