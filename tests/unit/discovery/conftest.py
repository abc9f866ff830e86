"""
The nameserver of these tests; it lies beside this file, which is no package.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from scripted_nameserver import ScriptedNameserver


@pytest.fixture
def nameserver() -> Iterator[ScriptedNameserver]:
    from scripted_nameserver import ScriptedNameserver

    with ScriptedNameserver() as served:
        yield served
