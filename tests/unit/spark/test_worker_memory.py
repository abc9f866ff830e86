"""
What a worker has loaded is kept out of its garbage collections, and nobody else's.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

TOLD = """
import gc, sys
from importlib.machinery import ModuleSpec
from holdfast.spark.worker_memory import keep_loaded

sys.modules["__main__"].__spec__ = {spec}
counts = []
for _ in range(4):
    keep_loaded()
    counts.append(gc.get_freeze_count())
    more = [[] for _ in range(1000)]
print(*(after - before for before, after in zip([0, *counts], counts)))
"""


@pytest.mark.parametrize(
    ("spec", "is_worker"),
    [
        ('ModuleSpec("pyspark.daemon", None)', True),
        ('ModuleSpec("holdfast.spark.worker_daemon", None)', True),
        ('ModuleSpec("pytest.__main__", None)', False),
        ("None", False),
    ],
)
def test_only_a_worker_keeps_what_it_has_loaded(spec: str, is_worker: bool) -> None:
    """Twice, and no more: what is kept is never collected."""
    told = subprocess.run(
        [sys.executable, "-c", TOLD.format(spec=spec)], capture_output=True, text=True, check=True
    )
    first, second, third, fourth = map(int, told.stdout.split())
    assert (first > 1000, second >= 900) == (is_worker, is_worker)
    assert max(third, fourth) <= 0
