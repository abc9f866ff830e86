"""
What a run of tests that is measured does between two of them.

Slipcover measures by probes in the code of the product, and takes out again those that have told
what they had to tell, so that most of a run takes what it takes unmeasured. By itself it does so in
the middle of whatever runs: it looks through all frames, which keeps what their variables named,
it needs memory, and it is Python's code itself. Tests that count references, bytes or steps found
all of that. So here it is done between tests, and at no other time.

Invariants:
    While a test runs no code is replaced and no frame is looked at.
    Without slipcover nothing is done, nor on Python 3.12 and later, where it has no such probes.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import pytest

LINES_TOLD: Final = 300
"""So many lines and branches have been told of since: it takes about 0.1 s, however many it is."""


class ProbesBetweenTests:
    """Takes out the probes that have told, after a test and never in one."""

    def __init__(self, measured_by: Any) -> None:
        self._measured_by = measured_by
        self._take_out = measured_by.deinstrument_seen
        # Probes passed often call it: nothing of Python's, where a test's trace may raise.
        measured_by.deinstrument_seen = int

    def pytest_runtest_logfinish(self) -> None:
        """Take them out when they are enough."""
        if sum(map(len, self._measured_by.newly_seen.values())) > LINES_TOLD:
            self._take_out()


def take_out_probes_between_tests(config: pytest.Config) -> None:
    """Have it done in this process, if it is measured."""
    if "slipcover" not in sys.modules or sys.version_info >= (3, 12):
        return
    from slipcover.importer import SlipcoverMetaPathFinder

    for finder in sys.meta_path:
        if isinstance(finder, SlipcoverMetaPathFinder):
            config.pluginmanager.register(ProbesBetweenTests(finder.sci))
