"""
Brokers for a test: what is asked for wrongly is told before anything is started.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.local_cluster import TOPOLOGIES
from holdfast.testing.running import running_broker, running_cluster


def test_a_topology_that_there_is_not_is_told_with_those_there_are(tmp_path: Path) -> None:
    """
    By a name of the list, not by what a dictionary says.
    """
    with (
        pytest.raises(ValueError, match="'seven' is no topology; there are single, pair") as caught,
        running_cluster("seven", directory=tmp_path / "never"),
    ):
        pass
    assert all(name in str(caught.value) for name in TOPOLOGIES)
    assert not list(tmp_path.iterdir())


def test_flags_in_one_text_are_refused(tmp_path: Path) -> None:
    """
    Each of its characters would be a flag.
    """
    with (
        pytest.raises(ValueError, match="'--strict' is one text; give a list of flags"),
        running_broker("--strict", tmp_path / "never"),
    ):
        pass
    assert not list(tmp_path.iterdir())
