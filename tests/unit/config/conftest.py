"""
A configuration from flags alone, and the mistakes in one: no test starts a node.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., NodeConfig]:
    """The configuration by these flags, with a data directory."""

    def load(**flags: Any) -> NodeConfig:
        return NodeConfig.load(flags={"data": tmp_path, **flags}, environment={})

    return load


@pytest.fixture
def problems_of(load: Callable[..., NodeConfig]) -> Callable[..., list[str]]:
    """What is wrong with these flags."""

    def problems_of(**flags: Any) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(**flags)
        return caught.value.problems

    return problems_of
