"""
Settings that may not be larger than others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.config.catalogue import CATALOGUE
from holdfast.config.node import NodeConfig
from holdfast.config.proportions import NO_MORE_THAN
from holdfast.errors import ConfigError


@pytest.mark.parametrize("pair", NO_MORE_THAN, ids=" ".join)
def test_the_defaults_fit(pair: tuple[str, str]) -> None:
    """
    Nobody who sets nothing is told of anything.
    """
    smaller, larger = (CATALOGUE[path] for path in pair)
    assert smaller.unit == larger.unit
    assert smaller.default <= larger.default


def problems(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "node.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        NodeConfig.load(flags={"data": tmp_path}, environment={}, file=file)
    return caught.value.problems


def test_what_the_operator_has_set_is_named(tmp_path: Path) -> None:
    """
    The other one is a default: nobody would find it in the file.
    """
    (told,) = problems(tmp_path, "[broker]\nprefetch_max = 10\n")
    assert told == (
        "broker.prefetch_max: 10 is less than broker.prefetch_default; allowed: 1,000 or more"
        " (node.toml line 2)"
    )
    (told,) = problems(tmp_path, "[broker]\n\nbatch_bytes_max = '100MiB'\n")
    assert told == (
        "broker.batch_bytes_max: 104,857,600 is more than server.uncommitted_bytes_max; allowed:"
        " 67,108,864 or less (node.toml line 3)"
    )


def test_a_value_that_is_wrong_by_itself_is_told_once(tmp_path: Path, problems_of: Any) -> None:
    """
    What it would have to fit is a default that it would not have met.
    """
    (told,) = problems(tmp_path, "[broker]\nprefetch_max = 0\n")
    assert told.startswith("broker.prefetch_max: 0 is out of range; allowed: 1 to 65,535")


def test_what_a_class_says_of_itself_is_told_with_its_section(tmp_path: Path) -> None:
    """
    Relations that the package checks itself are no surprise at a start either.
    """
    assert problems(tmp_path, "[replication]\nwindow_bytes = 1024\n") == [
        "replication.window_bytes must be append_bytes_max or more"
    ]
    assert problems(tmp_path, "segment = 100_000\n") == [
        "journal.segment_bytes: 100,000 is not a multiple of 4,096"
    ]


def test_mistakes_of_several_kinds_are_told_together(tmp_path: Path) -> None:
    """
    In one value, between two of a package, between packages, between keys of the node.
    """
    text = """
copies = 3
heartbeat_seconds = 1
[stomp]
header_block_bytes_max = 20
[server]
drain_seconds = -1
[broker]
prefetch_max = 10
[journal]
segment_bytes = 100_000
"""
    told = sorted(it.partition(":")[0] for it in problems(tmp_path, text))
    assert told == [
        "broker.prefetch_max",
        "copies",
        "election_seconds_min",
        "journal.segment_bytes",
        "server.drain_seconds",
        "stomp.header_block_bytes_max",
        "stomp.header_block_bytes_max",
    ]
